"""Which stored tensors are the tables, and who said so."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.surgery.shelf import FAMILIES, HEAD, INPUT, reloaded, shelved, taken, with_config, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError, UsageError
from vocabsurgeon.vocabulary.tables import find_tables


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_tables_are_the_modules_that_transformers_names(family: str, tied: bool) -> None:
    source = Checkpoint.open(shelved(family, tied=tied, vocab_size=72))
    tables = find_tables(source)
    model = reloaded(source.root)
    assert tables.decided_by == "families table" and tables.has_head
    assert tables.input is not None and tables.input.info.shape == tuple(model.get_input_embeddings().weight.shape)
    assert (tables.output is None) is tied
    vocabulary_sized = {key for key, info in source.tensors.items() if 72 in info.shape}
    assert {table.key for table in tables.stored} == vocabulary_sized
    biases = [table.key for table in tables.others if table.role == "output_bias"]
    assert bool(biases) is (model.get_output_embeddings().bias is not None)


@pytest.mark.parametrize("family", ["gpt2", "bloom", "opt"])
def test_base_models_keys_have_no_prefix(family: str, tmp_path: Path) -> None:
    """GPT-2's published files hold `wte.weight`, not `transformer.wte.weight`."""
    prefix = {"gpt2": "transformer.", "bloom": "transformer.", "opt": "model."}[family]
    source = taken(tmp_path / "source", family)

    def strip(tensors: dict) -> None:  # type: ignore[type-arg]
        bare = {key.removeprefix(prefix): tensor for key, tensor in tensors.items()}
        tensors.clear()
        tensors.update(bare)

    tables = find_tables(Checkpoint.open(with_tensors(source, strip)))
    assert tables.input is not None and tables.input_name == tables.input.key
    assert not tables.input.key.startswith(prefix)


def test_an_unknown_type_falls_back_to_shapes_and_names(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source", tied=False), model_type="unheard_of", architectures=["UnheardOf"])
    tables = find_tables(Checkpoint.open(source))
    assert tables.decided_by == "shapes and names" and tables.family is None
    assert [table.key for table in tables.stored] == [INPUT, HEAD]
    assert tables.output_name == HEAD


def test_the_heads_name_is_the_stored_one(tmp_path: Path) -> None:
    source = with_config(
        taken(tmp_path / "source", "gpt_neox", tied=False), model_type="unheard_of", architectures=["UnheardOf"]
    )
    tables = find_tables(Checkpoint.open(source))
    assert tables.output is not None and tables.output_name == tables.output.key


def test_an_unknown_base_model_has_no_head(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="unheard_of", architectures=["UnheardOfModel"])
    assert not find_tables(Checkpoint.open(source)).has_head


def test_named_keys_overrule() -> None:
    source = Checkpoint.open(shelved(tied=False))
    tables = find_tables(source, input_key=HEAD, output_key=INPUT)
    assert [table.key for table in (tables.input, tables.output) if table] == [HEAD, INPUT]
    assert tables.decided_by == "--input-key/--output-key"
    with pytest.raises(UsageError, match="absent"):
        find_tables(source, output_key="absent")


def test_a_named_key_that_is_no_table_is_an_error() -> None:
    with pytest.raises(CheckpointError, match="rows, width"):
        find_tables(Checkpoint.open(shelved()), input_key="model.norm.weight")


def test_no_table_is_an_error(tmp_path: Path) -> None:
    source = with_tensors(taken(tmp_path / "source"), lambda tensors: tensors.pop(INPUT))
    with pytest.raises(CheckpointError, match="no vocabulary table"):
        find_tables(Checkpoint.open(source))
