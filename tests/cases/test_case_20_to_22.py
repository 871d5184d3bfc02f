"""CASES.md 20 to 22: what new rows start from. The reference is exact arithmetic on Python fractions."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from transformers import AutoTokenizer

from tests.cases.sources import INPUT, changed_rows, extended, llama
from tests.cli.runner import vocabsurgeon
from tests.models.tokenizers import byte_level, decoder_entries, folder
from tests.surgery.shelf import HEAD, bits, leftovers, tensors_of, with_tensors

Numbers = np.ndarray[Any, Any]
DTYPES = {"float32": np.float32, "bfloat16": ml_dtypes.bfloat16, "float16": np.float16}


def _table(place: Path, key: str = INPUT) -> Numbers:
    tensor = tensors_of(place)[key]
    name = str(tensor.dtype).removeprefix("torch.")
    return np.frombuffer(bits(tensor), DTYPES[name]).reshape(tuple(tensor.shape))


def _nearest(value: Fraction, dtype: Any) -> Any:
    """The number of `dtype` nearest to `value`, ties to the even one: by trying its neighbors."""
    first = np.array(float(value), np.float32).astype(dtype)
    around = [first, np.nextafter(first, dtype(np.inf)), np.nextafter(first, dtype(-np.inf))]
    unsigned = {2: np.uint16, 4: np.uint32}[np.dtype(dtype).itemsize]
    return min(around, key=lambda near: (abs(Fraction(float(near)) - value), int(near.view(unsigned)) & 1))


def _mean_rounded_once(rows: Numbers) -> Numbers:
    columns = [[Fraction(float(number)) for number in column] for column in rows.T]
    return np.array([_nearest(sum(column, Fraction(0)) / len(column), rows.dtype.type) for column in columns])


def test_case_20_tokens_of_different_pieces_get_different_rows(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64, dtype="bfloat16")
    extended(source, tmp_path / "out", *(f"w{number} w{number + 1}" for number in range(1, 9)))
    rows = _table(tmp_path / "out")[64:]
    assert len({row.tobytes() for row in rows}) == len(rows) == 8


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_case_22_the_mean_is_rounded_once(dtype: str, tied: bool, tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64, tied, dtype=dtype)
    tokens = ("w3 w4 w5", "w7 w7 w8", " ".join(f"w{number}" for number in range(1, 60)), "w9")
    report = extended(source, tmp_path / "out", *tokens, init="subword-mean", promote=True).to_dict()
    pieces = [token["piece_ids"] for token in report["tokens"] if token["status"] == "added"]
    assert pieces == [[3, 4, 5], [7, 7, 8], list(range(1, 60))]
    for key in (INPUT,) if tied else (INPUT, HEAD):
        old, new = _table(source, key), _table(tmp_path / "out", key)
        for number, ids in enumerate(pieces, 64):
            assert new[number].tobytes() == _mean_rounded_once(old[ids]).tobytes()


def test_case_21_zero_rows_and_the_unknown_token_stay_out_of_a_mean(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64)
    with_tensors(source, lambda tensors: tensors[INPUT][5:7].zero_())
    report = extended(source, tmp_path / "out", "w4 nonsense w5", "w5 w6", "nonsense").to_dict()
    old, new = _table(source), _table(tmp_path / "out")
    assert report["tokens"][0]["piece_ids"] == [4, 5], "the unknown token is no piece"
    assert new[64].tobytes() == old[4].tobytes()
    everything = _mean_rounded_once(np.delete(old, [5, 6], axis=0))
    assert new[65].tobytes() == new[66].tobytes() == everything.tobytes()
    told = [" ".join(token["notes"]) for token in report["tokens"]]
    assert "mean of the rows" not in told[0]
    assert "pieces are zero" in told[1] and "mean of the rows that have ids" in told[1]
    assert "no known piece" in told[2] and "mean of the rows that have ids" in told[2]


def test_case_21_rows_that_look_never_trained_are_told_and_count(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64)
    with_tensors(source, lambda tensors: tensors[INPUT][5].mul_(0.001))
    report = extended(source, tmp_path / "out", "w4 w5")
    assert report.to_dict()["tokens"][0]["untrained_pieces"] == [5]
    assert _table(tmp_path / "out")[64].tobytes() == _mean_rounded_once(_table(source)[[4, 5]]).tobytes()
    assert changed_rows(source, tmp_path / "out") == {64}
    ran = vocabsurgeon("extend", source, tmp_path / "told", "--token", "w4 w5")
    assert "look never trained: 5" in ran.stdout


def _words(target: Path) -> Path:
    tokenizer = byte_level()
    llama(target, 512, entries=2)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "added_tokens_decoder": decoder_entries(tokenizer)}
    folder(target, tokenizer, tokenizer_config=config)
    return target


def test_case_21_an_ordinary_entry_is_not_promoted_unasked(tmp_path: Path) -> None:
    source, out = _words(tmp_path / "source"), tmp_path / "out"
    assert "other" in json.loads((source / "tokenizer.json").read_text())["model"]["vocab"]
    ran = vocabsurgeon("extend", source, out, "--token", "other")
    assert ran.code == 2 and "--promote" in ran.line and "mother" in ran.line and leftovers(out) == []
    promoted = extended(source, out, "other", promote=True)
    token = promoted.to_dict()["tokens"][0]
    assert (token["status"], token["init"]) == ("promoted", None) and changed_rows(source, out) == set()


def test_case_21_the_new_token_is_known_where_added_tokens_decoder_wins(tmp_path: Path) -> None:
    source, out = _words(tmp_path / "source"), tmp_path / "out"
    extended(source, out, "<a>")
    auto = AutoTokenizer.from_pretrained(out)
    number = auto.convert_tokens_to_ids("<a>")
    assert auto("x<a>x", add_special_tokens=False)["input_ids"].count(number) == 1
    assert "<a>" in auto.all_special_tokens


INITS = {"zeros": np.zeros(16, np.float32), "mean": None, "copy:w9": None}


@pytest.mark.parametrize("init", INITS)
def test_other_initializers(init: str, tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64)
    extended(source, tmp_path / "out", "<a>", init=init)
    old, new = _table(source), _table(tmp_path / "out")
    wanted = {"zeros": INITS["zeros"], "mean": _mean_rounded_once(old), "copy:w9": old[9]}[init]
    assert new[64].tobytes() == wanted.tobytes()


def test_normal_rows_come_from_the_seed_and_the_config(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64)
    tokens = [f"<{number}>" for number in range(300)]
    for out, seed in (("one", 1), ("two", 2)):
        extended(source, tmp_path / out, *tokens, init="normal", seed=seed)
    one, two = (_table(tmp_path / out)[64:] for out in ("one", "two"))
    assert not np.array_equal(one, two) and len({row.tobytes() for row in one}) == 300
    assert abs(one.std() - 0.02) < 0.001 and abs(one.mean()) < 0.001
    assert np.isfinite(one).all()


def test_describe_takes_the_pieces_from_the_text(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64)
    extended(source, tmp_path / "out", "<a=b>", describe=["<a=b>=w1 w2"])
    assert _table(tmp_path / "out")[64].tobytes() == _mean_rounded_once(_table(source)[[1, 2]]).tobytes()


def test_replace_takes_over_id_and_row(tmp_path: Path) -> None:
    source = llama(tmp_path / "source", 64)
    extended(source, tmp_path / "reserved", "<reserved_0>", "<reserved_1>")
    out = tmp_path / "out"
    report = extended(tmp_path / "reserved", out, replaces=["<reserved_1>=<call>"], describe=["<call>=w3 w4"]).to_dict()
    assert (report["tokens"][0]["id"], report["tokens"][0]["status"], report["rows_grown"]) == (65, "replaced", 0)
    assert changed_rows(tmp_path / "reserved", out) == {65}
    auto = AutoTokenizer.from_pretrained(out)
    assert auto.convert_tokens_to_ids("<call>") == 65 and "<reserved_1>" not in auto.get_vocab()
    ran = vocabsurgeon("extend", tmp_path / "reserved", tmp_path / "told", "--replace", "<reserved_1>=<call>")
    assert "1 rows of replaced tokens re-initialised" in ran.stdout and "0 spare rows" in ran.stdout
