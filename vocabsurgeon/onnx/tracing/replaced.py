"""Which functions of transformers' modeling files go by the number of tokens, and what takes their place in a trace.

A Python loop is traced as often as the example has tokens, a branch as the example takes it: the graph would know that
length alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.tracing.compressed_step import compressed_step
from vocabsurgeon.onnx.tracing.counted_mask import counted_mask
from vocabsurgeon.onnx.tracing.recurrences.delta_rule import delta_rule
from vocabsurgeon.onnx.tracing.recurrences.griffin import rnn_scan
from vocabsurgeon.onnx.tracing.recurrences.lightning import lightning_attention
from vocabsurgeon.onnx.tracing.recurrences.mamba import selective_scan
from vocabsurgeon.onnx.tracing.recurrences.rwkv import linear_attention
from vocabsurgeon.onnx.tracing.recurrences.xlstm import matrix_lstm

if TYPE_CHECKING:
    from transformers import PreTrainedModel

REPLACED: Mapping[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "mamba_selective_scan": selective_scan,
    "rwkv_linear_attention_cpu": linear_attention,
    "RecurrentGemmaRglru._rnn_scan": rnn_scan,
    "xLSTMBackend.forward": matrix_lstm,
    "torch_chunk_gated_delta_rule": delta_rule,
    "chunk_kimi_delta_attention": delta_rule,
    "MiniMaxLightningAttention.forward": lightning_attention,
    "CpmAntModel._prepare_attention_mask": counted_mask,
    "DeepseekV4HCACompressor.forward": compressed_step,
}
"""A function or a method of a modeling file → what gives the form that holds at every length. Read from transformers
5.24; a function that several files hold is the same in each of them."""


@contextmanager
def replaced(model: PreTrainedModel) -> Iterator[None]:
    """Every function in `REPLACED` that the modeling files of `model` define is that form inside the block.

    The functions of a file are one for all models of its types, so no other model may run meanwhile. They come back
    however the block ends.
    """
    from transformers.exporters.utils import patch_attributes

    patches = [
        (owner, path.rpartition(".")[2], replacement)
        for file in _modeling_files(model)
        for path, replacement in REPLACED.items()
        if (owner := _owner(file, path)) is not None
    ]
    with patch_attributes(patches):
        yield


def _modeling_files(model: PreTrainedModel) -> list[ModuleType]:
    """The Python files whose classes `model` is made of, torch's own aside."""
    names = {cls.__module__ for part in model.modules() for cls in type(part).__mro__}
    return [sys.modules[name] for name in sorted(names) if name in sys.modules and not name.startswith("torch.")]


def _owner(file: ModuleType, path: str) -> Any:
    """What of `file` holds the last name of `path`: the file itself or a class; None where there is no such name."""
    *outer, name = path.split(".")
    owner: Any = file
    for part in outer:
        owner = vars(owner).get(part)
        if owner is None:
            return None
    return owner if name in vars(owner) else None
