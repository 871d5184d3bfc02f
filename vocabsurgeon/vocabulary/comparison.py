"""Two stored tables beside each other: their distance, the tokens of the worst rows, and what it comes to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from vocabsurgeon.checkpoint.distance import Distance

NEAR = 0.01
"""‖a - b‖ ÷ ‖a‖ up to which two tables are called near copies: rounding to bfloat16 makes 0.002, an adapter more."""


class Likeness(StrEnum):
    """What two different tables are to each other, by their distance."""

    ROUNDING = "rounding"
    NEAR = "near"
    SCALED = "scaled"
    DIFFERENT = "different"


class Tokens(Protocol):
    """Where the token of an id is looked up."""

    @property
    def token_to_id(self) -> Mapping[str, int]:
        """Token → id."""


@dataclass(frozen=True)
class Comparison:
    """A distance with the tokens that its worst rows stand for; None for a row that is no token's."""

    distance: Distance
    tokens: tuple[str | None, ...]

    @property
    def likeness(self) -> Likeness:
        """Copies but for rounding, near copies, near copies after one scale, or different tables."""
        apart = self.distance
        if apart.rounding is not None:
            return Likeness.ROUNDING
        if apart.relative is not None and apart.relative <= NEAR:
            return Likeness.NEAR
        if apart.residual is not None and apart.residual <= NEAR:
            return Likeness.SCALED
        return Likeness.DIFFERENT

    def lines(self) -> tuple[str, str]:
        """What is measured, and what the two tables are to each other."""
        apart = self.distance
        cosine = "no row has an angle" if apart.mean_cosine is None else f"mean cosine {apart.mean_cosine:.6f}"
        measured = (
            f"the two tables differ: max abs difference {apart.max_abs_diff:.6g}, {cosine}, "
            f"{apart.equal_rows} of {apart.rows} rows equal"
        )
        return measured, self._likeness_line()

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `tie.comparison`; null for what no row could tell."""
        apart = self.distance
        return {
            "likeness": str(self.likeness),
            "rounding": apart.rounding,
            "rows": apart.rows,
            "equal_rows": apart.equal_rows,
            "equal_rows_share": apart.equal_rows / apart.rows if apart.rows else None,
            "zero_rows": apart.zero_rows,
            "nonfinite_rows": apart.nonfinite_rows,
            "max_abs_diff": apart.max_abs_diff,
            "mean_abs_diff": apart.mean_abs_diff,
            "cosine_mean": apart.mean_cosine,
            "cosine_p01": apart.low_cosine,
            "worst_rows": [
                {"id": row, "token": token, "cosine": cosine}
                for (row, cosine), token in zip(apart.worst, self.tokens, strict=True)
            ],
            "relative_frobenius": apart.relative,
            "best_scale": apart.scale,
            "residual_after_scale": apart.residual,
        }

    def _likeness_line(self) -> str:
        apart = self.distance
        relative = "not measurable" if apart.relative is None else f"{apart.relative:.2g}"
        if self.likeness is Likeness.ROUNDING:
            return f"they differ by rounding to {apart.rounding} alone: relative distance {relative}"
        if self.likeness is Likeness.NEAR:
            return f"they are near copies: relative distance {relative}"
        if self.likeness is Likeness.SCALED:
            return f"they are near copies after a scale of {apart.scale:.6g}: {apart.residual:.2g} is left"
        return f"they are different tables: relative distance {relative}"


def compared(distance: Distance, tokenizer: Tokens | None) -> Comparison:
    """`distance` with the tokens of its worst rows, looked up in `tokenizer` where there is one."""
    wanted = {row for row, _ in distance.worst}
    entries = tokenizer.token_to_id.items() if tokenizer and wanted else ()
    names = {number: token for token, number in entries if number in wanted}
    return Comparison(distance, tuple(names.get(row) for row, _ in distance.worst))
