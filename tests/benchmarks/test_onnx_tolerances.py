"""Where the figures of `onnx.tolerances` come from: prints how far rounding alone moves logits, by family and dtype."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.benchmarks.measure import table
from tests.benchmarks.rounding import Rounding, measure
from tests.models.tiny import build
from vocabsurgeon.onnx.parity.tolerances import ROUNDING

FAMILIES = ("llama", "mistral", "qwen3", "gemma2", "gemma3_text", "gpt2", "gpt_neox", "opt", "phi3", "bloom", "falcon")
DEEP = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 16, "num_attention_heads": 4}
DTYPES = ("float32", "float16", "bfloat16")


@pytest.mark.bench
@pytest.mark.parametrize("dtype", DTYPES)
def test_rounding_by_family(tmp_path: Path, dtype: str) -> None:
    found = {name: measure(build(name, tmp_path / name), dtype, tmp_path / f"{name}-out") for name in FAMILIES}
    models = os.environ.get("VOCABSURGEON_MODELS")
    if models and dtype != "float16":
        found["gemma-3-270m"] = measure(Path(models) / "gemma-3-270m", dtype, tmp_path / "gemma-out", tokens=24)
    deep = measure(build("llama", tmp_path / "deep", **DEEP), dtype, tmp_path / "deep-out")
    rows = [[name, *_cells(each)] for name, each in [*found.items(), ("llama, 16 random layers", deep)]]
    table(f"{dtype}: largest difference ÷ largest logit", rows, ["", "torch", "runtime", "runtime to torch"])
    largest = max(value for each in found.values() for value in (each.torch, each.apart) if value is not None)
    assert largest <= 1.5 * ROUNDING[dtype], "the table in onnx.tolerances is out of date"


def _cells(found: Rounding) -> list[str]:
    return ["–" if value is None else f"{value:.2g}" for value in (found.torch, found.runtime, found.apart)]
