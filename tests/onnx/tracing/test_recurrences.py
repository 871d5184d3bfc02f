"""Models that loop over tokens export for every length: their loops are scans while traced, their own code after."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
import pytest

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.export import export
from vocabsurgeon.onnx.parts import Part
from vocabsurgeon.onnx.parts_of import parts_of
from vocabsurgeon.onnx.tasks import TEXT_GENERATION
from vocabsurgeon.onnx.tracing.replaced import REPLACED, replaced
from vocabsurgeon.onnx.tracing.trace import trace

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

COMMON = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 1, "pad_token_id": 0, "bos_token_id": 1}
ATTENTION = COMMON | {
    "num_hidden_layers": 2,
    "intermediate_size": 32,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 256,
}
MAMBA = COMMON | {"state_size": 4, "time_step_rank": 2, "conv_kernel": 3}
EXPERTS = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "mamba": ("MambaConfig", "MambaForCausalLM", MAMBA),
    "falcon_mamba": ("FalconMambaConfig", "FalconMambaForCausalLM", MAMBA),
    "jamba": (
        "JambaConfig",
        "JambaForCausalLM",
        ATTENTION | {"attn_layer_period": 2, "attn_layer_offset": 1, "num_experts": 1, "mamba_d_state": 4},
    ),
    "rwkv": ("RwkvConfig", "RwkvForCausalLM", COMMON | {"num_hidden_layers": 2, "context_length": 256}),
    "recurrent_gemma": (
        "RecurrentGemmaConfig",
        "RecurrentGemmaForCausalLM",
        ATTENTION
        | {
            "lru_width": 16,
            "head_dim": 8,
            "attention_window_size": 8,
            "block_types": ["recurrent", "attention"],
        },
    ),
    "xlstm": ("xLSTMConfig", "xLSTMForCausalLM", COMMON | {"num_heads": 2, "num_blocks": 1, "chunk_size": 4}),
    "qwen3_next": (
        "Qwen3NextConfig",
        "Qwen3NextForCausalLM",
        ATTENTION
        | EXPERTS
        | {
            "layer_types": ["linear_attention", "full_attention"],
            "linear_num_key_heads": 1,
            "linear_num_value_heads": 2,
            "linear_key_head_dim": 8,
            "linear_value_head_dim": 8,
            "head_dim": 8,
            "shared_expert_intermediate_size": 16,
            "mlp_only_layers": [0, 1],
        },
    ),
    "kimi_linear": (
        "KimiLinearConfig",
        "KimiLinearForCausalLM",
        ATTENTION | {"linear_num_heads": 2, "linear_head_dim": 8},
    ),
    "cpmant": (
        "CpmAntConfig",
        "CpmAntForCausalLM",
        COMMON | {"num_attention_heads": 2, "dim_head": 8, "dim_ff": 32, "prompt_length": 4, "prompt_types": 4},
    ),
    "minimax": (
        "MiniMaxConfig",
        "MiniMaxForCausalLM",
        ATTENTION
        | {
            "layer_types": ["linear_attention", "full_attention"],
            "block_size": 4,
            "head_dim": 8,
            "num_local_experts": 2,
            "num_experts_per_tok": 1,
        },
    ),
}
QUICK = ("mamba", "rwkv", "recurrent_gemma")
"""One state, three states, and beside attention; all others in the sweep."""
LENGTHS = ((1, 1), (3, 9), (2, 70))
"""Batch and length of what is run: one token, other sizes than are traced, more than a chunk of 64."""


def built(name: str) -> PreTrainedModel:
    """A random model of `MODELS`, every parameter random."""
    import torch
    import transformers

    config_class, model_class, row = MODELS[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = getattr(transformers, config_class)(**row)
        model: PreTrainedModel = getattr(transformers, model_class)(config).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def prompt(batch: int, length: int) -> dict[str, torch.Tensor]:
    """Random ids with a left-padded row where there are three, and the other inputs of a graph."""
    import torch

    ids = torch.randint(3, 60, (batch, length), generator=torch.Generator().manual_seed(length))
    mask = torch.ones_like(ids)
    mask[2:, :2] = 0
    return {"input_ids": ids, "attention_mask": mask, "position_ids": (mask.cumsum(1) - 1).clamp(min=0)}


def answer(part: Part, feed: dict[str, torch.Tensor]) -> np.ndarray[Any, Any]:
    """The torch model's logits."""
    import torch

    with torch.no_grad():
        logits: np.ndarray[Any, Any] = part.call(feed)[0].numpy()
    return logits


def assert_near(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> None:
    """As near as parity asks, at attended positions."""
    for rows, columns in ((slice(2), slice(None)), (slice(2, None), slice(2, None))):
        difference = np.abs(found[rows, columns] - expected[rows, columns]).max(initial=0.0)
        assert difference <= 2e-5 * (1 + np.abs(expected).max())


def loops_of(model: PreTrainedModel) -> dict[str, Any]:
    """`file.name` → function, of all that `REPLACED` names in the files of the model's classes."""
    found = {}
    for name in {type(part).__module__ for part in model.modules()}:
        for path in REPLACED:
            owner: Any = sys.modules[name]
            for part in path.split("."):
                owner = vars(owner).get(part) if owner is not None else None
            if owner is not None:
                found[f"{name}.{path}"] = owner
    return found


@pytest.mark.parametrize("name", QUICK)
def test_a_model_that_loops_over_tokens_is_exported_without_a_cache(name: str, tmp_path: Path) -> None:
    built(name).save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o")
    assert report.passed, report.notes
    assert not report.to_dict()["cache"]
    assert any(note.startswith("exported without a cache: ") for note in report.notes)
    graph = onnx.load(tmp_path / "o" / "model.onnx", load_external_data=False).graph
    (scan, *_) = [node for node in graph.node if node.op_type == "Scan"]
    body = next(attribute.g for attribute in scan.attribute if attribute.name == "body")
    assert len(body.node) < 40
    assert not body.initializer


@pytest.mark.sweep
@pytest.mark.parametrize("name", MODELS)
def test_a_graph_gives_the_models_own_logits_at_every_length(name: str, tmp_path: Path) -> None:
    import onnx_ir
    import onnxruntime

    model = built(name)
    part = parts_of(model, TEXT_GENERATION, cache=False).parts[0]
    graph = trace(model, part, None)
    onnx_ir.save(graph, tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    read = {value.name for value in session.get_inputs()}
    for size in LENGTHS:
        feed = prompt(*size)
        (found,) = session.run(None, {key: value.numpy() for key, value in feed.items() if key in read})
        assert_near(found, answer(part, feed))


@pytest.mark.parametrize("name", MODELS)
def test_a_scan_gives_what_the_loop_gives(name: str) -> None:
    model = built(name)
    part = parts_of(model, TEXT_GENERATION, cache=False).parts[0]
    for size in LENGTHS:
        feed = prompt(*size)
        expected = answer(part, feed)
        with replaced(model):
            assert_near(answer(part, feed), expected)


@pytest.mark.parametrize("name", MODELS)
def test_the_loop_of_every_kind_is_known(name: str) -> None:
    """A renamed function in another transformers would be traced as it is."""
    assert loops_of(built(name))


@pytest.mark.parametrize("fails", [False, True])
def test_the_models_own_code_is_back_after_a_trace(fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    model = built("rwkv")
    before, during = loops_of(model), {}

    def spy(*_: Any, **__: Any) -> Any:
        during.update(loops_of(model))
        raise RuntimeError("no graph")

    part = parts_of(model, TEXT_GENERATION, cache=False).parts[0]
    if fails:
        monkeypatch.setattr(torch.export, "export", spy)
        with pytest.raises(OnnxError, match="no graph"):
            trace(model, part, None)
        assert all(during[path] is not function for path, function in before.items())
    else:
        trace(model, part, None)
    assert loops_of(model) == before


def test_only_the_files_of_the_model_are_touched() -> None:
    model, other = built("mamba"), built("rwkv")
    before = loops_of(other)
    with replaced(model):
        assert loops_of(other) == before


def test_a_model_without_a_loop_is_traced_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.models.tiny import TINY

    model = TINY["llama"]()
    code = {id(part): type(part).forward for part in model.modules()}
    with replaced(model):
        assert {id(part): type(part).forward for part in model.modules()} == code
