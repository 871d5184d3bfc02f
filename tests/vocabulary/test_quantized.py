"""A quantized table is known by what lies beside it and by its dtype; one beside quantized layers is a plain one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.surgery.shelf import HEAD, INPUT, taken, with_config, with_tensors
from tests.vocabulary.quantized_layouts import FORMATS, quantize, settings_of
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.findings import check
from vocabsurgeon.vocabulary.tie_state import TieState

LAYER = "model.layers.0.mlp.down_proj"
KEYS = {"input": INPUT, "output": HEAD}
WITHOUT_WEIGHT = {"gptq", "awq", "compressed-tensors", "hqq", "torchao", "gemma"}
"""Formats that store nothing under the name of the plain weight."""


def quantized_source(target: Path, name: str, *modules: str, tied: bool = False) -> Path:
    """A tiny llama whose `modules` are in format `name`, at `target`."""
    source = taken(target, tied=tied)
    with_tensors(source, lambda tensors: [quantize(tensors, module, name) for module in modules])
    return with_config(source, **settings_of(name))


def _described(source: Path) -> Description:
    return describe(Checkpoint.open(source))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("role", KEYS)
def test_a_quantized_table_is_named_with_its_format(name: str, role: str, tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", name, KEYS[role].removesuffix(".weight"), LAYER)
    found = _described(source)
    (table,) = found.quantized
    assert (table.role, table.key) == (role, KEYS[role])
    settings = settings_of(name).get("quantization_config")
    assert table.scheme == {"mlx": "mlx", "unsaid": "I8 elements"}.get(name, (settings or {}).get("quant_method"))
    assert table.tensors and set(table.tensors) <= set(found.source.tensors) and table.evidence
    assert found.to_dict()["quantized"] == [table.to_dict()]
    assert found.tie.state is TieState.UNTIED and found.tie.values_equal is None
    assert found.bytes.saved_if_tied == found.bytes.added_if_untied == 0
    listed = [entry["role"] for entry in found.to_dict()["tables"]]
    assert (role in listed) is (name not in WITHOUT_WEIGHT)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("tied", [True, False])
def test_plain_tables_beside_quantized_layers_are_plain(name: str, tied: bool, tmp_path: Path) -> None:
    found = _described(quantized_source(tmp_path / "source", name, LAYER, tied=tied))
    assert found.quantized == () and found.tie.state is (TieState.TIED if tied else TieState.UNTIED)


def test_the_format_is_told_by_the_tensors_where_the_config_is_silent(tmp_path: Path) -> None:
    source = with_config(quantized_source(tmp_path / "source", "gptq", "lm_head"), quantization_config=None)
    (table,) = _described(source).quantized
    assert table.scheme == "GPTQ or AWQ"


def test_an_fp8_table_without_scales_is_plain(tmp_path: Path) -> None:
    def narrow(tensors: dict[str, torch.Tensor]) -> None:
        tensors[INPUT] = tensors[INPUT].to(torch.float8_e4m3fn)

    assert _described(with_tensors(taken(tmp_path / "source"), narrow)).quantized == ()


def test_a_plain_table_with_a_scale_of_its_own_is_plain(tmp_path: Path) -> None:
    """Some embeddings have a learned scale beside them: a wide float weight is what it says."""
    source = taken(tmp_path / "source")
    with_tensors(source, lambda tensors: tensors.update({"model.embed_tokens.scale": torch.ones(1)}))
    assert _described(source).quantized == ()


def test_a_table_of_another_module_with_a_longer_name_is_not_meant(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    with_tensors(source, lambda tensors: tensors.update({"model.embed_tokens_2.qweight": torch.ones(1)}))
    assert _described(source).quantized == ()


@pytest.mark.parametrize("tied", [True, False])
def test_a_tied_quantized_table_is_one_table(tied: bool, tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", "mlx", "model.embed_tokens", tied=True)
    with_config(source, tie_word_embeddings=tied)
    found = _described(source)
    assert found.tie.state is (TieState.TIED if tied else TieState.HEADLESS)
    assert found.tables.main.rows == 64


def test_two_tables_of_which_one_is_quantized_are_in_conflict_where_declared_tied(tmp_path: Path) -> None:
    source = with_config(quantized_source(tmp_path / "source", "gptq", "lm_head"), tie_word_embeddings=True)
    assert _described(source).tie.state is TieState.CONFLICT


def test_no_readable_table_at_all_is_an_error_that_names_the_format(tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", "gemma", "model.embed_tokens", tied=True)
    with pytest.raises(CheckpointError, match=r"embed_tokens.*stored quantized \(gemma\).*quantized from"):
        _described(source)


def test_check_notes_a_quantized_table(tmp_path: Path) -> None:
    report = check(_described(quantized_source(tmp_path / "source", "awq", "lm_head")))
    assert report.passed
    assert ["lm_head.weight" in finding.message and finding.severity for finding in report.findings] == ["note"]
