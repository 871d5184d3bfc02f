"""The refusal of every operation on a checkpoint whose tensors bear names that a training framework left. Pure."""

from __future__ import annotations

from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.wrapped_names import beside, reason, ways_out


def refuse_wrapped(description: Description, operation: str) -> Refusal | None:
    """The refusal of `operation` where readers do not find tensors by their stored names, be it on some layers only.

    The result would bear the same names, so that readers would leave the same parameters random.
    """
    tables = description.tables
    if not tables.training:
        return None
    return Refusal(operation, reason(tables), tuple(beside(tables)), ways_out(tables))
