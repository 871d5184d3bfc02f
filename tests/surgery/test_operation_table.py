"""DESIGN's table: what each operation does in each tie state, from the command line to a reload in transformers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import config_of, contents, leftovers, logits_of, reloaded, shares, tensors_of
from tests.surgery.states import in_state
from vocabsurgeon.surgery.operations import OPERATIONS
from vocabsurgeon.vocabulary.tie_state import TieState

T = TieState
TABLE: dict[tuple[TieState, str], tuple[int, TieState | None, bool]] = {
    (T.TIED, "extend"): (0, T.TIED, True),
    (T.TIED, "tie"): (0, T.TIED, False),
    (T.TIED, "untie"): (0, T.UNTIED_EQUAL, True),
    (T.TIED_DUPLICATE, "extend"): (0, T.TIED_DUPLICATE, True),
    (T.TIED_DUPLICATE, "tie"): (0, T.TIED, True),
    (T.TIED_DUPLICATE, "untie"): (0, T.UNTIED_EQUAL, True),
    (T.UNTIED, "extend"): (0, T.UNTIED, True),
    (T.UNTIED, "tie"): (1, None, False),
    (T.UNTIED, "untie"): (0, T.UNTIED, False),
    (T.UNTIED_EQUAL, "extend"): (0, T.UNTIED_EQUAL, True),
    (T.UNTIED_EQUAL, "tie"): (0, T.TIED, True),
    (T.UNTIED_EQUAL, "untie"): (0, T.UNTIED_EQUAL, False),
    (T.CONFLICT, "extend"): (0, T.UNTIED, True),
    (T.CONFLICT, "tie"): (1, None, False),
    (T.CONFLICT, "untie"): (0, T.UNTIED, True),
    (T.HEADLESS, "extend"): (2, None, False),
    (T.HEADLESS, "tie"): (0, T.TIED, True),
    (T.HEADLESS, "untie"): (0, T.UNTIED_EQUAL, True),
    (T.INPUT_MISSING, "extend"): (2, None, False),
    (T.INPUT_MISSING, "tie"): (2, None, False),
    (T.INPUT_MISSING, "untie"): (2, None, False),
    (T.ROW_MISMATCH, "extend"): (2, None, False),
    (T.ROW_MISMATCH, "tie"): (2, None, False),
    (T.ROW_MISMATCH, "untie"): (2, None, False),
    (T.NO_HEAD, "extend"): (0, T.NO_HEAD, True),
    (T.NO_HEAD, "tie"): (2, None, False),
    (T.NO_HEAD, "untie"): (2, None, False),
}
"""(state, operation) → exit code, state of OUT (None: there is no OUT), `changed`."""
NEVER_LEFT = {T.CONFLICT, T.HEADLESS, T.INPUT_MISSING, T.ROW_MISMATCH}


def _arguments(operation: str, source: Path, out: Path) -> list[str | Path]:
    return [operation, source, out, "--json", *(["--token", "<new>"] if operation == "extend" else [])]


@pytest.mark.parametrize(("state", "operation"), TABLE, ids=[f"{state}-{operation}" for state, operation in TABLE])
def test_operation_does_what_the_table_says(state: TieState, operation: str, tmp_path: Path) -> None:
    source, out = in_state(state, tmp_path / "source"), tmp_path / "out"
    assert vocabsurgeon("inspect", source, "--json").document["tie"]["state"] == state
    code, result, changed = TABLE[state, operation]
    before = contents(source, without=())
    ran = vocabsurgeon(*_arguments(operation, source, out))
    assert ran.code == code, ran.stderr
    assert contents(source, without=()) == before
    document = ran.document
    assert document["changed"] is changed
    if result is None:
        assert document["refused"] is True and document["reason"] in ran.line
        assert leftovers(out) == []
        return
    assert document["tie"]["state"] == result and set(document["proof"].values()) == {True}
    assert vocabsurgeon("inspect", out, "--json").document["tie"]["state"] == result
    if not changed:
        assert contents(out) == before
    _check_reload(source, out, state, result, operation)


def _check_reload(source: Path, out: Path, state: TieState, result: TieState, operation: str) -> None:
    """transformers finds one storage or two as claimed, and computes what it did wherever the source was sound."""
    model = reloaded(out, base=result is T.NO_HEAD)
    rows = 65 if operation == "extend" else 64
    assert model.get_input_embeddings().weight.shape[0] == rows
    if result is T.NO_HEAD:
        return
    assert shares(model) is (result in (T.TIED, T.TIED_DUPLICATE))
    if state not in NEVER_LEFT:
        assert np.array_equal(logits_of(model), logits_of(reloaded(source)))
    assert config_of(out)["tie_word_embeddings"] is (result in (T.TIED, T.TIED_DUPLICATE))


def test_table_holds_every_state_and_operation() -> None:
    assert set(TABLE) == set(OPERATIONS) == {(state, name) for state in T for name in ("extend", "tie", "untie")}


def test_no_result_is_in_a_state_that_readers_stumble_over() -> None:
    assert not NEVER_LEFT & {result for _, result, _ in TABLE.values()}


def test_headless_is_refused_with_the_two_ways_out(tmp_path: Path) -> None:
    source = in_state(T.HEADLESS, tmp_path / "source")
    document = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<new>", "--json").document
    assert ["tie" in document["ways_out"][0], "untie" in document["ways_out"][1]] == [True, True]


def test_conflict_is_settled_even_where_no_token_is_new(tmp_path: Path) -> None:
    source, out = in_state(T.CONFLICT, tmp_path / "source"), tmp_path / "out"
    document = vocabsurgeon("extend", source, out, "--json").document
    assert (document["tie"]["state"], document["changed"]) == ("untied", True)
    assert {key: tensor.tolist() for key, tensor in tensors_of(out).items()} == {
        key: tensor.tolist() for key, tensor in tensors_of(source).items()
    }


def test_untied_and_equal_says_so(tmp_path: Path) -> None:
    source = in_state(T.UNTIED_EQUAL, tmp_path / "source")
    assert "equal bit for bit" in vocabsurgeon("untie", source, tmp_path / "out").stdout
