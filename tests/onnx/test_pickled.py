"""Checkpoints in torch's own format: audited, counted and loaded like safetensors."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models.pickled import SINGLE, as_pickled, loaded, save
from tests.surgery.shelf import HEAD, shelved, taken
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.element_types import ElementType
from vocabsurgeon.onnx.expected import expected_bytes
from vocabsurgeon.onnx.stored import open_stored
from vocabsurgeon.onnx.tensors import checkpoint_tensors

F32 = ElementType("FLOAT", 32, None, True)


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
@pytest.mark.parametrize("alias", [False, True])
def test_a_table_under_two_names_is_expected_once(tmp_path: Path, old: bool, alias: bool) -> None:
    source = Checkpoint.open(as_pickled(taken(tmp_path / "source"), old=old, alias=alias))
    assert (HEAD in source.tensors) is alias
    assert expected_bytes(source, F32) == expected_bytes(Checkpoint.open(shelved()), F32)


def test_audit_reads_it_and_finds_a_transposed_copy(tmp_path: Path) -> None:
    source = as_pickled(taken(tmp_path / "source"))
    state = loaded(source / SINGLE)
    save({**state, "turned": state[HEAD].t().contiguous().t()}, source / SINGLE)
    stored = open_stored(source)
    assert stored.kind == "checkpoint" and {tensor.name for tensor in stored.tensors} == {*state, "turned"}
    shapes = {tensor.name: tensor.shape for tensor in checkpoint_tensors(Checkpoint.open(source))}
    assert shapes["turned"] == tuple(reversed(shapes[HEAD])), "in the shape it lies in"


def test_it_loads_as_the_model_to_export(tmp_path: Path) -> None:
    from vocabsurgeon.onnx.load import load_model
    from vocabsurgeon.onnx.tasks import TEXT_GENERATION

    source = Checkpoint.open(as_pickled(taken(tmp_path / "source")))
    model = load_model(source, TEXT_GENERATION, "float32")
    head = model.get_output_embeddings().weight
    assert torch.equal(head, loaded(source.path(SINGLE))[HEAD])
