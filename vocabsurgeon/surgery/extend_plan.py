"""The plan and the report of `extend`: the common ones, and what became of each token and each row."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vocabsurgeon.checkpoint.edits import MeanOf, RowExpression, WriteRows
from vocabsurgeon.surgery.codec import encode
from vocabsurgeon.surgery.norms import NO_NORM, TokenNorm, token_norms, untrained_rows, zero_rows
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
        expression = self.written.get(token.id)
        return {
            "content": token.content,
            "id": token.id,
            "row": token.id if token.id < self.counts.after else None,
            "status": token.status,
            "special": token.request.special,
            "pieces": list(token.piece_tokens),
            "piece_ids": list(token.pieces),
            "init": None if expression is None else self.init_of(token),
            "expression": encode(expression),
            "notes": [*token.notes, *([_FALLBACK] if self.falls_back(token) else [])],
        }

    @cached_property
    def written(self) -> Mapping[int, RowExpression]:
        """Row number → what is written there, in the first table."""
        edit = next((edit for edit in self.tensor_edits if isinstance(edit, WriteRows)), None)
        return dict(edit.rows) if edit else {}

    def init_of(self, token: AssignedToken) -> str:
        """The name of the row initializer that counts for `token`."""
        return token.request.init or self.default_init

    def falls_back(self, token: AssignedToken, empty: Collection[int] = ()) -> bool:
        """Whether the mean of pieces was asked for and no piece has a row that is not in `empty`."""
        expression = self.written.get(token.id)
        if not isinstance(expression, MeanOf) or self.init_of(token) != "subword-mean":
            return False
        return all(piece in empty for piece in expression.ids)


@dataclass(frozen=True)
class ExtendReport(OperationReport):
    """The report of `extend`."""

    norms: tuple[TokenNorm, ...] = ()
    untrained: tuple[int, ...] = ()
    """Pieces whose rows look never trained."""
    empty: tuple[int, ...] = ()
    """Pieces whose rows are zero throughout."""

    def _details(self) -> dict[str, Any]:
        plan = self.plan
        assert isinstance(plan, ExtendPlan)
        norms = {norm.id: norm.to_dict() for norm in self.norms}
        tokens = [{**plan.token_json(token), **norms.get(token.id, NO_NORM)} for token in plan.tokens]
        for token, entry in zip(plan.tokens, tokens, strict=True):
            entry["untrained_pieces"] = [piece for piece in token.pieces if piece in self.untrained]
            if entry["init"] and token.id in norms and norms[token.id]["norm"] is None:
                entry["notes"].append("its row is not finite: a row it was made from holds NaN or infinity")
            if plan.falls_back(token, self.empty) and not plan.falls_back(token):
                entry["notes"].append(f"the rows of its pieces are zero: {_FALLBACK}")
        return {"tokens": tokens, **plan.counts.to_dict()}


_FALLBACK = "its row is the mean of the rows that have ids"
"""What a mean of pieces comes to where no piece is left."""


def extend_report(
    plan: Plan, before: Description, after: Description | None, proof: Proof, source: str, out: str
) -> ExtendReport:
    """The report of a carried-out `ExtendPlan`, with the norms of the written rows measured on the result."""
    assert isinstance(plan, ExtendPlan)
    norms: tuple[TokenNorm, ...] = ()
    if after is not None and plan.tokens:
        ids = [token.id for token in plan.tokens if token.id < plan.counts.after]
        norms = token_norms(after.source, after.tables, plan.counts.before, ids)
    table = before.source.rows(before.tables.main.key)
    pieces = sorted({piece for token in plan.tokens for piece in token.pieces if piece < plan.counts.before})
    untrained, empty = untrained_rows(table, pieces), zero_rows(table, pieces)
    return ExtendReport(plan, before, after, proof, source, out, norms, untrained, empty)
