"""What `check` finds: faults of a checkpoint's vocabulary end, each with a severity and a fix. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from vocabsurgeon.checkpoint.config import CONFIG, dotted
from vocabsurgeon.vocabulary.describe import Description, tie_json
from vocabsurgeon.vocabulary.id_findings import id_findings
from vocabsurgeon.vocabulary.readers import heads_dropped, readings_of
from vocabsurgeon.vocabulary.table_account import short_copies
from vocabsurgeon.vocabulary.tie_state import TieState
from vocabsurgeon.vocabulary.tokenizer_findings import tokenizer_findings
from vocabsurgeon.vocabulary.weight_files import WITHOUT_FORMAT, ZERO_3, empty_weights, some, unnamed_formats
from vocabsurgeon.vocabulary.weight_names import Severity, weight_names
from vocabsurgeon.vocabulary.wrapped_names import hidden


@dataclass(frozen=True)
class Finding:
    """One thing to know: how bad, what, and what to do."""

    severity: Severity
    message: str
    fix: str


@dataclass(frozen=True)
class CheckReport:
    """All findings about one checkpoint, worst first."""

    description: Description
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether no finding is an error."""
        return all(finding.severity != "error" for finding in self.findings)

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `check`."""
        return {
            **self.description.to_dict(),
            "schema": "vocabsurgeon.check/1",
            "tie": tie_json(self.description.tie),
            "passed": self.passed,
            "findings": [asdict(finding) for finding in self.findings],
        }


def check(description: Description) -> CheckReport:
    """Everything that is wrong or worth knowing about the described checkpoint."""
    found = [finding for rule in _RULES for finding in rule(description)]
    order = ("error", "warning", "note")
    return CheckReport(description, tuple(sorted(found, key=lambda finding: order.index(finding.severity))))


_BY_STATE: dict[TieState, Finding] = {
    TieState.CONFLICT: Finding(
        "error",
        "the config says tied, but two different tables are stored: readers disagree about which head counts",
        "`vocabsurgeon untie` keeps both and makes the flags say so",
    ),
    TieState.HEADLESS: Finding(
        "error",
        "declared untied, but no LM head is stored: it is random at every load",
        "`vocabsurgeon tie` (flag) or `vocabsurgeon untie` (stores a copy)",
    ),
    TieState.INPUT_MISSING: Finding(
        "error",
        "declared untied, but no input embedding is stored: it is random at every load",
        "fetch the checkpoint again",
    ),
    TieState.ROW_MISMATCH: Finding(
        "error", "input embedding and LM head have different numbers of rows", "fetch the checkpoint again"
    ),
    TieState.UNTIED_EQUAL: Finding(
        "warning",
        "two tables are stored that are equal bit for bit, declared untied: they look tied and train apart",
        "`vocabsurgeon tie` if one parameter is meant",
    ),
    TieState.TIED_DUPLICATE: Finding(
        "warning", "the tied table is stored twice", "`vocabsurgeon tie` drops the copy and loses nothing"
    ),
}


def _state(description: Description) -> Iterator[Finding]:
    finding = _BY_STATE.get(description.tie.state)
    if finding and not hidden(description.tables):
        model_type = description.source.config.model_type
        readings = () if description.quantized else readings_of(description.tie.state, model_type)
        yield replace(finding, message="; ".join((finding.message, *map(str, readings))))


def _head_dropped(description: Description) -> Iterator[Finding]:
    """Of two different tables: where they are equal, a head that is dropped loses nothing yet, and `_state` tells."""
    readings = heads_dropped(description.source.config.model_type)
    if readings and description.tie.state is TieState.UNTIED:
        yield Finding(
            "warning",
            "; ".join(("the head is a table of its own, which not every reader uses", *map(str, readings))),
            "use another reader, or `vocabsurgeon tie`, which says what that would cost",
        )


def _weight_names(description: Description) -> Iterator[Finding]:
    yield from (Finding(*told) for told in weight_names(description.source, description.tables))


def _quantized(description: Description) -> Iterator[Finding]:
    for table in description.quantized:
        yield Finding(
            "note",
            f"{table.key}: the {table.role} table is stored quantized ({table.scheme}), so its values were not "
            "compared; extend, tie and untie refuse it",
            "work on the checkpoint it was quantized from",
        )


def _sizes(description: Description) -> Iterator[Finding]:
    rows = description.vocabulary.rows
    config = description.source.config
    family = description.tables.family
    for key in dict.fromkeys((*(family.size_keys if family else ()), "vocab_size")):
        stated = config.numbers(key).get(())
        if stated is not None and stated != rows:
            yield Finding(
                "error",
                f"{CONFIG}: {dotted((key,))} is {stated}, the table has {rows} rows: loading fails or cuts it",
                f"set {key} to {rows}",
            )


def _ids_without_row(description: Description) -> Iterator[Finding]:
    without = description.vocabulary.ids_without_row
    if not without:
        return
    tokenizer = description.source.tokenizer
    added = {token.id for token in tokenizer.added} if tokenizer else set()
    ordinary = [number for number in without if number not in added]
    shown = ", ".join(map(str, without[:5])) + (", …" if len(without) > 5 else "")
    yield Finding(
        "error" if ordinary else "warning",
        f"{len(without)} ids have no row (the table ends at {description.vocabulary.rows - 1}): {shown}; "
        "text that holds such a token crashes the model",
        "`vocabsurgeon extend` gives them rows when the table grows past them",
    )


def _holes(description: Description) -> Iterator[Finding]:
    holes = description.vocabulary.id_holes
    if holes:
        yield Finding(
            "warning",
            f"{len(holes)} ids below the highest are unused, from {holes[0]} on: libraries count new ids differently",
            "add tokens with `vocabsurgeon extend`, which proves the ids",
        )


def _spare(description: Description) -> Iterator[Finding]:
    spare = description.vocabulary.spare_rows
    if spare:
        yield Finding(
            "note",
            f"{spare} spare rows above the highest id: `resize_token_embeddings(len(tokenizer))` would cut them",
            "`vocabsurgeon extend` uses them before the table grows",
        )


def _tokenizer(description: Description) -> Iterator[Finding]:
    yield from (Finding(*told) for told in tokenizer_findings(description.source))


def _copies(description: Description) -> Iterator[Finding]:
    rows = description.tables.main.rows
    for table in short_copies(description.tables):
        yield Finding(
            "error",
            f"{table.info.file}: {table.key} {list(table.info.shape)} is a copy of a vocabulary table, which has "
            f"{rows} rows: a reader of it fails, or reads other rows",
            "fetch the checkpoint again, or undo the edit that resized the other tables alone",
        )


def _not_understood(description: Description) -> Iterator[Finding]:
    for table in description.not_understood:
        yield Finding(
            "warning",
            f"{table.info.file}: {table.info.key} {list(table.info.shape)} has an entry for each id, and what a new id "
            f"should have there is not known: {table.reason}",
            f"`vocabsurgeon extend --keep-size {table.info.key}` leaves it as it is, where that is right",
        )


def _weight_files(description: Description) -> Iterator[Finding]:
    for consequence, names in unnamed_formats(description.source).items():
        yield Finding(
            "warning" if consequence == WITHOUT_FORMAT else "note",
            f"{some(names)}: no format in the header's metadata: {consequence}",
            'safetensors.torch.save_file(load_file(FILE), FILE, metadata={"format": "pt"})',
        )
    empty = empty_weights(description.source)
    if empty:
        yield Finding("warning", f"{len(empty)} weights hold no number: {some(empty)}", ZERO_3)


def _ids(description: Description) -> Iterator[Finding]:
    yield from (Finding(*told) for told in id_findings(description))


_RULES: tuple[Callable[[Description], Iterator[Finding]], ...] = (
    _state,
    _head_dropped,
    _weight_names,
    _quantized,
    _copies,
    _not_understood,
    _sizes,
    _weight_files,
    _ids_without_row,
    _ids,
    _holes,
    _tokenizer,
    _spare,
)
