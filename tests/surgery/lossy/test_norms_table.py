"""final_norms.json says what running models show: a few types here, all of them in the sweep."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.surgery.lossy.observe_norms import FILE, NONE, NotObserved, classes, observed, text

DOCUMENT = json.loads(FILE.read_text())
ROWS: Mapping[str, Mapping[str, Any]] = DOCUMENT["norms"]
FEW = (
    "bart/BartForConditionalGeneration",
    "bert/BertForMaskedLM",
    "cohere/CohereForCausalLM",
    "gemma2/Gemma2ForCausalLM",
    "gpt2/GPT2LMHeadModel",
    "llama/LlamaForCausalLM",
    "llava/LlavaForConditionalGeneration",
    "olmo/OlmoForCausalLM",
    "qwen3_next/Qwen3NextForCausalLM",
    "t5/T5ForConditionalGeneration",
)


@pytest.mark.parametrize("name", FEW)
def test_a_row_is_what_a_running_model_shows(name: str) -> None:
    assert observed(*name.split("/")) == ROWS[name]


def test_the_file_is_as_the_tool_writes_it() -> None:
    import transformers

    written = text({key: dict(row) for key, row in ROWS.items()})
    assert FILE.read_text() == written.replace(transformers.__version__, DOCUMENT["transformers"])
    assert all(("gain" in row) != (row == {"without": NONE}) for row in ROWS.values())


def test_gains_stored_as_gain_minus_one_are_known_as_such() -> None:
    """Read in transformers' sources: these norms multiply by `1 + weight`, the others of these types by `weight`."""
    shifted = {name.split("/")[0] for name, row in ROWS.items() if row.get("offset") == 1.0}
    assert {"gemma", "gemma2", "gemma3_text", "gemma3", "recurrent_gemma", "t5gemma", "vaultgemma"} <= shifted
    assert {"qwen3_next", "qwen3_5_text", "minimax_m3_vl_text"} <= shifted
    assert not {"llama", "qwen3", "gemma3n_text", "gemma4_text", "mistral", "t5", "gpt2"} & shifted


@pytest.mark.sweep
@pytest.mark.parametrize("key", sorted(set(classes())), ids="/".join)
def test_every_row_is_what_a_running_model_shows(key: tuple[str, str]) -> None:
    try:
        row = observed(key[0].partition("+")[0], key[1])
    except NotObserved as reason:
        assert "/".join(key) not in ROWS, reason
        pytest.skip(str(reason))
    assert row == ROWS["/".join(key)]
