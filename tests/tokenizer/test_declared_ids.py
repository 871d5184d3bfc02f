"""Every value that names a token id is found, whatever its form, and every id-like name of transformers has a row."""

from __future__ import annotations

import importlib
import inspect
import json
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import transformers

from tests.models.tokenizers import Folder
from vocabsurgeon.tokenizer.declared_ids import UNKNOWN, classified, declared_ids, read_declared_ids

FORMS: dict[str, tuple[Any, list[int], str]] = {
    "pad_token_id": (7, [7], "role"),
    "eos_token_id": ([2, 9], [2, 9], "role"),
    "image_token_index": (8, [8], "marker"),
    "visual_indicator_token_ids": ([5, 6], [5, 6], "marker"),
    "suppress_tokens": ([1, 2], [1, 2], "banned"),
    "bad_words_ids": ([[4], [5, 6]], [4, 5, 6], "banned"),
    "sequence_bias": ([[[4], -1.0], [[5, 6], 2.0]], [4, 5, 6], "banned"),
    "forced_decoder_ids": ([[1, 50], [2, None]], [50], "forced"),
    "lang_to_id": ({"<|en|>": 11, "<|fr|>": 12}, [11, 12], "language"),
    "text_decoder_lang_to_code_id": ({"eng": 13}, [13], "language"),
    "vocabulary_map": ({"<image>": 14}, [14], "marker"),
    "trainable_token_indices": ({"embed_tokens": [3, 4]}, [3, 4], "trained"),
    "vocab_offset": (20, [20], "start"),
    "no_timestamps_token_id": (21, [21], "role"),
    "codec_eos_token_id": (22, [22], "other vocabulary"),
    "yes_token_index": (23, [23], "marker"),
    "frobnication_id": (24, [24], "unknown"),
}


@pytest.mark.parametrize("key", FORMS)
def test_each_form_gives_its_ids(key: str) -> None:
    value, ids, kind = FORMS[key]
    found = list(declared_ids("config.json", {"text_config": {key: value}}))
    assert [item.id for item in found] == ids and {item.kind for item in found} == {kind}
    assert {item.where for item in found} == {f"text_config.{key} in config.json"}


@pytest.mark.parametrize(
    "key",
    [
        *("image_seq_length", "mm_tokens_per_image", "vision_feature_layer", "hybrid_layer_ids", "num_image_tokens"),
        *("max_new_tokens", "attn_layer_offset", "ignore_index", "lang_id", "semantic_loss_ignore_index"),
    ],
)
def test_numbers_of_similar_name_are_no_ids(key: str) -> None:
    assert list(declared_ids("config.json", {key: 5, "text_config": {key: [5, 6]}})) == []


def test_a_word_of_two_tokens_bans_neither() -> None:
    found = list(declared_ids("generation_config.json", {"bad_words_ids": [[4], [5, 6]]}))
    assert [(item.id, item.alone) for item in found] == [(4, True), (5, False), (6, False)]


def test_flags_texts_and_minus_one_are_no_ids() -> None:
    assert list(declared_ids("config.json", {"mask_token": True, "eos_token_id": -1, "pad_token": "<pad>"})) == []


def test_labels_and_quantization_are_not_opened() -> None:
    held = {"id2label": {"pad_token_id": 3}, "quantization_config": {"pad_token_id": 3}}
    assert list(declared_ids("config.json", held)) == []


def test_levels_of_another_vocabulary_are_told_apart() -> None:
    held = {"audio_config": {"pad_token_id": 3}, "text_config": {"pad_token_id": 4}, "t2u_pad_token_id": 5}
    assert {item.id: item.of_text for item in declared_ids("config.json", held)} == {3: False, 4: True, 5: False}


def test_every_file_is_read_and_a_broken_one_passed_over(tmp_path: Path) -> None:
    names = ("config.json", "generation_config.json", "preprocessor_config.json", "processor_config.json")
    for number, name in enumerate(names):
        (tmp_path / name).write_text(json.dumps({"image_token_id": number}))
    (tmp_path / "video_preprocessor_config.json").write_text("{")
    (tmp_path / "adapter_config.json").write_text(json.dumps({"trainable_token_indices": [9]}))
    found = read_declared_ids(Folder(tmp_path))
    assert [(item.file, item.id) for item in found] == [
        *((n, i) for i, n in enumerate(names)),
        ("adapter_config.json", 9),
    ]


def test_deep_nesting_is_walked_without_recursion() -> None:
    held: dict[str, Any] = {"pad_token_id": 1}
    for _ in range(20_000):
        held = {"text_config": held}
    assert [item.id for item in declared_ids("config.json", held)] == [1]


def _config_keys() -> Iterator[tuple[str, str]]:
    """(class, key) of every configuration class of transformers, generation configs included."""
    for package in pkgutil.iter_modules(importlib.import_module("transformers.models").__path__):
        folder = importlib.import_module(f"transformers.models.{package.name}")
        for module in pkgutil.iter_modules(getattr(folder, "__path__", [])):
            if not module.name.startswith(("configuration_", "generation_configuration_")):
                continue
            loaded = importlib.import_module(f"transformers.models.{package.name}.{module.name}")
            for name, cls in inspect.getmembers(loaded, inspect.isclass):
                if cls.__module__ == loaded.__name__:
                    yield from ((name, key) for key in inspect.signature(cls.__init__).parameters)
    yield from (("GenerationConfig", key) for key in transformers.GenerationConfig().to_dict())


def test_every_id_like_attribute_of_transformers_has_a_row() -> None:
    keys = list(_config_keys())
    assert len({name for name, _ in keys}) > 700
    unknown = sorted({f"{name}.{key}" for name, key in keys if classified(key) is UNKNOWN})
    assert not unknown, "say in vocabsurgeon.tokenizer.declared_ids.TABLE what these mean"
