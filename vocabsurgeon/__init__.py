"""vocabsurgeon: change the vocabulary end of a Hugging Face checkpoint, with proof.

The library behind the command line. Nothing here imports torch or transformers; `export` does when it is called.
"""

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import VocabsurgeonError
from vocabsurgeon.onnx.audit import AuditOptions, audit
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.surgery.extend import ExtendRequest, plan_extend
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

__all__ = [
    "AuditOptions",
    "Checkpoint",
    "Description",
    "ExportOptions",
    "ExtendRequest",
    "Plan",
    "Refusal",
    "RunOptions",
    "TokenRequest",
    "VocabsurgeonError",
    "audit",
    "check",
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
