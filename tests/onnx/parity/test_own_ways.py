"""A model whose own attentions disagree on padding is compared with the one that is exported, which is said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vocabsurgeon.onnx.parity.own_ways import padding_alone, with_eager
from vocabsurgeon.onnx.parity.report import ParityReport

CHECKS = ("new tokens", "full sequence", "one token", "one token, continued", "left-padded batch", "greedy decoding")
PASSED = ParityReport(
    dtype="float32",
    max_abs_diff=1e-6,
    mean_kl=0.0,
    top1_agreement=1.0,
    greedy_equal=True,
    tolerance=1e-5,
    clear_misses=0,
    positions=10,
    checks=CHECKS,
    failed_checks=(),
    worst="full sequence",
)


@pytest.mark.parametrize(
    ("failed", "alone"),
    [
        ((), False),
        (("left-padded batch",), True),
        (("left-padded batch", "greedy decoding"), True),
        (("left-padded batch", "full sequence"), False),
        (("one token, continued",), False),
        (("beyond the window",), False),
        (("greedy decoding",), False),
    ],
)
def test_only_padded_batches_may_differ(failed: tuple[str, ...], alone: bool) -> None:
    report = replace(PASSED, failed_checks=failed, max_abs_diff=0.5 if failed else 0.0)
    assert padding_alone(report) is alone
    assert not padding_alone(replace(report, other_shape="of shape [1]"))


def test_the_report_tells_where_the_usual_attention_differs() -> None:
    failed = replace(PASSED, max_abs_diff=0.5, failed_checks=("left-padded batch",))
    report = with_eager(PASSED, failed, "sdpa")
    assert report.passed
    assert report.skipped == (
        "the model's own sdpa attention differs from its eager one, which is exported, by 0.5 in: left-padded batch",
    )
