"""The loaded model: both stored tables count whatever the class does with them, and exchanging them copies nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.surgery.shelf import HEAD, INPUT, shelved, taken, tensors_of, with_tensors
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.cost import two_tables as module
from vocabsurgeon.surgery.cost.result import NotMeasured
from vocabsurgeon.surgery.cost.two_tables import TwoTables, load_two_tables
from vocabsurgeon.surgery.lossy.candidates import Candidate, NormGain
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.loading import LoadedModel
from vocabsurgeon.vocabulary.tie_state import TieState

NORM = "model.norm.weight"


def _loaded(folder: Path) -> TwoTables:
    return load_two_tables(describe(Checkpoint.open(folder)))


def _loading(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    """As if transformers made something else of the files."""
    load = module.load_model

    def changed(*arguments: Any) -> LoadedModel:
        loaded = load(*arguments)
        with torch.no_grad():
            change(loaded.model)
        return loaded

    monkeypatch.setattr(module, "load_model", changed)


def _tie(model: Any) -> None:
    model.lm_head.weight = model.model.embed_tokens.weight


def _replace_head(model: Any) -> None:
    model.lm_head.weight.zero_()


@pytest.mark.parametrize("change", [lambda model: None, _tie, _replace_head], ids=["as stored", "tied", "replaced"])
def test_both_stored_tables_are_in_the_model(monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None]) -> None:
    folder = shelved(tied=False)
    _loading(monkeypatch, change)
    tables = _loaded(folder)
    stored = tensors_of(folder)
    assert torch.equal(tables.input, stored[INPUT]) and torch.equal(tables.output, stored[HEAD])
    assert tables.model.get_output_embeddings().weight is tables.output
    assert tables.model.get_input_embeddings().weight is tables.input


def test_another_input_table_than_the_stored_one_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    _loading(monkeypatch, lambda model: model.model.embed_tokens.weight.add_(1))
    with pytest.raises(NotMeasured, match="holds the stored"):
        _loaded(shelved(tied=False))


@pytest.mark.parametrize("state", [TieState.TIED, TieState.HEADLESS, TieState.ROW_MISMATCH])
def test_without_two_tables_of_one_shape_nothing_is_measured(tmp_path: Path, state: TieState) -> None:
    with pytest.raises(NotMeasured, match="no two stored tables"):
        _loaded(in_state(state, tmp_path / "model"))


@pytest.mark.parametrize("keep", ["input", "output", "mean"])
def test_inside_a_candidate_both_roles_read_one_storage_and_afterwards_their_own(keep: str) -> None:
    folder = shelved(tied=False)
    tables, stored = _loaded(folder), tensors_of(folder)
    before = tables.input.data_ptr(), tables.output.data_ptr()
    candidate = Candidate(keep, keep)
    with tables.candidate(candidate, {keep: tables.table(candidate)}):
        assert tables.input.data_ptr() == tables.output.data_ptr()
        assert (tables.input.data_ptr() in before) == (keep != "mean")
        expected = {"input": stored[INPUT], "output": stored[HEAD], "mean": (stored[INPUT] + stored[HEAD]) / 2}[keep]
        assert torch.equal(tables.input, expected)
    assert (tables.input.data_ptr(), tables.output.data_ptr()) == before
    assert torch.equal(tables.input, stored[INPUT]) and torch.equal(tables.output, stored[HEAD])


def test_the_norm_has_its_new_values_inside_alone_also_after_an_error() -> None:
    folder = shelved(tied=False)
    tables, values = _loaded(folder), np.arange(16, dtype=np.float32)
    candidate = Candidate("input+refit", "input", NormGain(NORM, values))
    with pytest.raises(RuntimeError), tables.candidate(candidate, {"input": tables.table(candidate)}):
        assert torch.equal(tables.model.model.norm.weight, torch.from_numpy(values))
        raise RuntimeError
    assert torch.equal(tables.model.model.norm.weight, tensors_of(folder)[NORM])


def test_a_norm_under_another_name_is_found_by_what_it_holds(tmp_path: Path) -> None:
    tables = _loaded(taken(tmp_path / "model", tied=False))
    gain = NormGain("other.norm.weight", np.zeros(16, np.float32))
    with pytest.raises(NotMeasured, match=r"other\.norm\.weight"):
        tables._vector(gain)
    with_tensors(tmp_path / "model", lambda tensors: tensors.update({gain.key: tensors[NORM].clone()}))
    tables = _loaded(tmp_path / "model")
    assert tables._vector(gain) is tables.model.model.norm.weight


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_the_model_runs_in_the_dtype_that_most_of_it_is_stored_in(tmp_path: Path, dtype: str) -> None:
    folder = taken(tmp_path / "model", tied=False, dtype=dtype)
    with_tensors(folder, lambda tensors: tensors.update({NORM: tensors[NORM].double()}))
    tables = _loaded(folder)
    assert tables.dtype == dtype and tables.input.dtype == tables.output.dtype == getattr(torch, dtype)
    for keep in ("input", "output", "mean"):
        assert tables.table(Candidate(keep, keep)).dtype == tables.input.dtype


def test_tables_stored_in_two_dtypes_are_both_found(tmp_path: Path) -> None:
    folder = taken(tmp_path / "model", tied=False, dtype="bfloat16")
    with_tensors(folder, lambda tensors: tensors.update({HEAD: tensors[HEAD].float() * 1.001}))
    tables = _loaded(folder)
    assert torch.equal(tables.output, tensors_of(folder)[HEAD].to(tables.output.dtype))
