"""The class that a checkpoint is loaded with: its own where the task is its own, the auto class elsewhere."""

from __future__ import annotations

from pathlib import Path

from tests.models.tiny import build
from tests.sweep.models import built
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.tasks import FEATURES, choose_task


def test_the_text_half_of_a_composite_model_is_loaded_though_no_auto_class_knows_its_config(tmp_path: Path) -> None:
    built("emu3", "Emu3ForCausalLM", tied=True).model.save_pretrained(tmp_path)
    source = Checkpoint.open(tmp_path)
    assert type(load_model(source, choose_task(source, "auto"), "float32")).__name__ == "Emu3ForCausalLM"


def test_another_task_than_the_class_has_takes_the_auto_class(tmp_path: Path) -> None:
    source = Checkpoint.open(build("llama", tmp_path / "c"))
    assert type(load_model(source, FEATURES, "float32")).__name__ == "LlamaModel"
