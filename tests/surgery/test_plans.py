"""Plans are values: what is decided, and that nothing can be planned without promises."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import (
    HEAD,
    INPUT,
    contents,
    leftovers,
    reloaded,
    shares,
    shelved,
    taken,
    tensors_of,
    with_config,
    with_tensors,
)
from vocabsurgeon.checkpoint.edits import OmitFile, WriteRows
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery import config_edits
from vocabsurgeon.surgery.extend_plan import ExtendPlan
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, extending, plan_for, tie, untie, untying
from vocabsurgeon.vocabulary.families import family_for


def _planned(source: Path, *tokens: str, **options: object) -> ExtendPlan:
    _, plan = plan_for(source, extending(extend_request(tokens, **options)))  # type: ignore[arg-type]
    assert isinstance(plan, ExtendPlan), plan
    return plan


def test_a_plan_without_promises_cannot_be_built() -> None:
    with pytest.raises(ValueError, match="promises"):
        Plan("extend", (), (), ())


ROWS = {
    "no token": ((), {}, 60, (64, 64, (), (), ())),
    "spare rows first": (("<a>", "<b>"), {}, 60, (64, 64, (60, 61), (), ())),
    "spare rows, then the end": (("<a>", "<b>"), {}, 63, (64, 65, (63, 64), (), ())),
    "padding alone": ((), {"pad_to_multiple_of": 48}, 64, (64, 96, (), (), tuple(range(64, 96)))),
    "padding that fits already": (("<a>",), {"pad_to_multiple_of": 16}, 60, (64, 64, (60,), (), ())),
    "tokens and padding": (("<a>",), {"pad_to_multiple_of": 8}, 64, (64, 72, (64,), (), tuple(range(65, 72)))),
    "ids without a row": (("<a>",), {}, 66, (64, 67, (66,), (64, 65), ())),
    "ids without a row stay so": ((), {}, 66, (64, 64, (), (), ())),
    "ids without a row and padding": ((), {"pad_to_multiple_of": 72}, 66, (64, 72, (), (64, 65), tuple(range(66, 72)))),
}


@pytest.mark.parametrize(("tokens", "options", "entries", "wanted"), ROWS.values(), ids=list(ROWS))
def test_rows_are_counted(tokens: tuple[str, ...], options: dict, entries: int, wanted: tuple, tmp_path: Path) -> None:  # type: ignore[type-arg]
    source = taken(tmp_path / "source", tied=False)
    write_tokenizer(source, entries)
    plan = _planned(source, *tokens, **options)
    counts = plan.counts
    assert (counts.before, counts.after, counts.tokens, counts.filled, counts.padding) == wanted
    written = {*counts.tokens, *counts.filled, *counts.padding}
    assert all({row for row, _ in edit.rows} == written for edit in plan.tensor_edits if isinstance(edit, WriteRows))
    assert len(plan.tensor_edits) == (2 if written else 0)


COPIES = (
    "pytorch_model.bin",
    "pytorch_model-00001-of-00002.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
    "flax_model.msgpack",
    "original/consolidated.00.pth",
    "consolidated.safetensors",
)
"""The model's own weights again, in another format."""
STALE = (
    "model.gguf",
    "onnx/model.onnx",
    "onnx/model.onnx_data",
    "model.onnx",
    "openvino_model.bin",
    "optimizer.pt",
    "scheduler.pt",
    "global_step100/mp_rank_00_model_states.pt",
)
"""Carried, and named as saying what was true before."""
KEPT = (
    "README.md",
    "LICENSE",
    "chat_template.jinja",
    "trainer_state.json",
    "training_args.bin",
    "preprocessor_config.json",
    "2_Dense/model.safetensors",
    "3_Dense/pytorch_model.bin",
    "mm_projector.bin",
)
UNKNOWN = ("notes/onnx.txt", "weird.dat", "notes/deep/x")


def _with_files(target: Path) -> Path:
    source = taken(target)
    for name in (*COPIES, *STALE, *KEPT, *UNKNOWN):
        (source / name).parent.mkdir(exist_ok=True, parents=True)
        (source / name).write_bytes(name.encode())
    return source


@pytest.mark.parametrize("operation", ["extend", "untie"])
def test_copies_of_the_weights_are_left_out_and_named_and_all_else_carried(operation: str, tmp_path: Path) -> None:
    source, out = _with_files(tmp_path / "source"), tmp_path / "out"
    report = untie(source, out) if operation == "untie" else extend(source, out, extend_request(["<a>"]))
    assert not isinstance(report, Refusal) and report.proof.passed is True
    assert {entry["file"] for entry in report.to_dict()["files_omitted"]} == set(COPIES)
    assert {name for name in contents(source) if name not in contents(out)} == set(COPIES)
    assert all(contents(out)[name] == name.encode() for name in (*STALE, *KEPT, *UNKNOWN))


@pytest.mark.parametrize("operation", ["extend", "untie"])
def test_every_file_of_both_folders_is_in_the_account(operation: str, tmp_path: Path) -> None:
    source, out = _with_files(tmp_path / "source"), tmp_path / "out"
    report = untie(source, out) if operation == "untie" else extend(source, out, extend_request(["<a>"]))
    assert not isinstance(report, Refusal)
    account = {entry["file"]: entry for entry in report.to_dict()["files"]}
    assert set(account) == (set(contents(source)) | set(contents(out))) - {"vocabsurgeon.json"}
    assert {name for name, entry in account.items() if entry["fate"] == "stale"} == set(STALE)
    assert {name for name, entry in account.items() if entry["kind"] == "unknown"} == set(UNKNOWN)
    assert all(account[name]["reason"] for name in (*COPIES, *STALE, *UNKNOWN))
    assert {account[name]["fate"] for name in KEPT} == {"kept"}
    assert account["config.json"]["fate"] == account["model.safetensors"]["fate"] == "changed"


@pytest.mark.parametrize("link", [False, True], ids=["copied", "linked"])
def test_the_account_holds_weight_files_that_only_the_result_has(link: bool, tmp_path: Path) -> None:
    source, out = taken(tmp_path / "source"), tmp_path / "out"
    (source / ".git").mkdir()
    report = untie(source, out, RunOptions(link=link))
    assert not isinstance(report, Refusal)
    account = {entry["file"]: entry["fate"] for entry in report.to_dict()["files"]}
    assert account.pop(".git/") == "left out"
    assert set(account) == (set(contents(source)) | set(contents(out))) - {"vocabsurgeon.json"}
    assert {name for name, fate in account.items() if fate == "added"} == set(contents(out)) - set(contents(source)) - {
        "vocabsurgeon.json"
    }


def test_a_run_that_changes_nothing_leaves_nothing_out(tmp_path: Path) -> None:
    source = _with_files(tmp_path / "source")
    report = tie(source, tmp_path / "out")
    assert not isinstance(report, Refusal) and contents(tmp_path / "out") == contents(source)


def test_omissions_never_hold_the_weights_that_are_read() -> None:
    _, plan = plan_for(shelved(max_shard_size="6KB"), untying())
    assert isinstance(plan, Plan) and not [edit for edit in plan.file_edits if isinstance(edit, OmitFile)]


def test_permissions_are_those_of_a_new_file(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    for path in source.iterdir():
        path.chmod(0o600)
    untie(source, tmp_path / "out")
    (tmp_path / "new").write_text("")
    fresh = (tmp_path / "new").stat().st_mode
    assert {path.stat().st_mode for path in (tmp_path / "out").iterdir()} == {fresh}


def test_the_size_is_written_where_it_is_the_tables(tmp_path: Path) -> None:
    nested = {"text_config": {"vocab_size": 64}, "audio_config": {"vocab_size": 9}}
    config = Checkpoint.open(with_config(taken(tmp_path / "source"), **nested)).config
    values = config_edits.size_values(config, family_for("llama", "LlamaForCausalLM"), ("vocab_size",), 64, 80)
    assert values == {("vocab_size",): 80, ("text_config", "vocab_size"): 80}


def test_the_size_of_another_vocabulary_is_not_written_even_where_it_is_the_same_number(tmp_path: Path) -> None:
    nested = {"text_config": {"vocab_size": 64}, "audio_config": {"vocab_size": 64}}
    config = Checkpoint.open(with_config(taken(tmp_path / "source"), **nested)).config
    values = config_edits.size_values(config, family_for("gemma3n", None), ("vocab_size",), 64, 80)
    assert values == {("vocab_size",): 80, ("text_config", "vocab_size"): 80}


@pytest.mark.parametrize(("flag", "scaled"), [({}, True), ({"tie_word_embeddings": False}, False)])
def test_what_a_model_inside_leaves_to_the_flag_is_written_out(
    flag: dict[str, bool], scaled: bool, tmp_path: Path
) -> None:
    source = with_config(taken(tmp_path / "source"), text_config={"model_type": "umt5", **flag})
    values = config_edits.scale_values(Checkpoint.open(source).config)
    assert values == {("text_config", "scale_decoder_outputs"): scaled}


def test_the_flag_is_written_at_the_root_even_where_only_a_level_below_states_it(tmp_path: Path) -> None:
    source = with_config(
        taken(tmp_path / "source"), tie_word_embeddings=None, text_config={"tie_word_embeddings": True}
    )
    values = config_edits.tie_flag_values(Checkpoint.open(source).config, None, False)
    assert values == {("tie_word_embeddings",): False, ("text_config", "tie_word_embeddings"): False}


def test_the_flag_is_written_at_the_level_that_the_class_obeys(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), text_config={"hidden_size": 16})
    family = family_for("qwen2_vl", "Qwen2VLForConditionalGeneration")
    values = config_edits.tie_flag_values(Checkpoint.open(source).config, family, False)
    assert values == {("tie_word_embeddings",): False, ("text_config", "tie_word_embeddings"): False}


def test_another_name_of_the_flag_is_read_and_written(tmp_path: Path) -> None:
    """LFM2's published configs say `tie_embedding`, which overrules `tie_word_embeddings`."""
    from transformers import Lfm2Config, Lfm2ForCausalLM

    sizes = {"vocab_size": 64, "hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "layer_types": ["conv", "full_attention"]}
    Lfm2ForCausalLM(Lfm2Config(**sizes, **heads, tie_word_embeddings=True)).save_pretrained(tmp_path / "source")
    source = with_config(tmp_path / "source", tie_embedding=True, tie_word_embeddings=False)
    assert shares(reloaded(source))
    report = untie(source, tmp_path / "out")
    assert not isinstance(report, Refusal) and report.before.tie.state == "tied" and report.proof.passed is True
    assert not shares(reloaded(tmp_path / "out"))


def test_a_class_that_never_shares_is_not_tied(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="kimi_linear", architectures=["KimiLinearForCausalLM"])
    assert untie(source, tmp_path / "apart").to_dict()["tie"]["state"] == "untied-equal"
    for place in (source, tmp_path / "apart"):
        refusal = tie(place, tmp_path / "out")
        assert isinstance(refusal, Refusal) and "apart at every load" in refusal.reason and refusal.exit_code == 2


def test_library_calls_leave_no_out_behind_a_refusal(tmp_path: Path) -> None:
    refusal = tie(shelved(tied=False), tmp_path / "out")
    assert isinstance(refusal, Refusal) and refusal.to_dict()["refused"] and leftovers(tmp_path / "out") == []


def test_a_slow_tokenizers_own_template_is_written(tmp_path: Path) -> None:
    """No tokenizer.json, the template in tokenizer_config.json: nothing about the ids changes, and that is proved."""
    from tests.surgery.shelf import with_json

    source = taken(tmp_path / "source")
    (source / "tokenizer.json").unlink()
    (source / "vocab.txt").write_text("\n".join(f"w{number}" for number in range(64)) + "\n")
    with_json(source / "tokenizer_config.json", chat_template="old", tokenizer_class="BertTokenizer")
    report = extend(source, tmp_path / "out", extend_request(chat_template="new"))
    assert not isinstance(report, Refusal) and report.passed, report.proof.evidence


@pytest.mark.parametrize("sharded", [False, True], ids=["one file", "linked shard"])
def test_a_tied_table_stored_under_the_heads_name_is_worked_on_all_the_same(sharded: bool, tmp_path: Path) -> None:
    source = with_tensors(taken(tmp_path / "source"), lambda tensors: tensors.update({HEAD: tensors.pop(INPUT)}))
    grown, apart = tmp_path / "grown", tmp_path / "apart"
    options = RunOptions(link=sharded)
    for report in (extend(source, grown, extend_request(["w5 w6"]), options), untie(source, apart, options)):
        assert not isinstance(report, Refusal) and report.proof.passed is True
    assert tensors_of(grown).keys() == tensors_of(source).keys() and shares(reloaded(grown))
    assert {INPUT, HEAD} <= tensors_of(apart).keys() and not shares(reloaded(apart))
    back = tie(apart, tmp_path / "back", options)
    assert not isinstance(back, Refusal) and back.proof.passed is True and INPUT in tensors_of(tmp_path / "back")
