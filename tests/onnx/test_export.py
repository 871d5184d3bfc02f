"""`export` on tiny models of every family: one graph, one data file, each weight once, and the model's own logits."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from safetensors.numpy import load_file, save_file

from tests.cli.runner import vocabsurgeon
from tests.models.tiny import TINY, build
from tests.onnx.conftest import Exported
from tests.sweep.models import built
from vocabsurgeon.errors import OnnxError, OutputError, UsageError, VocabsurgeonError
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.files import read_onnx

Get = Callable[..., Exported]
UNTIED = ("llama", "gpt2")
CASES = [(family, True) for family in TINY] + [(family, False) for family in UNTIED]


@pytest.mark.parametrize(("family", "tied"), CASES)
def test_every_family_passes_and_stores_each_weight_once(exported: Get, family: str, tied: bool) -> None:
    case = exported(family, tied)
    document = case.report.to_dict()
    assert case.report.passed
    assert document["bytes"]["orphaned"] == 0
    assert document["bytes"]["stored"] == document["bytes"]["unique"] == document["bytes"]["expected"]
    assert document["duplicates"] == []
    assert document["parity"]["passed"]
    assert document["parity"]["greedy_equal"]
    assert set(document["parity"]["checks"]) >= {
        "full sequence",
        "one token",
        "left-padded batch",
        "right-padded batch",
        "greedy decoding",
    }


LONG_ROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [2.0] * 4,
    "original_max_position_embeddings": 32,
}


@pytest.mark.parametrize(
    ("family", "config", "check"),
    [
        ("falcon", {"alibi": True}, "left-padded batch"),
        ("opt", {"word_embed_proj_dim": 8, "do_layer_norm_before": False}, "left-padded batch"),
        ("phi3", {"rope_parameters": LONG_ROPE, "original_max_position_embeddings": 32}, "beyond the original context"),
    ],
)
def test_other_ways_to_be_a_family_pass_too(exported: Get, family: str, config: dict[str, Any], check: str) -> None:
    report = exported(family, **config).report
    assert report.passed
    assert report.audit.bytes.ratio == 1.0
    assert check in report.parity.checks


def test_what_torch_cannot_export_is_one_line(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    built("dbrx", "DbrxForCausalLM", tied=False).model.save_pretrained(tmp_path / "c")  # asks which experts are taken
    capfd.readouterr()
    with pytest.raises(OnnxError, match="torch cannot export the model: its forward pass branches on") as caught:
        export(tmp_path / "c", tmp_path / "o")
    assert "\n" not in str(caught.value)
    assert capfd.readouterr() == ("", "")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("family", ["llama", "bloom"])
def test_the_graph_has_the_names_that_readers_expect(exported: Get, family: str) -> None:
    model = onnx.load(exported(family).folder / "model.onnx", load_external_data=False)
    layers = [f"{index}.{part}" for index in (0, 1) for part in ("key", "value")]
    inputs = ["input_ids", "attention_mask", "position_ids", *(f"past_key_values.{layer}" for layer in layers)]
    assert [value.name for value in model.graph.input] == inputs
    assert [value.name for value in model.graph.output] == ["logits", *(f"present.{layer}" for layer in layers)]
    dims = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    assert dims["input_ids"] == dims["position_ids"] == ["batch_size", "sequence_length"]
    assert dims["attention_mask"] == ["batch_size", "total_sequence_length"]
    assert dims["past_key_values.0.key"] == ["batch_size", 2, "past_sequence_length", 8]


def test_out_holds_what_the_graph_needs_and_its_record(exported: Get) -> None:
    case = exported("llama")
    assert sorted(path.name for path in case.folder.iterdir()) == [
        "config.json",
        "generation_config.json",
        "model.onnx",
        "model.onnx_data",
        "ort_session_options.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "vocabsurgeon.json",
    ]
    record = json.loads((case.folder / "vocabsurgeon.json").read_text())
    assert record["schema"] == "vocabsurgeon.export/1"
    assert record["parity"]["passed"] is True
    assert {"versions", "source_fingerprint"} <= set(record)
    assert (case.folder / "config.json").read_bytes() == (case.checkpoint / "config.json").read_bytes()


def test_no_trace_of_this_machine_is_left_in_the_graph(exported: Get) -> None:
    content = (exported("llama").folder / "model.onnx").read_bytes()
    for trace in (b"stack_trace", b".py", b"pkg.torch", b"site-packages", b"File "):
        assert trace not in content


def test_a_tied_table_is_one_tensor_with_two_roles(exported: Get) -> None:
    table = [t for t in read_onnx(exported("llama").folder / "model.onnx").tensors if 64 in t.shape]
    assert [(t.shape, set(t.uses)) for t in table] == [((64, 16), {"Gather", "Reshape"})]


def test_the_stored_weights_are_the_checkpoints_bits(exported: Get) -> None:
    case = exported("llama", False)
    stored = {t.name: onnx.numpy_helper.to_array(t) for t in onnx.load(case.folder / "model.onnx").graph.initializer}
    weights = load_file(case.checkpoint / "model.safetensors")
    assert set(stored) == set(weights)
    for name, array in weights.items():
        turned = (
            array
            if stored[name].shape == array.shape and name.endswith(("norm.weight", "embed_tokens.weight"))
            else array.T
        )
        np.testing.assert_array_equal(stored[name], turned, name)


def test_bit_equal_tables_of_an_untied_checkpoint_are_stored_once(tmp_path: Path) -> None:
    checkpoint = build("llama", tmp_path / "c", tied=False, vocab_size=512)
    weights = load_file(checkpoint / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].copy()
    save_file(weights, checkpoint / "model.safetensors", {"format": "pt"})
    document = export(checkpoint, tmp_path / "o").to_dict()
    assert document["passed"]
    assert document["bytes"]["stored"] == document["bytes"]["expected"] == 24896 + 448 * 16 * 4


def test_position_ids_that_the_model_ignores_are_reported(exported: Get) -> None:
    assert exported("bloom").report.inputs_ignored == ("position_ids",)
    assert exported("llama").report.inputs_ignored == ()


def test_without_a_cache_the_graph_has_no_past(exported: Get) -> None:
    case = exported("llama", options=ExportOptions(cache=False))
    assert case.report.passed
    assert case.report.inputs == ("input_ids", "attention_mask", "position_ids")
    assert case.report.outputs == ("logits",)


def test_another_opset_is_written(exported: Get) -> None:
    case = exported("llama", options=ExportOptions(opset=18))
    assert case.report.passed
    assert case.report.opset == read_onnx(case.folder / "model.onnx").opsets[""] == 18


@pytest.mark.parametrize(
    ("stored", "requested", "exported_as"),
    [("bfloat16", "auto", "float32"), ("float16", "auto", "float16"), ("float32", "float16", "float16")],
)
def test_the_dtype_is_chosen_and_the_reason_told(exported: Get, stored: str, requested: str, exported_as: str) -> None:
    case = exported("llama", options=ExportOptions(dtype=requested), dtype=stored)
    document = case.report.to_dict()
    assert case.report.passed
    assert document["dtype"]["requested"] == requested
    assert document["dtype"]["exported"] == document["parity"]["dtype"] == exported_as
    assert document["dtype"]["reason"]
    assert document["bytes"]["ratio"] == 1.0


def test_a_sharded_checkpoint_exports_alike(exported: Get) -> None:
    whole, sharded = exported("llama", False), exported("llama", False, max_shard_size="10KB")
    assert len(list(sharded.checkpoint.glob("*.safetensors"))) > 1
    for name in ("model.onnx", "model.onnx_data"):
        assert (whole.folder / name).read_bytes() == (sharded.folder / name).read_bytes()


def test_an_export_that_fails_leaves_evidence_and_no_out(tmp_path: Path) -> None:
    checkpoint = build("llama", tmp_path / "c")
    report = export(checkpoint, tmp_path / "o", ExportOptions(atol=0.0, rtol=0.0))
    assert (report.passed, report.out) == (False, None)
    assert report.to_dict()["parity"]["max_abs_diff"] > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c"]


def test_too_many_bytes_leave_no_out(tmp_path: Path) -> None:
    checkpoint = build("llama", tmp_path / "c")
    report = export(checkpoint, tmp_path / "o", ExportOptions(max_ratio=0.99))
    assert report.parity.passed
    assert not report.passed
    assert report.out is None
    assert not (tmp_path / "o").exists()


def test_a_full_disk_leaves_no_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("vocabsurgeon.onnx.export.write_models", full)
    with pytest.raises(OutputError, match="No space left"):
        export(build("llama", tmp_path / "c"), tmp_path / "o")
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_a_missing_head_is_an_error_not_a_random_one(tmp_path: Path) -> None:
    checkpoint = build("llama", tmp_path / "c")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(json.dumps(config | {"tie_word_embeddings": False}))
    with pytest.raises(OnnxError, match=r"lm_head\.weight is in no file"):
        export(checkpoint, tmp_path / "o")
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        (ExportOptions(dtype="bfloat16"), OnnxError, "does not run bfloat16"),
        (ExportOptions(dtype="int3"), UsageError, "unknown dtype"),
        (ExportOptions(task="translation"), UsageError, "unknown task"),
        (ExportOptions(opset=3), UsageError, "opset 3"),
    ],
)
def test_requests_that_cannot_be_met_are_one_line(
    exported: Get, tmp_path: Path, options: ExportOptions, error: type[VocabsurgeonError], message: str
) -> None:
    with pytest.raises(error, match=message) as caught:
        export(exported("llama").checkpoint, tmp_path / "o", options)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("positions", [8, 16, 40])
def test_a_model_of_few_positions_is_compared_within_them(tmp_path: Path, positions: int) -> None:
    report = export(build("gpt2", tmp_path / "c", n_positions=positions), tmp_path / "o")
    assert report.passed, report.notes
    assert "greedy decoding" in report.parity.checks


def test_an_export_that_is_too_large_says_so(tmp_path: Path) -> None:
    report = export(build("llama", tmp_path / "c"), tmp_path / "o", ExportOptions(max_ratio=0.5))
    assert not report.passed and report.parity.passed
    assert "stored 1.0000 × what is needed, 0.5 is allowed" in report.notes


def test_a_dry_run_checks_and_leaves_nothing(tmp_path: Path) -> None:
    source = build("llama", tmp_path / "parent" / "c")
    ran = vocabsurgeon("export", source, tmp_path / "parent" / "o", "--dry-run", "--json")
    assert ran.code == 0
    document = ran.document
    assert (document["dry_run"], document["out"], document["passed"]) == (True, None, True)
    assert document["parity"]["passed"]
    assert [path.name for path in source.parent.iterdir()] == ["c"]


def test_an_out_that_exists_needs_overwrite(exported: Get, tmp_path: Path) -> None:
    (tmp_path / "o").mkdir()
    with pytest.raises(OutputError, match="exists already"):
        export(exported("llama").checkpoint, tmp_path / "o")


def test_a_class_without_a_task_is_refused(tmp_path: Path) -> None:
    checkpoint = build("llama", tmp_path / "c")
    config = json.loads((checkpoint / "config.json").read_text())
    (checkpoint / "config.json").write_text(
        json.dumps(config | {"architectures": ["BertForMultipleChoice"], "model_type": "bert"})
    )
    with pytest.raises(OnnxError, match="BertForMultipleChoice has no task to export for"):
        export(checkpoint, tmp_path / "o")
