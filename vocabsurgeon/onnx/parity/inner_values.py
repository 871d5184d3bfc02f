"""What a graph computes on the way to its outputs: every inner value of a run, looked up by nearness."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.onnx.probe import first_line

if TYPE_CHECKING:
    import onnx

Array = np.ndarray[Any, Any]
_FLOATS = {"tensor(float)", "tensor(float16)"}


class InnerValues:
    """The floating values of `graph`'s main body that depend on its inputs, for one `feed` of all of these.

    onnxruntime runs the graph as it is written, without its optimizations. `unusable` says why there are no values.
    """

    def __init__(self, graph: Path, feed: Mapping[str, Array]) -> None:
        self.unusable: str | None = None
        self._values: dict[str, Array] = {}
        try:
            self._values = _run(graph, feed)
        except Exception as error:  # onnxruntime's and protobuf's exceptions share no base below Exception
            self.unusable = f"the graph's inner values cannot be read: {first_line(error)}"
        self._order = {name: place for place, name in enumerate(self._values)}

    def nearest(self, state: Array, after: str | None, where: Array) -> tuple[str | None, float]:
        """The value nearest to `state [batch, sequence, width]` that is computed not before `after`, by the largest
        difference at positions `where [batch, sequence]`; None where no value has that size. A NaN is infinitely far.
        """
        start = -1 if after is None else self._order[after]
        best: tuple[str | None, float] = (None, float("inf"))
        for name, value in self._values.items():
            if self._order[name] >= start and value.size == state.size:
                distance = farthest(value.reshape(state.shape), state, where)
                if best[0] is None or distance < best[1]:
                    best = (name, distance)
        return best


def farthest(one: Array, other: Array, where: Array) -> float:
    """The largest difference of two arrays at the places `where` of their first axes; infinite where one is NaN."""
    with np.errstate(invalid="ignore"):
        gap = float(np.abs(one[where].astype(np.float32) - other[where]).max(initial=0.0))
    return float("inf") if np.isnan(gap) else gap


def _run(graph: Path, feed: Mapping[str, Array]) -> dict[str, Array]:
    import onnx
    import onnxruntime

    model = onnx.load(graph, load_external_data=False)
    names = _depending(model.graph)
    wanted = [name for name in names if name not in {output.name for output in model.graph.output}]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.add_session_config_entry("session.disable_prepacking", "1")
    options.add_session_config_entry("session.model_external_initializers_file_folder_path", str(graph.parent))
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    floats = {value.name for value in session.get_outputs() if value.type in _FLOATS}
    asked = [name for name in names if name in floats]
    return dict(zip(asked, session.run(asked, dict(feed)), strict=True))


def _depending(graph: onnx.GraphProto) -> list[str]:
    """Outputs of nodes that depend on the graph's inputs, in order: what hangs on weights alone may be as large."""
    known = {value.name for value in graph.input} - {tensor.name for tensor in graph.initializer}
    names = []
    for node in graph.node:
        if any(name in known for name in node.input):
            names += [name for name in node.output if name]
            known.update(node.output)
    return names
