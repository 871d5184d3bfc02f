"""Tiny models that keep more than keys and values, by what they keep, and the cache inputs of their exports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.sweep.models import built

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from tests.onnx.conftest import Exported

KEY_VALUE = ("key", "value")


@dataclass(frozen=True)
class Stateful:
    """A type, its class, and the cache inputs that its export is to have, in order."""

    model_type: str
    class_name: str
    past: tuple[str, ...]

    def model(self) -> PreTrainedModel:
        """The tiny model of the sweep."""
        return built(self.model_type, self.class_name, tied=True).model


def _grows(layer: int, *parts: str) -> tuple[str, ...]:
    return tuple(f"past_key_values.{layer}.{part}" for part in parts)


STATEFUL = {
    "lfm2": Stateful("lfm2", "Lfm2ForCausalLM", ("past_conv.0", *_grows(1, *KEY_VALUE))),
    "qwen3.5": Stateful(
        "qwen3_5_text", "Qwen3_5ForCausalLM", ("past_conv.0", "past_recurrent.0", *_grows(1, *KEY_VALUE))
    ),
    "mamba2": Stateful("mamba2", "Mamba2ForCausalLM", ("past_conv.0", "past_ssm.0", "past_conv.1", "past_ssm.1")),
    "minimax": Stateful("minimax", "MiniMaxForCausalLM", (*_grows(0, *KEY_VALUE), "past_recurrent.1")),
    "inkling": Stateful(
        "inkling_text",
        "InklingForCausalLM",
        tuple(
            name
            for layer in (0, 1)
            for name in (*_grows(layer, *KEY_VALUE), *(f"past_conv.{layer}.{number}" for number in range(4)))
        ),
    ),
    "deepseek v3.2": Stateful(
        "deepseek_v32",
        "DeepseekV32ForCausalLM",
        (*_grows(0, *KEY_VALUE, "indexer_key"), *_grows(1, *KEY_VALUE, "indexer_key")),
    ),
    "deepseek v4": Stateful(
        "deepseek_v4",
        "DeepseekV4ForCausalLM",
        (
            *_grows(0, "key", "compressor_kv", "indexer_kv", "compressor_gate", "indexer_gate"),
            *_grows(1, "key", "compressor_kv", "compressor_gate"),
        ),
    ),
    "minimax m3": Stateful(
        "minimax_m3_vl_text",
        "MiniMaxM3VLForCausalLM",
        (*_grows(0, *KEY_VALUE), *_grows(1, *KEY_VALUE, "indexer_key")),
    ),
}
"""Convolution states; delta rule; no attention at all; states beside the layers; several states a layer; index keys;
compressed keys; a choice of blocks."""
QUICK = ("lfm2", "qwen3.5", "minimax", "deepseek v4", "minimax m3")
"""One of each that the default tests run: an export takes half a minute."""


def decoded(case: Exported, ids: np.ndarray[Any, Any], sizes: tuple[int, ...]) -> np.ndarray[Any, Any]:
    """Logits of `ids [batch, length]` by the graph alone, in calls of `sizes` tokens, from zeros and empty caches."""
    import onnxruntime

    session = onnxruntime.InferenceSession(case.folder / "model.onnx")
    kinds = {"tensor(float)": np.float32, "tensor(float16)": np.float16}
    batch = len(ids)
    past = {
        entry.name: np.zeros([batch, *(size if isinstance(size, int) else 0 for size in entry.shape[1:])], kind)
        for entry in session.get_inputs()
        if (kind := kinds.get(entry.type)) is not None
    }
    found, start = [], 0
    for size in sizes:
        stop = start + size
        feed = {"input_ids": ids[:, start:stop], "attention_mask": np.ones((batch, stop), np.int64)}
        feed["position_ids"] = np.arange(start, stop)[None].repeat(batch, 0)
        logits, *present = session.run(None, feed | past)
        past = dict(zip(past, present, strict=True))
        found.append(logits)
        start = stop
    return np.concatenate(found, axis=1)
