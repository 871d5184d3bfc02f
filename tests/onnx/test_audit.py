"""`audit` counts bytes of exports whose sizes are known, and says in one line what is wasted."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto

from tests.models.tiny import build
from tests.onnx.handmade import DATA, external, inline, save, save_external, table
from vocabsurgeon.errors import CheckpointError, OnnxError, UsageError, VocabsurgeonError
from vocabsurgeon.onnx.audit import AuditOptions, audit


def counted(path: Path, **options: Any) -> dict[str, Any]:
    counts: dict[str, Any] = audit(path, options=AuditOptions(**options)).to_dict()["bytes"]
    return counts


def test_a_clean_export_stores_what_it_needs(tmp_path: Path) -> None:
    path = save_external(tmp_path, {"a": table(), "b": table(seed=1)})
    report = audit(tmp_path)
    assert report.to_dict()["bytes"] == {
        "stored": 1920,
        "referenced": 1920,
        "unique": 1920,
        "expected": None,
        "orphaned": 0,
        "ratio": 1.0,
        "graph": path.stat().st_size,
    }
    assert report.passed
    assert report.to_dict()["summary"] == "1.00 × the distinct weights; nothing is stored twice"


def test_a_transposed_copy_doubles_the_ratio_and_fails(tmp_path: Path) -> None:
    save_external(tmp_path, {"table": table(), "val_9": table().T.copy()})
    document = audit(tmp_path).to_dict()
    assert (document["bytes"]["ratio"], document["passed"]) == (2.0, False)
    assert document["duplicates"] == [
        {
            "tensors": ["table", "val_9"],
            "relation": "transposed",
            "bytes": 960,
            "files": {"table": DATA, "val_9": DATA},
            "uses": {"table": ["Identity"], "val_9": ["Identity"]},
        }
    ]
    assert document["summary"].endswith("960 bytes is a transposed copy of table (stored again as val_9)")


def test_max_ratio_decides(tmp_path: Path) -> None:
    save_external(tmp_path, {"a": table(), "b": table()})
    assert not audit(tmp_path, options=AuditOptions(max_ratio=1.99)).passed
    assert audit(tmp_path, options=AuditOptions(max_ratio=2.0)).passed


def test_orphaned_bytes_count_as_stored_and_fail(tmp_path: Path) -> None:
    save_external(tmp_path, {"a": table()}, tail=table(seed=3).tobytes())
    counts = counted(tmp_path)
    assert (counts["stored"], counts["referenced"], counts["orphaned"], counts["ratio"]) == (1920, 960, 960, 2.0)
    assert "960 bytes belongs to no tensor" in audit(tmp_path).to_dict()["summary"]


def test_gaps_and_overlaps_are_counted_once(tmp_path: Path) -> None:
    (tmp_path / DATA).write_bytes(bytes(100))
    save(tmp_path / "m.onnx", [external("a", 1, [10], 0), external("b", 1, [10], 20), external("c", 1, [2], 80)])
    counts = counted(tmp_path / "m.onnx")
    assert (counts["stored"], counts["referenced"], counts["orphaned"]) == (100, 68, 32)


def test_inline_weights_count_and_the_graph_does_not(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [inline("a", table()), inline("b", table())])
    counts = counted(path)
    assert (counts["stored"], counts["unique"], counts["graph"]) == (1920, 960, path.stat().st_size - 1920)


def test_copies_across_files_of_a_folder_are_found(tmp_path: Path) -> None:
    save_external(tmp_path, {"w": table()}, "prefill.onnx", "prefill.onnx_data")
    save_external(tmp_path, {"w": table()}, "decode.onnx", "decode.onnx_data")
    document = audit(tmp_path).to_dict()
    assert document["bytes"]["ratio"] == 2.0
    assert document["duplicates"][0]["tensors"] == ["decode.onnx:w", "prefill.onnx:w"]


def test_two_graphs_over_one_data_file_store_it_once(tmp_path: Path) -> None:
    save_external(tmp_path, {"a": table(), "b": table(seed=1)}, "prefill.onnx")
    save(tmp_path / "decode.onnx", [external("b", 1, [24, 10], 960)])
    counts = counted(tmp_path)
    assert (counts["stored"], counts["unique"], counts["ratio"]) == (1920, 1920, 1.0)
    alone = counted(tmp_path / "decode.onnx")
    assert (alone["stored"], alone["orphaned"]) == (1920, 0)


@pytest.mark.parametrize("name", ["old.onnx_data", "old.onnx.data", "m.layers.0.weight", "onnx__MatMul_9", "x.data"])
def test_a_data_file_that_no_graph_names_is_orphaned(tmp_path: Path, name: str) -> None:
    save_external(tmp_path, {"a": table()})
    (tmp_path / name).write_bytes(bytes(500))
    (tmp_path / "vocab.txt").write_text("no tensor")
    document = audit(tmp_path).to_dict()
    assert (document["bytes"]["orphaned"], document["orphaned_files"]) == (500, [name])


def test_places_that_overlap_are_no_more_than_the_file_holds(tmp_path: Path) -> None:
    numbers = table(16, 16)
    (tmp_path / DATA).write_bytes(numbers.tobytes())
    tensors = [external(name, TensorProto.FLOAT, (12, 16), offset, 768) for name, offset in (("a", 0), ("b", 256))]
    counts = audit(save(tmp_path / "m.onnx", tensors)).to_dict()["bytes"]
    assert (counts["stored"], counts["unique"], counts["ratio"]) == (1024, 1024, 1.0)


def test_a_checkpoint_is_audited_too(tmp_path: Path) -> None:
    build("llama", tmp_path / "one", tied=False)
    assert audit(tmp_path / "one").passed
    weights = tmp_path / "one" / "model.safetensors"
    from safetensors.numpy import load_file, save_file

    tensors = load_file(weights)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    save_file(tensors, weights)
    document = audit(tmp_path / "one").to_dict()
    assert (document["kind"], document["passed"]) == ("checkpoint", False)
    assert document["duplicates"][0]["tensors"] == ["lm_head.weight", "model.embed_tokens.weight"]


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_expected_counts_equal_tables_once_at_the_export_dtype(tmp_path: Path, dtype: str) -> None:
    build("llama", tmp_path / "ckpt", tied=False)
    from safetensors.numpy import load_file, save_file

    weights = tmp_path / "ckpt" / "model.safetensors"
    tensors = load_file(weights)
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"]
    save_file(tensors, weights)
    save_external(tmp_path / "onnx", {"a": table().astype(dtype)})
    elements = sum(tensor.size for name, tensor in tensors.items() if name != "lm_head.weight")
    report = audit(tmp_path / "onnx", tmp_path / "ckpt", AuditOptions(parity=False))
    assert report.bytes.expected == elements * np.dtype(dtype).itemsize


def test_parity_that_cannot_be_checked_says_why_and_does_not_pass_for_checked(tmp_path: Path) -> None:
    build("llama", tmp_path / "ckpt")
    save_external(tmp_path / "onnx", {"a": table()})
    document = audit(tmp_path / "onnx", tmp_path / "ckpt").to_dict()
    assert document["parity"] is None
    assert document["parity_not_checked"] == "the graph does not take input_ids and give logits or last_hidden_state"


@pytest.mark.parametrize(
    ("name", "error"),
    [("absent", UsageError), ("file.txt", UsageError), ("empty", OnnxError), ("broken", CheckpointError)],
)
def test_paths_that_hold_nothing_to_audit_are_one_line(
    tmp_path: Path, name: str, error: type[VocabsurgeonError]
) -> None:
    (tmp_path / "file.txt").write_text("x")
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "model.safetensors").write_bytes(b"x")
    with pytest.raises(error) as caught:
        audit(tmp_path / name)
    assert "\n" not in str(caught.value)


def test_an_audit_without_a_checkpoint_imports_neither_torch_nor_onnx(tmp_path: Path) -> None:
    save_external(tmp_path, {"a": table(), "b": table().T.copy()})
    code = (
        "import sys; from vocabsurgeon.onnx.audit import audit; audit(sys.argv[1]);"
        "print([m for m in ('torch', 'transformers', 'onnx', 'onnx_ir', 'onnxruntime') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
