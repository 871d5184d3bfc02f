"""Quantized tables are refused before anything is written; plain tables beside quantized layers are edited as ever."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.cli.runner import vocabsurgeon
from tests.models.tiny import model
from tests.surgery.shelf import (
    HEAD,
    INPUT,
    Tensors,
    bits,
    config_of,
    contents,
    leftovers,
    logits_of,
    taken,
    tensors_of,
    with_config,
    with_tensors,
)
from tests.vocabulary.quantized_layouts import FORMATS, quantize, settings_of
from tests.vocabulary.test_quantized import LAYER, quantized_source
from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.quantized import plain_head_values
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extending, run, tying, untying

OPERATIONS = {"extend": extending(extend_request(("<new>",))), "tie": tying(), "untie": untying()}
WHERE = "quantization_config"


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_quantized_head_is_refused_and_nothing_is_written(operation: str, name: str, tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", name, "lm_head", LAYER)
    before = contents(source)
    refused = run(source, tmp_path / "out", OPERATIONS[operation])
    assert isinstance(refused, Refusal) and refused.exit_code == 2 and refused.operation == operation
    assert HEAD in refused.reason and settings_of(name).get(WHERE, {}).get("quant_method", "") in refused.reason
    assert "quantized from" in refused.ways_out[0]
    assert leftovers(tmp_path / "out") == [] and contents(source) == before


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_quantized_embedding_is_refused(operation: str, tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", "mlx", "model.embed_tokens", tied=True)
    refused = run(source, tmp_path / "out", OPERATIONS[operation])
    assert isinstance(refused, Refusal) and INPUT in refused.reason and "mlx" in refused.reason


def test_the_command_says_so_in_one_line(tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", "gptq", "lm_head")
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<new>")
    assert ran.code == 2 and "lm_head.weight (output, gptq) is stored quantized" in ran.line
    assert "lm_head.qweight" in ran.line and "quantized from" in ran.line
    shown = vocabsurgeon("inspect", source, "--json")
    assert shown.code == 0 and shown.document["quantized"][0]["scheme"] == "gptq"
    assert vocabsurgeon("check", source).code == 0


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("tied", [True, False])
def test_plain_tables_beside_quantized_layers_grow(name: str, tied: bool, tmp_path: Path) -> None:
    source = quantized_source(tmp_path / "source", name, LAYER, tied=tied)
    report = run(source, tmp_path / "out", OPERATIONS["extend"])
    assert isinstance(report, OperationReport) and report.passed
    old, new = tensors_of(source), tensors_of(tmp_path / "out")
    assert old.keys() == new.keys()
    for key, tensor in new.items():
        grown = key in (INPUT, HEAD)
        assert tuple(tensor.shape) == ((65, *old[key].shape[1:]) if grown else tuple(old[key].shape))
        assert bits(tensor[:64] if grown else tensor) == bits(old[key])
    assert config_of(tmp_path / "out") == config_of(source) | {"vocab_size": 65}


def test_an_fp8_table_without_scales_grows(tmp_path: Path) -> None:
    def narrow(tensors: Tensors) -> None:
        tensors[INPUT] = tensors[INPUT].to(torch.float8_e4m3fn)

    source = with_tensors(taken(tmp_path / "source"), narrow)
    report = run(source, tmp_path / "out", OPERATIONS["extend"])
    assert isinstance(report, OperationReport) and report.passed
    table = tensors_of(tmp_path / "out")[INPUT]
    assert table.dtype is torch.float8_e4m3fn and table.shape[0] == 65
    assert bits(table[:64]) == bits(tensors_of(source)[INPUT])


LISTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a list without the head": (
        {"quant_method": "bitsandbytes", "llm_int8_skip_modules": ["vision_tower"]},
        {"llm_int8_skip_modules": ["vision_tower", "lm_head"]},
    ),
    "an empty list": (
        {"quant_method": "fp8", "modules_to_not_convert": []},
        {"modules_to_not_convert": ["lm_head"]},
    ),
    "a list under its other name": (
        {"quant_method": "fp8", "ignored_layers": ["gate"]},
        {"ignored_layers": ["gate", "lm_head"]},
    ),
    "a list with the head": ({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]}, {}),
    "a pattern that means the head": ({"quant_method": "compressed-tensors", "ignore": ["re:.*head"]}, {}),
    "a glob that means the head": ({"quant_method": "quark", "exclude": ["*head"]}, {}),
    "patterns that are none": (
        {"quant_method": "torchao", "modules_to_not_convert": ["(", 3]},
        {"modules_to_not_convert": ["(", 3, "lm_head"]},
    ),
    "no list, the head is plain by default": ({"quant_method": "bitsandbytes", "load_in_8bit": True}, {}),
    "null counts as no list": ({"quant_method": "eetq", "modules_to_not_convert": None}, {}),
    "no list, everything is taken": ({"quant_method": "compressed-tensors"}, {"ignore": ["lm_head"]}),
    "a method that takes blocks only": ({"quant_method": "gptq", "bits": 4}, {}),
    "a method told to take the head": ({"quant_method": "gptq", "lm_head": True}, {"lm_head": False}),
    "a list of weights": (
        {"quant_method": "aqlm", "linear_weights_not_to_quantize": ["model.embed_tokens.weight"]},
        {"linear_weights_not_to_quantize": ["model.embed_tokens.weight", "lm_head", "lm_head.weight"]},
    ),
}


@pytest.mark.parametrize(("stated", "changed"), LISTS.values(), ids=list(LISTS))
def test_untie_keeps_the_new_head_plain_at_load(
    stated: dict[str, Any], changed: dict[str, Any], tmp_path: Path
) -> None:
    source = with_config(taken(tmp_path / "source"), **{WHERE: stated})
    report = run(source, tmp_path / "out", OPERATIONS["untie"])
    assert isinstance(report, OperationReport) and report.passed
    assert config_of(tmp_path / "out")[WHERE] == stated | changed
    assert any("leave the stored head plain" in note for note in report.plan.notes) is bool(changed)
    assert bits(tensors_of(tmp_path / "out")[HEAD]) == bits(tensors_of(source)[INPUT])


def test_other_heads_are_named_in_full() -> None:
    config = Config.parse(
        '{"text_config": {"quantization_config": {"quant_method": "fp8", "modules_to_not_convert": []}}}'
    )
    path = ("text_config", WHERE, "modules_to_not_convert")
    assert plain_head_values(config, "cls.predictions.decoder.weight") == {path: ["cls.predictions.decoder"]}
    assert plain_head_values(config, "language_model.lm_head.weight") == {path: ["lm_head"]}


READERS = {
    "bitsandbytes": ("llm_int8_skip_modules", False),
    "fp8": ("modules_to_not_convert", False),
    "torchao": ("modules_to_not_convert", False),
    "eetq": ("modules_to_not_convert", False),
    "quanto": ("modules_to_not_convert", False),
    "awq": ("modules_to_not_convert", True),
}
"""Method → its list, and whether transformers adds its own defaults to it."""


@pytest.mark.parametrize("method", READERS)
@pytest.mark.parametrize("given", [None, [], ["down_proj"], ["lm_head"]], ids=str)
def test_transformers_converts_no_head_that_untie_stored(method: str, given: list[str] | None) -> None:
    """Asked of the function that every quantizer of transformers fills its list with, and the one that reads it."""
    from transformers.quantizers.base import HfQuantizer
    from transformers.quantizers.quantizers_utils import should_convert_module

    name, adds = READERS[method]
    untied = model("llama", tied=False)

    def converted(settings: dict[str, Any]) -> bool:
        skipped = HfQuantizer.get_modules_to_not_convert(untied, copy.copy(settings.get(name)), None, adds)
        return bool(should_convert_module("lm_head", skipped))

    settings = {"quant_method": method, name: given}
    values = plain_head_values(_config({WHERE: settings}), HEAD)
    assert bool(values) is converted(settings), "written only where it is needed"
    assert not converted(settings | {path[-1]: value for path, value in values.items()})


def _config(values: dict[str, Any]) -> Config:
    return Config.parse(json.dumps(values))


@pytest.mark.parametrize("operation", ["extend", "untie"])
def test_an_fp8_checkpoint_reloads_with_its_logits(operation: str, tmp_path: Path) -> None:
    pytest.importorskip("accelerate")
    import transformers

    source = taken(tmp_path / "source", dtype="bfloat16")
    layers = [key.removesuffix(".weight") for key in tensors_of(source) if "_proj" in key]
    with_tensors(source, lambda tensors: [quantize(tensors, module, "fp8") for module in layers])
    settings = {"quant_method": "fp8", "weight_block_size": [128, 128], "modules_to_not_convert": []}
    with_config(source, quantization_config=settings)
    before = logits_of(transformers.AutoModelForCausalLM.from_pretrained(source).eval())
    report = run(source, tmp_path / "out", OPERATIONS[operation])
    assert isinstance(report, OperationReport) and report.passed
    after = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out").eval()
    assert np.array_equal(logits_of(after), before)
