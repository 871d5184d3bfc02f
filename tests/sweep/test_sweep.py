"""Every model type holds every operation: a class for each way they differ at every run, all in `make test-sweep`."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweep.run import OPERATIONS, rows, subjects, table
from tests.sweep.support import SUPPORT, written

FEW = {
    "llama": "LlamaForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",  # obeys the root
    "qwen2_vl": "Qwen2VLForConditionalGeneration",  # obeys either level
    "gpt_neox": "GPTNeoXForCausalLM",  # stores another name
    "mllama": "MllamaForCausalLM",  # image rows behind the vocabulary, in one table
    "cpmant": "CpmAntForCausalLM",  # prompt rows that move with the size
    "deepseek_v4": "DeepseekV4ForCausalLM",  # experts by token
    "bart": "BartForConditionalGeneration",  # four tables of one parameter, logits bias
    "t5": "T5ForConditionalGeneration",  # forces the flag
    "switch_transformers": "SwitchTransformersForConditionalGeneration",  # scales by the flag
    "t5gemma2": "T5Gemma2ForConditionalGeneration",  # shares more than tables
    "fsmt": "FSMTForConditionalGeneration",  # the head is an embedding
    "encoder-decoder": "EncoderDecoderModel",  # two models in one
    "bert": "BertForMaskedLM",  # linked biases
    "albert": "AlbertForMaskedLM",  # a table narrower than the model
    "mobilebert": "MobileBertForMaskedLM",  # a head in two parts
    "zamba": "ZambaForCausalLM",  # the flag reaches further
}
"""Model type → class."""


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Tiny configs warn about their own token ids."""
    import transformers

    before = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity(logging.CRITICAL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    transformers.logging.set_verbosity(before)


@pytest.mark.parametrize("model_type", FEW)
def test_a_class_of_each_kind_holds_every_operation(model_type: str) -> None:
    outcomes = [line.split("\t") for line in rows([(model_type, FEW[model_type])])]
    broken = [outcome for outcome in outcomes if outcome[4] not in ("held", "no logits")]
    assert not broken
    assert [outcome[3] for outcome in outcomes if outcome[4] == "held"] == [*OPERATIONS, *OPERATIONS]


def test_the_support_page_names_every_class() -> None:
    page = SUPPORT.read_text()
    missing = [pair for pair in subjects() if f"| {pair[0]} | {pair[1]} |" not in page]
    assert not missing


@pytest.mark.sweep
def test_every_model_type_holds_every_operation(capsys: pytest.CaptureFixture[str]) -> None:
    lines = []
    with capsys.disabled():
        for line in table(subjects()):
            lines.append(line)
            print(line, flush=True)
    broken = [line for line in lines if "\tBROKEN\t" in line]
    Path(SUPPORT).write_text(written(lines))
    assert not broken
