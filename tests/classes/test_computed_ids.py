"""Classes that compute with ids: what each row says, and that transformers has no such place that no row is about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import transformers

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.classes.computed_ids import ComputedIds, Facts, computed_ids

MODELS = Path(transformers.__file__).parent / "models"
CLIP_TOKENS = {"a": 0, "<|startoftext|>": 8, "<|endoftext|>": 9}


def found_in(config: dict[str, Any], tokens: dict[str, int] | None = None, **files: Any) -> list[ComputedIds]:
    facts = Facts(
        Config.parse(json.dumps(config)), files.get("generation", {}), files.get("settings", {}), tokens or {}
    )
    return list(computed_ids(facts))


def test_whisper_counts_timestamps_from_the_generation_config_on() -> None:
    found = found_in({"model_type": "whisper"}, generation={"no_timestamps_token_id": 40})
    assert [(item.first, item.last) for item in found] == [(41, None)] and "timestamp" in found[0].mechanism
    assert found[0].takes(41) and not found[0].takes(40)


def test_whisper_counts_from_its_token_where_the_generation_config_is_silent() -> None:
    assert [item.first for item in found_in({"model_type": "whisper"}, {"<|notimestamps|>": 50})] == [51]
    assert found_in({"model_type": "whisper"}) == []


def test_whispers_tokenizer_counts_under_any_type() -> None:
    settings = {"tokenizer_class": "WhisperTokenizerFast"}
    config = {"model_type": "speech-encoder-decoder"}
    assert len(found_in(config, {"<|notimestamps|>": 50}, settings=settings)) == 1


@pytest.mark.parametrize("name", ["clip", "clipseg", "groupvit", "xclip"])
@pytest.mark.parametrize("named", [True, False])
def test_clip_pools_at_the_highest_id_where_its_eos_is_two(name: str, named: bool) -> None:
    inner = {"model_type": f"{name}_text_model"} if named else {}
    for eos, count in ((2, 1), (9, 0)):
        config = {"model_type": name, "text_config": {"eos_token_id": eos, **inner}}
        found = found_in(config, CLIP_TOKENS)
        assert len(found) == count
        assert all(item.first == 10 and item.eos_settles and "highest id" in item.mechanism for item in found)
    assert len(found_in({"model_type": f"{name}_text_model", "eos_token_id": 2}, CLIP_TOKENS)) == 1


def test_a_clip_text_model_inside_another_type() -> None:
    text = {"model_type": "clip_text_model", "eos_token_id": 2}
    assert len(found_in({"model_type": "vision-text-dual-encoder", "text_config": text}, CLIP_TOKENS)) == 1
    assert found_in({"model_type": "sam3", "text_config": text}, CLIP_TOKENS) == []


def test_silent_text_configs_have_their_classs_eos() -> None:
    assert found_in({"model_type": "clip_text_model"}, CLIP_TOKENS) == []
    assert len(found_in({"model_type": "xclip_text_model"}, CLIP_TOKENS)) == 1
    for name in ("CLIPTextConfig", "CLIPSegTextConfig", "GroupViTTextConfig"):
        assert getattr(transformers, name)().eos_token_id == 49407
    assert transformers.XCLIPTextConfig().eos_token_id == 2


def test_the_old_second_text_config_overrules_and_is_not_settled_by_a_role() -> None:
    config = {"model_type": "clip", "text_config": {"eos_token_id": 9}, "text_config_dict": {"eos_token_id": 2}}
    found = found_in(config, CLIP_TOKENS)
    assert len(found) == 1 and not found[0].eos_settles and "text_config_dict" in found[0].mechanism


@pytest.mark.parametrize("name", ["owlvit", "owlv2_text_model", "sam3_lite_text", "omdet-turbo", "oneformer"])
def test_types_that_pool_at_the_highest_id_whatever_the_config_says(name: str) -> None:
    found = found_in({"model_type": name, "eos_token_id": 9}, CLIP_TOKENS)
    assert [item.first for item in found] == [10] and not found[0].eos_settles


def test_gemma3n_embeds_ids_from_the_offset_on_as_images() -> None:
    config = {"model_type": "gemma3n", "vision_config": {"vocab_offset": 60}, "audio_config": {"vocab_offset": 70}}
    assert [item.first for item in found_in(config)] == [60]
    assert [item.first for item in found_in({"model_type": "gemma3n"})] == [262144]
    assert transformers.Gemma3nVisionConfig().vocab_offset == 262144
    assert found_in({"model_type": "gemma3n_text", "vocab_size": 64}) == []


def test_codes_that_are_text_ids() -> None:
    config = {
        "model_type": "apertus1p5",
        "image_token_offset": 40,
        "audio_token_offset": 50,
        "vision_config": {"codebook_size": 10},
        "audio_config": {"codebook_size": 5},
    }
    assert [(item.first, item.last) for item in found_in(config)] == [(40, 49), (50, 54)]


def test_logits_cut_to_a_stated_number() -> None:
    config = {
        "model_type": "inkling_mm_model",
        "text_config": {"model_type": "inkling_text", "unpadded_vocab_size": 60},
    }
    assert [item.first for item in found_in(config)] == [60]


def test_spelled_and_shifted_ids() -> None:
    spelled = {"id_to_text": {"0": "a", "5": "b"}}
    assert [item.first for item in found_in({"model_type": "seamless_m4t_v2"}, generation=spelled)] == [6]
    assert found_in({"model_type": "seamless_m4t_v2"}) == []
    assert [item.first for item in found_in({"model_type": "bark"})] == [0]
    assert [item.first for item in found_in({"model_type": "imagegpt", "vocab_size": 9})] == [0]


def test_unknown_types_compute_nothing() -> None:
    assert found_in({"model_type": "llama", "eos_token_id": 2}, CLIP_TOKENS) == []
    assert found_in({"model_type": "unheard", "vision_config": {"vocab_offset": 3}}) == []


SEEN = {
    r"(?:input_ids|text)(?:\.to\([^)]*\))?\.argmax\(|, hidden_states\.argmax\(dim=-1\)\]": (
        {"clip", "clipseg", "groupvit", "x_clip", "owlvit", "owlv2", "sam3_lite_text", "omdet_turbo", "oneformer"}
    ),
    r"eos_token_id == 2": {"clip", "clipseg", "groupvit", "x_clip"},
    r"input_ids >= self\.\w+\.vocab_offset": {"gemma3n"},
    r"(?:codes\S*|flatten\(\)) \+ self\.config\.\w+_offset": {"apertus1p5"},
    r"input_ids \+ \S*text_encoding_offset": {"bark"},
    r"logits\[\.\.\., :unpadded_vocab_size\]": {"inkling"},
    r"\.id_to_text\.get": {"seamless_m4t_v2"},
}
"""Pattern of the source → folders of transformers 5.24 that hold it: each is a row, or is said to be none."""


@pytest.mark.parametrize("pattern", SEEN)
def test_no_further_class_computes_that_way(pattern: str) -> None:
    files = MODELS.glob("*/modeling_*.py")
    holding = {file.parent.name for file in files if re.search(pattern, file.read_text("utf-8"))}
    assert holding == SEEN[pattern], "see whether vocabsurgeon.classes.computed_ids needs a row"
