"""vocabsurgeon: change the vocabulary end of a Hugging Face checkpoint, with proof.

The library behind the command line. A name is imported when it is first used, so `import vocabsurgeon` costs nothing;
torch and transformers are imported when a call needs them: to export, or to weigh two different tables.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vocabsurgeon.checkpoint.source import Checkpoint
    from vocabsurgeon.errors import VocabsurgeonError
    from vocabsurgeon.onnx.audit import AuditOptions, audit
    from vocabsurgeon.onnx.dedupe.operate import dedupe
    from vocabsurgeon.onnx.dedupe.options import DedupeOptions
    from vocabsurgeon.onnx.export import ExportOptions, export
    from vocabsurgeon.surgery.extend import ExtendRequest, plan_extend
    from vocabsurgeon.surgery.lossy.request import TieRequest
    from vocabsurgeon.surgery.operate import RunOptions
    from vocabsurgeon.surgery.plan import Plan, Refusal
    from vocabsurgeon.surgery.request import extend_request
    from vocabsurgeon.surgery.run import extend, tie, untie
    from vocabsurgeon.surgery.tie import plan_tie
    from vocabsurgeon.surgery.tokens import TokenRequest
    from vocabsurgeon.surgery.untie import plan_untie
    from vocabsurgeon.surgery.verify import verify
    from vocabsurgeon.vocabulary.describe import Description, describe
    from vocabsurgeon.vocabulary.findings import check

_MODULES = {
    "AuditOptions": "onnx.audit",
    "Checkpoint": "checkpoint.source",
    "DedupeOptions": "onnx.dedupe.options",
    "Description": "vocabulary.describe",
    "ExportOptions": "onnx.export",
    "ExtendRequest": "surgery.extend",
    "Plan": "surgery.plan",
    "Refusal": "surgery.plan",
    "RunOptions": "surgery.operate",
    "TieRequest": "surgery.lossy.request",
    "TokenRequest": "surgery.tokens",
    "VocabsurgeonError": "errors",
    "audit": "onnx.audit",
    "check": "vocabulary.findings",
    "dedupe": "onnx.dedupe.operate",
    "describe": "vocabulary.describe",
    "export": "onnx.export",
    "extend": "surgery.run",
    "extend_request": "surgery.request",
    "plan_extend": "surgery.extend",
    "plan_tie": "surgery.tie",
    "plan_untie": "surgery.untie",
    "tie": "surgery.run",
    "untie": "surgery.run",
    "verify": "surgery.verify",
}
"""Public name → module that holds it."""

__all__ = [
    "AuditOptions",
    "Checkpoint",
    "DedupeOptions",
    "Description",
    "ExportOptions",
    "ExtendRequest",
    "Plan",
    "Refusal",
    "RunOptions",
    "TieRequest",
    "TokenRequest",
    "VocabsurgeonError",
    "audit",
    "check",
    "dedupe",
    "describe",
    "export",
    "extend",
    "extend_request",
    "plan_extend",
    "plan_tie",
    "plan_untie",
    "tie",
    "untie",
    "verify",
]


def __getattr__(name: str) -> Any:
    """The public name, imported now; raises `AttributeError` for any other."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
