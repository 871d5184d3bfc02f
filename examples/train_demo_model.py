"""Trains the tiny decoder that ships as `vocabsurgeon/demo_model`, on the documentation inside Python.

    python examples/train_demo_model.py [--out DIR] [--steps N]

Six minutes on two free cores, no network. Seeds, file order and thread count are fixed, so one machine gives
the same bytes twice. Another machine, torch or Python version gives slightly different weights and figures:
the standard library's text differs, and so does the order of float additions. The committed folder ships.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from demo_model_figures import figures_table, greedy_sample, measure, model_card, window_loss
from demo_model_text import (
    BOS_ID,
    CONTEXT,
    EOS_ID,
    PAD_ID,
    ROWS,
    encode_stream,
    read_documents,
    train_tokenizer,
    windows,
    write_tokenizer,
)

if TYPE_CHECKING:
    from torch import Tensor
    from torch.optim import Optimizer
    from transformers import LlamaForCausalLM

BATCH, STEPS, WARMUP = 8, 2400, 60
MATRIX_RATE, TABLE_RATE, WEIGHT_DECAY = 0.03, 0.01, 0.5
SEED, THREADS = 20, 2
DEFAULT_OUT = Path(__file__).resolve().parent.parent / "vocabsurgeon" / "demo_model"


def main() -> None:
    """Train, measure and write the folder; the last lines printed say what was measured."""
    arguments = _arguments()
    train, held_out = read_documents()
    tokenizer = train_tokenizer(train)
    stream, held_stream = encode_stream(tokenizer, train), encode_stream(tokenizer, held_out)
    print(f"{len(stream)} tokens of {len(train)} documents to train on, {len(held_stream)} tokens held out")
    started = time.monotonic()
    model = train_model(stream, arguments.steps)
    minutes = (time.monotonic() - started) / 60
    write_tokenizer(tokenizer, arguments.out)
    model.bfloat16().save_pretrained(arguments.out)
    (arguments.out / "model.safetensors").chmod(0o644)  # safetensors makes it readable by its owner alone
    stored = load_model(arguments.out)
    figures = measure(stored, stream, held_stream, sum(len(document.text) for document in held_out))
    sample = greedy_sample(stored, tokenizer)
    card = model_card(stored, figures, sample, tokens=len(stream), steps=arguments.steps, minutes=minutes)
    (arguments.out / "README.md").write_text(card, encoding="utf-8")
    print(f"{sample}\n\n{figures_table(figures)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Train the demo model on Python's own documentation.")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="folder to write")
    parser.add_argument("--steps", type=int, default=STEPS, help="optimizer steps (default: %(default)s)")
    return parser.parse_args()


def train_model(stream: Tensor, steps: int) -> LlamaForCausalLM:
    """Train on `stream [N]` for `steps` batches of `BATCH` windows; returns float32 weights."""
    import torch

    torch.manual_seed(SEED)
    torch.set_num_threads(THREADS)
    torch.use_deterministic_algorithms(True)
    model = new_model()
    optimizers = _optimizers(model)
    rates = [optimizer.param_groups[0]["lr"] for optimizer in optimizers]
    for step, batch in zip(range(steps), _batches(stream), strict=False):
        for optimizer, rate in zip(optimizers, rates, strict=True):
            optimizer.param_groups[0]["lr"] = rate * _schedule(step, steps)
        loss = _train_step(model, batch, optimizers)
        if step % 100 == 0 or step == steps - 1:
            print(f"step {step}: {loss:.3f} nats/token", flush=True)
    return model


def new_model() -> LlamaForCausalLM:
    """Return an untrained tied Llama decoder, float32, about 1.4 million parameters."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=ROWS,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=6,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        pad_token_id=PAD_ID,
        initializer_range=0.05,
    )
    model = LlamaForCausalLM(config)
    model.set_attn_implementation("eager")  # at this size a third faster than the fused kernel on a CPU
    return model


def _optimizers(model: LlamaForCausalLM) -> list[Optimizer]:
    # Muon learns more a step from the layers' matrices than AdamW; the table and the norms are not for it.
    from torch.optim import AdamW, Muon

    weights = list(model.named_parameters())
    matrices = [weight for name, weight in weights if ".layers." in name and weight.ndim == 2]
    rest = [weight for name, weight in weights if ".layers." not in name or weight.ndim != 2]
    return [
        Muon(matrices, lr=MATRIX_RATE, weight_decay=WEIGHT_DECAY),
        AdamW(rest, lr=TABLE_RATE, betas=(0.9, 0.98), weight_decay=0.1),
    ]


def _batches(stream: Tensor) -> Iterator[Tensor]:
    """Yield batches `[BATCH, CONTEXT]` without end; each epoch cuts the stream at another offset."""
    import torch

    while True:
        cut = windows(stream[int(torch.randint(CONTEXT, ())) :])
        order = torch.randperm(len(cut))
        for at in range(0, len(cut) - BATCH + 1, BATCH):
            yield cut[order[at : at + BATCH]]


def _schedule(step: int, steps: int) -> float:
    """Return the share of the full rate at `step`: a linear warmup, then a cosine down to 2 percent."""
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.51 + 0.49 * math.cos(math.pi * (step - WARMUP) / max(1, steps - WARMUP))


def _train_step(model: LlamaForCausalLM, batch: Tensor, optimizers: list[Optimizer]) -> float:
    import torch

    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = window_loss(model, batch).mean()
    torch.autograd.backward(loss)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
    return float(loss.detach())


def load_model(folder: Path) -> LlamaForCausalLM:
    """Load what was stored, in float32: its rounding to bfloat16 is part of what gets measured."""
    import torch
    from transformers import LlamaForCausalLM

    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)


if __name__ == "__main__":
    main()
