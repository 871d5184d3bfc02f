"""CASES.md 23 to 25: what other exporters leave behind, on small stand-ins made the way those exporters make it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.runner import vocabsurgeon
from tests.onnx.exports import ROWS, WIDTH, optimum_like, prefill_and_decode, saved_twice
from tests.onnx.handmade import DATA

BYTES = ROWS * WIDTH * 4


def test_case_23_a_transposed_table_is_named_and_removed(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    ran = vocabsurgeon("audit", tmp_path / "in", "--json")
    assert ran.code == 1 and ran.document["bytes"]["ratio"] == 2.0
    entry = ran.document["duplicates"][0]
    assert (entry["tensors"], entry["relation"], entry["bytes"]) == (["table", "turned"], "transposed", BYTES)
    assert entry["uses"] == {"table": ["Gather"], "turned": ["MatMul"]}
    assert ran.document["summary"] == (
        "2.00 × the distinct weights; 32 kB is a transposed copy of the token table table (stored again as turned)"
    )
    done = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json")
    assert done.code == 0 and done.document["parity"]["passed"]
    assert done.document["bytes"]["after"]["stored"] == BYTES
    assert vocabsurgeon("audit", tmp_path / "out").code == 0


def test_case_24_a_doubled_data_file_is_told_and_shrunk(tmp_path: Path) -> None:
    saved_twice(tmp_path / "in")
    ran = vocabsurgeon("audit", tmp_path / "in", "--json")
    assert ran.code == 1 and ran.document["bytes"]["orphaned"] == 2 * BYTES
    assert "64 kB belongs to no tensor" in ran.document["summary"]
    done = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json")
    assert done.code == 0 and done.document["parity"]["bit_exact"]
    assert (tmp_path / "out" / DATA).stat().st_size == 2 * BYTES
    assert vocabsurgeon("audit", tmp_path / "out", "--json").document["bytes"]["orphaned"] == 0


def test_case_25_two_graphs_end_on_one_data_file(tmp_path: Path) -> None:
    prefill_and_decode(tmp_path / "in")
    ran = vocabsurgeon("audit", tmp_path / "in", "--json")
    assert ran.code == 1 and ran.document["bytes"]["ratio"] == 2.0
    assert {tuple(entry["tensors"]) for entry in ran.document["duplicates"]} == {
        ("decode.onnx:table", "prefill.onnx:table"),
        ("decode.onnx:turned", "prefill.onnx:turned"),
    }
    done = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json")
    assert done.code == 0 and done.document["parity"]["bit_exact"]
    assert [path.name for path in (tmp_path / "out").glob("*data*")] == [DATA]
    assert (tmp_path / "out" / DATA).stat().st_size == 2 * BYTES


@pytest.mark.parametrize("which", ["torch.onnx", "ours"])
def test_an_export_made_here_is_repaired_too(tmp_path: Path, which: str) -> None:
    """A tied model by the dynamo exporter alone keeps one table; by us too: nothing is left to do."""
    torch = pytest.importorskip("torch")
    from transformers import AutoModelForCausalLM

    from tests.models.tiny import build
    from vocabsurgeon.onnx.export import export

    build("llama", tmp_path / "ckpt", True)
    if which == "ours":
        export(tmp_path / "ckpt", tmp_path / "in")
    else:
        import warnings

        model = AutoModelForCausalLM.from_pretrained(tmp_path / "ckpt").eval()
        model.config.use_cache = False
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(model, (torch.tensor([[1, 2, 3]]),), dynamo=True, verbose=False)
        (tmp_path / "in").mkdir()
        program.save(tmp_path / "in" / "model.onnx", external_data=True)
    done = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json")
    assert done.code == 0 and done.document["passed"]
    counts = done.document["bytes"]["after"]
    assert counts["orphaned"] == 0 and counts["ratio"] == pytest.approx(1.0, abs=0.01)
    assert np.isclose(counts["stored"], counts["unique"], rtol=0.01)
