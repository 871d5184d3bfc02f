"""What the user wants of `tie` where the two tables differ."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vocabsurgeon.errors import UsageError

Keep = Literal["input", "output", "mean", "auto"]


@dataclass(frozen=True)
class TieRequest:
    """Which table may stay, and at what price. Equal tables are tied whatever is said here.

    Raises `UsageError` where the options contradict each other: nothing can be chosen by its cost that is not measured.
    """

    keep: Keep | None = None
    """None: `auto` where the cost is measured; without that it has to be named."""
    refit_norm: bool = False
    """Fold the per-column fit of the kept table onto the lost head into the norm that feeds it."""
    allow_lossy: bool = False
    max_kl: float | None = None
    """Tie where the mean KL of what is kept is at most this, in nats per token."""
    probe: bool = True
    """Whether to run the model; without, the cost is not measured."""
    probe_file: Path | None = None
    """Text to run it on; None for the built-in sample."""

    def __post_init__(self) -> None:
        if not self.probe and self.probe_file is not None:
            raise UsageError("cannot be had together with --probe", where="--no-probe")
        if not self.probe and self.keep == "auto":
            raise UsageError("takes the least cost, which is not measured", where="--keep auto", hint=_HINT)
        if not self.probe and self.max_kl is not None:
            raise UsageError("is a bound on the cost, which is not measured", where="--max-kl", hint=_HINT)
        if self.refit_norm and self.keep == "output":
            raise UsageError(
                "has nothing to fit: the head itself is kept, and no norm stands between the input side and its table",
                where="--refit-norm",
                hint="use it with --keep input, mean or auto",
            )


_HINT = "leave out --no-probe"
