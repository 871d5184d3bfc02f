"""The JSON of each command: exactly these keys, of these types, null for what was not measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import report_of, shelved, taken
from tests.surgery.states import in_state
from vocabsurgeon.vocabulary.tie_state import TieState

Null = type(None)
INT = (int,)
MAYBE_INT, MAYBE_NUMBER, MAYBE_TEXT, MAYBE_BOOL = (int, Null), (int, float, Null), (str, Null), (bool, Null)
IDS: Any = ([int], Null)
"""A type is a tuple of classes, an object of types, or a list of one type; in a tuple, `[int]` is a list of numbers."""

TABLES = [{"role": (str,), "key": (str,), "file": (str,), "shape": [(int,)], "dtype": (str,), "bytes": INT}]
TIE = {
    "state": (str,),
    "declared": MAYBE_BOOL,
    "effective": MAYBE_TEXT,
    "values_equal": MAYBE_BOOL,
    "max_abs_diff": MAYBE_NUMBER,
    "mean_cosine": MAYBE_NUMBER,
    "equal_rows": MAYBE_INT,
    "comparison": (dict, Null),
    "duplicate_bytes": INT,
    "evidence": [(str,)],
}
VOCABULARY = {
    "rows": INT,
    "ids": MAYBE_INT,
    "max_id": MAYBE_INT,
    "spare_rows": MAYBE_INT,
    "ids_without_row": IDS,
    "id_holes": IDS,
    "tokenizer_sha256": MAYBE_TEXT,
}
BYTES = {"total": INT, "tables": INT, "saved_if_tied": INT, "added_if_untied": INT}
FACTS = {"tables": TABLES, "tie": TIE, "vocabulary": VOCABULARY, "bytes": BYTES}
INSPECT = {
    "schema": (str,),
    "model_type": MAYBE_TEXT,
    "architecture": MAYBE_TEXT,
    "tables_found_by": (str,),
    "tables_evidence": [(str,)],
    "sharing": [[(str,)]],
    "tables_not_understood": [{"key": (str,), "file": (str,), "shape": [(int,)], "axis": INT}],
    "quantized": [{"role": (str,), "key": (str,), "scheme": (str,), "tensors": [(str,)]}],
    **FACTS,
}
PROOF = {"proof": "names", "proof_evidence": "evidence"}
OPERATION = {
    **INSPECT,
    **PROOF,
    "source": (str,),
    "out": MAYBE_TEXT,
    "changed": (bool,),
    "before": FACTS,
    "files_omitted": [{"file": (str,), "reason": (str,)}],
    "files": [{"file": (str,), "kind": (str,), "fate": (str,), "reason": MAYBE_TEXT}],
    "notes": [(str,)],
}
PLANNED = {
    "content": (str,),
    "id": INT,
    "row": MAYBE_INT,
    "status": (str,),
    "special": (bool,),
    "pieces": [(str,)],
    "piece_ids": [(int,)],
    "init": MAYBE_TEXT,
    "expression": (dict, Null),
    "notes": [(str,)],
}
TOKEN = PLANNED | {
    "norm": MAYBE_NUMBER,
    "norm_percentile": MAYBE_NUMBER,
    "head_norm": MAYBE_NUMBER,
    "head_norm_percentile": MAYBE_NUMBER,
    "untrained_pieces": [(int,)],
}
ROWS = {f"rows_{name}": INT for name in ("before", "after", "grown", "reinitialised", "padding")} | {
    "rows_filled": [(int,)]
}
EXTEND = {**OPERATION, "tokens": [TOKEN], **ROWS}
PARITY = {
    "max_abs_diff": MAYBE_NUMBER,
    "tolerance": MAYBE_NUMBER,
    "top1_agreement": MAYBE_NUMBER,
    "prompts": INT,
    "positions": INT,
    "ids": INT,
    "passed": MAYBE_BOOL,
    "evidence": [(str,)],
}
VERIFY = {
    **INSPECT,
    **PROOF,
    "before": FACTS,
    "promises_from": (str,),
    "passed": (bool,),
    "differences": [(str,)],
    "parity": (Null,),
}
LIVE = {
    "identical": MAYBE_BOOL,
    "same_storage": MAYBE_BOOL,
    "write_through": MAYBE_BOOL,
    "optimizer_entries": MAYBE_INT,
    "after_round_trip": MAYBE_TEXT,
    "missing_keys": [(str,)],
    "agrees": MAYBE_BOOL,
    "evidence": [(str,)],
}
CHECK = {**INSPECT, "passed": (bool,), "findings": [{"severity": (str,), "message": (str,), "fix": (str,)}]}
STEPS = {
    "tensor_edits": [(dict,)],
    "files_written": [{"file": (str,), "bytes": INT}],
    "files_omitted": [{"file": (str,), "reason": (str,)}],
    "files": [{"file": (str,), "kind": (str,), "fate": (str,), "reason": MAYBE_TEXT}],
    "promises": [(str,)],
}
DRY_RUN = {"schema": (str,), "dry_run": (bool,), "changed": (bool,), "plan": STEPS, "notes": [(str,)]}
REFUSED = {
    "schema": (str,),
    "changed": (bool,),
    "refused": (bool,),
    "reason": (str,),
    "evidence": [(str,)],
    "ways_out": [(str,)],
}

NOTHING_LOST = {"cost": (Null,), "kept": (Null,), "dropped": (Null,)}
COST = {
    "measured": (bool,),
    "reason": MAYBE_TEXT,
    "probe": {"source": (str,), "passages": INT, "tokens": INT, "random_ids": (bool,)},
    "dtype": MAYBE_TEXT,
    "best": MAYBE_TEXT,
    "candidates": [
        {
            "candidate": (str,),
            "kl_mean": MAYBE_NUMBER,
            "kl_p95": MAYBE_NUMBER,
            "top1_agreement": MAYBE_NUMBER,
            "perplexity_before": MAYBE_NUMBER,
            "perplexity_after": MAYBE_NUMBER,
            "continuations": [{"prompt": (str,), "original": (str,), "tied": (str,)}],
            "bytes_saved": INT,
            "positions": INT,
            "note": MAYBE_TEXT,
        }
    ],
    "notes": [(str,)],
}


def conform(value: Any, wanted: Any, place: str = "") -> None:
    """Fail where `value` has another shape than `wanted`, naming the place."""
    if wanted == "names":
        assert value and all(outcome in (True, False, None) for outcome in value.values()), place
    elif wanted == "evidence":
        assert all(isinstance(line, str) for lines in value.values() for line in lines), place
    elif isinstance(wanted, dict):
        assert isinstance(value, dict) and value.keys() == wanted.keys(), f"{place}: {value.keys() ^ wanted.keys()}"
        for key in wanted:
            conform(value[key], wanted[key], f"{place}.{key}")
    elif isinstance(wanted, list):
        assert isinstance(value, list), place
        for number, item in enumerate(value):
            conform(item, wanted[0], f"{place}[{number}]")
    elif isinstance(value, list):
        assert any(isinstance(option, list) for option in wanted) and all(type(item) is int for item in value), place
    else:
        classes = tuple(option for option in wanted if not isinstance(option, list))
        assert type(value) in classes, f"{place}: {value!r}"


def _document(*arguments: Any) -> dict[str, Any]:
    return vocabsurgeon(*arguments, "--json").document


@pytest.mark.parametrize("state", TieState)
def test_inspect_and_check(state: TieState, tmp_path: Path) -> None:
    source = in_state(state, tmp_path / "source")
    conform(_document("inspect", source), INSPECT)
    conform(_document("inspect", source, "--compare"), INSPECT)
    conform(_document("check", source), CHECK)


@pytest.mark.parametrize("state", [TieState.TIED, TieState.HEADLESS, TieState.NO_HEAD])
def test_inspect_load(state: TieState, tmp_path: Path) -> None:
    conform(_document("inspect", in_state(state, tmp_path / "source"), "--load"), {**INSPECT, "live": LIVE})


def test_inspect_without_a_tokenizer_measures_no_ids(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    (source / "tokenizer.json").unlink()
    (source / "tokenizer_config.json").unlink()
    document = _document("inspect", source)
    conform(document, INSPECT)
    assert document["vocabulary"] == dict.fromkeys(VOCABULARY) | {"rows": 64}
    conform(_document("check", source), CHECK)
    conform(_document("extend", source, tmp_path / "out", "--pad-to-multiple-of", "48"), EXTEND)


@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_extend(tied: bool, tmp_path: Path) -> None:
    arguments = ["extend", shelved(tied=tied), tmp_path / "out", "--token", "w5 w6", "--token", "<a>"]
    planned = _document(*arguments, "--dry-run")
    conform(planned, {**DRY_RUN, "tokens": [PLANNED], **ROWS})
    document = _document(*arguments)
    conform(document, EXTEND)
    for token in document["tokens"]:
        assert (token["head_norm"] is None) is tied and token["norm"] > 0
    conform(_document("extend", tmp_path / "out", tmp_path / "again", "--token", "<a>"), EXTEND)
    conform(_document("extend", shelved(tied=tied), tmp_path / "fast", "--token", "<a>", "--no-verify"), EXTEND)


def test_tie_untie_verify(tmp_path: Path) -> None:
    conform(_document("untie", shelved(), tmp_path / "apart"), OPERATION)
    conform(_document("tie", tmp_path / "apart", tmp_path / "back"), {**OPERATION, **NOTHING_LOST})
    conform(_document("untie", shelved(), tmp_path / "more", "--dry-run"), DRY_RUN)
    conform(_document("verify", shelved(), tmp_path / "back"), VERIFY)
    conform(_document("verify", shelved(), tmp_path / "apart"), VERIFY)
    conform(_document("verify", shelved(), tmp_path / "apart", "--logits"), {**VERIFY, "parity": PARITY})
    conform(_document("tie", shelved(), tmp_path / "same", "--dry-run"), {**DRY_RUN, **NOTHING_LOST})
    conform(
        _document("tie", shelved(tied=False), tmp_path / "out"), {**REFUSED, **NOTHING_LOST, "tie": TIE, "cost": COST}
    )
    conform(
        _document("tie", shelved(tied=False), tmp_path / "out", "--no-probe"), {**REFUSED, **NOTHING_LOST, "tie": TIE}
    )
    document = _document("tie", shelved(tied=False), tmp_path / "out", "--allow-lossy")
    conform(document, {**OPERATION, "cost": COST, "kept": (str,), "dropped": {"key": (str,), "bytes": INT}})


def test_verify_of_a_result_alone(tmp_path: Path) -> None:
    _document("untie", shelved(), tmp_path / "apart")
    wanted = {key: VERIFY[key] for key in ("schema", "promises_from", "passed", "differences")}
    document = _document("verify", tmp_path / "apart")
    conform(document, {**wanted, **PROOF, "notes": [(str,)]})
    assert document["proof"] == {"record_intact": True} and document["passed"]
    (tmp_path / "apart" / "config.json").write_text("{}")
    document = _document("verify", tmp_path / "apart")
    assert document["differences"] == ["config.json changed"] and not document["passed"]
    assert vocabsurgeon("verify", shelved()).code == 2


def test_the_record_is_the_report_with_versions_fingerprint_and_promises(tmp_path: Path) -> None:
    document = _document("extend", shelved(), tmp_path / "out", "--token", "<a>")
    record = dict(report_of(tmp_path / "out"))
    promises, versions, fingerprint = (record.pop(key) for key in ("promises", "versions", "source_fingerprint"))
    contents, digest = record.pop("contents"), record.pop("record_sha256")
    assert set(contents) == {path.name for path in (tmp_path / "out").iterdir()} - {"vocabsurgeon.json"}
    assert all(set(entry) == {"bytes", "sha256"} for entry in contents.values()) and len(digest) == 64
    assert record == document
    assert all(isinstance(promise["is"], str) for promise in promises)
    assert {"python", "vocabsurgeon", "tokenizers"} <= versions.keys()
    assert len(fingerprint["sha256"]) == 64


def test_effective_is_one_of_the_words(tmp_path: Path) -> None:
    words = {state: _document("inspect", in_state(state, tmp_path / state))["tie"]["effective"] for state in TieState}
    assert words == {
        "tied": "shared",
        "tied-duplicate": "shared",
        "untied": "separate",
        "untied-equal": "separate",
        "conflict": "version-dependent",
        "headless": "random-head",
        "no-head": None,
        "input-missing": None,
        "row-mismatch": None,
    }
