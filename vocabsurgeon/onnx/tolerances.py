"""How far an export's logits may be from the model's, by dtype: one table, with the reason for each figure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference = `atol` + `rtol` × the model's largest logit in absolute value."""

    atol: float
    rtol: float

    def allowed(self, scale: float) -> float:
        """What a logit may differ by where the largest is `scale`."""
        return self.atol + self.rtol * scale


TOLERANCES = {
    # Both sides compute in float32 and differ in the order of sums alone: units in the last place (6e-8 each), times
    # what some dozens of layers make of them. gemma-3-270m: 3e-6 of the largest logit.
    "float32": Tolerance(2e-5, 2e-5),
    # torch rounds every intermediate to float16 (5e-4), the session computes in float32 between casts: some tens of
    # roundings apart.
    "float16": Tolerance(5e-3, 1e-2),
    # As float16, with roundings of 4e-3.
    "bfloat16": Tolerance(4e-2, 8e-2),
}


def tolerance_for(dtype: str, atol: float | None = None, rtol: float | None = None) -> Tolerance:
    """The table's tolerance for `dtype` (torch spelling; unknown ones as float32), with what is given instead."""
    default = TOLERANCES.get(dtype, TOLERANCES["float32"])
    if atol is not None and rtol is None:
        return Tolerance(atol, 0.0)
    return Tolerance(default.atol if atol is None else atol, default.rtol if rtol is None else rtol)
