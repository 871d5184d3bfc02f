"""The table of what stays in float32, held against the classes of the transformers at hand."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import transformers

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.classes.float32_parameters import KEPT, kept_in_float32

MODELS = Path(transformers.__file__).parent / "models"


def _classes() -> Iterator[type[transformers.PreTrainedModel]]:
    for file in sorted(MODELS.glob("*/modeling*.py")):
        if "_keep_in_fp32_modules" not in file.read_text():
            continue
        module = importlib.import_module(f"transformers.models.{file.parent.name}.{file.stem}")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, transformers.PreTrainedModel):
                yield found


def test_the_table_is_what_the_classes_say() -> None:
    seen: dict[str, tuple[set[str], set[str]]] = {}
    for cls in _classes():
        half, both = set(cls._keep_in_fp32_modules or ()), set(cls._keep_in_fp32_modules_strict or ())
        if half or both:
            entry = seen.setdefault(cls.config_class.model_type, (set(), set()))
            entry[0].update(half)
            entry[1].update(both)
    assert {kind: (set(half), set(both)) for kind, (half, both) in KEPT.items()} == seen


@pytest.mark.parametrize(
    ("config", "element", "key", "kept"),
    [
        ({"model_type": "t5"}, "FLOAT16", "encoder.block.0.layer.1.DenseReluDense.wo.weight", True),
        ({"model_type": "t5"}, "FLOAT16", "encoder.block.0.layer.1.DenseReluDense.wi.weight", False),
        ({"model_type": "t5"}, "BFLOAT16", "encoder.block.0.layer.1.DenseReluDense.wo.weight", False),
        ({"model_type": "deepseek_v3"}, "BFLOAT16", "model.layers.3.mlp.gate.weight", True),
        ({"model_type": "deepseek_v3"}, "FLOAT", "model.layers.3.mlp.gate.weight", False),
        ({"model_type": "x", "text_config": {"model_type": "gpt_oss"}}, "FLOAT16", "language_model.norm.weight", True),
        ({"model_type": "llama"}, "FLOAT16", "model.norm.weight", False),
        ({}, "FLOAT16", "model.norm.weight", False),
    ],
)
def test_what_stays_in_float32(config: dict[str, object], element: str, key: str, kept: bool) -> None:
    pattern = kept_in_float32(Config.parse(json.dumps(config)), element)
    assert (pattern is not None and pattern.search(key) is not None) is kept
