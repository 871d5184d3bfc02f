"""Models whose own ways to compute attention disagree on padded batches, as MiniMax M3's do: it scores padding too."""

from __future__ import annotations

from dataclasses import replace

from vocabsurgeon.onnx.attention import EAGER
from vocabsurgeon.onnx.parity.report import ParityReport
from vocabsurgeon.onnx.parity.scenarios import UNPADDED


def padding_alone(report: ParityReport) -> bool:
    """Whether a report failed by padded batches and what follows on them alone, and by numbers of the right shape."""
    failed = set(report.failed_checks)
    return any("padded" in check for check in failed) and not failed & UNPADDED and report.other_shape is None


def with_eager(agreeing: ParityReport, failed: ParityReport, attention: str) -> ParityReport:
    """The report on the model's eager attention, which says where its usual one, `attention`, gives other numbers."""
    told = (
        f"the model's own {attention} attention differs from its {EAGER} one, which is exported, by "
        f"{failed.max_abs_diff:.3g} in: {', '.join(failed.failed_checks)}"
    )
    return replace(agreeing, skipped=(*agreeing.skipped, told))
