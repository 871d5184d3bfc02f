"""Every state is recognized, with evidence; declared follows the level that the class obeys."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.surgery.shelf import HEAD, INPUT, reloaded, shares, taken, with_config, with_tensors
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.tie_state import EFFECTIVE, Tie, TieState


def _tie(folder: Path, compare: bool = False) -> Tie:
    return describe(Checkpoint.open(folder), compare=compare).tie


@pytest.mark.parametrize("state", TieState)
def test_each_state_is_recognized_with_evidence(state: TieState, tmp_path: Path) -> None:
    tie = _tie(in_state(state, tmp_path / "source"))
    assert tie.state is state and tie.effective == EFFECTIVE[state] and tie.evidence
    if state is not TieState.NO_HEAD:
        assert any("tie_word_embeddings is" in line for line in tie.evidence)
        assert any(INPUT in line or HEAD in line for line in tie.evidence)


@pytest.mark.parametrize("state", [TieState.TIED, TieState.TIED_DUPLICATE, TieState.UNTIED, TieState.UNTIED_EQUAL])
def test_effective_is_what_transformers_does(state: TieState, tmp_path: Path) -> None:
    source = in_state(state, tmp_path / "source")
    assert shares(reloaded(source)) is (_tie(source).effective == "shared")


def test_a_tied_table_under_the_heads_name_is_tied(tmp_path: Path) -> None:
    source = with_tensors(taken(tmp_path / "source"), lambda tensors: tensors.update({HEAD: tensors.pop(INPUT)}))
    assert _tie(source).state is TieState.TIED and shares(reloaded(source))


def test_nan_rows_do_not_make_equal_tables_differ(tmp_path: Path) -> None:
    source = in_state(TieState.UNTIED_EQUAL, tmp_path / "source")
    with_tensors(source, lambda tensors: [tensors[key][3].fill_(float("nan")) for key in (INPUT, HEAD)])
    tie = _tie(source, compare=True)
    assert tie.state is TieState.UNTIED_EQUAL and tie.values_equal is True


def test_one_bit_makes_two_tables(tmp_path: Path) -> None:
    source = in_state(TieState.TIED_DUPLICATE, tmp_path / "source")
    with_tensors(source, lambda tensors: tensors[HEAD].view(torch.int32)[63, 15].bitwise_xor_(1))
    assert _tie(source).state is TieState.CONFLICT


def test_minus_zero_is_not_zero(tmp_path: Path) -> None:
    source = in_state(TieState.UNTIED_EQUAL, tmp_path / "source")
    with_tensors(source, lambda tensors: [tensors[INPUT][3].zero_(), tensors[HEAD][3].zero_().neg_()])
    tie = _tie(source, compare=True)
    assert tie.state is TieState.UNTIED and tie.distance is not None and tie.distance.max_abs_diff == 0


def test_two_dtypes_are_two_tables(tmp_path: Path) -> None:
    source = in_state(TieState.UNTIED_EQUAL, tmp_path / "source")
    with_tensors(source, lambda tensors: tensors.update({HEAD: tensors[HEAD].bfloat16()}))
    assert _tie(source, compare=True).state is TieState.UNTIED


def test_the_distance_is_measured_only_when_asked(tmp_path: Path) -> None:
    source = in_state(TieState.UNTIED, tmp_path / "source")
    assert _tie(source).distance is None
    measured = _tie(source, compare=True).distance
    assert measured is not None and measured.rows == 64 and measured.max_abs_diff > 0


def test_rows_that_do_not_match_are_told(tmp_path: Path) -> None:
    tie = _tie(in_state(TieState.ROW_MISMATCH, tmp_path / "source"), compare=True)
    assert any("different numbers of rows" in line for line in tie.evidence)


def test_a_nested_flag_does_not_count_where_the_class_obeys_the_root(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), text_config={"tie_word_embeddings": False})
    tie = _tie(source)
    assert tie.declared is True
    assert any("text_config.tie_word_embeddings is false" in line for line in tie.evidence)
    assert any("obeys root" in line for line in tie.evidence)


@pytest.mark.parametrize(("root", "text", "declared"), [(False, True, True), (False, False, False), (None, True, True)])
def test_qwen2_vl_obeys_either_level(root: bool | None, text: bool, declared: bool, tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_config(source, model_type="qwen2_vl", architectures=["Qwen2VLForConditionalGeneration"])
    with_config(source, tie_word_embeddings=root, text_config={"tie_word_embeddings": text})
    assert _tie(source).declared is declared


def test_a_class_that_shares_whatever_the_file_says_is_tied(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_tensors(source, lambda tensors: tensors.update({"shared.weight": tensors.pop(INPUT)}))
    with_config(source, model_type="t5", architectures=["T5ForConditionalGeneration"], tie_word_embeddings=False)
    tie = _tie(source)
    assert tie.state is TieState.TIED and any("whatever" in line for line in tie.evidence)
    with_tensors(source, lambda tensors: tensors.update({HEAD: tensors["shared.weight"] + 1}))
    assert _tie(source).state is TieState.UNTIED
