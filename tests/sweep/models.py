"""Tiny models with real, random weights of any model type, and their logits for a fixed prompt."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.families.builds import Json, config_class, config_of, model_class
from tests.sweep.made import INPUTS, OWN
from tests.sweep.shrink import VOCAB, tiny
from vocabsurgeon.vocabulary.model_class import levels, merged, stated

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FLAG = "tie_word_embeddings"
MOST = 130_000_000
"""Parameters; a config that shrinks to no less is not tiny, and needs values of its own."""
PROMPT = ((5, 9, 31, 8, 17, 6, 40, 12, 7, 11, 23, 30), (13, 8, 21, 35, 5, 9, 10, 44, 6, 27, 19, 14))


class Unbuilt(Exception):
    """No tiny model of the class could be built or run; the message is the reason."""


@dataclass(frozen=True)
class Tiny:
    """A model that runs, and the config.json values it was built from."""

    model_type: str
    class_name: str
    model: PreTrainedModel
    logits: Any
    """`[batch, length, rows]`, or None where the class takes no text alone."""
    unrun: str
    """Why there are no logits."""


def built(model_type: str, class_name: str, tied: bool, seed: int = 0) -> Tiny:
    """The tiny model of the class with the flag set at every level. Raises `Unbuilt` with the first reason met."""
    cls, reasons = model_class(class_name), []
    model_type = _type_for(model_type, cls)
    own = merged(OWN.get(model_type, {}), OWN.get(class_name, {}))
    try:
        candidates = list(tiny(model_type, own))
    except Exception as error:  # a config class refuses in its own way
        raise Unbuilt(_one_line(error)) from error
    for values in candidates:
        try:
            model = _random(model_type, cls, _flagged(model_type, values, tied), seed)
        except Exception as error:  # so does a model class
            reasons.append(_one_line(error))
            continue
        try:
            return Tiny(model_type, class_name, model, logits(model), "")
        except Exception as error:  # and a forward pass
            reasons.append(_one_line(error))
            kept = model
    if "kept" in locals():
        return Tiny(model_type, class_name, kept, None, reasons[-1])
    raise Unbuilt(reasons[0])


def _type_for(model_type: str, cls: type[PreTrainedModel]) -> str:
    """The type whose config the class takes: auto classes map some composite types to the class of a model inside."""
    takes = cls.config_class
    if takes is None or issubclass(config_class(model_type), takes):
        return model_type
    return str(takes.model_type)


def logits(model: PreTrainedModel) -> Any:
    """What the model answers to the fixed prompt, as float32 `[batch, length, rows]`; raises where it takes no text."""
    import torch

    with torch.no_grad():
        output = model(**inputs(model))
    for name in ("logits", "prediction_logits", "lm_logits", "mlm_logits"):
        found = getattr(output, name, None)
        if found is not None and found.ndim == 3:
            return found.float().numpy()
    raise ValueError("the output has no logits of three dimensions")


def inputs(model: PreTrainedModel) -> dict[str, Any]:
    """Keyword arguments of the forward pass: the prompt, and what the type needs beside it."""
    import torch

    names = inspect.signature(model.forward).parameters
    prompt = torch.tensor(PROMPT)
    given: dict[str, Any] = {"input_ids": prompt} if "input_ids" in names else {}
    if "decoder_input_ids" in names:
        given["decoder_input_ids"] = prompt.flip(1)
    if "use_cache" in names:
        given["use_cache"] = False
    own = INPUTS.get(type(model).__name__, INPUTS.get(model.config.model_type))
    return given | own(model, prompt) if own else given


def _random(model_type: str, cls: type[PreTrainedModel], values: Json, seed: int) -> PreTrainedModel:
    """Every float parameter and buffer random: what zeros or ones would hide shows in the logits."""
    import torch

    with torch.device("meta"):
        count = sum(tensor.numel() for tensor in cls(config_of(model_type, values)).parameters())
    if count > MOST:
        raise Unbuilt(f"{count:,} parameters are left after shrinking")
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: PreTrainedModel = cls(config_of(model_type, values)).float().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.is_floating_point() and parameter.requires_grad:  # frozen ones are computed, not saved
                    parameter.add_(torch.randn_like(parameter) * 0.05)
            for name, buffer in model.named_buffers():
                if name.endswith("final_logits_bias"):
                    buffer.add_(torch.randn_like(buffer) * 0.5)
    model.tie_weights()
    return model


def _flagged(model_type: str, values: Json, tied: bool) -> Json:
    """`values` with the flag at the root and wherever a nested level is stated that has a vocabulary."""
    config = config_of(model_type, values)
    carriers = {path: level for path, level in levels(config).items() if not path or hasattr(level, "vocab_size")}
    return merged(values, stated(config, {(*path, FLAG): tied for path in carriers}))


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:160]


__all__ = ["VOCAB", "Tiny", "Unbuilt", "built", "inputs", "logits"]
