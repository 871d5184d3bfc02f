"""A graph opened in onnxruntime on the CPU, with its inputs and outputs by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.presets import mapped_entries
from vocabsurgeon.onnx.probe import first_line
from vocabsurgeon.onnx.signature import past_names, present_name

Array = np.ndarray[Any, Any]
_TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


class Session:
    """One graph. Weights are not packed for speed, so they stay in the mapped file."""

    def __init__(self, path: Path) -> None:
        """Raises `OnnxError` where onnxruntime cannot load `path`."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        for key, value in mapped_entries(path).items():
            options.add_session_config_entry(key, value)
        try:
            self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime's exceptions share no base below Exception
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise OnnxError(f"onnxruntime cannot load it: {reason[0]}", where=path) from error
        self._path = path
        self._inputs = {value.name: value for value in self._session.get_inputs()}
        self.outputs = tuple(value.name for value in self._session.get_outputs())
        self.past = past_names(list(self._inputs))
        """The cache inputs."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the inputs, in order."""
        return tuple(self._inputs)

    def run(self, output: str, feed: Mapping[str, Array], past: Mapping[str, Array] | None) -> tuple[Array, Any]:
        """`output` in float32 for what of `feed` the graph takes, and the cache to continue from; `past` None is an
        empty one. Raises `OnnxError` where the graph does not run on it."""
        given = self.whole_feed(feed, past)
        names = [output, *map(present_name, self.past)]
        try:
            found, *present = self._session.run(names, given)
        except Exception as error:
            raise OnnxError(f"onnxruntime cannot run it: {first_line(error)}", where=self._path) from error
        return found.astype(np.float32, copy=False), dict(zip(self.past, present, strict=True))

    def whole_feed(self, feed: Mapping[str, Array], past: Mapping[str, Array] | None) -> dict[str, Array]:
        """What of `feed` the graph takes, in its types, and a cache: `past`, or an empty one."""
        given = {name: self._cast(name, value) for name, value in feed.items() if name in self._inputs}
        batch = len(next(iter(feed.values())))
        return given | dict(self._empty(batch) if past is None else past)

    def _cast(self, name: str, value: Array) -> Array:
        """Floating inputs in the graph's own type."""
        wanted = _TYPES.get(self._inputs[name].type)
        return value if wanted is None else value.astype(wanted, copy=False)

    def _empty(self, batch: int) -> dict[str, Array]:
        """A cache of length 0, its states zeros."""
        return {name: np.zeros(self._empty_shape(name, batch), _TYPES[self._inputs[name].type]) for name in self.past}

    def _empty_shape(self, name: str, batch: int) -> Sequence[int]:
        _, *sizes = self._inputs[name].shape
        return batch, *(size if isinstance(size, int) else 0 for size in sizes)
