"""`verify`: the proof alone, for a result made earlier or by another tool. Reads both checkpoints; writes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.fingerprint import is_of
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import ConfigError
from vocabsurgeon.surgery.codec import decode
from vocabsurgeon.surgery.differences import differences
from vocabsurgeon.surgery.promises import (
    PROMISES,
    CopyIdentical,
    DropLossless,
    IndexExact,
    OldRowsIdentical,
    Promise,
    TieStateAsIntended,
    TokenizerKept,
    UntouchedTensorsIdentical,
)
from vocabsurgeon.surgery.prove import Proof, prove
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.tables import Table
from vocabsurgeon.vocabulary.tie_state import TieState

EXPECTED: dict[str, tuple[TieState, ...]] = {
    "tied": (TieState.TIED, TieState.TIED_DUPLICATE),
    "untied": (TieState.UNTIED_EQUAL, TieState.UNTIED),
}
"""`--expect` → the states that count as that, the one that the operation leads to first."""


@dataclass(frozen=True)
class VerifyReport:
    """What was promised, whether it holds, and every difference found."""

    before: Description
    after: Description
    proof: Proof
    promises_from: str
    changes: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether no promise is broken."""
        return self.proof.passed is not False

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `verify`."""
        before = self.before.to_dict()
        return {
            **self.after.to_dict(),
            "schema": "vocabsurgeon.verify/1",
            "before": {key: before[key] for key in ("tables", "tie", "vocabulary", "bytes")},
            "promises_from": self.promises_from,
            "passed": self.passed,
            "differences": list(self.changes),
            **self.proof.to_dict(),
        }


def verify(
    before: Path | str, after: Path | str, expect: str | None = None, progress: Progress = silent
) -> VerifyReport:
    """Prove AFTER against BEFORE.

    Promises come from AFTER's `vocabsurgeon.json` where that was made from BEFORE. Otherwise, and with `expect` (`tied`
    or `untied`), the defaults hold: old ids, old rows and untouched tensors kept, the tie state kept or as expected.
    Raises `CheckpointError` where either folder cannot be read, `ConfigError` where the record is not one of ours.
    """
    old, new = describe(Checkpoint.open(before)), describe(Checkpoint.open(after))
    recorded = None if expect else _recorded(old.source, new.source)
    promises = recorded if recorded is not None else default_promises(old, new, expect)
    proof = prove(old.source, new.source.root, promises, progress)
    origin = f"{RECORD} of {after}" if recorded is not None else "the defaults"
    return VerifyReport(old, new, proof, origin, differences(old, new))


def default_promises(before: Description, after: Description, expect: str | None = None) -> tuple[Promise, ...]:
    """What holds of any honest change: nothing old is lost. Rows of ids that are new may be written."""
    tables = before.tables.stored
    return (
        *(_rows_kept(table, before, after) for table in tables if table.key in after.source.tensors),
        _untouched(before, after, expect),
        *_expected(before, after, expect),
        TokenizerKept(),
        IndexExact(),
    )


def _recorded(before: Checkpoint, after: Checkpoint) -> tuple[Promise, ...] | None:
    if not after.has(RECORD):
        return None
    try:
        document = json.loads(after.read_text(RECORD))
    except (ValueError, RecursionError) as error:
        raise ConfigError("is not valid JSON", where=RECORD, hint="remove it to check the defaults") from error
    document = document if isinstance(document, dict) else {}
    entries, made_from = document.get("promises"), document.get("source_fingerprint")
    if not isinstance(entries, list) or not entries or not isinstance(made_from, dict):
        return None
    if not is_of(made_from, before):
        return None
    return tuple(decode(entry, PROMISES, RECORD) for entry in entries)


def _rows_kept(table: Table, before: Description, after: Description) -> OldRowsIdentical:
    info = after.source.tensors[table.key]
    rows = info.shape[table.axis] if len(info.shape) > table.axis else 0
    return OldRowsIdentical(table.key, table.axis, rows, _new_ids(before, after))


def _new_ids(before: Description, after: Description) -> tuple[int, ...]:
    old, new = before.source.tokenizer, after.source.tokenizer
    if old is None or new is None:
        return ()
    known = set(old.token_to_id.values())
    return tuple(sorted(set(new.token_to_id.values()) - known))


def _untouched(before: Description, after: Description, expect: str | None) -> UntouchedTensorsIdentical:
    tables = {table.key for table in before.tables.stored}
    new = set(after.source.tensors) - set(before.source.tensors)
    gone = set(before.source.tensors) - set(after.source.tensors)
    heads = {before.tables.output_name, before.tables.input_name}
    return UntouchedTensorsIdentical(
        edited=tuple(sorted(tables)),
        added=tuple(sorted(new & heads)) if expect == "untied" else (),
        dropped=tuple(sorted(gone & heads)) if expect == "tied" else (),
    )


def _expected(before: Description, after: Description, expect: str | None) -> tuple[Promise, ...]:
    rows = after.vocabulary.rows
    if expect is None:
        return (TieStateAsIntended(before.tie.state, rows),)
    state = after.tie.state if after.tie.state in EXPECTED[expect] else EXPECTED[expect][0]
    promises: list[Promise] = [TieStateAsIntended(state, rows)]
    names = (before.tables.input_name, before.tables.output_name)
    for key, other in (names, names[::-1]):
        if key is None or other is None:
            continue
        had, has = key in before.source.tensors, key in after.source.tensors
        if expect == "tied" and had and not has:
            promises.append(DropLossless(key, other))
        if expect == "untied" and has and not had:
            promises.append(CopyIdentical(key, other))
    return tuple(promises)
