"""What the checks of parity feed: new ids everywhere, padding, chunks on a cache, batches beyond a window."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.tiny import build
from tests.models.tiny import model as tiny
from tests.onnx.kinds import save
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx import horizons
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity import beyond
from vocabsurgeon.onnx.parity.crossed import compare_crossed
from vocabsurgeon.onnx.parity.crossed_sides import TorchCrossSide
from vocabsurgeon.onnx.parity.pair import Pair
from vocabsurgeon.onnx.parity.sides import TorchSide
from vocabsurgeon.onnx.parity.single import compare_single
from vocabsurgeon.onnx.parity.tally import Tally
from vocabsurgeon.onnx.parity.tolerances import Tolerance
from vocabsurgeon.onnx.parity.trail import Call
from vocabsurgeon.onnx.tasks import FILL_MASK, TEXT_GENERATION, TEXT_TO_TEXT, Task

INPUTS = ("input_ids", "attention_mask", "position_ids")
Array = np.ndarray[Any, Any]


@dataclass
class Recording(Pair):
    """A pair that keeps the calls, by check; both sides are the model."""

    calls: dict[str, list[Call]] = field(default_factory=dict)
    encoded: list[Any] = field(default_factory=list)

    def encode(self, check: str, states: Tally, feed: Any, attended: Any) -> None:
        super().encode(check, states, feed, attended)
        self.encoded.append(feed)

    def step(self, check: str, ids: Array, mask: Array, attended: Array, *, greedy: bool = False) -> Array:
        logits = super().step(check, ids, mask, attended, greedy=greedy)
        self.calls.setdefault(check, []).append(self.trail.calls[-1])
        return logits


def past(call: Call) -> int:
    return int(call.mask.shape[1] - call.ids.shape[1])


def recorded(model: Any, source: Path, task: Task = TEXT_GENERATION, caches: bool = True) -> tuple[Recording, Any]:
    side = TorchSide(model, INPUTS, "logits", caches)
    pair = Recording(side, side, Tally())
    return pair, compare_single(pair, model, Checkpoint.open(source), task)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A llama of 64 rows; 38 to 41 are added tokens, above them is padding."""
    folder = build("llama", tmp_path_factory.mktemp("llama"))
    added(folder, range(38, 42))
    return folder


def added(folder: Path, ids: Iterable[int]) -> None:
    """Let the tokenizer of `folder` end with added tokens `ids`."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    document = json.loads((folder / "tokenizer.json").read_text())
    document["added_tokens"] = [flags | {"id": i, "content": f"<{i}>", "special": True} for i in ids]
    document["model"]["vocab"] = {token: i for token, i in document["model"]["vocab"].items() if i < min(ids)}
    (folder / "tokenizer.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def run(source: Path) -> Recording:
    """All checks of a model with a window of 20 tokens."""
    model = tiny("mistral", sliding_window=20)
    return recorded(model, source)[0]


def test_prompts_of_new_ids_are_in_every_kind_of_check(run: Recording) -> None:
    assert [call.ids[0].tolist() for call in run.calls["new tokens"]] == [[*range(63, 47, -1)], [41, 40, 39, 38]]
    for check in ("left-padded batch", "right-padded batch", "greedy decoding", "beyond the window"):
        assert {41, 40, 39} <= {int(i) for call in run.calls[check] for i in call.ids.flatten()}, check


def test_several_tokens_are_put_on_a_cache_in_padded_batches(run: Recording) -> None:
    for side in ("left", "right"):
        first, then = run.calls[f"{side}-padded batch"][0], run.calls[f"{side}-padded batch, continued"][0]
        assert past(first) == 0
        assert past(then) == first.ids.shape[1]
        assert then.ids.shape == (3, 3)
        assert (then.mask[:, :-3] == first.mask).all()
        hidden = first.mask[:, 0] if side == "left" else first.mask[:, -1]
        assert not hidden.all()
        assert (np.diff(then.positions, axis=1) == 1).all()
        assert (then.positions[:, 0] == first.mask.sum(axis=1)).all()


def test_one_token_from_an_empty_cache_and_several_after_it(run: Recording) -> None:
    (one,), (several,) = run.calls["one token"], run.calls["one token, continued"]
    assert (past(one), one.ids.shape) == (0, (1, 1))
    assert (past(several), several.ids.shape) == (1, (1, 3))


def test_beyond_the_window_is_a_padded_batch_that_ends_in_single_steps(run: Recording) -> None:
    *_, last = calls = run.calls["beyond the window"]
    assert last.mask.shape == (2, 44)
    assert last.mask.sum(axis=1).tolist() == [44, 39]
    assert not last.mask[1, :5].any()
    assert [call.ids.shape[1] for call in calls[-3:]] == [1, 1, 1]
    assert past(calls[0]) == 0
    assert sum(call.ids.shape[1] for call in calls) == 44


def test_whole_rows_of_logits_are_compared(run: Recording) -> None:
    assert run.width == 64
    assert run.tally.report("float32", Tolerance(0.0, 0.0)).passed


def test_a_context_that_costs_too_much_is_compared_alone_or_not_at_all(
    source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tiny("mistral", sliding_window=20)
    size = sum(parameter.numel() for parameter in model.parameters())
    monkeypatch.setattr(horizons, "BUDGET", size * 44)
    alone, told = recorded(model, source)
    assert {call.ids.shape[0] for call in alone.calls["beyond the window"]} == {1}
    assert told == ("no batch of contexts beyond the window of 20 tokens was compared: it would take too long",)
    monkeypatch.setattr(horizons, "BUDGET", size * 43)
    none, told = recorded(model, source)
    assert "beyond the window" not in none.calls
    assert told == ("no context beyond the window of 20 tokens was compared: it would take too long",)


def test_without_a_cache_a_batch_goes_beyond_the_window_in_one_call(source: Path) -> None:
    run, told = recorded(tiny("mistral", sliding_window=20), source, caches=False)
    (call,) = run.calls["beyond the window"]
    assert (call.ids.shape, told) == ((2, 44), ())
    assert not any("continued" in check for check in run.calls)


def test_an_encoder_is_padded_on_the_right_beyond_its_window(tmp_path: Path) -> None:
    folder = save("modernbert", tmp_path / "c")
    model = load_model(Checkpoint.open(folder), FILL_MASK, "float32")
    run, _ = recorded(model, folder, FILL_MASK, caches=False)
    (call,) = run.calls["beyond the window"]
    assert call.mask[:, -1].tolist() == [1, 0]


@pytest.fixture(scope="module")
def crossed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    """All checks of a BART with the tokenizer of `source`."""
    folder = save("bart", tmp_path_factory.mktemp("bart"))
    (folder / "tokenizer.json").write_text((source / "tokenizer.json").read_text())
    model = load_model(Checkpoint.open(folder), TEXT_TO_TEXT, "float32")
    side = TorchCrossSide(model, caches=True)
    pair = Recording(side, side, Tally())
    assert compare_crossed(pair, Tally(choices=False), model, Checkpoint.open(folder)) == ()
    return pair


def test_new_ids_are_targets_alone_and_in_batches(crossed: Recording) -> None:
    for check in ("one text", "left-padded batch", "right-padded batch"):
        targets = [row[1:].tolist() for call in crossed.calls[f"{check}, decoded at once"] for row in call.ids]
        assert list(range(62, 51, -1)) in targets, check
        assert ([41, 40, 39, 38] * 3)[1:] in targets, check
    assert any(41 in row for feed in crossed.encoded for row in feed["input_ids"])


def test_several_targets_are_put_on_a_cache_of_a_batch(crossed: Recording) -> None:
    steps = crossed.calls["left-padded batch, decoded in steps"]
    assert [(past(call), call.ids.shape) for call in steps] == [(0, (3, 7)), (7, (3, 3)), (10, (3, 1)), (11, (3, 1))]
    first = crossed.calls["greedy decoding"][0]
    assert (past(first), first.ids.shape) == (0, (3, 1))


def test_a_decoders_window_is_passed_with_as_many_rows_as_were_encoded(source: Path) -> None:
    side = TorchSide(tiny("mistral", sliding_window=20), INPUTS, "logits", caches=True)
    pair = Recording(side, side, Tally())
    beyond.compare_beyond(pair, tiny("mistral"), {"window": 20}, [41], 64, 128, padding=None, batches=(3,))
    last = pair.calls["beyond the window"][-1]
    assert (last.mask.shape, bool(last.mask.all())) == ((3, 44), True)


def test_horizons_are_read_from_the_config() -> None:
    import transformers

    neo = transformers.GPTNeoConfig(window_size=32)
    assert horizons.horizons(neo) == {"window": 32}
    chunked = transformers.Llama4TextConfig(attention_chunk_size=16)
    assert horizons.horizons(chunked) == {"attention chunk": 16}
    led = transformers.LEDConfig(attention_window=[8, 16])
    assert horizons.horizons(led) == {"window": 16}
    assert horizons.horizons(transformers.LlamaConfig()) == {}
    assert horizons.horizons(transformers.DeepseekV32Config(index_topk=8)) == {"index": 8}
    rates = {"compressed_sparse_attention": 4, "heavily_compressed_attention": 16}
    compressed = transformers.DeepseekV4Config(compress_rates=rates, index_topk=3, sliding_window=8)
    assert horizons.horizons(compressed) == {"window": 8, "compressed window": 16, "index": 12}
    blocks = transformers.MiniMaxM3VLTextConfig(index_topk_blocks=2, index_block_size=6)
    assert horizons.horizons(blocks) == {"index": 12}
    assert horizons.horizons(transformers.Qwen2Config(sliding_window=8, use_sliding_window=False)) == {}
