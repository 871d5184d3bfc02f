"""`measure_cost`: the original and each way to tie it, run side by side on a probe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.surgery.cost.encode import CHUNK, Encoded, Ids, encode
from vocabsurgeon.surgery.cost.forward import Forward, exact_head, text_config
from vocabsurgeon.surgery.cost.probe import Probe
from vocabsurgeon.surgery.cost.result import Continuation, Cost, CostTable, NotMeasured
from vocabsurgeon.surgery.cost.tally import Tally, log_probabilities
from vocabsurgeon.surgery.cost.two_tables import TwoTables, load_two_tables
from vocabsurgeon.surgery.lossy.candidates import Candidate
from vocabsurgeon.vocabulary.describe import Description

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["Cost", "CostTable", "Probe", "measure_cost"]

STAGE = "measuring the cost of tying"


def measure_cost(
    description: Description, candidates: Sequence[Candidate], probe: Probe, progress: Progress = silent
) -> CostTable:
    """Run the checkpoint with its two stored tables and tied in each way of `candidates`, on `probe`.

    The model is loaded once, in the dtype it is stored in, by transformers (no code of the checkpoint's runs); for each
    candidate the two tables' data is exchanged in place, so no second model is in memory: beside it one table where
    both are mixed, and one chunk's logits. Biases, scales and caps of the logits stay the model's. The head multiplies
    in float32. Where the model cannot be run, `reason` says why and every figure is None.
    """
    try:
        tables = load_two_tables(description)
        forward = Forward.of(tables.model)
        encoded = encode(description.source, probe, tables.input.shape[0], _longest(tables.model))
        with exact_head(tables.model):
            return _Run(tables, forward, encoded, candidates, progress).table(probe)
    except NotMeasured as why:
        return CostTable(
            tuple(_blank(description, candidate) for candidate in candidates), probe.source, reason=str(why)
        )


def _blank(description: Description, candidate: Candidate) -> Cost:
    return Cost(candidate.name, bytes_saved=description.bytes.saved_if_tied)


def _longest(model: Any) -> int:
    stated = getattr(text_config(model), "max_position_embeddings", None)
    return max(2, stated - 2) if isinstance(stated, int) and stated > 0 else CHUNK


class _Run:
    def __init__(
        self,
        tables: TwoTables,
        forward: Forward,
        encoded: Encoded,
        candidates: Sequence[Candidate],
        progress: Progress,
    ) -> None:
        self.tables, self.forward, self.encoded, self.progress = tables, forward, encoded, progress
        self.candidates = {candidate.name: candidate for candidate in candidates}
        self.merged: Mapping[str, Tensor] = {each.keep: tables.table(each) for each in candidates}
        self.tallies = {name: Tally() for name in self.candidates}
        self.failed: dict[str, str] = {}

    def table(self, probe: Probe) -> CostTable:
        """Every figure, and the continuations."""
        for done, ids in enumerate(self.encoded.chunks):
            self.progress(STAGE, done, len(self.encoded.chunks) + 1)
            self._compare(ids)
        if not any(tally.divergences for tally in self.tallies.values()) and not self.failed:
            raise NotMeasured("the probe has too little text to measure on")
        self.progress(STAGE, len(self.encoded.chunks), len(self.encoded.chunks) + 1)
        continuations, why = self._continue()
        self.progress(STAGE, len(self.encoded.chunks) + 1, len(self.encoded.chunks) + 1)
        encoded = self.encoded
        return CostTable(
            tuple(self._cost(name, continuations.get(name, ())) for name in self.candidates),
            probe.source,
            passages=len(encoded.chunks),
            tokens=encoded.tokens,
            random_ids=encoded.random,
            dtype=self.tables.dtype,
            notes=(*encoded.notes, *why),
        )

    def _compare(self, ids: Ids) -> None:
        original, wanted = _running(lambda: self.forward.logits(ids))
        if not _finite(original):
            raise NotMeasured("the original's logits are not finite")
        original = log_probabilities(original)
        for name, candidate in self.candidates.items():
            if name in self.failed:
                continue
            try:
                with self.tables.candidate(candidate, self.merged):
                    tied, _ = _running(lambda: self.forward.logits(ids))
                self.tallies[name].add(original, tied, wanted)
            except NotMeasured as why:
                self.failed[name] = str(why)

    def _continue(self) -> tuple[dict[str, tuple[Continuation, ...]], tuple[str, ...]]:
        prompts, told = self.encoded.prompts, {}
        try:
            original = _running(lambda: self.forward.continued(prompts))
            for name in [name for name in self.candidates if name not in self.failed]:
                with self.tables.candidate(self.candidates[name], self.merged):
                    tied = _running(lambda: self.forward.continued(prompts))
                text = self.encoded.text
                rows = zip(prompts, original, tied, strict=False)
                told[name] = tuple(Continuation(text(a), text(b), text(c)) for a, b, c in rows)
        except NotMeasured as why:
            return {}, (f"no continuations: {why}",)
        return told, ()

    def _cost(self, name: str, continuations: tuple[Continuation, ...]) -> Cost:
        blank = _blank(self.tables.description, self.candidates[name])
        if name in self.failed:
            return replace(blank, note=self.failed[name])
        return replace(blank, continuations=continuations, **self.tallies[name].figures())


def _finite(logits: Tensor) -> bool:
    """Whether each position has a likeliest token; classes may set single logits to minus infinity."""
    return bool(logits.amax(-1).isfinite().all())


def _running(call: Any) -> Any:
    """What `call` gives; a model may refuse plain ids in its own way."""
    try:
        return call()
    except NotMeasured:
        raise
    except (RuntimeError, ValueError, TypeError, KeyError, IndexError, AttributeError, AssertionError) as error:
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise NotMeasured(f"the model does not run on plain ids: {reason[:200]}") from error
