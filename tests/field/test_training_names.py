"""Wrappers' names in stored keys (train-llm-from-scratch#36, lightning#20233, eole#179): seen, named, refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
import torch

from tests.cli.runner import vocabsurgeon
from tests.surgery.shelf import HEAD, INPUT, contents, shelved, taken, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.training_names import training_names
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import check

Rename = Callable[[str], str]
LAYER = "model.layers.1."


def _before(text: str) -> Rename:
    return lambda key: text + key


def _after(start: str, text: str) -> Rename:
    return lambda key: key.replace(start, start + text, 1) if key.startswith(start) else key


def _saved_module(key: str) -> str:
    part = {INPUT: "model.embed_tokens.modules_to_save.default.weight", HEAD: "lm_head.modules_to_save.default.weight"}
    return "base_model.model." + part.get(key, key.replace("_proj.weight", "_proj.base_layer.weight"))


WHOLE: dict[str, tuple[Rename, str, str]] = {
    "compiled": (_before("_orig_mod."), "_orig_mod.", "torch.compile"),
    "ddp": (_before("module."), "module.", "DistributedDataParallel"),
    "ddp of compiled": (_before("module._orig_mod."), "_orig_mod.", "torch.compile"),
    "fsdp": (_before("_fsdp_wrapped_module."), "_fsdp_wrapped_module.", "FullyShardedDataParallel"),
    "fabric": (_before("_forward_module."), "_forward_module.", "Lightning"),
    "fabric over lightning": (_before("_forward_module.model."), "model.", "LightningModule"),
    "lightning": (_before("model."), "model.", "LightningModule"),
    "another attribute": (_before("net."), "net.", "LightningModule"),
    "peft": (_before("base_model.model."), "base_model.model.", "PEFT"),
    "peft inside ddp": (_before("module.base_model.model."), "base_model.model.", "PEFT"),
    "peft's modules": (_saved_module, "modules_to_save.<adapter>.", "PEFT"),
    "inner compiled": (_after("model.", "_orig_mod."), "_orig_mod.", "torch.compile"),
    "inner ddp": (_after("model.", "module."), "module.", "DistributedDataParallel"),
}
"""Name → what the stored names are, the text that is to be named, and whose it is."""
LAYERS: dict[str, tuple[Rename, str, str]] = {
    "a compiled layer": (_after(LAYER, "_orig_mod."), "_orig_mod.", "torch.compile"),
    "an fsdp layer": (_after(LAYER, "_fsdp_wrapped_module."), "_fsdp_wrapped_module.", "FullyShardedDataParallel"),
    "a checkpointed layer": (
        _after(LAYER, "_checkpoint_wrapped_module."),
        "_checkpoint_wrapped_module.",
        "checkpoint_",
    ),
    "an adapted layer": (
        lambda key: key.replace(f"{LAYER}mlp.up_proj.", f"{LAYER}mlp.up_proj.base_layer."),
        "base_",
        "PEFT",
    ),
}
"""The same, of names that leave the tables plain."""
EVERY = {**WHOLE, **LAYERS}


def _renamed(folder: Path, rename: Rename) -> Path:
    def change(tensors: dict[str, torch.Tensor]) -> None:
        for key in list(tensors):
            tensors[rename(key)] = tensors.pop(key)

    return with_tensors(folder, change)


@pytest.mark.parametrize("name", EVERY)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_tables_are_seen_through_the_names_and_the_names_are_told(name: str, tied: bool, tmp_path: Path) -> None:
    rename, text, whose = EVERY[name]
    plain = describe(Checkpoint.open(shelved(tied=tied)))
    seen = describe(Checkpoint.open(_renamed(taken(tmp_path / "source", tied=tied), rename)))
    assert [table.key for table in seen.tables.stored] == [rename(table.key) for table in plain.tables.stored]
    assert (seen.tie.state, seen.tie.declared, seen.tie.values_equal) == (
        plain.tie.state,
        plain.tie.declared,
        plain.tie.values_equal,
    )
    assert seen.vocabulary == plain.vocabulary and seen.bytes == plain.bytes
    assert seen.tie.effective == (None if name in WHOLE else plain.tie.effective)
    told = [line for line in seen.tie.evidence if text in line and whose in line]
    changed = sum(rename(key) != key for key in plain.source.tensors)
    whole = name not in ("peft's modules", "ddp of compiled")
    assert told and (not whole or f"of {len(plain.source.tensors)} tensors" in told[0])
    assert any(f" {changed} of " in line for line in seen.tie.evidence)
    report = check(seen)
    finding = next(finding for finding in report.findings if text in finding.message)
    assert not report.passed and finding.severity == "error" and "rename the tensors" in finding.fix


@pytest.mark.parametrize("name", EVERY)
def test_every_edit_is_refused_with_the_name_and_the_way_out(name: str, tmp_path: Path) -> None:
    rename, text, whose = EVERY[name]
    source, out = _renamed(taken(tmp_path / "source"), rename), tmp_path / "out"
    before = contents(source, without=())
    for command in (
        ("extend", source, out, "--token", "<|x|>"),
        ("extend", source, out, "--token", "<|x|>", "--input-key", rename(INPUT)),
        ("tie", source, out),
        ("untie", source, out),
    ):
        ran = vocabsurgeon(*command)
        assert ran.code == 2 and text in ran.line and whose in ran.line and "rename the tensors" in ran.line
        assert "--input-key" not in ran.line and "fetch" not in ran.line
    assert not out.exists() and contents(source, without=()) == before


@pytest.mark.parametrize("name", ["compiled", "a compiled layer", "peft"])
def test_a_load_is_never_said_to_agree_while_parameters_are_random(name: str, tmp_path: Path) -> None:
    source = _renamed(taken(tmp_path / "source"), EVERY[name][0])
    ran = vocabsurgeon("inspect", source, "--load", "--json")
    live = ran.document["live"]
    assert ran.code == 1 and live["agrees"] is False and live["missing_keys"]
    assert any("in no file" in line for line in live["evidence"])
    parity = vocabsurgeon("verify", shelved(), source, "--logits", "--json")
    assert parity.code == 1 and "in no file" in parity.document["parity"]["evidence"][-1]


def _ones(tensors: dict[str, torch.Tensor]) -> None:
    for key in tensors:
        if "norm" in key:
            tensors[key] = torch.ones_like(tensors[key])


@pytest.mark.parametrize("name", EVERY)
def test_verify_sees_the_same_tensors_under_other_names(name: str, tmp_path: Path) -> None:
    rename, text, _ = EVERY[name]
    source = with_tensors(taken(tmp_path / "source"), _ones)
    after = _renamed(Path(shutil.copytree(source, tmp_path / "after")), rename)
    keys = list(Checkpoint.open(source).tensors)
    for pair, names in (((source, after), (str, rename)), ((after, source), (rename, str))):
        ran = vocabsurgeon("verify", *pair, "--json")
        assert ran.code == 0, ran.document["differences"]
        told = [line for line in ran.document["differences"] if line.startswith("tensor renamed: ")]
        shown = [entry for line in told for entry in line.removeprefix("tensor renamed: ").split(", ")]
        expected = {f"{names[0](key)} → {names[1](key)}" for key in keys if rename(key) != key}
        assert shown and {entry.partition(" and ")[0] for entry in shown} <= expected
    assert any(text in line for line in vocabsurgeon("verify", source, after, "--json").document["differences"])


@pytest.mark.parametrize("name", EVERY)
def test_verify_finds_what_changed_under_another_name(name: str, tmp_path: Path) -> None:
    changed = f"{LAYER}mlp.up_proj.weight"
    after = with_tensors(taken(tmp_path / "after"), lambda tensors: tensors[changed][0].neg_())
    ran = vocabsurgeon("verify", shelved(), _renamed(after, EVERY[name][0]), "--json")
    assert ran.code == 1
    assert f"values changed: {EVERY[name][0](changed)}" in ran.document["differences"]


def test_an_adapter_that_is_not_merged_is_to_be_merged(tmp_path: Path) -> None:
    def adapt(tensors: dict[str, torch.Tensor]) -> None:
        tensors["base_model.model.model.layers.0.mlp.up_proj.lora_A.default.weight"] = torch.ones(2, 16)

    source = with_tensors(_renamed(taken(tmp_path / "source"), _saved_module), adapt)
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<|x|>")
    assert ran.code == 2 and "merge_and_unload" in ran.line and "rename the tensors" not in ran.line


def test_two_tensors_of_one_plain_name_are_not_mixed_up(tmp_path: Path) -> None:
    def twice(tensors: dict[str, torch.Tensor]) -> None:
        tensors[f"_orig_mod.{INPUT}"] = torch.zeros_like(tensors[INPUT])

    source = with_tensors(taken(tmp_path / "source"), twice)
    seen = describe(Checkpoint.open(source))
    assert seen.tables.input is not None and seen.tables.input.key == INPUT and seen.tie.effective == "shared"
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<|x|>")
    assert ran.code == 2 and "decide which tensor counts" in ran.line and f"_orig_mod.{INPUT}" in ran.line


def test_peft_s_trained_module_counts_before_the_untrained() -> None:
    names = training_names(["a.original_module.weight", "a.modules_to_save.default.weight", "b.weight"])
    assert names.plain == {"a.modules_to_save.default.weight": "a.weight"}
    assert names.clashes == ("a.original_module.weight",)


def test_names_that_classes_themselves_use_are_left_alone() -> None:
    """Every row of the families table, with its own expected names, and parts that are called like wrappers."""
    rows = json.loads(files("vocabsurgeon.vocabulary").joinpath("families.json").read_text("utf-8"))["rows"]
    for row in rows:
        keys = [row["input"], *filter(None, [row.get("output")]), *row.get("biases", {}), *row.get("others", {})]
        keys += [name for names in row.get("also", {}).values() for name in names]
        assert not training_names(keys, keys[:2]), row["type"]
    levit = ["levit.encoder.stages.0.layers.0.module.queries_keys_values.linear.weight", INPUT, "model.model.bias"]
    assert not training_names([*levit, "module.x", "base_model.model.x"], [INPUT, HEAD])
