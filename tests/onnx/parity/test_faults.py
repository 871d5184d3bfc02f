"""A graph that is wrong in one way of use alone fails in the checks of that use, and the place is found."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.models.tiny import build
from tests.onnx.broken import (
    ALWAYS,
    BATCHED,
    FIRST,
    ONE,
    SEVERAL,
    STEP,
    When,
    copied,
    misread,
    miswritten,
    overwrite,
    shortened,
)
from tests.onnx.conftest import Exported
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.parity.bisect import FirstDifference, Unfound
from vocabsurgeon.onnx.parity.check import check_parity
from vocabsurgeon.onnx.parity.prompts import prompts
from vocabsurgeon.onnx.parity.report import ParityReport

Get = Callable[..., Exported]
CONTINUED = {f"{start}, continued" for start in ("one token", "left-padded batch", "right-padded batch")}
CACHED = CONTINUED | {"greedy decoding"}
LEFT = {"left-padded batch", "greedy decoding"}


def checked(folder: Path, checkpoint: Path) -> ParityReport:
    return check_parity(folder / "model.onnx", Checkpoint.open(checkpoint))


def place(report: ParityReport) -> str:
    assert not report.passed
    assert isinstance(report.first_difference, FirstDifference), report.first_difference
    return report.first_difference.where


@pytest.fixture
def llama(exported: Get) -> Exported:
    """Four untied layers; no window, no added tokens."""
    return exported("llama", False, num_hidden_layers=4)


@pytest.mark.parametrize(
    ("name", "how", "when", "failed", "where"),
    [
        pytest.param(
            "input_ids", "BitwiseXor", [ONE, FIRST], {"one token", "one token, continued"}, "embedding", id="one"
        ),
        pytest.param(
            "input_ids",
            "BitwiseXor",
            [BATCHED],
            LEFT | CACHED - {"one token, continued"} | {"right-padded batch"},
            "embedding",
            id="batch",
        ),
        pytest.param("position_ids", "Add", [SEVERAL, STEP], CONTINUED, "layer 0", id="several on a cache"),
        pytest.param("position_ids", "Add", [STEP], CACHED, "layer 0", id="positions of cached steps"),
        pytest.param(
            "attention_mask", "Max", [ALWAYS], LEFT | CONTINUED - {"one token, continued"}, "layer 0", id="mask"
        ),
        pytest.param(
            "attention_mask", "Max", [FIRST], LEFT | {"left-padded batch, continued"}, "layer 0", id="mask, past 0"
        ),
        pytest.param("attention_mask", "Max", [STEP], CACHED - {"one token, continued"}, "layer 0", id="mask of steps"),
        pytest.param("past_key_values.2.value", "Add", [ALWAYS], CACHED, "layer 2", id="past of layer 2"),
    ],
)
def test_the_checks_of_a_use_fail_and_the_layer_is_found(
    llama: Exported, tmp_path: Path, name: str, how: str, when: Sequence[When], failed: set[str], where: str
) -> None:
    folder = copied(llama.folder, tmp_path)
    misread(folder / "model.onnx", name, how, when)
    report = checked(folder, llama.checkpoint)
    assert set(report.failed_checks) == failed
    assert place(report) == where
    assert any(reason.startswith("wrong in: ") for reason in report.reasons)


def test_a_cache_that_is_written_wrong_is_named(llama: Exported, tmp_path: Path) -> None:
    folder = copied(llama.folder, tmp_path)
    miswritten(folder / "model.onnx", "present.2.value")
    report = checked(folder, llama.checkpoint)
    assert set(report.failed_checks) == CACHED
    assert place(report) == "cache of layer 2 (value)"
    assert any("it starts at cache of layer 2 (value), which differs by 1" in reason for reason in report.reasons)


@pytest.mark.parametrize(
    ("tensor", "where"), [("model.embed_tokens.weight", "embedding"), ("lm_head.weight", "LM head")]
)
def test_a_row_of_an_added_token_below_padding(llama: Exported, tmp_path: Path, tensor: str, where: str) -> None:
    """Ids 38 to 41 are added tokens, 42 to 63 padding: where a tokenizer says so, they are put in prompts."""
    checkpoint = Path(shutil.copytree(llama.checkpoint, tmp_path / "checkpoint"))
    document = json.loads((checkpoint / "tokenizer.json").read_text())
    vocab = {token: i for token, i in document["model"]["vocab"].items() if i < 38}
    added = [{"id": i, "content": f"<{i}>", "special": True} for i in range(38, 42)]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document["model"]["vocab"], document["added_tokens"] = vocab, [flags | token for token in added]
    (checkpoint / "tokenizer.json").write_text(json.dumps(document))
    told = prompts(Checkpoint.open(checkpoint), 64)
    assert told["added tokens"] == [41, 40, 39, 38]
    elsewhere = {i for name, ids in told.items() for i in ids if name != "added tokens"}
    row = next(i for i in told["added tokens"] if i not in elsewhere)

    folder = copied(llama.folder, tmp_path)
    overwrite(folder, tensor, row * 16 + 3)
    report = checked(folder, checkpoint)
    assert "new tokens" in report.failed_checks
    assert {"left-padded batch", "right-padded batch", "greedy decoding"} <= set(report.failed_checks)
    assert ("full sequence" in report.failed_checks) == (tensor == "lm_head.weight")
    assert place(report) == where


@pytest.fixture
def wide(exported: Get) -> Exported:
    """A window of 100 tokens, longer than anything but the check beyond it."""
    return exported("mistral", sliding_window=100)


def test_a_window_that_is_ignored_fails_beyond_the_window_alone(wide: Exported, tmp_path: Path) -> None:
    report = checked(wide.folder, build("mistral", tmp_path / "c", sliding_window=64))
    assert report.failed_checks == ("beyond the window",)
    assert place(report) == "layer 0"


def test_a_shorter_row_is_seen_beyond_the_window(wide: Exported, tmp_path: Path) -> None:
    """The mask is ignored in long contexts alone: a context by itself would not show it."""
    folder = copied(wide.folder, tmp_path)
    misread(folder / "model.onnx", "attention_mask", "Max", [When("attention_mask", 1, "Greater", 64)])
    report = checked(folder, wide.checkpoint)
    assert report.failed_checks == ("beyond the window",)
    assert place(report) == "layer 0"


def test_what_is_right_has_no_place_and_no_failed_check(wide: Exported) -> None:
    assert wide.report.parity.first_difference is None
    assert wide.report.parity.failed_checks == ()
    assert CACHED | LEFT | {"new tokens", "full sequence", "one token"} <= set(wide.report.parity.checks)


def test_fewer_positions_than_tokens_fail_and_end_the_comparison(llama: Exported, tmp_path: Path) -> None:
    folder = copied(llama.folder, tmp_path)
    shortened(folder / "model.onnx", "logits", [BATCHED])
    report = checked(folder, llama.checkpoint)
    assert not report.passed
    assert report.failed_checks == ("left-padded batch",)
    assert "the export gives logits of shape" in report.reasons[0]
    assert "all after left-padded batch" in report.skipped[-1]
    assert report.to_dict()["max_abs_diff"] is None
    assert report.first_difference == Unfound("there are no two numbers to compare")


def test_a_vocabulary_of_another_size_fails(llama: Exported, exported: Get) -> None:
    other = exported("llama", False, num_hidden_layers=4, vocab_size=98)
    report = checked(other.folder, llama.checkpoint)
    assert not report.passed
    assert "the export gives logits of shape" in report.reasons[0]
