"""Bad input to every command: exit 2, one line that names the fault and the next step, no OUT, no traceback."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.runner import Ran, vocabsurgeon
from tests.faults.checkpoints import raw_file
from tests.surgery.shelf import contents, leftovers, shelved, taken, with_config, with_json, with_tensors

COMMANDS: dict[str, list[str]] = {
    "inspect": [],
    "check": [],
    "extend": ["--token", "<a>"],
    "tie": [],
    "untie": [],
    "verify": [],
}


def _run(command: str, source: Path | str, tmp_path: Path) -> Ran:
    out = [] if command in ("inspect", "check") else [shelved()] if command == "verify" else [tmp_path / "out"]
    ran = vocabsurgeon(command, source, *out, *COMMANDS[command])
    assert leftovers(tmp_path / "out") == []
    return ran


def _weights(target: Path, content: bytes) -> Path:
    taken(target)
    (target / "model.safetensors").write_bytes(content)
    return target


def _file(target: Path, suffix: str, content: bytes = b"GGUF") -> Path:
    path = target.with_suffix(suffix)
    path.write_bytes(content)
    return path


def _adapter(target: Path) -> Path:
    target.mkdir()
    (target / "adapter_config.json").write_text('{"base_model_name_or_path": "meta-llama/Llama-3.2-1B"}')
    (target / "adapter_model.safetensors").write_bytes(raw_file({}))
    return target


def _only(target: Path, name: str, content: bytes = b"x") -> Path:
    target.mkdir()
    (target / name).write_bytes(content)
    return target


def _header(target: Path, change: Callable[[dict], object]) -> Path:  # type: ignore[type-arg]
    taken(target)
    raw = (target / "model.safetensors").read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    change(header)
    (target / "model.safetensors").write_bytes(raw_file(header, raw[8 + length :]))
    return target


def _pickled(target: Path) -> Path:
    taken(target)
    (target / "model.safetensors").rename(target / "pytorch_model.bin")
    return target


TABLE = "model.embed_tokens.weight"
INPUTS: dict[str, tuple[Callable[[Path], Path | str], str]] = {
    "missing folder": (lambda path: path, "does not exist"),
    "empty name": (lambda path: "", ""),
    "a name with NUL": (lambda path: "a\0b", "not a path"),
    "a name with an escape code": (lambda path: "\x1b[31mred", "does not exist"),
    "a repo id": (lambda path: "google/gemma-3-270m", "hf download google/gemma-3-270m"),
    "a file": (lambda path: _file(path, ".txt"), "name the folder"),
    "a lone .safetensors": (lambda path: _file(path, ".safetensors"), "config.json"),
    "a GGUF file": (lambda path: _file(path, ".gguf"), "gguf_file"),
    "a folder with a GGUF": (lambda path: _only(path, "model.gguf"), "gguf_file"),
    "a PEFT adapter": (_adapter, "merge_and_unload"),
    "an empty folder": (lambda path: _only(path, "x"), "no config.json"),
    "no weights": (lambda path: _only(path, "config.json", b"{}"), "no weights"),
    "a .bin that is no torch file": (_pickled, "is no weights file of torch"),
    "an empty weights file": (lambda path: _weights(path, b""), "not a safetensors file"),
    "a header that is cut": (lambda path: _weights(path, struct.pack("<Q", 5000) + b"{"), "header claims 5000"),
    "data that is cut": (
        lambda path: _weights(path, (shelved() / "model.safetensors").read_bytes()[:-7]),
        "truncated",
    ),
    "an LFS pointer": (lambda path: _weights(path, b"version https://git-lfs.github.com/spec/v1\n"), "git lfs pull"),
    "an unknown dtype": (
        lambda path: _header(path, lambda header: header[TABLE].update(dtype="F12")),
        "unknown dtype 'F12'",
    ),
    "a negative shape": (
        lambda path: _header(path, lambda header: header[TABLE].update(shape=[-1, 2])),
        "whole numbers",
    ),
    "no table": (lambda path: with_tensors(taken(path), lambda tensors: tensors.pop(TABLE)), "no vocabulary table"),
    "a table of three dimensions": (
        lambda path: with_tensors(taken(path), lambda tensors: tensors.update({TABLE: tensors[TABLE][None]})),
        "not [rows, width]",
    ),
    "a flag that is a text": (lambda path: with_config(taken(path), tie_word_embeddings="yes"), "not true or false"),
    "a model type that is a number": (lambda path: with_config(taken(path), model_type=3), "not a string"),
    "a config that is cut": (
        lambda path: (taken(path) / "config.json").write_text("{") and path,
        "config.json: is not JSON",
    ),
    "a tokenizer that is cut": (
        lambda path: (taken(path) / "tokenizer.json").write_text("{") and path,
        "tokenizer.json",
    ),
    "a tokenizer of another shape": (
        lambda path: (taken(path) / "tokenizer.json").write_text("[1]") and path,
        "tokenizer.json",
    ),
}


@pytest.mark.parametrize(("make", "told"), INPUTS.values(), ids=list(INPUTS))
@pytest.mark.parametrize("command", COMMANDS)
def test_bad_input_is_one_line_and_exit_2(
    command: str, make: Callable[[Path], Path | str], told: str, tmp_path: Path
) -> None:
    source = make(tmp_path / "source")
    ran = _run(command, source, tmp_path)
    assert (ran.code, ran.stdout) == (2, ""), (ran.stdout, ran.stderr)
    assert told in ran.line and ran.line[:-1].isprintable()


def test_id_collisions_are_refused(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    document = json.loads((source / "tokenizer.json").read_text())
    document["model"]["vocab"]["twin"] = 5
    (source / "tokenizer.json").write_text(json.dumps(document))
    ran = _run("extend", source, tmp_path)
    assert ran.code == 2 and "id 5 stands for both" in ran.line
    findings = vocabsurgeon("check", source, "--json").document["findings"]
    assert any("id 5 stands for both" in finding["message"] for finding in findings)


TOKENS = {
    "empty": ("", "empty"),
    "a space": (" ", "white space"),
    "white space": ("\u3000 \u2003", "white space"),
    "a tab": ("\t", "control character"),
    "a line break": ("a\nb", "control character"),
    "NUL": ("a\0", "control character"),
    "an escape code": ("\x1b[31m", "control character"),
    "over-long": ("x" * 513, "513 characters"),
    "very long": ("x" * 100_000, "100000 characters"),
    "zero-width alone": ("\u200b", "invisible"),
    "half a surrogate pair": ("\udcff", "surrogate"),
}


@pytest.mark.parametrize(("token", "told"), TOKENS.values(), ids=list(TOKENS))
def test_bad_tokens_are_refused(token: str, told: str, tmp_path: Path) -> None:
    ran = vocabsurgeon("extend", shelved(), tmp_path / "out", "--token", "<fine>", "--token", token)
    assert ran.code == 2 and told in ran.line and ran.line[:-1].isprintable() and len(ran.line) < 500
    assert leftovers(tmp_path / "out") == []


OPTIONS = {
    "a token that replaces two": (["--replace", "w1=<a>", "--replace", "w2=<a>"], "replace two tokens"),
    "an unknown initializer": (["--token", "<a>", "--init", "magic"], "unknown row initializer"),
    "an unknown initializer for nothing": (["--init", "magic"], "unknown row initializer"),
    "a copy of nothing": (["--token", "<a>", "--init", "copy:"], "--init"),
    "a copy of an unknown token": (["--token", "<a>", "--init", "copy:<zzz>"], "does not know '<zzz>'"),
    "a copy of a new token": (["--token", "<a>", "--token", "<b>", "--init", "copy:<b>"], "does not know '<b>'"),
    "padding to nothing": (["--pad-to-multiple-of", "0"], "cannot pad"),
    "padding to less": (["--pad-to-multiple-of", "-8"], "cannot pad"),
    "padding beyond all disks": (["--pad-to-multiple-of", "1000000000000"], "cannot pad"),
    "a negative seed": (["--token", "<a>", "--seed", "-1"], "--seed"),
    "an unknown role": (["--role", "king=<a>", "--token", "<a>"], "king"),
    "a role without a token": (["--role", "eos"], "--role"),
    "a role for an unknown token": (["--role", "eos=<a>"], "no token"),
    "a role for two tokens": (["--token", "<a>", "--token", "<b>", "--role", "eos=<a>", "--role", "eos=<b>"], "eos"),
    "a description of nothing": (["--describe", "<a>=words"], "not added"),
    "a token described twice": (["--token", "<a>", "--describe", "<a>=w1", "--describe", "<a>=w2"], "described twice"),
    "a description without text": (["--token", "<a>", "--describe", "<a>"], "--describe"),
    "a replacement of nothing": (["--replace", "<zzz>=<a>"], "no such token"),
    "a replacement of a word": (["--replace", "w5=<a>"], "ordinary"),
    "a tokens file that is missing": (["--tokens-file", "absent.txt"], "absent.txt"),
    "a tokens file of an unknown kind": (["--tokens-file", "absent.docx"], "absent.docx"),
    "a template that is missing": (["--chat-template", "absent.jinja"], "absent.jinja"),
}


@pytest.mark.parametrize(("options", "told"), OPTIONS.values(), ids=list(OPTIONS))
def test_bad_options_are_refused(options: list[str], told: str, tmp_path: Path) -> None:
    ran = vocabsurgeon("extend", shelved(), tmp_path / "out", *options)
    assert ran.code == 2 and told in ran.line, ran.stderr
    assert leftovers(tmp_path / "out") == []


@pytest.mark.parametrize("rows", [["a"], [1, 2], {"vocab_size": True}], ids=str)
def test_a_size_that_is_no_number_is_refused(rows: object, tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), vocab_size=rows)
    ran = _run("extend", source, tmp_path)
    assert ran.code == 2 and "vocab_size" in ran.line


def test_names_with_control_characters_cannot_color_the_terminal(tmp_path: Path) -> None:
    nasty = "evil\x1b[31m\nname"
    source = taken(tmp_path / "source")
    (source / nasty).write_text("x")
    with_tensors(source, lambda tensors: tensors.update({nasty: tensors["model.norm.weight"].clone()}))
    with_config(source, model_type=nasty, architectures=[nasty])
    for arguments in (
        ["inspect", source],
        ["check", source],
        ["verify", shelved(), source, "-v"],
        ["tie", source, tmp_path / "t", "-v"],
    ):
        ran = vocabsurgeon(*arguments)
        assert ran.code in (0, 1, 2) and "\x1b" not in ran.stdout + ran.stderr
    ran = vocabsurgeon("inspect", nasty)
    assert ran.code == 2 and ran.line[:-1].isprintable()


MARKUP = ["[red]x", "[/INST]", "[/]", "[link=http://x]x", "a[b]c", "\\[x]"]


@pytest.mark.parametrize("token", MARKUP)
def test_square_brackets_are_no_markup(token: str, tmp_path: Path) -> None:
    first = vocabsurgeon("extend", shelved(), tmp_path / "one", "--token", token)
    assert first.code == 0 and token in first.stdout, first.stderr
    again = vocabsurgeon("extend", tmp_path / "one", tmp_path / "two", "--token", "<a>", "--init", f"copy:{token}")
    assert again.code == 0 and f"copy:{token}" in again.stdout, again.stderr
    refused = vocabsurgeon("extend", tmp_path / "one", tmp_path / "three", "--token", "<a>", "--init", token)
    assert refused.code == 2 and token in refused.line


def test_a_quantized_table_is_refused_but_only_where_rows_are_written(tmp_path: Path) -> None:
    import torch

    source = taken(tmp_path / "source")
    with_tensors(source, lambda tensors: tensors.update({TABLE: tensors[TABLE].to(torch.int8)}))
    ran = _run("extend", source, tmp_path)
    assert ran.code == 2 and "quantized" in ran.line
    assert vocabsurgeon("extend", source, tmp_path / "same").code == 0


def test_a_damaged_generation_config_is_told(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    (source / "generation_config.json").write_text("{")
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>", "--role", "eos=<a>")
    assert ran.code == 2 and "generation_config.json" in ran.line


def test_an_initializer_range_that_is_nonsense_is_not_used(tmp_path: Path) -> None:
    for number, std in enumerate((-1, 0, 1e999, "x", True)):
        source = with_json(taken(tmp_path / f"source{number}") / "config.json", initializer_range=std)
        ran = vocabsurgeon("extend", source, tmp_path / f"out{number}", "--token", "<a>", "--init", "normal", "--json")
        assert ran.code == 2 or ran.document["tokens"][0]["expression"]["std"] in (0.02, 1.0)


def test_the_source_is_never_written(tmp_path: Path) -> None:
    source = taken(tmp_path / "source")
    before = contents(source, without=())
    for command, options in COMMANDS.items():
        out = [] if command in ("inspect", "check") else [tmp_path / command]
        assert vocabsurgeon(command, source, *(out if command != "verify" else [source]), *options).code == 0
    assert contents(source, without=()) == before
