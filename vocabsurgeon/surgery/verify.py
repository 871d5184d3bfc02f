"""`verify`: the proof alone, for a result made earlier or by another tool. Reads both checkpoints; writes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.fingerprint import is_of
from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.checkpoint.record import RECORD, RecordCheck, check_record
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError, ConfigError, UsageError
from vocabsurgeon.surgery.codec import decode
from vocabsurgeon.surgery.default_promises import default_promises
from vocabsurgeon.surgery.differences import differences
from vocabsurgeon.surgery.flags import named_keys
from vocabsurgeon.surgery.logits import LogitsParity, compare_logits
from vocabsurgeon.surgery.promises import PROMISES, Promise, RecordIntact
from vocabsurgeon.surgery.prove import Proof, prove_opened
from vocabsurgeon.surgery.renames import find_renames, with_names
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.families import Family


@dataclass(frozen=True)
class VerifyReport:
    """What was promised, whether it holds, and every difference found. `parity` is None where it was not asked for."""

    before: Description
    after: Description
    proof: Proof
    promises_from: str
    changes: tuple[str, ...]
    parity: LogitsParity | None = None

    @property
    def passed(self) -> bool:
        """Whether no promise is broken and, where they were compared, the logits of old ids are the same."""
        return self.proof.passed is not False and (self.parity is None or self.parity.passed is not False)

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
            "parity": None if self.parity is None else self.parity.to_dict(),
            **self.proof.to_dict(),
        }


@dataclass(frozen=True)
class RecordReport:
    """What a result's own record says of it, without its source."""

    folder: Path
    check: RecordCheck

    @property
    def passed(self) -> bool:
        """Whether nothing is known to have changed since the record was written."""
        return self.check.passed is not False

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `verify AFTER`."""
        return {
            "schema": "vocabsurgeon.verify/1",
            "promises_from": f"{RECORD} of {self.folder}",
            "passed": self.passed,
            "differences": list(self.check.problems),
            "proof": {RecordIntact.name: self.check.passed},
            "proof_evidence": {
                RecordIntact.name: [
                    *(self.check.problems or self.check.unchecked),
                    f"{self.check.seen} files are as recorded",
                ]
            },
            "notes": ["the source was not given: whether the result is right was not checked, only what changed since"],
        }


def verify_record(folder: Path | str) -> RecordReport:
    """Compare a result (a checkpoint, an export) with the sizes and SHA-256 sums in its own `vocabsurgeon.json`.

    Raises `CheckpointError` where `folder` is none, has no record or cannot be read.
    """
    place = Path(folder)
    if not place.is_dir():
        raise CheckpointError("is not a folder", where=place, hint="name a result of vocabsurgeon")
    if not (place / RECORD).is_file():
        raise CheckpointError(
            f"has no {RECORD}, so it cannot be checked alone",
            where=place,
            hint="name its source too: verify BEFORE AFTER",
        )
    return RecordReport(place, check_record(place))


def verify(
    before: Path | str,
    after: Path | str,
    expect: str | None = None,
    progress: Progress = silent,
    *,
    logits: bool = False,
    input_key: str | None = None,
    output_key: str | None = None,
    trust_remote_code: bool = False,
) -> VerifyReport:
    """Prove AFTER against BEFORE.

    Promises come from AFTER's `vocabsurgeon.json` where that was made from BEFORE. Otherwise, and with `expect` (`tied`
    or `untied`), the defaults hold: old ids, old rows and untouched tensors kept, the tie state kept or as expected; a
    tensor that only goes by another name is the same tensor then. `logits`: load both and compare what they say of old
    ids. Raises `CheckpointError` where either folder cannot be read, `ConfigError` where the record is not one of ours,
    `UsageError` for a key that neither stores.
    """
    sources = Checkpoint.open(before), Checkpoint.open(after)
    for key in (input_key, output_key):
        if key is not None and not any(key in source.tensors for source in sources):
            raise UsageError(f"no tensor {key} is stored in either", hint="name a stored tensor")
    old, new = (_with_keys(source, input_key, output_key, trust_remote_code) for source in sources)
    recorded = None if expect else _recorded(old.source, new.source)
    renamed = {} if recorded is not None else find_renames(old.source, new.source)
    seen = _renamed(old, renamed)
    promises = recorded if recorded is not None else default_promises(seen, new, expect)
    promises = (*promises, RecordIntact()) if new.source.has(RECORD) else promises
    proof = prove_opened(seen.source, new.source, promises, progress)
    parity = compare_logits(old, new, trust_remote_code) if logits else None
    origin = f"{RECORD} of {after}" if recorded is not None else "the defaults"
    changes = (*differences(seen, new, renamed), *_split_anew(proof))
    return VerifyReport(old, new, proof, origin, changes, parity)


def _with_keys(
    source: Checkpoint,
    input_key: str | None,
    output_key: str | None,
    trust_remote_code: bool = False,
    observed: Family | None = None,
) -> Description:
    """The description with the given keys where they are stored: one side may lack a table that the other has."""
    first, second = (key if key in source.tensors else None for key in (input_key, output_key))
    return describe(source, input_key=first, output_key=second, trust_remote_code=trust_remote_code, observed=observed)


def _renamed(described: Description, names: dict[str, str]) -> Description:
    """The description under the names of the other side."""
    if not names:
        return described
    first, second, observed = named_keys(described)
    first, second = (None if key is None else names.get(key, key) for key in (first, second))
    return _with_keys(with_names(described.source, names), first, second, observed=observed)


def _split_anew(proof: Proof) -> tuple[str, ...]:
    """Old text that gives other ids: the proof about the tokenizer has seen it."""
    told = proof.evidence.get("tokenizer_kept", ())
    return tuple(f"text split anew: {line.removeprefix(_OLD_TEXT)}" for line in told if line.startswith(_OLD_TEXT))


_OLD_TEXT = "old-text: "


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
