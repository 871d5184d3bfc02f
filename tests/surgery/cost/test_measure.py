"""The measured cost of tying, against the same figures taken straight from transformers' logits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.surgery.shelf import HEAD, INPUT, contents, shelved, taken, tensors_of, with_config, with_tensors
from tests.surgery.states import in_state
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.cost import measure
from vocabsurgeon.surgery.cost.measure import CostTable, Probe, measure_cost
from vocabsurgeon.surgery.lossy.candidates import Candidate, NormGain
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.tie_state import TieState

WAYS = tuple(Candidate(keep, keep) for keep in ("input", "output", "mean"))
TEXT = Probe(tuple(f"w{n} w{n + 1} w{n * 3 % 60 + 1} w7 w{60 - n} w{n}" for n in range(1, 9)), ("w1 w2 w3",), "words")
NORM = "model.norm.weight"


def _described(folder: Path) -> Description:
    return describe(Checkpoint.open(folder), compare=True)


def _measured(folder: Path, ways: tuple[Candidate, ...] = WAYS, probe: Probe = TEXT) -> CostTable:
    return measure_cost(_described(folder), ways, probe)


@cache
def _of_llama() -> CostTable:
    return _measured(shelved(tied=False))


def _log_probabilities(model: Any, call: Callable[[Any, list[int]], Any] | None = None) -> np.ndarray[Any, Any]:
    """Over all positions of `TEXT`, float64 `[positions, V]`."""
    found = []
    with torch.no_grad():
        for text in TEXT.passages:
            ids = _ids(text)
            logits = call(model, ids) if call else model(torch.tensor([ids])).logits
            found.append(logits[0].double().log_softmax(-1).numpy())
    return np.concatenate(found)


def _ids(text: str) -> list[int]:
    return [int(word[1:]) for word in text.split()]


def _tied_by_hand(folder: Path, keep: str, model: Any) -> Any:
    tensors = tensors_of(folder)
    first, second = tensors[INPUT], tensors[HEAD]
    table = {"input": first, "output": second, "mean": (first + second) / 2}[keep]
    with torch.no_grad():
        model.get_input_embeddings().weight.copy_(table)
        model.get_output_embeddings().weight.copy_(table)
    return model


def _kl(original: np.ndarray[Any, Any], tied: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    divergence: np.ndarray[Any, Any] = (np.exp(original) * (original - tied)).sum(axis=1)
    return divergence


@pytest.mark.parametrize("keep", ["input", "output", "mean"])
def test_figures_are_those_of_transformers_logits(keep: str) -> None:
    folder = shelved(tied=False)
    original = _log_probabilities(transformers.AutoModelForCausalLM.from_pretrained(folder).eval())
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    tied = _log_probabilities(_tied_by_hand(folder, keep, model))
    (cost,) = (cost for cost in _of_llama().costs if cost.candidate == keep)
    divergence = _kl(original, tied)
    assert cost.positions == len(divergence) == 48
    assert cost.kl_mean == pytest.approx(divergence.mean(), rel=1e-4)
    assert cost.kl_p95 == pytest.approx(np.percentile(divergence, 95), rel=1e-4)
    assert cost.top1_agreement == (original.argmax(1) == tied.argmax(1)).mean()
    targets = np.concatenate([[*_ids(text)[1:], -1] for text in TEXT.passages])
    rows = np.flatnonzero(targets >= 0)
    for side, told in ((original, cost.perplexity_before), (tied, cost.perplexity_after)):
        assert told == pytest.approx(np.exp(-side[rows, targets[rows]].mean()), rel=1e-4)


def test_the_table_tells_the_least_cost_what_it_ran_on_and_what_is_saved() -> None:
    table = _of_llama()
    assert table.reason is None and table.best is not None
    assert table.best.kl_mean == min(cost.kl_mean or 0 for cost in table.costs)
    assert (table.probe, table.passages, table.tokens, table.random_ids, table.dtype) == (
        "words",
        8,
        48,
        False,
        "float32",
    )
    assert all(cost.bytes_saved == 64 * 16 * 4 for cost in table.costs)
    document = table.to_dict()
    assert document["best"] == table.best.candidate and document["measured"] is True
    assert [entry["candidate"] for entry in document["candidates"]] == ["input", "output", "mean"]


def test_continuations_are_those_of_greedy_decoding() -> None:
    folder = shelved(tied=False)
    model = transformers.AutoModelForCausalLM.from_pretrained(folder).eval()
    given = torch.tensor([_ids(TEXT.prompts[0])])
    expected = model.generate(
        input_ids=given, max_new_tokens=24, do_sample=False, attention_mask=torch.ones_like(given)
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    for cost in _of_llama().costs:
        (continuation,) = cost.continuations
        assert continuation.prompt == "w1 w2 w3"
        assert continuation.original == tokenizer.decode(expected[0, 3:].tolist(), skip_special_tokens=True)
        assert continuation.tied != continuation.original


def test_equal_tables_cost_nothing(tmp_path: Path) -> None:
    table = _measured(in_state(TieState.UNTIED_EQUAL, tmp_path / "equal"))
    for cost in table.costs:
        assert (cost.kl_mean, cost.kl_p95, cost.top1_agreement) == (0.0, 0.0, 1.0)
        assert cost.perplexity_before == cost.perplexity_after
        assert all(each.original == each.tied for each in cost.continuations)


def test_the_flag_does_not_decide_which_tables_are_run(tmp_path: Path) -> None:
    conflict = with_config(taken(tmp_path / "conflict", tied=False), tie_word_embeddings=True)
    assert [cost.kl_mean for cost in _measured(conflict).costs] == [cost.kl_mean for cost in _of_llama().costs]


def test_no_candidate_leaves_a_trace_on_the_next() -> None:
    gain = NormGain(NORM, np.full(16, 2.0, np.float32))
    ways = (Candidate("scaled", "input", gain), *reversed(WAYS), WAYS[0])
    costs = {cost.candidate: cost.kl_mean for cost in _measured(shelved(tied=False), ways).costs}
    assert {name: costs[name] for name in ("input", "output", "mean")} == {
        cost.candidate: cost.kl_mean for cost in _of_llama().costs
    }
    assert costs["scaled"] != costs["input"]


def test_a_new_gain_is_what_the_model_runs_with(tmp_path: Path) -> None:
    """A head whose columns are the input table's times c costs nothing once c is in the norm before it."""
    factors = torch.linspace(0.5, 2, 16)
    folder = with_tensors(
        taken(tmp_path / "columns", tied=False), lambda tensors: tensors.update({HEAD: tensors[INPUT] * factors})
    )
    gain = NormGain(NORM, (tensors_of(folder)[NORM] * factors).numpy())
    plain, refitted = _measured(folder, (WAYS[0], Candidate("input+refit", "input", gain))).costs
    assert plain.kl_mean is not None and plain.kl_mean > 0.01
    assert refitted.kl_mean == pytest.approx(0, abs=1e-6)


def test_near_copies_in_bfloat16_are_not_drowned_by_rounded_logits(tmp_path: Path) -> None:
    folder = with_tensors(
        taken(tmp_path / "near", tied=True, dtype="bfloat16"),
        lambda tensors: tensors.update({HEAD: tensors[INPUT] * 1.0}),
    )
    with_tensors(with_config(folder, tie_word_embeddings=False), lambda tensors: tensors[HEAD][5].mul_(1.01))
    (cost,) = _measured(folder, (WAYS[0],)).costs
    assert cost.kl_mean is not None and 0 < cost.kl_mean < 1e-4


def test_the_checkpoint_is_only_read(tmp_path: Path) -> None:
    folder = taken(tmp_path / "source", tied=False)
    before = contents(folder, without=())
    _measured(folder, WAYS[:1])
    assert contents(folder, without=()) == before


def test_a_checkpoint_without_a_tokenizer_is_measured_on_random_ids_and_says_so(tmp_path: Path) -> None:
    folder = taken(tmp_path / "bare", tied=False)
    for file in folder.glob("tokenizer*"):
        file.unlink()
    table = _measured(folder, WAYS[:1])
    assert table.random_ids and table.best is not None
    assert any("random ids" in note for note in table.notes)


def test_progress_tells_how_far_it_is() -> None:
    told: list[tuple[str, int, int]] = []
    measure_cost(_described(shelved(tied=False)), WAYS[:1], TEXT, lambda *step: told.append(step))
    assert told[-1] == (measure.STAGE, 9, 9) and [done for _, done, _ in told] == sorted(done for _, done, _ in told)


def _saved(model: Any, folder: Path) -> Path:
    from tests.models.tiny import write_tokenizer

    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter, dtype=torch.float32) * 0.2)
    model.eval().save_pretrained(folder)
    write_tokenizer(folder, 64)
    return folder


def _t5(folder: Path) -> Path:
    settings: dict[str, Any] = {"d_model": 16, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(
        vocab_size=64, **settings, feed_forward_proj="gated-gelu", tie_word_embeddings=False, decoder_start_token_id=0
    )
    model = transformers.T5ForConditionalGeneration(config)
    model.lm_head.weight = torch.nn.Parameter(torch.randn(64, 16))
    return _saved(model, folder)


def _bert(folder: Path) -> Path:
    settings: dict[str, Any] = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=64, intermediate_size=32, **settings, tie_word_embeddings=False)
    return _saved(transformers.BertForMaskedLM(config), folder)


def _bart(folder: Path, change: Callable[[Any], None] = lambda model: None) -> Path:
    """Untied: the class then has three input tables and a head; all but the head hold the same."""
    sides = {f"{side}_{name}": n for side in ("encoder", "decoder") for name, n in _BART.items()}
    config = transformers.BartConfig(
        vocab_size=64, d_model=16, max_position_embeddings=64, **sides, tie_word_embeddings=False
    )
    model = transformers.BartForConditionalGeneration(config)
    _saved(model, folder)
    with torch.no_grad():
        for side in (model.model.encoder, model.model.decoder):
            side.embed_tokens.weight.copy_(model.model.shared.weight)
        change(model)
    model.save_pretrained(folder)
    return folder


_BART = {"layers": 1, "attention_heads": 2, "ffn_dim": 32}


def test_every_table_that_becomes_one_with_the_two_is_exchanged(tmp_path: Path) -> None:
    torch.manual_seed(3)
    folder = _bart(tmp_path / "model")
    (cost,) = _measured(folder, (WAYS[1],)).costs
    auto = transformers.AutoModelForSeq2SeqLM

    def logits(model: Any, ids: list[int]) -> Any:
        return model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[2, *ids[:-1]]])).logits

    tied = auto.from_pretrained(folder).eval()
    with torch.no_grad():
        for side in (tied.model.encoder, tied.model.decoder):
            side.embed_tokens.weight.copy_(tied.lm_head.weight)
    original = _log_probabilities(auto.from_pretrained(folder).eval(), logits)
    expected = _kl(original, _log_probabilities(tied, logits)).mean()
    assert expected > 0.01
    assert cost.kl_mean == pytest.approx(expected, rel=1e-4)


def test_a_third_table_that_holds_something_else_is_told(tmp_path: Path) -> None:
    folder = _bart(tmp_path / "model", lambda model: model.model.encoder.embed_tokens.weight.add_(1))
    table = _measured(folder, WAYS[:1])
    assert table.reason is not None and "holds something else" in table.reason


def _encoder_decoder_logits(model: Any, ids: list[int]) -> Any:
    return model(input_ids=torch.tensor([ids]), decoder_input_ids=torch.tensor([[0, *ids[:-1]]])).logits


@pytest.mark.parametrize(
    ("build", "auto", "call"),
    [
        (_t5, transformers.AutoModelForSeq2SeqLM, _encoder_decoder_logits),
        (_bert, transformers.AutoModelForMaskedLM, None),
    ],
)
def test_other_kinds_of_model_are_run_their_own_way(tmp_path: Path, build: Any, auto: Any, call: Any) -> None:
    torch.manual_seed(3)
    folder = build(tmp_path / "model")
    table = _measured(folder, WAYS[:2])
    assert table.reason is None
    original = _log_probabilities(auto.from_pretrained(folder).eval(), call)
    tied = auto.from_pretrained(folder).eval()
    with torch.no_grad():
        tied.get_output_embeddings().weight.copy_(tied.get_input_embeddings().weight)
    expected = _kl(original, _log_probabilities(tied, call)).mean()
    assert expected > 0.01
    assert table.costs[0].kl_mean == pytest.approx(expected, rel=1e-4)
    predicts = build is _t5
    assert (table.costs[0].perplexity_before is not None) == predicts
    assert bool(table.costs[0].continuations) == predicts


def _unknown_class(folder: Path) -> Path:
    return with_config(folder, model_type="no-such-type", architectures=["NoSuchModel"])


def _not_finite(folder: Path) -> Path:
    return with_tensors(folder, lambda tensors: tensors[NORM].fill_(float("nan")))


def _incomplete(folder: Path) -> Path:
    return with_tensors(folder, lambda tensors: tensors.pop(NORM))


@pytest.mark.parametrize(
    ("spoil", "why"),
    [(_unknown_class, "no-such-type"), (_not_finite, "not finite"), (_incomplete, "model.norm.weight is in no file")],
)
def test_what_cannot_be_run_is_a_reason_and_no_figures(tmp_path: Path, spoil: Any, why: str) -> None:
    table = _measured(spoil(taken(tmp_path / "spoiled", tied=False)))
    assert table.reason is not None and why in table.reason
    assert table.best is None and [cost.candidate for cost in table.costs] == ["input", "output", "mean"]
    assert all(cost.kl_mean is None and cost.positions == 0 for cost in table.costs)


def test_a_table_that_is_not_finite_spoils_its_own_candidates_alone(tmp_path: Path) -> None:
    """The input table's row 63 is never read by the probe, but as a head every logit row sees it."""
    folder = with_tensors(
        taken(tmp_path / "spoiled", tied=False), lambda tensors: tensors[INPUT][63].fill_(float("inf"))
    )
    probe = Probe(("w1 w2 w3 w4 w5",), ("w1 w2 w3",), "words")
    costs = {cost.candidate: cost for cost in _measured(folder, probe=probe).costs}
    assert costs["output"].kl_mean is not None
    assert costs["input"].kl_mean is None and costs["input"].note is not None


def test_a_gain_that_is_nowhere_in_the_model_is_that_candidates_reason() -> None:
    stray = Candidate("input+refit", "input", NormGain("no.such.norm.weight", np.ones(7, np.float32)))
    plain, refitted = _measured(shelved(tied=False), (WAYS[0], stray)).costs
    assert plain.kl_mean is not None
    assert refitted.kl_mean is None and "no.such.norm.weight" in (refitted.note or "")
