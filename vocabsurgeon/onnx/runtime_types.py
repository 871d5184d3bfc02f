"""Which element types onnxruntime's CPU provider runs, found by asking it, and the choice of the export's type."""

from __future__ import annotations

import functools
from dataclasses import dataclass

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.expected import export_element
from vocabsurgeon.onnx.tensors import checkpoint_tensors

AUTO = "auto"
TYPES = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}
"""What can be asked for → the ONNX name."""
_OPERATORS = ("Add", "Mul", "MatMul", "Gather", "Softmax", "ReduceMean", "Sqrt", "Cos")
"""What every decoder consists of: a type that the provider runs these in, it runs decoders in."""


@dataclass(frozen=True)
class DTypeChoice:
    """`requested` as asked, `exported` as torch spells it, and why."""

    requested: str
    exported: str
    reason: str

    def to_dict(self) -> dict[str, str]:
        """The report's `dtype` object."""
        return {"requested": self.requested, "exported": self.exported, "reason": self.reason}


def choose_dtype(source: Checkpoint, requested: str) -> DTypeChoice:
    """The element type to export `source` in.

    `auto` is the type that most of the checkpoint's bytes have, where the runtime runs it, else float32. Raises
    `UsageError` for an unknown name, `OnnxError` where a type asked for by name does not run.
    """
    if requested != AUTO:
        _require(requested)
        return DTypeChoice(requested, requested, "as requested")
    stored = export_element(checkpoint_tensors(source)).name
    name = next((torch_name for torch_name, onnx_name in TYPES.items() if onnx_name == stored), None)
    if name is None:
        return DTypeChoice(AUTO, "float32", f"the checkpoint is stored as {stored}, which is no type to export in")
    if not runs(name):
        return DTypeChoice(AUTO, "float32", f"the checkpoint is {name}, which onnxruntime's CPU provider does not run")
    return DTypeChoice(AUTO, name, "the checkpoint's own")


def _require(requested: str) -> None:
    if requested not in TYPES:
        raise UsageError(f"unknown dtype {requested!r}", hint=f"use one of: auto, {', '.join(TYPES)}")
    if not runs(requested):
        raise OnnxError(
            f"onnxruntime's CPU provider does not run {requested} graphs",
            hint="use --dtype float32, or auto to have it chosen",
        )


@functools.cache
def runs(name: str) -> bool:
    """Whether the CPU provider opens a graph of a decoder's operators in the torch type `name`."""
    import onnx_ir as ir
    import onnxruntime

    kind = ir.TensorType(ir.DataType[TYPES[name]])
    x = ir.Value(name="x", type=kind, shape=ir.Shape([2, 2]))
    ids = ir.Value(name="ids", type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([2]))
    value, nodes = x, []
    for operator in _OPERATORS:
        second = {"Add": [x], "Mul": [x], "MatMul": [x], "Gather": [ids]}.get(operator, [])
        nodes.append(ir.node(operator, [value, *second]))
        value = nodes[-1].outputs[0]
    value.name, value.type = "y", kind
    graph = ir.Graph([x, ids], [value], nodes=nodes, opset_imports={"": 20}, name="probe")
    content = ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's exceptions share no base below Exception
        if type(error).__name__ in ("NotImplemented", "Fail", "InvalidGraph"):
            return False
        raise
    return True
