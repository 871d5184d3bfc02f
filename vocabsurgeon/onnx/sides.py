"""The two things that are compared: a torch model and an onnxruntime session, as one call with one signature."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.quiet import quiet
from vocabsurgeon.onnx.signature import IDS, LOGITS, MASK, POSITIONS, past_names, present_name
from vocabsurgeon.onnx.tracing import accepts_positions, cache_argument, cache_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Ids = np.ndarray[Any, Any]
Logits = np.ndarray[Any, Any]


class Side(Protocol):
    """A decoder: ids in, logits and a cache out."""

    @property
    def caches(self) -> bool:
        """Whether `run` gives a cache to continue from."""

    def run(self, ids: Ids, mask: Ids, positions: Ids, past: Any) -> tuple[Logits, Any]:
        """Logits `[batch, sequence, rows]` float32 for `ids [batch, sequence]` int64, and the cache after them.

        `mask [batch, past + sequence]`: 1 for attended tokens; `past` None is an empty cache.
        """


class TorchSide:
    """The model as transformers runs it, with its own attention and its own cache."""

    def __init__(self, model: PreTrainedModel, caches: bool) -> None:
        self._model, self.caches = model, caches
        self._takes_positions, self._cache_name = accepts_positions(model), cache_argument(model)

    def run(self, ids: Ids, mask: Ids, positions: Ids, past: Any) -> tuple[Logits, Any]:
        """See `Side.run`."""
        import torch

        given: dict[str, Any] = {} if past is None else {self._cache_name: past}
        if self._takes_positions:
            given[POSITIONS] = torch.from_numpy(positions)
        with torch.no_grad(), quiet():
            outputs = self._model(
                input_ids=torch.from_numpy(ids), attention_mask=torch.from_numpy(mask), use_cache=self.caches, **given
            )
        return outputs.logits.float().numpy(), cache_of(outputs) if self.caches else None


class OnnxSide:
    """A graph in onnxruntime on the CPU. Weights are not packed for speed, so they stay in the mapped file."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.add_session_config_entry("session.disable_prepacking", "1")
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no base below Exception
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise OnnxError(f"onnxruntime cannot load it: {reason[0]}", where=path) from error
        self._inputs = {value.name: value for value in self._session.get_inputs()}
        self._past = past_names(list(self._inputs))
        self._outputs = [LOGITS, *map(present_name, self._past)]

    @property
    def caches(self) -> bool:
        """Whether the graph has past inputs."""
        return bool(self._past)

    def run(self, ids: Ids, mask: Ids, positions: Ids, past: Any) -> tuple[Logits, Any]:
        """See `Side.run`."""
        feed = {IDS: ids, MASK: mask, POSITIONS: positions}
        feed = {name: value for name, value in feed.items() if name in self._inputs}
        feed |= self._empty(len(ids)) if past is None else past
        logits, *present = self._session.run(self._outputs, feed)
        return logits.astype(np.float32, copy=False), dict(zip(self._past, present, strict=True))

    def _empty(self, batch: int) -> dict[str, Any]:
        """A cache of length 0."""
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
        empty = {}
        for name in self._past:
            _, heads, _, width = self._inputs[name].shape
            empty[name] = np.zeros((batch, heads, 0, width), types[self._inputs[name].type])
        return empty
