"""The one line about an export that needs no knowledge of tensors."""

from __future__ import annotations

from collections.abc import Sequence

from vocabsurgeon.onnx.byte_counts import ByteCounts
from vocabsurgeon.onnx.duplicates import Duplicate

_UNITS = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))
_KINDS = {
    "equal": ("a copy", "copies"),
    "transposed": ("a transposed copy", "transposed copies"),
    "cast": ("a rounded copy", "rounded copies"),
    "quantized": ("a quantized copy", "quantized copies"),
}
"""Relation → what one is called, and several."""
_LOOKUPS = ("Gather", "GatherBlockQuantized")
"""Operators that read a table by token."""


def summary(counts: ByteCounts, duplicates: Sequence[Duplicate], max_ratio: float) -> str:
    """`1.63 × what the weights need; 671 MB is a transposed copy of the token table embed.weight (stored again as x)`.

    Copies at another precision are told after those that the ratio counts.
    """
    if counts.ratio is None:
        return "holds no weights"
    needed = "the distinct weights" if counts.expected is None else "what the checkpoint's weights need"
    exact = [entry for entry in duplicates if entry.exact]
    parts = [f"{counts.ratio:.2f} × {needed}", *_largest(exact, counts)]
    if counts.orphaned * 100 > counts.stored:
        parts.append(f"{size(counts.orphaned)} belongs to no tensor")
    if counts.ratio <= max_ratio and len(parts) == 1:
        parts.append("nothing is stored twice" if not exact else "no copy worth naming")
    return "; ".join([*parts, *_largest([entry for entry in duplicates if not entry.exact], counts)])


def size(count: int) -> str:
    """`671 MB`, `2.5 GB`, `12 bytes`: three digits at most."""
    for unit, name in _UNITS:
        if count >= unit:
            return f"{count / unit:.3g} {name}" if count < 999.5 * unit else f"{count / unit:.0f} {name}"
    return f"{count} bytes"


def _largest(duplicates: Sequence[Duplicate], counts: ByteCounts) -> list[str]:
    """The worst copy, where it takes at least a hundredth, and what the others take together."""
    worst, *others = duplicates or (None,)
    if worst is None or worst.wasted * 100 < counts.stored:
        return []
    names = [tensor.name for tensor in worst.tensors]
    again = names[1] if len(names) == 2 else f"{names[1]} and {len(names) - 2} more"
    table = "the token table " if any(use in _LOOKUPS for tensor in worst.tensors for use in tensor.uses) else ""
    kind = _KINDS[worst.relation][len(names) > 2]
    told = [f"{size(worst.wasted)} is {kind} of {table}{names[0]} (stored again as {again})"]
    rest = sum(duplicate.wasted for duplicate in others)
    if rest * 100 < counts.stored:
        return told
    plural = _KINDS[others[0].relation][1] if len({entry.relation for entry in others}) == 1 else "copies"
    return [*told, f"{size(rest)} more is {plural} of other tensors"]
