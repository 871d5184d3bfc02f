"""What an export has to hold where some parameters stay in float32: as much as is rightly there, and no more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from tests.surgery.shelf import taken, with_config, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.element_types import ElementType
from vocabsurgeon.onnx.expected import expected_bytes, export_element
from vocabsurgeon.onnx.tensors import StoredTensor, checkpoint_tensors

HALF, FULL = ElementType("FLOAT16", 16, None, True), ElementType("FLOAT", 32, None, True)


def _held(element: ElementType, *shapes: Sequence[int]) -> list[StoredTensor]:
    return [
        StoredTensor(f"graph.{place}", element, tuple(shape), Path("model.onnx_data"), place, 1)
        for place, shape in enumerate(shapes)
    ]


def _kept(target: Path) -> tuple[Checkpoint, tuple[int, ...], int]:
    """A checkpoint whose class keeps its norms in float32 with float16, the shape of one, and how many there are."""
    source = Checkpoint.open(with_config(taken(target), model_type="gpt_oss"))
    norms = [info.shape for key, info in source.tensors.items() if "norm" in key]
    return source, norms[0], len(norms)


def test_what_the_class_keeps_counts_where_the_export_holds_it_in_float32(tmp_path: Path) -> None:
    source, shape, count = _kept(tmp_path / "c")
    plain = expected_bytes(source, HALF)
    assert plain.widened == 0 and expected_bytes(source, HALF, _held(HALF, *[shape] * count)) == plain
    for there in range(count + 2):
        found = expected_bytes(source, HALF, _held(FULL, *[shape] * there))
        assert found.widened == 2 * shape[0] * min(there, count)
        assert found.total == plain.total + found.widened


def test_one_place_answers_for_one_parameter(tmp_path: Path) -> None:
    source, shape, _ = _kept(tmp_path / "c")
    twice = [tensor.named(name) for tensor in _held(FULL, shape) for name in ("a", "b")]
    assert expected_bytes(source, HALF, twice).widened == 2 * shape[0]


def test_nothing_is_excused_for_a_class_that_keeps_nothing(tmp_path: Path) -> None:
    source = Checkpoint.open(taken(tmp_path / "c"))
    held = _held(FULL, *(info.shape for info in source.tensors.values()))
    assert expected_bytes(source, HALF, held).widened == 0


def test_what_the_checkpoint_keeps_among_narrower_ones_counts_too(tmp_path: Path) -> None:
    def narrow(tensors: dict[str, torch.Tensor]) -> None:
        for key in tensors:
            if "norm" not in key:
                tensors[key] = tensors[key].half()

    source = Checkpoint.open(with_tensors(taken(tmp_path / "c"), narrow))
    shape = next(info.shape for key, info in source.tensors.items() if "norm" in key)
    assert expected_bytes(source, HALF, _held(FULL, shape)).widened == 2 * shape[0]
    assert expected_bytes(source, FULL, _held(FULL, shape)).widened == 0


def test_the_element_type_is_that_of_most_numbers_not_of_most_bytes(tmp_path: Path) -> None:
    wide, narrow = _held(FULL, (10, 6)), _held(HALF, (10, 8))
    assert export_element([*wide, *narrow]) == HALF
    assert export_element([*_held(FULL, (4, 4)), *_held(HALF, (4, 4))]) == FULL
    assert export_element(checkpoint_tensors(Checkpoint.open(taken(tmp_path / "c")))).name == "FLOAT"
