"""`verify`: any pair, ours or another tool's; what changed is told, and what was lost is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import (
    HEAD,
    INPUT,
    Tensors,
    contents,
    reloaded,
    shelved,
    taken,
    with_config,
    with_json,
    with_tensors,
)


@pytest.fixture
def ours(tmp_path: Path) -> Path:
    assert vocabsurgeon("extend", shelved(tied=False), tmp_path / "ours", "--token", "<a>").code == 0
    return tmp_path / "ours"


def _without_record(folder: Path) -> Path:
    (folder / "vocabsurgeon.json").unlink()
    return folder


def test_a_checkpoint_against_itself_has_no_differences() -> None:
    document = vocabsurgeon("verify", shelved(), shelved(), "--json").document
    assert document["passed"] is True and document["differences"] == []


@pytest.mark.parametrize("recorded", [True, False], ids=["record", "defaults"])
def test_our_result_holds_by_its_record_and_by_the_defaults(recorded: bool, ours: Path) -> None:
    if not recorded:
        _without_record(ours)
    document = vocabsurgeon("verify", shelved(tied=False), ours, "--json").document
    assert document["passed"] is True
    assert document["promises_from"].startswith("vocabsurgeon.json" if recorded else "the defaults")
    assert "rows: 64 → 65" in document["differences"] and any("<a>" in line for line in document["differences"])


def test_a_record_of_another_source_does_not_count(ours: Path, tmp_path: Path) -> None:
    other = with_config(taken(tmp_path / "other", tied=False), note="another")
    assert vocabsurgeon("verify", other, ours, "--json").document["promises_from"] == "the defaults"


DAMAGE: dict[str, tuple[Callable[[Tensors], object], str]] = {
    "an old row": (lambda tensors: tensors[INPUT][7].neg_(), "row"),
    "an old row of the head": (lambda tensors: tensors[HEAD][63].neg_(), "row"),
    "another tensor": (lambda tensors: tensors["model.norm.weight"].neg_(), "values changed: model.norm.weight"),
    "a tensor lost": (lambda tensors: tensors.pop("model.norm.weight"), "tensor lost: model.norm.weight"),
    "a dtype": (lambda tensors: tensors.update({HEAD: tensors[HEAD].half()}), "dtype changed: lm_head.weight"),
    "rows cut": (lambda tensors: tensors.update({k: tensors[k][:60] for k in (INPUT, HEAD)}), "rows: 64 → 60"),
}


@pytest.mark.parametrize(("change", "told"), DAMAGE.values(), ids=list(DAMAGE))
@pytest.mark.parametrize("recorded", [True, False], ids=["record", "defaults"])
def test_damage_is_found(change: Callable[[Tensors], object], told: str, recorded: bool, ours: Path) -> None:
    if not recorded:
        _without_record(ours)
    with_tensors(ours, change)
    ran = vocabsurgeon("verify", shelved(tied=False), ours, "--json")
    assert ran.code == 1 and ran.document["passed"] is False and False in ran.document["proof"].values()
    assert any(told in line for line in ran.document["differences"])


def test_a_moved_id_is_found(ours: Path) -> None:
    document = json.loads((_without_record(ours) / "tokenizer.json").read_text())
    vocab = document["model"]["vocab"]
    vocab["w5"], vocab["w6"] = 6, 5
    (ours / "tokenizer.json").write_text(json.dumps(document))
    ran = vocabsurgeon("verify", shelved(tied=False), ours, "--json")
    assert ran.code == 1 and ran.document["proof"]["tokenizer_kept"] is False
    assert any(line.startswith("id moved") for line in ran.document["differences"])


def test_what_stock_resize_does_to_a_padded_table_is_found(tmp_path: Path) -> None:
    """`resize_token_embeddings(len(tokenizer))` cuts the spare rows."""
    source, stock = taken(tmp_path / "source", vocab_size=128), tmp_path / "stock"
    from tests.models.tiny import write_tokenizer

    write_tokenizer(source, 100)
    model = reloaded(source)
    model.resize_token_embeddings(102)
    model.save_pretrained(stock)
    write_tokenizer(stock, 102)
    ran = vocabsurgeon("verify", source, stock, "--json")
    assert ran.code == 1 and ran.document["proof"]["old_rows_identical"] is False


def test_what_stock_resize_does_right_passes(tmp_path: Path) -> None:
    from tests.models.tiny import write_tokenizer

    model = reloaded(shelved())
    model.resize_token_embeddings(66)
    model.save_pretrained(tmp_path / "stock")
    write_tokenizer(tmp_path / "stock", 66)
    ran = vocabsurgeon("verify", shelved(), tmp_path / "stock", "--json")
    assert ran.code == 0, ran.document["proof_evidence"]


def test_what_people_do_to_untie_is_found(tmp_path: Path) -> None:
    """Setting the flag and saving drops the head."""
    lost = with_config(taken(tmp_path / "lost"), tie_word_embeddings=False)
    assert vocabsurgeon("verify", shelved(), lost).code == 1
    assert vocabsurgeon("verify", shelved(), lost, "--expect", "untied").code == 1


@pytest.mark.parametrize("operation", ["tie", "untie"])
def test_an_expected_change_passes_and_an_unexpected_one_does_not(operation: str, tmp_path: Path) -> None:
    source, out = shelved(), tmp_path / "out"
    if operation == "tie":
        vocabsurgeon("untie", source, tmp_path / "apart")
        source = tmp_path / "apart"
    vocabsurgeon(operation, source, out)
    _without_record(out)
    assert vocabsurgeon("verify", source, out).code == 1
    expected, other = ("tied", "untied") if operation == "tie" else ("untied", "tied")
    assert vocabsurgeon("verify", source, out, "--expect", expected).code == 0
    assert vocabsurgeon("verify", source, out, "--expect", other).code == 1


@pytest.mark.parametrize("kept", [INPUT, HEAD])
def test_an_expected_copy_must_be_one_whichever_name_was_stored(kept: str, tmp_path: Path) -> None:
    """A tied table may be stored under either name; the one that appears has to be its copy."""
    gone = HEAD if kept == INPUT else INPUT
    one = with_tensors(taken(tmp_path / "one"), lambda tensors: tensors.update({kept: tensors.pop(INPUT)}))
    two = with_tensors(taken(tmp_path / "two"), lambda tensors: tensors.update({HEAD: tensors[INPUT].clone()}))
    with_config(two, tie_word_embeddings=False)
    assert vocabsurgeon("verify", one, two, "--expect", "untied").code == 0
    with_tensors(two, lambda tensors: tensors[gone].add_(1))
    assert vocabsurgeon("verify", one, two, "--expect", "untied").code == 1


def test_trained_apart_counts_as_untied(tmp_path: Path) -> None:
    conflict = with_config(taken(tmp_path / "conflict", tied=False), tie_word_embeddings=True)
    vocabsurgeon("untie", conflict, tmp_path / "out")
    assert vocabsurgeon("verify", conflict, tmp_path / "out", "--expect", "untied").code == 0


@pytest.mark.parametrize(
    ("record", "code"),
    [("{", 2), ("[]", 0), ('{"promises": [{"is": "Nonsense"}]}', 0), ("", 2), ("[" * 100_000, 2)],
    ids=["cut", "a list", "foreign", "empty", "deep"],
)
def test_a_damaged_record_is_told_or_does_not_count(record: str, code: int, ours: Path) -> None:
    (ours / "vocabsurgeon.json").write_text(record)
    ran = vocabsurgeon("verify", shelved(tied=False), ours)
    assert ran.code == code and (code == 0 or "vocabsurgeon.json" in ran.line)


def test_a_record_with_an_unknown_promise_is_refused(ours: Path) -> None:
    with_json(ours / "vocabsurgeon.json", promises=[{"is": "Nonsense"}])
    ran = vocabsurgeon("verify", shelved(tied=False), ours)
    assert ran.code == 2 and "Nonsense" in ran.line


def test_verify_writes_nothing(ours: Path) -> None:
    before = contents(ours, without=())
    vocabsurgeon("verify", shelved(tied=False), ours)
    assert contents(ours, without=()) == before
