"""Which graphs a task is exported as."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vocabsurgeon.onnx.decoder_part import decoder_parts
from vocabsurgeon.onnx.encoder_part import encoder_parts
from vocabsurgeon.onnx.parts import Parts
from vocabsurgeon.onnx.seq2seq_parts import seq2seq_parts
from vocabsurgeon.onnx.tasks import CROSSED, TEXT_GENERATION, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def parts_of(model: PreTrainedModel, task: Task, cache: bool) -> Parts:
    """The graphs of `model` for `task`. Raises `OnnxError` where the model does not do that task on text alone."""
    if task in CROSSED:
        return seq2seq_parts(model, cache)
    if task is TEXT_GENERATION:
        return decoder_parts(model, cache)
    return encoder_parts(model, task.output)
