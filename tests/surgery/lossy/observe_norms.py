"""Writes final_norms.json from running models: `python -m tests.surgery.lossy.observe_norms [--write] [TYPE…]`.

For every class with a head: which norm can be rescaled against the head's columns and leave every logit as it was. That
shows at once that it feeds the head, that no projection lies between, that nothing else hears it, and how it is stored.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.families import builds
from tests.sweep.models import Unbuilt, built, logits
from vocabsurgeon.vocabulary.class_tables import saved_name
from vocabsurgeon.vocabulary.families import family_for

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel

FILE = Path(__file__).parents[3] / "vocabsurgeon" / "surgery" / "lossy" / "final_norms.json"
OFFSETS = (0.0, 1.0)
NONE = "scaling no norm against the head left the logits as they were"
Row = dict[str, Any]


class NotObserved(Exception):
    """No model of the class could be run here; the message says why."""


def observed(model_type: str, class_name: str) -> Row:
    """`gain`, where there are any `bias` and `offset` (as in `FinalNorm`), or `without`: why there is none.

    Raises `NotObserved` where no model of the class runs on a prompt alone.
    """
    import torch

    try:
        tiny = built(model_type, class_name, False)
    except Unbuilt as error:
        raise NotObserved(str(error)) from error
    head = tiny.model.get_output_embeddings()
    if tiny.logits is None or head is None or getattr(head, "weight", None) is None:
        raise NotObserved(tiny.unrun or "no LM head by its usual name")
    head.weight = torch.nn.Parameter(head.weight.detach().clone())
    with torch.no_grad():
        for gain, _ in _norms(tiny.model, head.weight.shape[1]):
            gain.add_(torch.randn_like(gain) * 0.2)
        return _found(tiny.model, head)


def _found(model: PreTrainedModel, head: nn.Module) -> Row:
    before = logits(model)
    factors = _factors(head.weight.shape[1])
    head.weight.div_(factors)
    moved = abs(logits(model) - before).max()
    if not moved > 1e-3:
        raise NotObserved("the logits do not follow the head")
    for gain, bias in reversed(list(_norms(model, head.weight.shape[1]))):
        for offset in OFFSETS:
            if _same(before, _scaled(model, gain, bias, factors, offset), moved):
                return _row(model, gain, bias, offset)
    return {"without": NONE}


def _same(before: Any, after: Any, moved: float) -> bool:
    return bool(abs(after - before).max() < 1e-3 * moved)


def _scaled(model: PreTrainedModel, gain: Tensor, bias: Tensor | None, factors: Tensor, offset: float) -> Any:
    """The logits with the norm scaled by `factors`; the model is left as it was."""
    held = [(tensor, tensor.clone()) for tensor in (gain, bias) if tensor is not None]
    gain.copy_((gain + offset) * factors - offset)
    if bias is not None:
        bias.mul_(factors)
    found = logits(model)
    for tensor, value in held:
        tensor.copy_(value)
    return found


def _norms(model: PreTrainedModel, width: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Gain and bias of every module that holds one vector of the head's width and at most a second one."""
    for module in model.modules():
        vectors = dict(module.named_parameters(recurse=False))
        if vectors and len(vectors) <= 2 and all(tensor.shape == (width,) for tensor in vectors.values()):
            bias = vectors.pop("bias", None)
            yield from ((gain, bias) for gain in vectors.values())


def _factors(width: int) -> Any:
    import torch

    return torch.linspace(0.5, 2.0, width)


def _row(model: PreTrainedModel, gain: Tensor, bias: Tensor | None, offset: float) -> Row:
    row: Row = {"gain": _name(model, gain)}
    row |= {"bias": _name(model, bias)} if bias is not None else {}
    return row | ({"offset": offset} if offset else {})


def _name(model: PreTrainedModel, tensor: Tensor) -> str:
    """The stored key, with `*` for the number of the last layer."""
    names = {id(held): name for name, held in model.named_parameters(remove_duplicate=False)}
    return re.sub(r"\.\d+\.", ".*.", saved_name(model, names[id(tensor)]))


def classes() -> Iterator[tuple[str, str]]:
    """Every (model type, class) whose tables can be tied."""
    for model_type, class_name in builds.classes():
        family = family_for(model_type.partition("+")[0], class_name)
        if family and family.output_key and family.tie_forced is not False and family.architecture == class_name:
            yield model_type, class_name


def text(rows: dict[str, Row]) -> str:
    """The file: a row a line, sorted."""
    import transformers

    lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(row)}" for key, row in sorted(rows.items()))
    return f'{{\n"transformers": "{transformers.__version__}",\n"norms": {{\n{lines}\n}}\n}}\n'


def main(arguments: list[str]) -> int:
    """Write the file, or print the rows of the types named."""
    import transformers

    transformers.logging.set_verbosity(logging.CRITICAL)
    warnings.simplefilter("ignore")
    wanted = {argument for argument in arguments if not argument.startswith("--")}
    rows = {}
    for model_type, class_name in classes():
        model_type = model_type.partition("+")[0]
        if wanted and model_type not in wanted:
            continue
        try:
            rows[f"{model_type}/{class_name}"] = observed(model_type, class_name)
        except NotObserved as error:
            print(f"{model_type}/{class_name}: not observed: {error}", file=sys.stderr)
    new = text(rows)
    if "--write" in arguments:
        FILE.write_text(new)
    else:
        print(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
