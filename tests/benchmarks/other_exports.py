"""The same checkpoint through other exporters, and our graph in the form that they give it."""

from __future__ import annotations

import os
import subprocess
import warnings
from pathlib import Path

import onnx_ir as ir

OPTIMUM = "VOCABSURGEON_OPTIMUM"
"""Names the Python of an environment with optimum-onnx: it needs another transformers than ours."""


def with_transformers(checkpoint: Path, out: Path) -> Path:
    """`transformers.exporters` for generation: a graph for the prompt, one for each step."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    model = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
    inputs = {"input_ids": torch.arange(3, 11)[None].repeat(2, 1)}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its own, about torch's internals
        exported = OnnxExporter().export_for_generation(model, inputs, config=OnnxConfig(dynamic=True))
    exported.save_pretrained(out)
    return out


def with_optimum(checkpoint: Path, out: Path) -> Path | None:
    """optimum-onnx in its own environment; None where there is none."""
    python = os.environ.get(OPTIMUM)
    if not python:
        return None
    arguments = ["-m", "optimum.exporters.onnx", "--task", "text-generation-with-past", "--model", str(checkpoint)]
    subprocess.run([python, *arguments, str(out)], check=True, capture_output=True)
    return out


def plain_form(graph: Path) -> Path:
    """Our `graph` with `Transpose` + `MatMul` where it has `Gemm` of a `Reshape`, beside it, over the same data."""
    model = ir.load(graph)
    gemm = next(node for node in model.graph if node.op_type == "Gemm")
    view = gemm.inputs[1].producer()
    assert view is not None
    turned = ir.node("Transpose", [view.inputs[0]], {"perm": [1, 0]})
    product = ir.node("MatMul", [gemm.inputs[0], turned.outputs[0]])
    model.graph.insert_before(gemm, [turned, product])
    ir.convenience.replace_all_uses_with(gemm.outputs[0], product.outputs[0])
    model.graph.remove([gemm, view], safe=True)
    out = graph.with_name("plain.onnx")
    ir.save(model, out)
    return out
