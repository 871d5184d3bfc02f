"""What a model of one graph is used for, run on both sides: prompts, batches, decoding, contexts beyond a window."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.horizons import horizons, most_tokens
from vocabsurgeon.onnx.model_calls import vocabulary_rows
from vocabsurgeon.onnx.parity.beyond import compare_beyond
from vocabsurgeon.onnx.parity.pair import Pair
from vocabsurgeon.onnx.parity.prompts import LONGEST, NEW, prompts
from vocabsurgeon.onnx.parity.scenarios import BATCH, CHUNK, compare_full, compare_greedy, compare_padded, steps_within
from vocabsurgeon.onnx.tasks import TEXT_GENERATION, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def compare_single(pair: Pair, model: PreTrainedModel, source: Checkpoint, task: Task) -> tuple[str, ...]:
    """Fill the pair's tally; return what could not be compared, and why.

    Ids of new tokens are in every check: alone, in each batch, at the end of a long context; and as what comes next,
    for whole rows of logits are compared, at each position of a prompt of them too.
    """
    rows = vocabulary_rows(model)
    limit = most_tokens(model, 2 * CHUNK)
    steps = steps_within(limit)
    chosen = prompts(source, rows, min(LONGEST, limit - steps))
    new = [ids for name, ids in chosen.items() if name in NEW]
    others = [ids for name, ids in chosen.items() if name not in NEW]
    generates = task is TEXT_GENERATION
    compare_full(pair, chosen)
    compare_padded(pair, [*new[: BATCH - 1], *others][:BATCH])
    if generates:
        compare_greedy(pair, [new[-1], *others[1 - BATCH :]], steps)
    lengths = horizons(model.config.get_text_config())
    return compare_beyond(pair, model, lengths, new[-1], rows, limit, padding="left" if generates else "right")
