"""Logits of a chunk of ids, and greedy continuations, whatever kind of model it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.surgery.cost.encode import Ids
from vocabsurgeon.surgery.cost.result import NotMeasured

if TYPE_CHECKING:
    from torch import Tensor

NEW_TOKENS = 24
_ROWS = 1 << 10
"""Rows of a head that are widened at a time: they stay in a core's own cache until they are multiplied."""


@dataclass(frozen=True)
class Forward:
    """How a model is run on plain ids. Causal: next tokens. Encoder–decoder: the text again after encoding it.
    Otherwise (masked language models): a prediction at every position, of which none is the probe's own.
    """

    model: Any
    kind: str
    start: int
    """What a decoder starts with."""

    @classmethod
    def of(cls, model: Any) -> Forward:
        """The way to run `model`; raises `NotMeasured` where it wants more than ids."""
        if model.main_input_name != "input_ids":
            raise NotMeasured(f"the model takes {model.main_input_name}, not text alone")
        config = text_config(model)
        pair = bool(getattr(model.config, "is_encoder_decoder", False))
        named = ("decoder_start_token_id", "bos_token_id", "pad_token_id")
        numbers = (_number(config, name) for name in named)
        start = next((number for number in numbers if number is not None), 0)
        return cls(model, "encoder-decoder" if pair else "causal" if model.can_generate() else "masked", start)

    def logits(self, ids: Ids) -> tuple[Tensor, Tensor]:
        """Logits `[n, V]` and the ids that the first of them are to predict `[m]`, m ≤ n (0: none)."""
        import torch

        given = torch.tensor([ids])
        inputs = {"input_ids": given, "attention_mask": torch.ones_like(given)}
        wanted = {"causal": given[0, 1:], "encoder-decoder": given[0], "masked": given[0, :0]}[self.kind]
        if self.kind == "encoder-decoder":
            inputs["decoder_input_ids"] = torch.tensor([(self.start, *ids[:-1])])
        with silenced(), torch.inference_mode():
            output = self.model(**inputs)
        logits = getattr(output, "logits", None)
        logits = getattr(output, "prediction_logits", None) if logits is None else logits
        if logits is None or logits.shape[:2] != given.shape:
            raise NotMeasured("the model gives no logits at every position")
        return logits[0], wanted

    def continued(self, prompts: Sequence[Ids]) -> list[Ids]:
        """What the model goes on with greedily after each of some equally long prompts; nothing for a masked model."""
        import torch

        if self.kind == "masked" or not prompts:
            return []
        given = torch.tensor(prompts)
        with silenced(), torch.inference_mode():
            made = self.model.generate(
                input_ids=given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=NEW_TOKENS,
                do_sample=False,
                num_beams=1,
            )
        skipped = 1 if self.kind == "encoder-decoder" else given.shape[1]
        return [tuple(row[skipped:]) for row in made.tolist()]


def text_config(model: Any) -> Any:
    """The config of the part that reads text; the root's where a model has several such parts."""
    try:
        return model.config.get_text_config()
    except ValueError:
        return model.config


def _number(config: Any, name: str) -> int | None:
    value = getattr(config, name, None)
    value = value[0] if isinstance(value, list) and value else value
    return value if isinstance(value, int) else None


@contextmanager
def exact_head(model: Any) -> Iterator[None]:
    """Inside the block a plain linear head multiplies in float32, whatever its table is stored in.

    bfloat16 logits are rounded to 1/8 around 20: that alone would drown what a near copy costs. The table is widened a
    part at a time.
    """
    import torch

    head: Any = model.get_output_embeddings()
    plain = type(head) is torch.nn.Linear
    if not plain or head.weight.dtype.itemsize >= 4:
        yield
        return

    def forward(hidden: Tensor) -> Tensor:
        wide = hidden.float()
        logits = wide.new_empty(*wide.shape[:-1], head.weight.shape[0])
        for start in range(0, head.weight.shape[0], _ROWS):
            rows = slice(start, start + _ROWS)
            logits[..., rows] = wide @ head.weight[rows].float().T
        return logits if head.bias is None else logits + head.bias.float()

    head.forward = forward
    try:
        yield
    finally:
        del head.forward
