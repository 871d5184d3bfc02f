"""Tokenizer classes of transformers that rebuild the model: each gives the declared ids to new tokens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.models.tokenizers import Folder, byte_level, decoder_entries, metaspace, unigram, word_piece
from vocabsurgeon.surgery.tokens import Assignment, TokenRequest, assign
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.surgery.tokens.regression import compare_tokenizers

BUILDERS = {
    "GPT2Tokenizer": byte_level,
    "Qwen2Tokenizer": byte_level,
    "GPTNeoXTokenizer": byte_level,
    "LlamaTokenizer": metaspace,
    "BertTokenizer": word_piece,
    "T5Tokenizer": unigram,
    "MBart50Tokenizer": unigram,
}


def saved(name: str, path: Path) -> Any:
    """An instance of class `name`, saved below `path` as transformers saves it."""
    import transformers

    model = json.loads(BUILDERS[name]().to_str())["model"]
    vocabulary = model["vocab"]
    options: dict[str, Any] = {
        "vocab": [tuple(entry) for entry in vocabulary] if isinstance(vocabulary, list) else vocabulary
    }
    if "merges" in model:
        options["merges"] = [tuple(pair) for pair in model["merges"]]
    built = getattr(transformers, name)(**options)
    built.save_pretrained(path)
    return built


@pytest.mark.parametrize("decoder", [False, True], ids=["as saved", "with added_tokens_decoder"])
@pytest.mark.parametrize("name", BUILDERS)
def test_each_class_knows_the_new_tokens_and_keeps_old_text(tmp_path: Path, name: str, decoder: bool) -> None:
    from transformers import AutoTokenizer

    before = saved(name, tmp_path / "a")
    place = Folder(tmp_path / "a")
    if decoder:
        settings = place.read_json("tokenizer_config.json")
        settings["added_tokens_decoder"] = decoder_entries(before.backend_tokenizer)
        (place.root / "tokenizer_config.json").write_text(json.dumps(settings, indent=2))
    assignment = assign(place, place.tokenizer, [TokenRequest("<X>"), TokenRequest("zzword", special=False)])
    assert isinstance(assignment, Assignment), assignment
    result = place.copied_to(tmp_path / "b", tokenizer_edits(place, assignment))
    assert compare_tokenizers(assignment.baseline or place, result, assignment.tokens) == ()
    after = AutoTokenizer.from_pretrained(result.root)
    assert type(after).__name__ == name
    size = len(before)
    assert after.convert_tokens_to_ids(["<X>", "zzword"]) == [size, size + 1]
    assert set(after.all_special_tokens) == {*before.all_special_tokens, "<X>"}
    assert after("the other mother 語 x").input_ids == before("the other mother 語 x").input_ids
    found = after("the other <X>mother zzword x").input_ids
    assert [found.count(number) for number in (size, size + 1)] == [1, 1]
