"""The promise about the tokenizer: old ids keep their tokens, old text its ids, and each new token is one id."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.codec import TRANSIENT
from vocabsurgeon.surgery.promises.base import NOT_CHECKED, Promise, Verdict, verdict
from vocabsurgeon.surgery.tokens import AssignedToken
from vocabsurgeon.surgery.tokens.regression import Baseline, compare_tokenizers


@dataclass(frozen=True)
class TokenizerKept(Promise):
    """Every old id means its old token (but for the replaced), old text gives its old ids, `tokens` are known.

    `baseline` is what the source's tokenizer said when the plan was made; without it the source is loaded again.
    """

    name: ClassVar[str] = "tokenizer_kept"
    tokens: tuple[AssignedToken, ...] = ()
    baseline: Baseline | None = field(default=None, metadata=TRANSIENT)

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Loads the result's tokenizer with the `tokenizers` library."""
        if before.tokenizer is None and self.baseline is None:
            return NOT_CHECKED if after.tokenizer else Verdict(True, ("there is no tokenizer",))
        findings = compare_tokenizers(self.baseline or before, after, self.tokens)
        seen = f"old ids and old text are as before, {len(self.tokens)} named tokens are one id each"
        return verdict([f"{finding.check}: {finding.detail}" for finding in findings], seen)
