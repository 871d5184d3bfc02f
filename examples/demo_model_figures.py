"""What the demo model is worth: its loss on held-out text beside two baselines, and the model card."""

from __future__ import annotations

import math
import platform
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from demo_model_text import CONTEXT, HELD_OUT_SHARE, IDS, ROWS, windows

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from torch import Tensor
    from transformers import LlamaForCausalLM

PROMPT = "The function returns a"
SMOOTHING = (10.0, 30.0, 100.0, 300.0)


@dataclass(frozen=True)
class Figures:
    """Losses on held-out text by name, in nats per token, and the size of that text."""

    tokens: int
    characters: int
    losses: dict[str, float]

    def bits_per_character(self, name: str) -> float:
        """Return the loss called `name` in bits per character."""
        return self.losses[name] * self.tokens / math.log(2) / self.characters


def measure(model: LlamaForCausalLM, stream: Tensor, held_out: Tensor, characters: int) -> Figures:
    """Measure model and baselines on the same tokens; the baselines are counted on `stream [N]`.

    `held_out [M]` are the ids of a text of that many `characters`.
    """
    import torch

    held = windows(held_out)
    targets = held[:, 1:]
    with torch.no_grad():
        model_loss = torch.cat([window_loss(model, held[at : at + 16]) for at in range(0, len(held), 16)])
    unigram = _unigram(stream)
    losses = {
        "model": float(model_loss.mean()),
        "bigram": _bigram_loss(stream, held, unigram),
        "unigram": float(-unigram[targets].log().mean()),
        "every id alike": math.log(IDS),
    }
    return Figures(targets.numel(), round(characters * targets.numel() / len(held_out)), losses)


def window_loss(model: LlamaForCausalLM, batch: Tensor) -> Tensor:
    """Return the loss in nats of each id but the first, `[B * (T - 1)]` float32, for ids `batch [B, T]`."""
    from torch.nn.functional import cross_entropy

    logits = model(input_ids=batch[:, :-1], use_cache=False).logits.float()
    return cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten(), reduction="none")


def _unigram(stream: Tensor) -> Tensor:
    """Return the probability of each id `[ROWS]` float64, one added to every count."""
    counts = stream.bincount(minlength=ROWS).double() + 1
    return counts / counts.sum()


def _bigram_loss(stream: Tensor, held: Tensor, unigram: Tensor) -> float:
    """Return nats per token of a bigram model smoothed with pseudo-counts of the unigram.

    Their weight is chosen on the held-out text itself, which favors the baseline.
    """
    import torch

    following = Counter(zip(stream[:-1].tolist(), stream[1:].tolist(), strict=True))
    pairs = list(zip(held[:, :-1].flatten().tolist(), held[:, 1:].flatten().tolist(), strict=True))
    together = torch.tensor([following[pair] for pair in pairs]).double()
    first, second = torch.tensor(pairs).T
    before, chance = stream.bincount(minlength=ROWS)[first], unigram[second]
    return min(float(-((together + weight * chance) / (before + weight)).log().mean()) for weight in SMOOTHING)


def greedy_sample(model: LlamaForCausalLM, tokenizer: Tokenizer) -> str:
    """Return `PROMPT` and the 60 tokens the model finds likeliest after it."""
    import torch

    ids = torch.tensor([tokenizer.encode(PROMPT).ids])
    generated = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=60, do_sample=False)
    return str(tokenizer.decode(generated[0].tolist()))


def figures_table(figures: Figures) -> str:
    """Return the figures as a Markdown table."""
    lines = ["| on held-out text | nats per token | bits per character |", "|---|---|---|"]
    for name, loss in figures.losses.items():
        lines.append(f"| {name} | {loss:.3f} | {figures.bits_per_character(name):.3f} |")
    return "\n".join(lines)


CARD = """\
---
language: en
license: other
license_name: psf-2.0
library_name: transformers
pipeline_tag: text-generation
---
# The demo model

A decoder of {parameters:,} parameters, small enough to ship inside a package, trained enough to predict text.
It exists to be operated on, by `vocabsurgeon demo`, the tests and the benchmarks. It answers no questions.

- Architecture: `LlamaForCausalLM`, {layers} layers of width {width}, tied tables, bfloat16, {bytes:,} bytes.
- Vocabulary: byte-level BPE, {ids} ids in a table of {rows} rows; released checkpoints have spare rows too.
- Text: the documentation inside Python {python}, that is `pydoc_data.topics` and the docstrings of the
  standard library, {tokens:,} tokens. One document in {share} is held out, with every paragraph it shares.
- Training: {steps} steps, {minutes:.1f} minutes on a CPU, by `examples/train_demo_model.py`. Other machines
  and versions give slightly different weights and figures.

## Measured

The stored bfloat16 weights on {held_tokens:,} held-out tokens, in windows of {context}. The unigram and
bigram models were counted on the same training tokens; the bigram's smoothing was chosen in its favor.
Batch size, learning rates and weight decay were chosen on this held-out text too, among nine runs.

{table}

Greedy continuation of "{prompt}":

```text
{sample}
```

## License

The text is part of Python, Copyright Python Software Foundation, under the PSF License Version 2. The weights
and the tokenizer were derived from it and are passed on under the same terms.
"""


def model_card(model: LlamaForCausalLM, figures: Figures, sample: str, **training: float) -> str:
    """Return the model card; `training` gives `tokens`, `steps` and `minutes`."""
    return CARD.format(
        parameters=model.num_parameters(),
        layers=model.config.num_hidden_layers,
        width=model.config.hidden_size,
        bytes=2 * model.num_parameters(),
        ids=IDS,
        rows=ROWS,
        python=".".join(platform.python_version_tuple()[:2]),
        share=HELD_OUT_SHARE,
        context=CONTEXT,
        held_tokens=figures.tokens,
        table=figures_table(figures),
        prompt=PROMPT,
        sample=sample,
        **training,
    )
