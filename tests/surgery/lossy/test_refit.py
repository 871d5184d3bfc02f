"""Refitting the norm: the closed form is least squares, and a head that is off by columns is met exactly."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.surgery.lossy.pairs import columns, described, kept, keys, with_head
from tests.surgery.shelf import FAMILIES, logits_of, reloaded, shares, taken, tensors_of, with_tensors
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.lossy import refit
from vocabsurgeon.surgery.lossy.candidates import candidates, pair
from vocabsurgeon.surgery.lossy.norm import final_norm
from vocabsurgeon.surgery.lossy.refit import column_factors
from vocabsurgeon.surgery.lossy.request import TieRequest


@pytest.mark.parametrize("mean", [False, True], ids=["input", "mean"])
def test_the_closed_form_is_least_squares(mean: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refit, "_ELEMENTS", 100)
    source = with_head(tmp_path / "source", lambda table: table * 1.5 + torch.randn_like(table) * 0.1)
    first, second = (reader.block(0, 64).astype(np.float64) for reader in pair(described(source)))
    table = ((first + second) / 2).astype(np.float32).astype(np.float64) if mean else first
    wanted = [np.linalg.lstsq(table[:, [j]], second[:, j], rcond=None)[0][0] for j in range(16)]
    assert np.allclose(column_factors(*pair(described(source)), mean=mean), wanted, rtol=1e-12)


def test_a_column_of_zeros_keeps_its_factor(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table * 2)
    with_tensors(source, lambda tensors: tensors[keys(source)[0]][:, 5].zero_())
    factors = column_factors(*pair(described(source)))
    assert factors[5] == 1 and np.allclose(np.delete(factors, 5), 2)


def test_a_table_that_is_not_finite_cannot_be_fitted(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table * 2)
    with_tensors(source, lambda tensors: tensors[keys(source)[0]][5].fill_(float("nan")))
    with pytest.raises(UsageError, match="not finite"):
        column_factors(*pair(described(source)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_head_that_is_off_by_columns_is_met_by_the_norm(family: str, tmp_path: Path) -> None:
    """Gains as such, gains stored as gain - 1, layer norms with a bias: the logits are what they were."""
    source = with_head(tmp_path / "source", lambda table: table * columns(), family)
    before = logits_of(reloaded(source))
    kept(source, tmp_path / "plain", "input")
    kept(source, tmp_path / "fitted", "input", refit=True)
    model = reloaded(tmp_path / "fitted")
    assert shares(model)
    fitted, plain = (abs(logits_of(found) - before).max() for found in (model, reloaded(tmp_path / "plain")))
    assert fitted < 1e-5 < 0.1 < plain


def test_all_else_is_left_as_it_was(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table * columns())
    report = kept(source, tmp_path / "out", "input", refit=True)
    before, after = tensors_of(source), tensors_of(tmp_path / "out")
    changed = {key for key in after if not torch.equal(before[key], after[key])}
    assert changed == {"model.norm.weight"} and before.keys() - after.keys() == {"lm_head.weight"}
    assert any("model.norm.weight was rewritten" in note for note in report.plan.notes)


def test_values_are_exact_in_the_stored_dtype(tmp_path: Path) -> None:
    """So what is measured is what is written."""
    source = with_head(tmp_path / "source", lambda table: table * 1.3, dtype="bfloat16")
    request = TieRequest("input", refit_norm=True, probe=False)
    gain = candidates(described(source), request)[1].gain
    assert gain is not None and gain.values.dtype == np.float32
    values = torch.from_numpy(gain.values)
    assert torch.equal(values, values.bfloat16().float())
    kept(source, tmp_path / "out", "input", refit=True)
    assert torch.equal(tensors_of(tmp_path / "out")[gain.key].float(), values)


def test_a_gain_that_its_dtype_cannot_hold_is_refused(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table.float() * 3e4, dtype="float16")
    with_tensors(source, lambda tensors: tensors[keys(source)[0]].mul_(1e-3))
    with pytest.raises(UsageError, match="too narrow"):
        candidates(described(source), TieRequest("input", refit_norm=True, probe=False))


def test_the_norm_is_found_under_the_prefix_of_the_file(tmp_path: Path) -> None:
    source = taken(tmp_path / "source", "gpt2", tied=False)
    assert final_norm(described(source)).key == "transformer.ln_f.weight"

    def bare(tensors: dict[str, torch.Tensor]) -> None:
        for key in list(tensors):
            tensors[key.removeprefix("transformer.")] = tensors.pop(key)

    found = final_norm(described(with_tensors(source, bare)))
    assert (found.key, found.bias, found.offset) == ("ln_f.weight", "ln_f.bias", 0.0)


def test_a_layer_norm_is_refitted_with_its_bias(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table * columns(), "gpt2")
    fitted = candidates(described(source), TieRequest("input", refit_norm=True, probe=False))[1]
    assert [vector.key for vector in fitted.written] == ["transformer.ln_f.weight", "transformer.ln_f.bias"]


def test_a_norm_that_is_not_stored_is_told(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table * 2)
    with_tensors(source, lambda tensors: tensors.pop("model.norm.weight"))
    with pytest.raises(UsageError, match=r"model\.norm\.weight is not stored"):
        final_norm(described(source))


def test_a_norm_of_another_width_is_told(tmp_path: Path) -> None:
    source = with_head(tmp_path / "source", lambda table: table * 2)
    with_tensors(source, lambda tensors: tensors.update({"model.norm.weight": torch.ones(8)}))
    with pytest.raises(UsageError, match=r"has shape \[8\], not \[16\]"):
        final_norm(described(source))


def test_the_last_of_many_layers_feeds_the_head(tmp_path: Path) -> None:
    from transformers import BartConfig, BartForCausalLM

    sizes = {"vocab_size": 64, "d_model": 16, "decoder_layers": 11, "decoder_ffn_dim": 16, "decoder_attention_heads": 2}
    BartForCausalLM(BartConfig(**sizes, tie_word_embeddings=False)).save_pretrained(tmp_path / "source")
    found = final_norm(described(tmp_path / "source"))
    assert found.key == "model.decoder.layers.10.final_layer_norm.weight"
