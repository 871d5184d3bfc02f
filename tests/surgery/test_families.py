"""Each operation on each decoder-only family: it changes what it says, keeps all else, and changes nothing twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.surgery.shelf import (
    FAMILIES,
    bits,
    config_of,
    contents,
    leftovers,
    logits_of,
    reloaded,
    report_of,
    shares,
    shelved,
    tensors_of,
)
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, tie, untie

LAYOUTS = {"f32": {}, "bf16-sharded": {"dtype": "bfloat16", "max_shard_size": "6KB"}}
"""One file of float32, and bfloat16 in shards; the other two pairings are tried on llama alone."""
CASES = [(family, tied, layout) for family in FAMILIES for tied in (True, False) for layout in LAYOUTS]
MORE = {"f32-sharded": {"max_shard_size": "6KB"}, "bf16": {"dtype": "bfloat16"}, "f16": {"dtype": "float16"}}
CASES += [("llama", tied, layout) for tied in (True, False) for layout in MORE]
IDS = [f"{family}-{'tied' if tied else 'untied'}-{layout}" for family, tied, layout in CASES]
NEW = ("<|new|>", "w12 w13", "<|other|>")


def _source(family: str, tied: bool, layout: str) -> Path:
    return shelved(family, tied=tied, **(LAYOUTS | MORE)[layout])


def _done(report: OperationReport | Refusal) -> OperationReport:
    assert isinstance(report, OperationReport), report
    assert report.proof.passed is True, report.proof.evidence
    return report


def _tables(folder: Path) -> dict[str, str]:
    return {table["key"]: table["role"] for table in report_of(folder)["tables"]}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("results")


@pytest.fixture
def extended(family: str, tied: bool, layout: str, results: Path) -> Path:
    """The extended checkpoint, made once for all tests of a case."""
    out = results / f"{family}-{tied}-{layout}"
    if not out.exists():
        _done(extend(_source(family, tied, layout), out, extend_request(NEW)))
    return out


@pytest.mark.parametrize(("family", "tied", "layout"), CASES, ids=IDS)
class TestExtend:
    def test_extend_changes_tables_config_and_tokenizer(
        self, family: str, tied: bool, layout: str, extended: Path
    ) -> None:
        source = _source(family, tied, layout)
        old, new = tensors_of(source), tensors_of(extended)
        grown = {key for key in old if old[key].shape != new[key].shape}
        assert grown == set(_tables(extended)) and len(grown) >= (1 if tied else 2)
        assert {new[key].shape[0] for key in grown} == {67}
        changed = {name for name, raw in contents(source).items() if contents(extended)[name] != raw}
        weights = {name for name in changed if name.endswith((".safetensors", ".index.json"))}
        assert changed - weights == {"config.json", "tokenizer.json", "tokenizer_config.json"}
        assert config_of(extended) == config_of(source) | {"vocab_size": 67}

    def test_extend_keeps_old_rows_tensors_and_logits(
        self, family: str, tied: bool, layout: str, extended: Path
    ) -> None:
        source = _source(family, tied, layout)
        old, new = tensors_of(source), tensors_of(extended)
        assert old.keys() == new.keys()
        assert all(bits(old[key]) == bits(new[key][: len(old[key])]) for key in old)
        before, after = reloaded(source), reloaded(extended)
        assert shares(after) is shares(before) is tied
        if layout.startswith("f32"):
            assert np.array_equal(logits_of(before), logits_of(after))
            assert logits_of(after, 99).shape[-1] == 67

    def test_extend_again_changes_nothing(
        self, family: str, tied: bool, layout: str, extended: Path, tmp_path: Path
    ) -> None:
        report = _done(extend(extended, tmp_path / "again", extend_request(NEW)))
        assert not report.to_dict()["changed"]
        assert contents(tmp_path / "again") == contents(extended)


@pytest.mark.parametrize(("family", "tied", "layout"), CASES, ids=IDS)
def test_untie_and_tie(family: str, tied: bool, layout: str, tmp_path: Path) -> None:
    source, apart, back = _source(family, tied, layout), tmp_path / "untied", tmp_path / "tied"
    report = _done(untie(source, apart))
    if not tied:
        assert contents(apart) == contents(source) and not report.to_dict()["changed"]
        refusal = tie(source, back)
        assert isinstance(refusal, Refusal) and refusal.exit_code == 1 and leftovers(back) == []
        return
    model = reloaded(apart)
    assert not shares(model) and np.array_equal(logits_of(model), logits_of(reloaded(source)))
    assert config_of(apart) == config_of(source) | {"tie_word_embeddings": False}
    old, new = tensors_of(source), tensors_of(apart)
    assert len(new) == len(old) + 1 and all(bits(old[key]) == bits(new[key]) for key in old)
    _done(untie(apart, tmp_path / "again"))
    assert contents(tmp_path / "again") == contents(apart)
    _done(tie(apart, back))
    assert shares(reloaded(back)) and tensors_of(back).keys() == old.keys()
    assert config_of(back) == config_of(source) | {"tie_word_embeddings": True}
    weights = {name: raw for name, raw in contents(back).items() if name.endswith(".safetensors")}
    assert weights == {name: raw for name, raw in contents(source).items() if name.endswith(".safetensors")}
    _done(tie(back, tmp_path / "twice"))
    assert contents(tmp_path / "twice") == contents(back)


def test_same_input_gives_same_bytes(tmp_path: Path) -> None:
    for out in ("one", "two"):
        request = extend_request(NEW, init="normal", seed=7, pad_to_multiple_of=16)
        _done(extend(shelved(tied=False), tmp_path / out, request))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")
    one, two = report_of(tmp_path / "one"), report_of(tmp_path / "two")
    own = {"out": None, "record_sha256": None}
    assert one | own == two | own and one["out"] != two["out"]


def test_new_bias_entries_are_the_mean_of_the_pieces(tmp_path: Path) -> None:
    source = shelved("phi", tied=False)
    for init, wanted in (("subword-mean", [12, 13]), ("normal", range(64)), ("copy:w9", [9])):
        out = tmp_path / init.partition(":")[0]
        _done(extend(source, out, extend_request(["w12 w13"], init=init)))
        old, new = (tensors_of(place)["lm_head.bias"].double() for place in (source, out))
        assert new.shape == (65,) and abs(new[64] - old[list(wanted)].mean()) < 1e-7
    _done(extend(source, tmp_path / "zeros", extend_request(["w12 w13"], init="zeros")))
    assert tensors_of(tmp_path / "zeros")["lm_head.bias"][64] == 0
