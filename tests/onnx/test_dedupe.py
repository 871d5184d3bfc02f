"""`dedupe` stores each content once, in one data file, with the same outputs; what is not proved is not written."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.cli.runner import vocabsurgeon
from tests.onnx.exports import (
    ROWS,
    WIDTH,
    decoder,
    inline_decoder,
    model,
    optimum_like,
    placed,
    prefill_and_decode,
    saved_twice,
    value,
    weights,
    write,
)
from tests.onnx.handmade import DATA, inline, table
from vocabsurgeon.errors import OnnxError, OutputError, UsageError, VocabsurgeonError
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.dedupe import runs
from vocabsurgeon.onnx.dedupe.operate import dedupe
from vocabsurgeon.onnx.dedupe.options import DedupeOptions
from vocabsurgeon.onnx.dedupe.report import DedupeReport
from vocabsurgeon.onnx.presets import PRESETS

INT64, FLOAT = TensorProto.INT64, TensorProto.FLOAT
TABLE_BYTES = ROWS * WIDTH * 4


def deduped(source: Path, out: Path, **options: Any) -> DedupeReport:
    """Run, and hold what every result promises."""
    report = dedupe(source, out, DedupeOptions(**options))
    assert report.passed and report.out == out
    result = audit(out)
    assert (result.bytes.orphaned, result.bytes.ratio) == (0, 1.0)
    return report


def operators(path: Path) -> list[str]:
    return [node.op_type for node in onnx.load(path, load_external_data=False).graph.node]


def outputs(path: Path, **feed: Any) -> list[Any]:
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    results: list[Any] = session.run(None, feed)
    return results


def test_a_transposed_copy_becomes_a_product_with_the_table(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert (report.before.stored, report.after.stored) == (2 * TABLE_BYTES, TABLE_BYTES)
    assert [entry.forms for entry in report.merged] == [("Gemm(transB=1)",)]
    ids = np.arange(6).reshape(2, 3)
    before, after = (outputs(tmp_path / side / "model.onnx", input_ids=ids)[0] for side in ("in", "out"))
    assert before.shape == after.shape == (2, 3, ROWS)
    assert np.abs(before - after).max() < 1e-5
    domains = {entry.domain for entry in onnx.load(tmp_path / "out/model.onnx", load_external_data=False).opset_import}
    assert domains == {""}


def test_a_sequence_of_nothing_still_runs(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    deduped(tmp_path / "in", tmp_path / "out")
    for shape in ((2, 0), (0, 3)):
        assert outputs(tmp_path / "out/model.onnx", input_ids=np.zeros(shape, np.int64))[0].shape == (*shape, ROWS)


def test_the_ort_target_uses_its_fused_product(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    deduped(tmp_path / "in", tmp_path / "out", target="ort")
    assert operators(tmp_path / "out/model.onnx") == ["Constant", "Reshape", "Gather", "Tanh", "FusedMatMul"]


@pytest.mark.parametrize("target", ["onnx", "ort"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("opset", [9, 11, 13, 14, 15, 20])
def test_every_type_opset_and_target_keeps_its_outputs(tmp_path: Path, dtype: str, opset: int, target: str) -> None:
    optimum_like(tmp_path / "in", dtype, opset)
    deduped(tmp_path / "in", tmp_path / "out", target=target)


def test_copies_across_graphs_end_in_one_data_file(tmp_path: Path) -> None:
    prefill_and_decode(tmp_path / "in")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [
        "decode.onnx",
        DATA,
        PRESETS,
        "prefill.onnx",
        "vocabsurgeon.json",
    ]
    assert (tmp_path / "out" / DATA).stat().st_size == report.before.stored // 2 == report.after.stored
    assert report.parity is not None and report.parity.bit_exact
    assert report.parity.graphs == ("decode.onnx", "prefill.onnx")


def test_orphaned_bytes_are_gone_and_outputs_bit_equal(tmp_path: Path) -> None:
    saved_twice(tmp_path / "in")
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.before.orphaned == report.after.stored == 2 * TABLE_BYTES
    assert report.parity is not None and report.parity.bit_exact


def test_inline_weights_move_to_a_data_file(tmp_path: Path) -> None:
    source = inline_decoder(tmp_path / "in" / "tiny.onnx")
    (tmp_path / "in" / "neighbor.txt").write_text("not mine")
    deduped(source, tmp_path / "in" / "out")
    names = sorted(path.name for path in (tmp_path / "in" / "out").iterdir())
    assert names == [PRESETS, "tiny.onnx", "tiny.onnx_data", "vocabsurgeon.json"]


def test_other_files_are_carried_along_and_strays_left_out(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    (tmp_path / "in" / "config.json").write_text("{}")
    (tmp_path / "in" / "sub").mkdir()
    (tmp_path / "in" / "sub" / "notes.md").write_text("hello")
    (tmp_path / "in" / "old.onnx_data").write_bytes(bytes(5000))
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert (tmp_path / "out" / "sub" / "notes.md").read_text() == "hello"
    assert (tmp_path / "out" / "config.json").read_text() == "{}"
    assert report.to_dict()["files_omitted"] == [{"file": "old.onnx_data", "reason": "no graph refers to it"}]


def test_a_second_run_changes_nothing(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    deduped(tmp_path / "in", tmp_path / "out")
    again = dedupe(tmp_path / "out", tmp_path / "again")
    assert again.passed and not again.changed
    for name in ("model.onnx", DATA):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_the_same_input_gives_the_same_bytes(tmp_path: Path) -> None:
    prefill_and_decode(tmp_path / "in")
    for out in ("a", "b"):
        deduped(tmp_path / "in", tmp_path / out)
    for name in ("prefill.onnx", "decode.onnx", DATA):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_the_source_is_not_touched(tmp_path: Path) -> None:
    path = optimum_like(tmp_path / "in")
    before = path.read_bytes(), (tmp_path / "in" / DATA).read_bytes()
    deduped(tmp_path / "in", tmp_path / "out")
    assert before == (path.read_bytes(), (tmp_path / "in" / DATA).read_bytes())


def test_a_dry_run_writes_nothing_and_foresees_the_size(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    report = dedupe(tmp_path / "in", tmp_path / "out", DedupeOptions(dry_run=True))
    assert report.after.stored == TABLE_BYTES and report.changed and report.out is None
    assert not (tmp_path / "out").exists()


def test_outputs_that_differ_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum_like(tmp_path / "in")
    honest = runs._run

    def lying(twin: runs.Twin, path: Path, only: Any) -> Any:
        made, failed = honest(twin, path, only)
        if only is not None:
            made["one step"]["logits"] = made["one step"]["logits"] + 1
        return made, failed

    monkeypatch.setattr(runs, "_run", lying)
    report = dedupe(tmp_path / "in", tmp_path / "out")
    assert not report.passed and report.out is None and report.parity is not None
    assert "differs by 1" in report.parity.reasons[0]
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_result_that_does_not_load_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    optimum_like(tmp_path / "in")
    honest = runs._open
    monkeypatch.setattr(runs, "_open", lambda path: (None, "broken") if "staged" in str(path) else honest(path))
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out")
    assert ran.code == 1 and "onnxruntime cannot load it: broken" in ran.line
    assert not (tmp_path / "out").exists()


def test_a_tolerance_of_zero_is_not_met_by_another_order_of_sums(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--atol", "0")
    assert ran.code == 1 and "0 is allowed" in ran.line
    assert not (tmp_path / "out").exists()


def test_a_graph_that_cannot_be_run_needs_consent(tmp_path: Path) -> None:
    made = decoder(placed(tmp_path / "in", weights()))
    made.graph.node[0].domain = "no.such.domain"
    made.opset_import.add(domain="no.such.domain", version=1)
    write(made, tmp_path / "in" / "model.onnx")
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out")
    assert ran.code == 1 and "cannot load it" in ran.line and "--no-verify" in ran.line
    assert not (tmp_path / "out").exists()
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--no-verify", "--json")
    assert (ran.code, ran.document["parity"], ran.document["parity_not_checked"]) == (0, None, "not asked for")
    assert ran.document["weights_intact"] is True
    assert audit(tmp_path / "out").bytes.ratio == 1.0


def test_inputs_that_cannot_be_made_up_are_not_checked(tmp_path: Path) -> None:
    nodes = [
        helper.make_node("Identity", ["text"], ["same"]),
        helper.make_node("Gather", ["a", "ids"], ["x"]),
        helper.make_node("Gather", ["b", "ids"], ["y"]),
    ]
    inputs = [value("text", TensorProto.STRING, [1]), value("ids", INT64, [2])]
    given = [value("same", TensorProto.STRING, None), value("x", FLOAT, None), value("y", FLOAT, None)]
    arrays = {"a": table(100), "b": table(100)}
    write(model(nodes, placed(tmp_path / "in", arrays), inputs, given), tmp_path / "in" / "model.onnx")
    report = dedupe(tmp_path / "in", tmp_path / "out")
    assert (report.passed, report.parity) == (False, None)
    assert report.unchecked == "model.onnx: it takes inputs that cannot be made up"


def test_weights_that_are_not_the_sources_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vocabsurgeon.onnx.dedupe import operate

    honest = operate.write_data

    def careless(path: Path, *rest: Any) -> None:
        honest(path, *rest)
        with open(path, "r+b") as file:
            file.seek(-1, 2)
            last = file.read(1)
            file.seek(-1, 2)
            file.write(bytes([last[0] ^ 1]))

    monkeypatch.setattr(operate, "write_data", careless)
    optimum_like(tmp_path / "in")
    report = dedupe(tmp_path / "in", tmp_path / "out", DedupeOptions(verify=False))
    assert (report.intact, report.passed, report.out) == (False, False, None)


@pytest.mark.parametrize("out", [".", "in", "in/out", "in/sub/out"])
def test_out_in_or_around_the_source_is_refused(tmp_path: Path, out: str) -> None:
    optimum_like(tmp_path / "in")
    with pytest.raises((UsageError, OutputError)):
        dedupe(tmp_path / "in", tmp_path / out, DedupeOptions(overwrite=True))


@pytest.mark.parametrize("out", [".", "in"])
def test_out_may_not_be_the_folder_of_a_single_file(tmp_path: Path, out: str) -> None:
    path = optimum_like(tmp_path / "in")
    with pytest.raises(UsageError):
        dedupe(path, tmp_path / out, DedupeOptions(overwrite=True))
    assert path.exists()


def test_an_existing_out_needs_overwrite(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    (tmp_path / "out").mkdir()
    with pytest.raises(OutputError):
        dedupe(tmp_path / "in", tmp_path / "out")
    deduped(tmp_path / "in", tmp_path / "out", overwrite=True)


@pytest.mark.parametrize("what", ["nothing", "checkpoint", "junk", "reference"])
def test_what_is_no_export_is_one_line(tmp_path: Path, what: str) -> None:
    from tests.models.tiny import build

    if what == "checkpoint":
        build("llama", tmp_path / "in")
    if what == "junk":
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "model.onnx").write_bytes(b"junk")
    if what == "reference":
        optimum_like(tmp_path / "in")
        content = (tmp_path / "in" / "model.onnx").read_bytes()
        (tmp_path / "in" / "model.onnx").write_bytes(content.replace(DATA.encode(), b"../../../../etc1"))
    with pytest.raises((OnnxError, UsageError)) as caught:
        dedupe(tmp_path / "in", tmp_path / "out")
    assert isinstance(caught.value, VocabsurgeonError) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_the_record_tells_what_was_done(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    ran = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json")
    record = json.loads((tmp_path / "out" / "vocabsurgeon.json").read_text())
    assert set(record["source_fingerprint"]["files"]) == {"model.onnx", DATA}
    assert {key: record[key] for key in ran.document} == ran.document


def test_nothing_of_torch_is_imported(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    code = (
        "import sys; from vocabsurgeon.onnx.dedupe.operate import dedupe; dedupe(sys.argv[1], sys.argv[2]);"
        "print([m for m in ('torch', 'transformers', 'onnx_ir', 'onnxscript') if m in sys.modules])"
    )
    arguments = [sys.executable, "-c", code, str(tmp_path / "in"), str(tmp_path / "out")]
    assert subprocess.run(arguments, capture_output=True, text=True, check=True).stdout.strip() == "[]"


def test_memory_does_not_grow_with_the_weights(tmp_path: Path) -> None:
    import tracemalloc

    from vocabsurgeon.checkpoint.rows import BLOCK_BYTES

    big = table(8192, 2048)
    arrays = {"table": big, "turned": big.T.copy()}
    write(decoder([inline(name, array) for name, array in arrays.items()]), tmp_path / "in" / "model.onnx")
    del big, arrays
    tracemalloc.start()
    assert dedupe(tmp_path / "in", tmp_path / "out", DedupeOptions(verify=False)).passed
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 8 * BLOCK_BYTES


def test_the_json_has_the_keys_it_promises(tmp_path: Path) -> None:
    optimum_like(tmp_path / "in")
    document = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "out", "--json").document
    counts = {"stored", "referenced", "unique", "expected", "orphaned", "ratio", "graph"}
    assert document["bytes"]["before"].keys() == document["bytes"]["after"].keys() == counts
    assert document["schema"] == "vocabsurgeon.dedupe/1" and document["target"] == "onnx"
    (entry,) = document["merged"]
    assert entry == {
        "tensors": ["table", "turned"],
        "relation": "transposed",
        "bytes": TABLE_BYTES,
        "forms": ["Gemm(transB=1)"],
    }
    assert {"max_abs_diff", "mean_kl", "top1_agreement", "greedy_equal", "passed"} <= document["parity"].keys()
    text = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "again").stdout
    assert "64 kB → 32 kB: 32 kB of copies gone" in text and "Gemm(transB=1)" in text
    planned = vocabsurgeon("dedupe", tmp_path / "in", tmp_path / "planned", "--dry-run")
    assert (planned.code, "dry run" in planned.stdout) == (0, True)


@pytest.mark.parametrize(
    ("name", "content", "ran"),
    [
        ("genai_config.json", '{"model": {"decoder": {"head_size": 12}}}', True),
        ("config.json", '{"text_config": {"head_dim": 12}}', True),
        ("config.json", '{"head_dim": "12"}', False),
        ("config.json", '{"head_dim": true}', False),
        ("config.json", "[" * 100_000, False),
    ],
)
def test_the_width_of_a_head_is_read_beside_the_graph(tmp_path: Path, name: str, content: str, ran: bool) -> None:
    made = decoder([*placed(tmp_path / "in", weights()), inline("head", np.ones(12, np.float32))])
    past = value("past_key_values.0.key", FLOAT, ["batch_size", 2, "past_sequence_length", "kv_dim"])
    made.graph.input.append(past)
    made.graph.node.append(helper.make_node("Mul", [past.name, "head"], ["present.0.key"]))
    made.graph.output.append(value("present.0.key", FLOAT, None))
    write(made, tmp_path / "in" / "model.onnx")
    (tmp_path / "in" / name).write_text(content)
    assert (dedupe(tmp_path / "in", tmp_path / "out").parity is not None) == ran


def test_text_of_the_tokenizer_is_run_too(tmp_path: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    optimum_like(tmp_path / "in")
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0, "The": 1, "fox": 900}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(tmp_path / "in" / "tokenizer.json"))
    report = deduped(tmp_path / "in", tmp_path / "out")
    assert report.parity is not None
    assert report.parity.checks == ("random ids", "one step", "text 0", "text 1")
