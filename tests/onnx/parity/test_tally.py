"""`Tally` measures what the contract names, and its verdict follows the contract's rule."""

from __future__ import annotations

import numpy as np
import pytest

from vocabsurgeon.onnx.parity.report import ParityReport
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.parity.tolerances import TOLERANCES, Tolerance, tolerance_for
from vocabsurgeon.onnx.parity.trail import Trail

MODEL = np.array([[1.0, 3.0, 2.0], [0.0, -1.0, 4.0]], np.float32)


def tallied(export: np.ndarray, model: np.ndarray = MODEL, atol: float = 0.1, greedy: bool = False) -> ParityReport:
    tally = Tally()
    tally.add("check", model, export.astype(np.float32), greedy=greedy)
    return tally.report("float32", Tolerance(atol, 0.0))


def test_equal_logits_pass_with_nothing_to_tell() -> None:
    report = tallied(MODEL, atol=0.0, greedy=True)
    assert report.passed
    assert (report.max_abs_diff, report.mean_kl, report.top1_agreement, report.positions) == (0.0, 0.0, 1.0, 2)
    assert report.greedy_equal
    assert report.worst == "nothing differs"


def test_the_largest_difference_is_found_and_named() -> None:
    export = MODEL.copy()
    export[1, 0] += 0.5
    report = tallied(export)
    assert report.max_abs_diff == pytest.approx(0.5)
    assert report.worst == "check, position 1"
    assert not report.passed
    assert report.reasons == ["logits differ by 0.5 (check, position 1), 0.1 is allowed"]


def test_the_divergence_is_the_mean_over_positions_in_nats() -> None:
    export = MODEL.copy()
    export[0, 0] += 1
    p, q = (np.exp(row) / np.exp(row).sum() for row in (MODEL[0].astype(float), export[0].astype(float)))
    assert tallied(export).mean_kl == pytest.approx((p * np.log(p / q)).sum() / 2, rel=1e-9)


def test_another_choice_counts_only_where_the_choice_is_clear() -> None:
    close = np.array([[1.0, 1.05, 0.0]], np.float32)
    swapped = close + np.array([[0.06, 0.0, 0.0]])
    report = tallied(swapped, close, greedy=True)
    assert (report.top1_agreement, report.greedy_equal, report.clear_misses, report.passed) == (0.0, False, 0, True)
    strict = tallied(swapped, close, atol=0.02, greedy=True)
    assert (strict.clear_misses, strict.passed) == (1, False)


def test_disagreement_outside_greedy_decoding_says_nothing_about_it() -> None:
    assert tallied(MODEL[:, ::-1].copy()).greedy_equal is None


def test_states_have_no_choices_and_no_distribution() -> None:
    tally = Tally(choices=False)
    tally.add("check", MODEL, MODEL[:, ::-1].copy())
    report = tally.report("float32", Tolerance(0.1, 0.0))
    assert (report.mean_kl, report.top1_agreement, report.greedy_equal) == (None, None, None)
    assert not report.passed
    assert report.reasons[0].startswith("states differ")


def test_a_nan_is_not_forgotten_when_numbers_follow() -> None:
    broken = MODEL.copy()
    broken[0, 0] = np.nan
    tally = Tally()
    for check, export in (("first", broken), ("second", MODEL + 0.01)):
        tally.add(check, MODEL, export.astype(np.float32))
    report = tally.report("float32", Tolerance(0.1, 0.0))
    assert not report.passed
    assert report.worst == "first, position 0"


def test_a_model_that_overflows_is_told_apart_from_a_wrong_export() -> None:
    broken = MODEL.copy()
    broken[1, 0] = np.nan
    assert tallied(broken).reasons[0] == "the export's logits are not numbers at 1 of 2 positions"
    both = tallied(broken, broken)
    assert not both.passed
    assert both.reasons[0].startswith("the model's own logits are not numbers at 1 of 2 positions")


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_no_number_fails(value: float) -> None:
    export = MODEL.copy()
    export[0, 0] = value
    report = tallied(export)
    assert not report.passed
    assert report.to_dict()["max_abs_diff"] is None


def test_rows_that_both_sides_rule_out_are_equal() -> None:
    model = MODEL.copy()
    model[:, 0] = -np.inf
    report = tallied(model, model)
    assert (report.passed, report.max_abs_diff, report.mean_kl) == (True, 0.0, 0.0)


def test_failed_checks_are_named_apart_from_those_that_are_right() -> None:
    tally = Tally()
    for check, export in (("right", MODEL), ("off", MODEL + 0.5), ("near", MODEL + 0.01), ("off", MODEL)):
        tally.add(check, MODEL, export.astype(np.float32))
    report = tally.report("float32", Tolerance(0.1, 0.0))
    assert report.failed_checks == ("off",)
    assert report.to_dict()["failed_checks"] == ["off"]
    assert report.reasons[-1] == "wrong in: off; right in: right, near"


def test_the_calls_of_the_largest_difference_are_remembered() -> None:
    tally, trails = Tally(), [Trail() for _ in range(4)]
    nan = MODEL.copy()
    nan[0, 0] = np.nan
    for trail, export in zip(trails, (MODEL, MODEL + 0.5, MODEL + 0.1, nan), strict=True):
        tally.add("check", MODEL, export.astype(np.float32), trail=trail)
        assert tally.trail is (None, trails[1], trails[1], trails[3])[trails.index(trail)]


def test_a_tolerance_given_replaces_the_tables() -> None:
    table = TOLERANCES["float16"]
    assert tolerance_for("float16") == table
    assert tolerance_for("float16", atol=1.0) == Tolerance(1.0, 0.0)
    assert tolerance_for("float16", rtol=0.5) == Tolerance(table.atol, 0.5)
    assert tolerance_for("int8") == TOLERANCES["float32"]
    assert Tolerance(0.1, 0.01).allowed(20.0) == pytest.approx(0.3)
