"""Figures over positions against numpy, in any slices; logits of minus infinity count, NaN does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from vocabsurgeon.surgery.cost.result import NotMeasured
from vocabsurgeon.surgery.cost.tally import Tally, log_probabilities


def _log_softmax(logits: Any) -> np.ndarray[Any, Any]:
    wide = logits.numpy().astype(np.float64)
    result: np.ndarray[Any, Any] = wide - np.log(np.exp(wide).sum(1, keepdims=True))
    return result


@pytest.mark.parametrize("positions", [1, 7, 8, 21])
@pytest.mark.parametrize("wanted", [0, 5, 21])
def test_figures_are_those_of_whole_arrays(positions: int, wanted: int) -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(positions, 50, generator=generator) * 3 for _ in range(2))
    ids = torch.randint(0, 50, (min(wanted, positions),), generator=generator)
    tally = Tally()
    tally.add(log_probabilities(a), b, ids)
    p, q = _log_softmax(a), _log_softmax(b)
    divergence = (np.exp(p) * (p - q)).sum(1)
    told = tally.figures()
    assert told["kl_mean"] == pytest.approx(divergence.mean(), rel=1e-5)
    assert told["kl_p95"] == pytest.approx(np.percentile(divergence, 95), rel=1e-5)
    assert told["top1_agreement"] == (p.argmax(1) == q.argmax(1)).mean()
    assert told["positions"] == positions
    for side, name in ((p, "perplexity_before"), (q, "perplexity_after")):
        expected = np.exp(-side[np.arange(len(ids)), ids.numpy()].mean()) if len(ids) else None
        assert told[name] == (None if expected is None else pytest.approx(expected, rel=1e-5))


def test_ids_that_no_model_gives_do_not_count() -> None:
    logits = torch.tensor([[1.0, 2.0, -torch.inf]])
    tally = Tally()
    tally.add(log_probabilities(logits), logits + 5, torch.tensor([1]))
    assert tally.figures()["kl_mean"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_divergence_that_is_not_finite_is_not_measured(bad: float) -> None:
    with pytest.raises(NotMeasured, match="not finite"):
        Tally().add(
            log_probabilities(torch.zeros(2, 3)), torch.tensor([[0.0, 0.0, 0.0], [0.0, bad, 0.0]]), torch.tensor([1])
        )


def test_a_perplexity_beyond_all_numbers_is_none() -> None:
    tally = Tally()
    original = log_probabilities(torch.tensor([[0.0, 1.0]]))
    tally.add(original, torch.tensor([[-800.0, 800.0]]), torch.tensor([0]))
    assert tally.figures()["perplexity_after"] is None
