"""The two things that are compared: a torch model and onnxruntime sessions, as calls with one signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vocabsurgeon.checkpoint.quiet import quiet
from vocabsurgeon.onnx.model_calls import accepts, cache_argument, cache_of, uses_cache
from vocabsurgeon.onnx.seq2seq_parts import encoder_of
from vocabsurgeon.onnx.session import Session
from vocabsurgeon.onnx.signature import HIDDEN, IDS, LOGITS, MASK, POSITIONS, STATES, STATES_MASK, TYPES

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

Array = np.ndarray[Any, Any]


class Side(Protocol):
    """Ids in, numbers for each token and a cache out."""

    @property
    def caches(self) -> bool:
        """Whether `run` gives a cache to continue from."""

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """Logits or states `[batch, sequence, width]` float32 for `ids [batch, sequence]` int64, and the cache after
        them. `mask [batch, past + sequence]`: 1 for attended tokens; `past` None is an empty cache.
        """


class CrossSide(Side, Protocol):
    """A side with an encoder: `run` decodes for what was encoded last."""

    def encode(self, feed: Mapping[str, Array]) -> Array:
        """The encoder's states `[batch, length, width]` float32 for ids and mask, or for input features."""


class TorchSide:
    """The model as transformers runs it, with its own attention and its own cache.

    `inputs` are those of the graph: what it does not take, the model is not given. `output`: `logits` or another.
    """

    def __init__(self, model: PreTrainedModel, inputs: Sequence[str], output: str, caches: bool) -> None:
        self._model, self._output, self.caches = model, output, caches
        self._taken = [name for name in inputs if accepts(model, name)]
        self._told, self._cache_name = uses_cache(model, caches), cache_argument(model)

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """See `Side.run`."""
        feed = {IDS: ids, MASK: mask, POSITIONS: positions, TYPES: segments(ids)}
        given = _tensors({name: feed[name] for name in feed if name in self._taken})
        cache = {} if past is None else {self._cache_name: past}
        outputs = _answer(self._model, **given, **cache, **self._told)
        return _numbers(outputs[self._output]), cache_of(outputs) if self.caches else None


class OnnxSide:
    """One graph in onnxruntime."""

    def __init__(self, path: Path) -> None:
        self._session = Session(path)
        self.inputs = self._session.inputs
        self.output = LOGITS if LOGITS in self._session.outputs else HIDDEN

    @property
    def caches(self) -> bool:
        """Whether the graph has past inputs."""
        return bool(self._session.past)

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """See `Side.run`."""
        feed = {IDS: ids, MASK: mask, POSITIONS: positions, TYPES: segments(ids)}
        return self._session.run(self.output, feed, past)


class TorchCrossSide:
    """An encoder–decoder model as transformers runs it."""

    def __init__(self, model: PreTrainedModel, caches: bool) -> None:
        self._model, self.caches = model, caches
        self._told, self._cache_name = uses_cache(model, caches), cache_argument(model)
        self._encoded: Any = None
        self._mask: Any = None

    def encode(self, feed: Mapping[str, Array]) -> Array:
        """See `CrossSide.encode`."""
        given = _tensors(feed, self._model.dtype)
        self._encoded, self._mask = _answer(encoder_of(self._model), **given), given.get(MASK)
        return _numbers(self._encoded[HIDDEN])

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """See `Side.run`; the decoder attends to all of its own tokens."""
        cache = {} if past is None else {self._cache_name: past}
        outputs = _answer(
            self._model,
            encoder_outputs=self._encoded,
            attention_mask=self._mask,
            **_tensors({"decoder_input_ids": ids}),
            **cache,
            **self._told,
        )
        return _numbers(outputs.logits), cache_of(outputs) if self.caches else None


class OnnxCrossSide:
    """The encoder's graph and the decoder's in onnxruntime. Every call is given all of the encoder's states."""

    def __init__(self, encoder: Path, decoder: Path) -> None:
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


def segments(ids: Array) -> Array:
    """Token types: the first half of a text is one segment, the second another."""
    half = ids.shape[1] // 2
    return np.broadcast_to((np.arange(ids.shape[1]) >= half).astype(np.int64), ids.shape).copy()


def _answer(module: torch.nn.Module, **given: Any) -> Any:
    import torch

    with torch.no_grad(), quiet():
        return module(**given)


def _tensors(arrays: Mapping[str, Array], dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Arrays as tensors, floating ones in `dtype`."""
    import torch

    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def _numbers(tensor: torch.Tensor) -> Array:
    numbers: Array = tensor.float().numpy()
    return numbers
