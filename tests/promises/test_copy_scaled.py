"""`CopyScaled`: the head of a class that scales its input while tied holds the table times that number."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import transformers

from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import tensors_of, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.plan import Plan
from vocabsurgeon.surgery.promises import CopyScaled, Verdict
from vocabsurgeon.surgery.run import plan_for, untie, untying

HEAD, TABLE = "lm_head.weight", "shared.weight"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    torch.manual_seed(0)
    small = {"d_model": 24, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2, "num_experts": 2}
    config = transformers.SwitchTransformersConfig(vocab_size=32, **small)
    transformers.SwitchTransformersForConditionalGeneration(config).save_pretrained(tmp_path / "source")
    write_tokenizer(tmp_path / "source", 32)
    untie(tmp_path / "source", tmp_path / "out")
    return tmp_path / "source"


def _checked(source: Path) -> Verdict:
    _, plan = plan_for(source, untying())
    assert isinstance(plan, Plan)
    (promise,) = (promise for promise in plan.promises if isinstance(promise, CopyScaled))
    return promise.check(Checkpoint.open(source), Checkpoint.open(source.parent / "out"))


def test_holds_of_an_honest_result(source: Path) -> None:
    assert _checked(source).passed is True
    out = tensors_of(source.parent / "out")
    assert torch.equal(out[HEAD], (out[TABLE].double() * 24**-0.5).float())


def test_fails_where_the_copy_was_not_scaled(source: Path) -> None:
    with_tensors(source.parent / "out", lambda tensors: tensors.update({HEAD: tensors[TABLE].clone()}))
    assert "is not shared.weight times 0.204124" in _checked(source).evidence[0]


def test_fails_where_the_copy_has_another_shape_or_is_gone(source: Path) -> None:
    with_tensors(source.parent / "out", lambda tensors: tensors.update({HEAD: tensors[TABLE][:30].clone()}))
    assert "unlike shared.weight" in _checked(source).evidence[0]
    with_tensors(source.parent / "out", lambda tensors: tensors.pop(HEAD))
    assert "is missing" in _checked(source).evidence[0]
