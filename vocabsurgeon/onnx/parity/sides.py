"""The two things that are compared: a torch model and an onnxruntime session, as calls with one signature."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from vocabsurgeon.checkpoint.quiet import quiet
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.caches import of_own_tokens, slots_of
from vocabsurgeon.onnx.model_calls import accepts, cache_argument, cache_of, uses_cache
from vocabsurgeon.onnx.parity.hidden_states import States, states_of
from vocabsurgeon.onnx.parity.inner_values import InnerValues
from vocabsurgeon.onnx.parity.trail import Call
from vocabsurgeon.onnx.probe import first_line
from vocabsurgeon.onnx.session import Session
from vocabsurgeon.onnx.signature import HIDDEN, IDS, LOGITS, MASK, POSITIONS, TYPES

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
        outputs = answer_of(self._model, **self._given(Call(ids, mask, positions), past))
        found = numbers(outputs[self._output])[:, : ids.shape[1]]
        return found, cache_of(outputs) if self.caches else None

    def states(self, call: Call, past: Any) -> States | None:
        """The hidden states of a call, the output last; None where the model gives none."""
        return states_of(self._model, self._output, self._given(call, past))

    def kept(self, past: Any) -> dict[str, Array]:
        """What a cache holds, by the names of the inputs that take it."""
        return arrays_of(of_own_tokens(past), self._model)

    def _given(self, call: Call, past: Any) -> dict[str, Any]:
        feed = {IDS: call.ids, MASK: call.mask, POSITIONS: call.positions, TYPES: segments(call.ids)}
        given = tensors_of({name: feed[name] for name in feed if name in self._taken})
        cache = {} if past is None else {self._cache_name: past}
        return {**given, **cache, **self._told}


class OnnxSide:
    """One graph in onnxruntime."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._session = Session(path)
        self.inputs = self._session.inputs
        self.output = LOGITS if LOGITS in self._session.outputs else HIDDEN

    @property
    def caches(self) -> bool:
        """Whether the graph has past inputs."""
        return bool(self._session.past)

    def run(self, ids: Array, mask: Array, positions: Array, past: Any) -> tuple[Array, Any]:
        """See `Side.run`."""
        return self._session.run(self.output, self._feed(Call(ids, mask, positions)), past)

    def inner(self, call: Call, past: Any) -> InnerValues:
        """What the graph computes in a call."""
        return InnerValues(self._path, self._session.whole_feed(self._feed(call), past))

    def _feed(self, call: Call) -> dict[str, Array]:
        return {IDS: call.ids, MASK: call.mask, POSITIONS: call.positions, TYPES: segments(call.ids)}


def segments(ids: Array) -> Array:
    """Token types: the first half of a text is one segment, the second another."""
    half = ids.shape[1] // 2
    return np.broadcast_to((np.arange(ids.shape[1]) >= half).astype(np.int64), ids.shape).copy()


def answer_of(module: torch.nn.Module, **given: Any) -> Any:
    """What `module` gives, without gradients and without a word. Raises `OnnxError` where it does not take `given`."""
    import torch

    try:
        with torch.no_grad(), quiet():
            return module(**given)
    except Exception as error:  # a model class raises what it likes
        kind = type(module).__name__
        raise OnnxError(f"{kind} does not run on what the graph is given: {first_line(error)}") from error


def tensors_of(arrays: Mapping[str, Array], dtype: torch.dtype | None = None) -> dict[str, torch.Tensor]:
    """Arrays as tensors, floating ones in `dtype`."""
    import torch

    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    return {name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in tensors.items()}


def arrays_of(cache: Any, model: PreTrainedModel, role: str = "") -> dict[str, Array]:
    """What a cache of `model` holds as float32 arrays, by the names of the inputs that take it; copied, as models write
    over their states in place."""
    return {slot.name: numbers(slot.read(cache)).copy() for slot in slots_of(cache, model.config, role)}


def numbers(tensor: torch.Tensor) -> Array:
    """A tensor as a float32 array."""
    values: Array = tensor.float().numpy()
    return values
