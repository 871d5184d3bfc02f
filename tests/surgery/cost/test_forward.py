"""How a model is run: the exact head multiplies in float32, and every kind of model gives logits at every position."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.models.tiny import model
from vocabsurgeon.surgery.cost.forward import Forward, exact_head
from vocabsurgeon.surgery.cost.result import NotMeasured

IDS = (3, 1, 4, 1, 5)


def _biased(tied: Any) -> Any:
    tied.lm_head = torch.nn.Linear(16, 64, dtype=torch.bfloat16)
    return tied


@pytest.mark.parametrize("change", [lambda built: built, _biased], ids=["plain", "with a bias"])
def test_the_exact_head_is_a_float32_product_of_what_is_stored(change: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.surgery.cost.forward._ROWS", 10)
    built = change(model("llama", tied=False).bfloat16())
    head = built.lm_head
    bias = 0 if head.bias is None else head.bias.float()
    hidden = torch.randn(1, 3, 16).bfloat16()
    with exact_head(built), torch.no_grad():
        logits, _ = Forward.of(built).logits(IDS)
        product = head(hidden)
    assert logits.dtype == product.dtype == torch.float32
    assert torch.allclose(product, hidden.float() @ head.weight.float().T + bias, atol=1e-6)
    with torch.no_grad():
        assert head(hidden).dtype == torch.bfloat16


def test_a_head_in_float32_is_left_alone() -> None:
    built = model("llama", tied=False)
    before = built.lm_head.forward
    with exact_head(built):
        assert built.lm_head.forward == before


def test_a_causal_model_predicts_the_next_ids() -> None:
    built = model("llama", tied=False)
    logits, wanted = Forward.of(built).logits(IDS)
    with torch.no_grad():
        assert torch.equal(logits, built(torch.tensor([IDS])).logits[0])
    assert wanted.tolist() == [1, 4, 1, 5]


def test_a_model_that_takes_something_else_than_ids_is_not_run() -> None:
    built = model("llama", tied=False)
    built.main_input_name = "input_features"
    with pytest.raises(NotMeasured, match="input_features"):
        Forward.of(built)


def test_a_model_without_logits_is_not_measured() -> None:
    with pytest.raises(NotMeasured, match="no logits"):
        Forward(model("llama").model, "causal", 0).logits(IDS)
