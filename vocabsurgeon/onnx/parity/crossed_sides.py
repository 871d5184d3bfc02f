"""An encoder–decoder as a side: torch's model, and the encoder's and the decoder's graph."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vocabsurgeon.onnx.model_calls import cache_argument, cache_of, uses_cache
from vocabsurgeon.onnx.parity.hidden_states import States, states_of
from vocabsurgeon.onnx.parity.inner_values import InnerValues
from vocabsurgeon.onnx.parity.sides import Side, answer_of, arrays_of, numbers, tensors_of
from vocabsurgeon.onnx.parity.trail import Call
from vocabsurgeon.onnx.seq2seq_parts import encoder_of
from vocabsurgeon.onnx.session import Session
from vocabsurgeon.onnx.signature import HIDDEN, IDS, LOGITS, MASK, STATES, STATES_MASK

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Array = np.ndarray[Any, Any]


class CrossSide(Side, Protocol):
    """A side with an encoder: `run` decodes for what was encoded last."""

    def encode(self, feed: Mapping[str, Array]) -> Array:
        """The encoder's states `[batch, length, width]` float32 for ids and mask, or for input features."""


class TorchCrossSide:
    """An encoder–decoder model as transformers runs it."""

    def __init__(self, model: PreTrainedModel, caches: bool) -> None:
        self._model, self.caches = model, caches
        self._told, self._cache_name = uses_cache(model, caches), cache_argument(model)
        self._encoded: Any = None
        self._mask: Any = None

    def encode(self, feed: Mapping[str, Array]) -> Array:
        """See `CrossSide.encode`."""
        given = tensors_of(feed, self._model.dtype)
        self._encoded, self._mask = answer_of(encoder_of(self._model), **given), given.get(MASK)
        return numbers(self._encoded[HIDDEN])

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """See `Side.run`; the decoder attends to all of its own tokens."""
        outputs = answer_of(self._model, **self._given(ids, past))
        return numbers(outputs.logits), cache_of(outputs) if self.caches else None

    def states(self, call: Call, past: Any) -> States | None:
        """The decoder's hidden states of a call, the logits last; None where the model gives none."""
        return states_of(self._model, LOGITS, self._given(call.ids, past), "decoder")

    def encoder_states(self, feed: Mapping[str, Array]) -> States | None:
        """The encoder's hidden states for what it is given; None where it gives none."""
        return states_of(encoder_of(self._model), HIDDEN, tensors_of(feed, self._model.dtype), "encoder")

    def kept(self, past: Any) -> dict[str, Array]:
        """What the caches hold of the decoder's own tokens and of the encoder's states, by the names of the inputs."""
        own = arrays_of(past.self_attention_cache, self._model, "decoder.")
        return own | arrays_of(past.cross_attention_cache, self._model, "encoder.")

    def _given(self, ids: Array, past: Any) -> dict[str, Any]:
        cache = {} if past is None else {self._cache_name: past}
        told = {"encoder_outputs": self._encoded, "attention_mask": self._mask}
        return {**told, **tensors_of({"decoder_input_ids": ids}), **cache, **self._told}


class OnnxCrossSide:
    """The encoder's graph and the decoder's in onnxruntime. Every call is given all of the encoder's states."""

    def __init__(self, encoder: Path, decoder: Path) -> None:
        self._paths = encoder, decoder
        self._encoder, self._decoder = Session(encoder), Session(decoder)
        self._encoded: dict[str, Array] = {}

    @property
    def caches(self) -> bool:
        """Whether the decoder has past inputs."""
        return bool(self._decoder.past)

    def encode(self, feed: Mapping[str, Array]) -> Array:
        """See `CrossSide.encode`."""
        states, _ = self._encoder.run(HIDDEN, feed, None)
        self._encoded = {STATES: states} | ({STATES_MASK: feed[MASK]} if MASK in feed else {})
        return states

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """See `Side.run`."""
        return self._decoder.run(LOGITS, {IDS: ids, **self._encoded}, past)

    def inner(self, call: Call, past: Any) -> InnerValues:
        """What the decoder's graph computes in a call."""
        return InnerValues(self._paths[1], self._decoder.whole_feed({IDS: call.ids, **self._encoded}, past))

    def encoder_inner(self, feed: Mapping[str, Array]) -> InnerValues:
        """What the encoder's graph computes."""
        return InnerValues(self._paths[0], self._encoder.whole_feed(feed, None))
