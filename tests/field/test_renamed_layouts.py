"""One model under names of another version or tool (LlamaFactory#8338, colpali#414, sglang#19850): not lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.cli.runner import vocabsurgeon
from tests.faults.checkpoints import Stored, checkpoint, random_tensor, tensor_of
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.renames import find_renames

ONES = tensor_of(np.ones(4))
Rename = Callable[[str], str]


def _model(language: str, vision: str, head: str) -> dict[str, Stored]:
    """Two towers with layers of the same shapes and inner names, and norms of the same bits."""
    tensors = {f"{language}embed_tokens.weight": random_tensor("F32", (12, 4), 1), f"{language}norm.weight": ONES}
    for layer in range(2):
        for number, tower in enumerate((language, vision), 1):
            name = f"{tower}layers.{layer}."
            tensors[f"{name}self_attn.q_proj.weight"] = random_tensor("F32", (4, 4), 10 * number + layer)
            tensors[f"{name}input_layernorm.weight"] = ONES
            tensors[f"{name}input_layernorm.bias"] = tensor_of(np.zeros(4))
    tensors[f"{vision}norm.weight"] = ONES
    tensors[head] = random_tensor("F32", (12, 4), 2)
    return tensors


LAYOUTS: dict[str, tuple[str, str, str]] = {
    "qwen2-vl before transformers 4.52": ("model.", "visual.", "lm_head.weight"),
    "qwen2-vl since": ("model.language_model.", "model.visual.", "lm_head.weight"),
    "llava before": ("language_model.model.", "vision_tower.vision_model.", "language_model.lm_head.weight"),
    "llava since": ("model.language_model.", "model.vision_tower.vision_model.", "lm_head.weight"),
    "a tool's": ("thinker.model.", "thinker.visual.", "thinker.lm_head.weight"),
    "merged by hand": ("base_model.model.model.", "base_model.model.visual.", "base_model.model.lm_head.weight"),
    "compiled": ("_orig_mod.model.", "_orig_mod.visual.", "_orig_mod.lm_head.weight"),
}


@pytest.mark.parametrize("after", LAYOUTS)
@pytest.mark.parametrize("before", LAYOUTS)
def test_each_tensor_finds_its_own_name(before: str, after: str, tmp_path: Path) -> None:
    old, new = _model(*LAYOUTS[before]), _model(*LAYOUTS[after])
    expected = dict(zip(old, new, strict=True))
    found = find_renames(*(Checkpoint.open(checkpoint(tmp_path / str(n), held)) for n, held in enumerate((old, new))))
    assert found == {key: name for key, name in expected.items() if key != name}


@pytest.mark.parametrize("after", LAYOUTS)
@pytest.mark.parametrize("part", ["layers.1.self_attn.q_proj.weight", "layers.1.input_layernorm.weight", "norm.weight"])
def test_a_changed_one_keeps_its_name(part: str, after: str, tmp_path: Path) -> None:
    before = LAYOUTS["qwen2-vl before transformers 4.52"]
    old, new = _model(*before), _model(*LAYOUTS[after])
    changed = LAYOUTS[after][0] + part
    new[changed] = random_tensor("F32", new[changed].shape, 99)
    found = find_renames(*(Checkpoint.open(checkpoint(tmp_path / str(n), held)) for n, held in enumerate((old, new))))
    assert found.get(before[0] + part, before[0] + part) == changed


@pytest.fixture(scope="module")
def qwen2_vl(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.models.nested import build_nested

    return build_nested("qwen2_vl", tmp_path_factory.mktemp("field") / "source")


def _since_4_52(key: str) -> str:
    return f"model.{key}" if key.startswith("visual.") else key.replace("model.", "model.language_model.", 1)


def _other_layout(source: Path, target: Path, negated: str | None = None) -> Path:
    from safetensors.torch import load_file, save_file

    shutil.copytree(source, target)
    tensors = load_file(target / "model.safetensors")
    if negated is not None:
        tensors[negated].neg_()
    save_file(
        {_since_4_52(key): tensor for key, tensor in tensors.items()}, target / "model.safetensors", {"format": "pt"}
    )
    return target


def test_verify_says_renamed_and_the_logits_are_the_same(qwen2_vl: Path, tmp_path: Path) -> None:
    ran = vocabsurgeon("verify", qwen2_vl, _other_layout(qwen2_vl, tmp_path / "after"), "--logits", "--json")
    assert ran.code == 0 and ran.document["parity"]["passed"]
    assert all(line.startswith("tensor renamed: ") for line in ran.document["differences"])
    assert not any("lost" in line or "new" in line.split(":")[0] for line in ran.document["differences"])


def test_verify_finds_a_changed_tensor_among_the_renamed(qwen2_vl: Path, tmp_path: Path) -> None:
    keys = list(Checkpoint.open(qwen2_vl).tensors)
    for number, key in enumerate((next(k for k in keys if "q_proj" in k), next(k for k in keys if "norm" in k))):
        ran = vocabsurgeon("verify", qwen2_vl, _other_layout(qwen2_vl, tmp_path / str(number), key), "--json")
        assert ran.code == 1 and f"values changed: {_since_4_52(key)}" in ran.document["differences"], json.dumps(
            ran.document["differences"]
        )
