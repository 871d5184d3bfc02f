"""`inspect --load`: what the model in memory does, in every tie state, beside what the files say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.runner import vocabsurgeon
from tests.models.nested import NESTED, build_nested
from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import contents, shelved, taken, with_config
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.live import Answers, ask, live_check
from vocabsurgeon.vocabulary.loading import LoadedModel, load_model
from vocabsurgeon.vocabulary.tie_state import TieState

ONE = {"identical": True, "same_storage": True, "write_through": True, "optimizer_entries": 1}
TWO = {"identical": False, "same_storage": False, "write_through": False, "optimizer_entries": 2}
NONE = dict.fromkeys(ONE)
HEAD, INPUT = "lm_head.weight", "model.embed_tokens.weight"

SEEN: dict[TieState, tuple[dict[str, Any], str, list[str], bool]] = {
    TieState.TIED: (ONE, "tied", [], True),
    TieState.TIED_DUPLICATE: (ONE, "tied", [], True),
    TieState.UNTIED: (TWO, "untied", [], True),
    TieState.UNTIED_EQUAL: (TWO, "untied-equal", [], True),
    TieState.CONFLICT: (TWO, "conflict", [], False),
    TieState.HEADLESS: (TWO, "untied", [HEAD], False),
    TieState.INPUT_MISSING: (TWO, "untied", [INPUT], False),
    TieState.NO_HEAD: (NONE, "no-head", [], True),
}
"""State of the files → what the model does, the state after a save, missing keys, whether the two agree."""


def _live(source: Path, *options: str) -> tuple[int, dict[str, Any]]:
    ran = vocabsurgeon("inspect", source, "--load", "--json", *options)
    live: dict[str, Any] = ran.document["live"]
    return ran.code, live


@pytest.mark.parametrize("state", list(SEEN))
def test_each_state_in_memory(state: TieState, tmp_path: Path) -> None:
    sharing, after, missing, agrees = SEEN[state]
    code, live = _live(in_state(state, tmp_path / "source"))
    evidence = live.pop("evidence")
    assert live == {**sharing, "after_round_trip": after, "missing_keys": missing, "agrees": agrees}
    assert code == (0 if agrees else 1)
    assert any(line.startswith("disagreement: ") for line in evidence) is not agrees


def test_every_state_is_seen_but_the_one_that_does_not_load(tmp_path: Path) -> None:
    assert set(TieState) - SEEN.keys() == {TieState.ROW_MISMATCH}
    ran = vocabsurgeon("inspect", in_state(TieState.ROW_MISMATCH, tmp_path / "source"), "--load")
    assert ran.code == 2 and "lm_head.weight is [60, 16] in the file, the class wants [64, 16]" in ran.line


@pytest.mark.parametrize("family", ["gpt2", "gemma3_text", "gpt_neox", "opt", "bloom"])
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_families_agree(family: str, tied: bool) -> None:
    code, live = _live(shelved(family, tied=tied))
    assert (code, live["agrees"], live["identical"]) == (0, True, tied)


@pytest.mark.parametrize("family", list(NESTED))
def test_nested_configs_agree(family: str, tmp_path: Path) -> None:
    code, live = _live(build_nested(family, tmp_path / "source"))
    assert code == 0 and live["identical"] is True and live["after_round_trip"] == "tied"


def test_a_t5_with_two_tables_agrees_and_is_told_that_a_save_turns_its_flag(tmp_path: Path) -> None:
    from tests.cases.stock import t5

    code, live = _live(t5(tmp_path / "source"))
    assert code == 0 and live["identical"] is False and live["after_round_trip"] == "conflict"
    assert "save_pretrained turns untied into conflict" in live["evidence"]


def test_a_bfloat16_checkpoint_is_loaded_as_it_is(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", dtype="bfloat16")
    assert load_model(Checkpoint.open(source)).model.dtype is torch.bfloat16
    assert _live(source)[1]["write_through"] is True


def test_the_files_are_not_written_and_nothing_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, scratch = taken(tmp_path / "source"), tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    before = contents(source, without=())
    _live(source)
    assert contents(source, without=()) == before and not any(scratch.iterdir())


def test_asking_leaves_the_parameters_as_they_were() -> None:
    loaded = load_model(Checkpoint.open(shelved()))
    before = loaded.input_table.detach().clone()  # type: ignore[union-attr]
    ask(loaded, describe(Checkpoint.open(shelved())))
    assert torch.equal(loaded.input_table, before)  # type: ignore[arg-type]


class _Odd(torch.nn.Module):
    """Two parameters over one storage: what no flag describes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = torch.nn.Embedding(4, 3), torch.nn.Linear(3, 4, bias=False)
        self.second.weight = torch.nn.Parameter(self.first.weight.data)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.first

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.second


def test_two_parameters_over_one_storage_are_neither_shared_nor_separate() -> None:
    answers = ask(LoadedModel(_Odd(), (), ()), describe(Checkpoint.open(shelved())))
    assert answers == Answers(False, True, True, 2) and answers.shared is None


def test_a_model_that_contradicts_itself_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.vocabulary.live.ask", lambda *_: Answers(False, True, True, 2))
    live = live_check(describe(Checkpoint.open(shelved()))).live
    assert live.agrees is False and any("contradicts itself" in line for line in live.evidence)


def test_a_save_that_fails_is_not_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers

    def full(*_: Any, **__: Any) -> None:
        raise OSError("No space left on device")

    monkeypatch.setattr(transformers.PreTrainedModel, "save_pretrained", full)
    live = live_check(describe(Checkpoint.open(shelved()))).live
    assert live.after_round_trip is None and live.agrees is True
    assert "after a save and a load: not checked: No space left on device" in live.evidence


def test_an_unknown_type_is_told_in_one_line(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="nonesuch", architectures=["NonesuchForCausalLM"])
    ran = vocabsurgeon("inspect", source, "--load", "--input-key", INPUT)
    assert ran.code == 2 and "transformers does not load it" in ran.line


def test_code_of_the_checkpoint_does_not_run(tmp_path: Path) -> None:
    source = with_config(
        taken(tmp_path / "source"),
        model_type="nonesuch",
        architectures=["Nonesuch"],
        auto_map={"AutoConfig": "modeling_x.C", "AutoModelForCausalLM": "modeling_x.M"},
    )
    (source / "modeling_x.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass C: pass\nclass M: pass\n")
    ran = vocabsurgeon("inspect", source, "--load", "--input-key", INPUT)
    assert ran.code == 2 and "--trust-remote-code" in ran.line and not (tmp_path / "ran").exists()


def test_text_shows_the_live_state_beside_the_files(tmp_path: Path) -> None:
    ran = vocabsurgeon("inspect", in_state(TieState.HEADLESS, tmp_path / "source"), "--load")
    assert "DISAGREES with the files" in ran.stdout and f"in no file, random: {HEAD}" in ran.stdout
    ran = vocabsurgeon("inspect", shelved(), "--load")
    assert "agrees with the files" in ran.stdout and "optimizer entries 1" in ran.stdout
    assert "in memory" not in vocabsurgeon("inspect", shelved()).stdout


def test_an_encoder_without_a_head(tmp_path: Path) -> None:
    import transformers

    config = transformers.BertConfig(
        vocab_size=64, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    transformers.BertModel(config).save_pretrained(tmp_path / "source")
    write_tokenizer(tmp_path / "source", 64)
    code, live = _live(tmp_path / "source")
    assert code == 0 and live["identical"] is None and live["after_round_trip"] == "no-head"
