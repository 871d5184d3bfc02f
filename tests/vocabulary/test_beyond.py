"""Rows behind the vocabulary: found from the tables' own rows, and moved or left as the model counts them."""

from __future__ import annotations

import json

import pytest

from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.vocabulary.beyond import Beyond, rows_beyond
from vocabsurgeon.vocabulary.families import Family, family_for


def _family(model_type: str, architecture: str) -> Family:
    family = family_for(model_type, architecture)
    assert family is not None
    return family


def _config(**values: object) -> Config:
    return Config.parse(json.dumps(values))


MLLAMA = ("mllama_text_model", "MllamaForCausalLM")
CPMANT = ("cpmant", "CpmAntForCausalLM")


@pytest.mark.parametrize(
    ("names", "rows", "size", "expected"),
    [
        (MLLAMA, (168, 160), 160, Beyond(8, 0, False)),
        (MLLAMA, (164, 160), 160, Beyond(4, 0, False)),  # as many as the file holds, not as many as usual
        (CPMANT, (1184, 160), 160, Beyond(1024, 0, True)),
        (("llama", "LlamaForCausalLM"), (168, 160), 160, Beyond()),  # no such rows: a mismatch stays one
        (MLLAMA, (168, 160), 100, Beyond()),  # the config's size is neither
        (MLLAMA, (168, None), 160, Beyond(8, 0, False)),
    ],
)
def test_rows_beyond(names: tuple[str, str], rows: tuple[int | None, int | None], size: int, expected: Beyond) -> None:
    assert rows_beyond(_family(*names), _config(vocab_size=size), *rows) == expected


def test_a_config_without_a_size_leaves_it_to_the_tables() -> None:
    assert rows_beyond(_family(*MLLAMA), _config(), 168, 160) == Beyond(8, 0, False)
    assert rows_beyond(_family(*MLLAMA), _config(), 168, None) == Beyond(8, 0, False)
