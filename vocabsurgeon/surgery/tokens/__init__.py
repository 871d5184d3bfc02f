"""New tokens: from a request to ids, pieces and roles, to edits of the tokenizer files, to the proof of them."""

from vocabsurgeon.surgery.tokens.assignment import AssignedToken, Assignment, assign
from vocabsurgeon.surgery.tokens.refusal import TokenRefusal
from vocabsurgeon.surgery.tokens.requests import TokenRequest

__all__ = ["AssignedToken", "Assignment", "TokenRefusal", "TokenRequest", "assign"]
