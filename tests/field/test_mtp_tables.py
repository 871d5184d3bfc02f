"""Multi-token-prediction layers keep embeddings and heads of their own beside the model's: they grow along.

vllm pull request 20022 (2025) and vllm-ascend 2790: DeepSeek-V3 and GLM-4.5 files hold both tables once more in the
layer behind the last, and engines check them against the vocabulary's size.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from tests.models.tiny import write_tokenizer
from tests.surgery.shelf import HEAD, INPUT, Tensors, bits, logits_of, tensors_of, with_config, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, tie, untie
from vocabsurgeon.surgery.verify import verify
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import check

ROWS = 96
_EXPERTS = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "n_group": 1, "topk_group": 1}
_COMMON = {
    "vocab_size": ROWS,
    "hidden_size": 16,
    "intermediate_size": 32,
    "moe_intermediate_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "first_k_dense_replace": 1,
    "max_position_embeddings": 64,
    **_EXPERTS,
}
_MLA = {"kv_lora_rank": 8, "q_lora_rank": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "qk_nope_head_dim": 4}
CLASSES: dict[str, tuple[str, str, dict[str, int]]] = {
    "deepseek_v3": ("DeepseekV3Config", "DeepseekV3ForCausalLM", _MLA),
    "glm4_moe": ("Glm4MoeConfig", "Glm4MoeForCausalLM", {"head_dim": 8}),
}


def _layer(number: int, tensors: Tensors, *, own: bool) -> Tensors:
    """The tensors of one prediction layer as DeepSeek-V3's files name them; `own`: its tables are not the model's."""
    shift = number if own else 0
    head = tensors.get(HEAD, tensors[INPUT])
    rest = {f"{name}.weight": torch.ones(16) for name in ("enorm", "hnorm", "shared_head.norm")}
    held = {
        "embed_tokens.weight": tensors[INPUT] + shift,
        "shared_head.head.weight": head + shift,
        "eh_proj.weight": torch.randn(16, 32),
        **rest,
    }
    return {f"model.layers.{number}.{name}": tensor for name, tensor in held.items()}


def _source(folder: Path, kind: str, layers: int = 1, *, own: bool = False, tied: bool = False) -> Path:
    torch.manual_seed(0)
    config, model, more = CLASSES[kind]
    settings = getattr(transformers, config)(**_COMMON, **more, tie_word_embeddings=tied)
    getattr(transformers, model)(settings).save_pretrained(folder)
    write_tokenizer(folder, ROWS)
    with_config(folder, num_nextn_predict_layers=layers)

    def add(tensors: Tensors) -> None:
        for number in range(1, layers + 1):
            tensors.update(_layer(number, tensors, own=own))

    return with_tensors(folder, add)


def _sharded(folder: Path) -> Path:
    """The same tensors in two files and an index, the prediction layers in the second."""
    held = load_file(folder / "model.safetensors")
    second = {key for key in held if key.startswith("model.layers.") and not key.startswith("model.layers.0.")}
    names = {key: f"model-0000{2 if key in second else 1}-of-00002.safetensors" for key in held}
    for name in sorted(set(names.values())):
        tensors = {key: held[key] for key in held if names[key] == name}
        save_file(tensors, folder / name, metadata={"format": "pt"})
    total = sum(tensor.numel() * tensor.element_size() for tensor in held.values())
    index = {"metadata": {"total_size": total}, "weight_map": names}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    (folder / "model.safetensors").unlink()
    return folder


def _tables(folder: Path) -> Tensors:
    """The tables of the prediction layers."""
    return {key: value for key, value in tensors_of(folder).items() if "embed_tokens" in key or "head.weight" in key}


def _model(folder: Path) -> Any:
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"]
    return model.eval()


@pytest.mark.parametrize("kind", CLASSES)
@pytest.mark.parametrize(
    ("layers", "own", "tied", "sharded"),
    [(1, False, False, False), (3, True, False, True), (1, False, True, False), (2, True, True, True)],
)
def test_every_table_of_every_prediction_layer_grows(
    kind: str, layers: int, own: bool, tied: bool, sharded: bool, tmp_path: Path
) -> None:
    source = _source(tmp_path / "source", kind, layers, own=own, tied=tied)
    source = _sharded(source) if sharded else source
    request = extend_request(["w3w5", "<tool>"], describe=["<tool>=w3 w5"], pad_to_multiple_of=4)
    result = extend(source, tmp_path / "out", request)
    assert isinstance(result, OperationReport) and result.proof.passed
    old, new = _tables(source), _tables(tmp_path / "out")
    assert len(new) == 2 * layers + (1 if tied else 2)
    for key, table in new.items():
        assert table.shape == (ROWS + 4, 16) and bits(table[:ROWS]) == bits(old[key])
        mean = old[key][[3, 5]].double().mean(0).float()
        assert torch.equal(table[ROWS + 1], mean), key
    assert result.to_dict()["tables"][-1]["role"] == "copy"
    before, after = (logits_of(_model(folder), ROWS) for folder in (source, tmp_path / "out"))
    assert np.array_equal(before, after)
    assert verify(source, tmp_path / "out").passed and check(describe(Checkpoint.open(tmp_path / "out"))).passed


def test_a_result_without_them_is_found_by_check_and_verify(tmp_path: Path) -> None:
    """What versions of before wrote: the model's tables grown, those of the prediction layer left behind."""
    source = _source(tmp_path / "source", "deepseek_v3", own=True)
    assert not isinstance(extend(source, tmp_path / "out", extend_request(["<tool>"])), Refusal)
    left = Path(shutil.copytree(tmp_path / "out", tmp_path / "left"))
    (left / "vocabsurgeon.json").unlink()
    old = _tables(source)
    keys = [key for key in old if key.startswith("model.layers.1.")]
    with_tensors(left, lambda held: held.update({key: old[key].clone() for key in keys}))
    report = check(describe(Checkpoint.open(left)))
    errors = [finding.message for finding in report.findings if finding.severity == "error"]
    assert len(errors) == 2 and all(any(key in message for message in errors) for key in keys)
    assert not verify(source, left).passed
    again = extend(left, tmp_path / "again", extend_request(["<more>"]))
    assert isinstance(again, Refusal) and again.exit_code == 2 and keys[0] in " ".join((again.reason, *again.evidence))


def test_tie_and_untie_leave_the_prediction_layers_as_they_are(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", "deepseek_v3", tied=True)
    apart, again = untie(source, tmp_path / "untied"), tie(tmp_path / "untied", tmp_path / "tied")
    assert isinstance(apart, OperationReport) and apart.proof.passed
    assert isinstance(again, OperationReport) and again.proof.passed
    assert any("model.layers.1.shared_head.head.weight" in note for note in apart.plan.notes)
    old = _tables(source)
    for folder in (tmp_path / "untied", tmp_path / "tied"):
        assert all(bits(_tables(folder)[key]) == bits(table) for key, table in old.items())


@pytest.mark.parametrize(
    ("key", "tensor"),
    [
        ("logits_mask", torch.zeros(ROWS)),
        ("model.unigram", torch.rand(1, ROWS)),
        ("t2d", torch.ones(ROWS, dtype=torch.bool)),
        ("d2t", torch.zeros(ROWS, dtype=torch.int64)),
        ("model.token_table", torch.randn(ROWS + 32, 16)),
    ],
)
def test_a_tensor_that_nothing_explains_stops_the_growth(key: str, tensor: torch.Tensor, tmp_path: Path) -> None:
    """Of a padded size: only what is long enough for the new ids may stay unasked."""
    source = _source(tmp_path / "source", "deepseek_v3")
    with_tensors(source, lambda held: held.__setitem__(key, tensor))
    result = extend(source, tmp_path / "out", extend_request(["<tool>"]))
    listed = [entry["key"] for entry in describe(Checkpoint.open(source)).to_dict()["tables_not_understood"]]
    assert listed == [key]
    if tensor.shape[0] > ROWS:
        assert isinstance(result, OperationReport) and any(key in note for note in result.plan.notes)
    else:
        assert isinstance(result, Refusal) and key in result.reason and not (tmp_path / "out").exists()
