"""Inputs that a stranger found: a config silent about the size, unknown class names, numbers that are none."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.models.tiny import build, write_tokenizer


def cli(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "vocabsurgeon", *map(str, arguments)], capture_output=True, text=True, timeout=120
    )


def edit(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize("silent", ["absent", "null"])
def test_extend_writes_the_size_where_the_config_left_it_to_the_default(tmp_path: Path, silent: str) -> None:
    from transformers import AutoModelForCausalLM

    source = build("llama", tmp_path / "s", vocab_size=32000)
    write_tokenizer(source, 32000)
    edit(source, lambda c: c.pop("vocab_size") if silent == "absent" else c.update(vocab_size=None))
    done = cli("extend", source, tmp_path / "o", "--token", "<n>")
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "o" / "config.json").read_text())["vocab_size"] == 32001
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "o").model.embed_tokens.weight.shape[0] == 32001


def test_a_stored_head_counts_whatever_the_class_is_called(tmp_path: Path) -> None:
    source = build("llama", tmp_path / "s", tied=False)
    edit(source, lambda c: c.update(architectures=["Nope"]))
    done = cli("extend", source, tmp_path / "o", "--token", "<n>", "--json")
    report = json.loads(done.stdout)
    assert report["tie"]["state"] == "untied"
    assert [table["shape"][0] for table in report["tables"]] == [65, 65]


def test_a_tokenizer_that_cannot_encode_is_bad_input(tmp_path: Path) -> None:
    source = build("llama", tmp_path / "s")
    tokenizer = json.loads((source / "tokenizer.json").read_text())
    tokenizer["model"]["unk_token"] = "[GONE]"
    (source / "tokenizer.json").write_text(json.dumps(tokenizer))
    done = cli("extend", source, tmp_path / "o", "--token", "<n>")
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    assert "tokenizer.json" in done.stderr and not (tmp_path / "o").exists()


@pytest.mark.parametrize("number", ["nan", "inf", "-1", "1e400"])
@pytest.mark.parametrize("option", ["--max-ratio", "--atol", "--rtol"])
def test_a_ratio_or_tolerance_that_is_no_number_is_bad_usage(tmp_path: Path, option: str, number: str) -> None:
    done = cli("export", tmp_path, tmp_path / "o", option, number)
    assert done.returncode == 2 and option in done.stderr


def test_an_empty_config_breaks_no_promise(tmp_path: Path) -> None:
    source = build("llama", tmp_path / "s")
    (source / "config.json").write_text("{}")
    done = cli("untie", source, tmp_path / "o")
    assert "promise" not in done.stderr and done.returncode in (0, 2), done.stderr


def test_a_piece_that_is_not_finite_is_told(tmp_path: Path) -> None:
    import numpy as np
    from safetensors.numpy import load_file, save_file

    source = build("llama", tmp_path / "s")
    weights = dict(load_file(source / "model.safetensors"))
    table = weights["model.embed_tokens.weight"].copy()
    table[5] = np.nan
    save_file(weights | {"model.embed_tokens.weight": table}, source / "model.safetensors", {"format": "pt"})
    done = cli("extend", source, tmp_path / "o", "--token", "<n>", "--describe", "<n>=w5 w6", "--json")
    (token,) = json.loads(done.stdout)["tokens"]
    assert token["norm"] is None
    assert any("not finite" in note for note in token["notes"])
