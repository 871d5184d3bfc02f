"""The plan and the report of `extend`: the common ones, and what became of each token and each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vocabsurgeon.surgery.codec import encode
from vocabsurgeon.surgery.norms import TokenNorm, token_norms, untrained_rows
from vocabsurgeon.surgery.plan import Plan
from vocabsurgeon.surgery.prove import Proof
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.tokens import AssignedToken
from vocabsurgeon.vocabulary.describe import Description


@dataclass(frozen=True)
class RowCounts:
    """Rows before and after, and which rows are written for what. The three id lists do not overlap."""

    before: int
    after: int
    tokens: tuple[int, ...]
    filled: tuple[int, ...]
    """Ids that the tokenizer already had without a row."""
    padding: tuple[int, ...]

    @property
    def changed(self) -> bool:
        """Whether any row is written."""
        return bool(self.tokens or self.filled or self.padding)

    def to_dict(self) -> dict[str, Any]:
        """The `rows_*` entries of the report."""
        return {
            "rows_before": self.before,
            "rows_after": self.after,
            "rows_grown": self.after - self.before,
            "rows_reinitialised": sum(number < self.before for number in self.tokens),
            "rows_padding": len(self.padding),
            "rows_filled": list(self.filled),
        }


@dataclass(frozen=True, kw_only=True)
class ExtendPlan(Plan):
    """A plan that knows the tokens and rows it is made of."""

    tokens: tuple[AssignedToken, ...]
    counts: RowCounts
    default_init: str

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `--dry-run`, with tokens and rows."""
        tokens = [self.token_json(token) for token in self.tokens]
        return {**super().to_dict(), "tokens": tokens, **self.counts.to_dict()}

    def token_json(self, token: AssignedToken) -> dict[str, Any]:
        """One entry of `tokens`. `init` is None where no row was written."""
        written = dict(row for edit in self.tensor_edits for row in getattr(edit, "rows", ()))
        return {
            "content": token.content,
            "id": token.id,
            "row": token.id if token.id < self.counts.after else None,
            "status": token.status,
            "special": token.request.special,
            "pieces": list(token.piece_tokens),
            "piece_ids": list(token.pieces),
            "init": (token.request.init or self.default_init) if token.id in written else None,
            "expression": encode(written.get(token.id)),
            "notes": list(token.notes),
        }


@dataclass(frozen=True)
class ExtendReport(OperationReport):
    """The report of `extend`."""

    norms: tuple[TokenNorm, ...] = ()
    untrained: tuple[int, ...] = ()
    """Pieces whose rows look never trained."""

    def _details(self) -> dict[str, Any]:
        plan = self.plan
        assert isinstance(plan, ExtendPlan)
        norms = {norm.id: norm.to_dict() for norm in self.norms}
        tokens = [
            {
                **plan.token_json(token),
                **norms.get(token.id, {}),
                "untrained_pieces": [piece for piece in token.pieces if piece in self.untrained],
            }
            for token in plan.tokens
        ]
        return {"tokens": tokens, **plan.counts.to_dict()}


def extend_report(
    plan: Plan, before: Description, after: Description | None, proof: Proof, source: str, out: str
) -> ExtendReport:
    """The report of a carried-out `ExtendPlan`, with the norms of the written rows measured on the result."""
    assert isinstance(plan, ExtendPlan)
    norms: tuple[TokenNorm, ...] = ()
    if after is not None and plan.tokens:
        ids = [token.id for token in plan.tokens if token.id < plan.counts.after]
        norms = token_norms(after.source, after.tables, plan.counts.before, ids)
    return ExtendReport(plan, before, after, proof, source, out, norms, _untrained(plan, before))


def _untrained(plan: ExtendPlan, before: Description) -> tuple[int, ...]:
    pieces = sorted({piece for token in plan.tokens for piece in token.pieces if piece < plan.counts.before})
    return untrained_rows(before.source.rows(before.tables.main.key), pieces)
