"""Pairs of different tables to try `tie` on, made from a tied checkpoint, and what each way to tie them again costs.

    python examples/untied_pair.py [--probe FILE] CKPT FOLDER [KIND…]

writes FOLDER/KIND for each kind (those in `USUAL`) and prints a row of figures for each way. CKPT: a causal language
model with one weight file and a known norm before the head. gemma-3-270m takes 6 GB for `finetuned`, else 3.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from vocabsurgeon.surgery.cost.probe import Probe
from vocabsurgeon.surgery.lossy.norm import final_norm
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.run import plan_for, tying, untie

Tensors = dict[str, torch.Tensor]
STEPS, TOKENS, RATE = 30, 256, 1e-4  # of the brief fine-tuning
EVERY = 4  # passages of the built-in sample from one that is measured on to the next


class Pair:
    """An untied checkpoint in `folder`; the edits below work on its tensors."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.folder = folder
        report = untie(source, folder)
        assert not isinstance(report, Refusal) and report.after, report
        tables = report.after.tables
        assert tables.input and tables.output
        self.input, self.output = tables.input.key, tables.output.key
        self.norm = final_norm(report.after)
        self.tensors: Tensors = load_file(folder / "model.safetensors")

    def save(self) -> None:
        """Write the tensors back."""
        save_file(self.tensors, self.folder / "model.safetensors", metadata={"format": "pt"})

    def add(self, key: str, delta: torch.Tensor) -> None:
        """Add `delta [V, D]` float32 to a table, rounded once."""
        table = self.tensors[key]
        self.tensors[key] = (table.float() + delta).to(table.dtype)


def rounding(pair: Pair) -> None:
    """Both tables off by one unit in the last place of bfloat16 in a tenth of their elements: repeated conversions."""
    for key in (pair.input, pair.output):
        bits = pair.tensors[key].view(torch.int16)
        step = torch.randint(0, 20, bits.shape, dtype=torch.int16).where(bits & 0x7FFF != 0, 2)
        bits += (step == 0).to(torch.int16) - (step == 1).to(torch.int16)


def adapter(pair: Pair) -> None:
    """A low-rank delta merged into each table, of a tenth of its norm (random: no trained adapter)."""
    for key in (pair.input, pair.output):
        table = pair.tensors[key].float()
        delta = torch.randn(table.shape[0], 8) @ torch.randn(8, table.shape[1])
        pair.add(key, delta * (0.1 * table.norm() / delta.norm()))


def folded(pair: Pair) -> None:
    """The norm's gain folded into the head's columns, as some converters do: the logits stay what they were."""
    gain = pair.tensors[pair.norm.key].float() + pair.norm.offset
    table = pair.tensors[pair.output].float()
    pair.tensors[pair.output] = (table * gain).to(pair.tensors[pair.output].dtype)
    pair.tensors[pair.norm.key] = torch.full_like(pair.tensors[pair.norm.key], 1 - pair.norm.offset)


def finetuned(pair: Pair) -> None:
    """Both tables trained for a few steps."""
    train(pair, STEPS, RATE)


def far(pair: Pair) -> None:
    """Both tables trained ten times as long at thirty times the rate: hours for gemma-3-270m on a CPU."""
    train(pair, 10 * STEPS, 30 * RATE)


def train(pair: Pair, steps: int, rate: float) -> None:
    """Train both tables on the Python language reference, the rest of the model frozen."""
    from pydoc_data.topics import topics

    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(pair.folder)
    ids = tokenizer("\n\n".join(topics.values())[: steps * TOKENS * 6], return_tensors="pt").input_ids[0]
    model: Any = AutoModelForCausalLM.from_pretrained(pair.folder, dtype=torch.float32).requires_grad_(False)
    tables = [model.get_input_embeddings().weight, model.get_output_embeddings().weight]
    optimizer = torch.optim.Adam([table.requires_grad_() for table in tables], lr=rate)
    for step in range(steps):
        batch = ids[step * TOKENS : (step + 1) * TOKENS].view(2, -1)
        loss = model(input_ids=batch, labels=batch, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.3f}", file=sys.stderr, flush=True)
    for key, table in zip((pair.input, pair.output), tables, strict=True):
        pair.tensors[key] = table.detach().to(pair.tensors[key].dtype)


KINDS: dict[str, Callable[[Pair], None]] = {
    "rounding": rounding,
    "adapter": adapter,
    "folded": folded,
    "finetuned": finetuned,
    "far": far,
}
USUAL = ("rounding", "adapter", "folded", "finetuned")


def part_of_sample(folder: Path) -> Path:
    """A probe file with some passages of the built-in sample: a fifth of the time, and figures alike."""
    probe = folder / "probe.txt"
    probe.write_text("\n\n".join(Probe.builtin().passages[::EVERY]), encoding="utf-8")
    return probe


def figures(folder: Path, probe: Path) -> str:
    """A row for each way to tie the pair in `folder`, as `tie --refit-norm --probe` measures it."""
    description, plan = plan_for(folder, tying(TieRequest(refit_norm=True, probe_file=probe)))
    assert isinstance(plan, Refusal), plan
    (folder / "cost.json").write_text(json.dumps({**plan.details, "evidence": description.tie.evidence}, indent=1))
    return "\n".join(
        f"| {folder.name} | {cost['candidate']} | {cost['kl_mean']:.2g} | {cost['kl_p95']:.2g} "
        f"| {cost['top1_agreement']:.1%} | {cost['perplexity_before']:.1f} → {cost['perplexity_after']:.4g} |"
        for cost in plan.details["cost"]["candidates"]
    )


def main(arguments: list[str]) -> None:
    """Make the pairs and print their figures."""
    text = Path(arguments[1]) if arguments[0] == "--probe" else None
    arguments = arguments[2:] if text else arguments
    source, target, *kinds = arguments
    Path(target).mkdir(parents=True, exist_ok=True)
    probe = text or part_of_sample(Path(target))
    for kind in kinds or USUAL:
        torch.manual_seed(0)
        folder = Path(target) / kind
        shutil.rmtree(folder, ignore_errors=True)
        pair = Pair(Path(source), folder)
        KINDS[kind](pair)
        pair.save()
        del pair
        print(figures(folder, probe), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
