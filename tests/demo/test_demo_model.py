"""The shipped demo model: it loads in silence, is what its card says, and predicts text it never saw."""

from __future__ import annotations

import importlib.util
import json
import logging
import math
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from safetensors import safe_open

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "vocabsurgeon" / "demo_model"
WEIGHTS = FOLDER / "model.safetensors"

# From the topics "while" and "nonlocal", which the training script holds out.
SNIPPET = """\
This repeatedly tests the expression and, if it is true, executes the
first suite; if the expression is false (which may be the first time
it is tested) the suite of the "else" clause, if present, is executed
and the loop terminates.

A "break" statement executed in the first suite terminates the loop
without executing the "else" clause's suite.  A "continue" statement
executed in the first suite skips the rest of the suite and goes back
to testing the expression.

The "nonlocal" statement causes the listed identifiers to refer to
previously bound variables in the nearest enclosing scope excluding
globals. This is important because the default behavior for binding is
to search the local namespace first.
"""


@pytest.fixture(scope="module")
def text_module() -> ModuleType:
    """The script's module of text and tokenizer; `examples` is no package, so it is loaded by path."""
    name = "demo_model_text"
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def loaded() -> tuple[Any, Any, list[str]]:
    """Model in float32, tokenizer, and all that was logged or warned while they loaded."""
    import torch
    import transformers

    said: list[str] = []
    listener = logging.Handler(logging.WARNING)
    listener.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("transformers")
    logger.addHandler(listener)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER)
            model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32)
    finally:
        logger.removeHandler(listener)
    return model, tokenizer, said + [str(warning.message) for warning in caught]


def test_it_loads_without_a_word(loaded: tuple[Any, Any, list[str]]) -> None:
    assert loaded[2] == []


def test_the_folder_holds_what_a_released_checkpoint_holds() -> None:
    names = {path.name for path in FOLDER.iterdir()}
    assert names == {
        "README.md",
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    }


def test_the_weights_are_small_and_bfloat16() -> None:
    assert WEIGHTS.stat().st_size <= 3_000_000
    with safe_open(WEIGHTS, "numpy") as file:
        keys = list(file.keys())
        assert {file.get_slice(key).get_dtype() for key in keys} == {"BF16"}


def test_the_table_is_stored_once_and_declared_tied() -> None:
    with safe_open(WEIGHTS, "numpy") as file:
        keys = list(file.keys())
        assert file.get_slice("model.embed_tokens.weight").get_shape() == [2048, 128]
    assert "lm_head.weight" not in keys
    assert json.loads((FOLDER / "config.json").read_text())["tie_word_embeddings"] is True


def test_the_loaded_model_has_one_table(loaded: tuple[Any, Any, list[str]]) -> None:
    model = loaded[0]
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight


def test_spare_rows_stand_above_the_highest_id(loaded: tuple[Any, Any, list[str]]) -> None:
    model, tokenizer, _ = loaded
    assert (len(tokenizer), max(tokenizer.get_vocab().values())) == (1990, 1989)
    assert model.config.vocab_size == 2048


def test_special_tokens_are_known_alike_to_tokenizer_and_config(loaded: tuple[Any, Any, list[str]]) -> None:
    model, tokenizer, _ = loaded
    ids = (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id)
    assert tokenizer.all_special_tokens == ["<|bos|>", "<|eos|>", "<|pad|>"]
    for config in (model.config, model.generation_config):
        assert (config.bos_token_id, config.eos_token_id, config.pad_token_id) == ids == (0, 1, 2)


@pytest.mark.parametrize("text", [SNIPPET, "def f(x):\n    return x + 1\n", "naïve 日本語 🙂\t\r\n  end"])
def test_any_text_survives_the_tokenizer(loaded: tuple[Any, Any, list[str]], text: str) -> None:
    tokenizer = loaded[1]
    ids = tokenizer(text).input_ids
    assert ids[0] == 0
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_unseen_text_is_predicted_far_better_than_by_token_counts(loaded: tuple[Any, Any, list[str]]) -> None:
    import torch

    model, tokenizer, _ = loaded
    ids = tokenizer(SNIPPET, return_tensors="pt").input_ids
    with torch.no_grad():
        loss = float(model(input_ids=ids, labels=ids).loss)
    counts = Counter(ids[0, 1:].tolist())
    total = sum(counts.values())
    unigram = -sum(n * math.log(n / total) for n in counts.values()) / total  # the best any unigram could do
    assert loss < unigram - 0.8
    assert loss < 0.5 * math.log(2048)


def test_generation_is_words(loaded: tuple[Any, Any, list[str]]) -> None:
    model, tokenizer, _ = loaded
    inputs = tokenizer("The function returns a", return_tensors="pt", return_token_type_ids=False)
    out = model.generate(**inputs, max_new_tokens=40, do_sample=False)
    text = tokenizer.decode(out[0], skip_special_tokens=True)
    words = text.removeprefix("The function returns a").split()
    assert len(words) >= 12
    assert len(set(words)) >= 8, text


def test_the_snippet_is_of_held_out_topics(text_module: ModuleType) -> None:
    assert all(text_module.is_held_out(f"topics/{name}") for name in ("while", "nonlocal"))


def test_no_held_out_paragraph_is_trained_on(text_module: ModuleType) -> None:
    shared = "The same paragraph may stand in two places,\nonly wrapped and indented differently there."
    own = "A paragraph that stands in one document alone and is therefore kept for training."
    documents = [
        text_module.Document("topics/break", f"{own}\n\n   {shared.replace(chr(10), ' ')}"),
        text_module.Document("topics/while", shared),
    ]
    train, held_out = text_module.split_documents(documents)
    assert [document.text for document in train] == [own]
    assert held_out == [documents[1]]


def test_the_card_gives_figures_and_the_license() -> None:
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    for part in ("| model |", "| bigram |", "| unigram |", "held-out tokens", "Python Software Foundation"):
        assert part in card
