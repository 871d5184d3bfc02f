"""inspect, extend, untie and tie on one tiny model, each judged by what transformers makes of the result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tests.models.tiny import write_tokenizer
from tests.sweep.models import Tiny, logits
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, tie, untie
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.tie_state import TieState

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NEW = tuple(f"<|new{number}|>" for number in range(7))
TOLERANCE = 1e-6
"""Of logits after a reload, in units of the largest (at least 1): the same weights run twice give the same bits."""


@dataclass(frozen=True)
class Outcome:
    """What became of one operation on one model."""

    operation: str
    held: bool
    why: str = ""
    """What broke, or the refusal that counts as held."""


class Broken(Exception):
    """A promise that the reloaded result does not keep."""


class Refused(Exception):
    """The operation said no; whether it may is the caller's to judge."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.reason)
        self.refusal = refusal


@dataclass(frozen=True)
class Source:
    """The saved model, and what transformers makes of it as it stands."""

    folder: Path
    cls: type[PreTrainedModel]
    logits: Any
    shares: bool | None
    """Whether input embedding and head are one storage; None without a head."""
    output_key: str | None
    tensors: Mapping[str, Any]
    """Every tensor of the model where there are no logits to compare, else nothing."""


def outcomes(tiny: Tiny, folder: Path) -> Iterator[Outcome]:
    """Every operation on `tiny`, saved below `folder`. Raises `Broken` where transformers itself loses it on reload."""
    try:
        source = _saved(tiny, folder / "source")
    except CheckpointError as error:
        for name in OPERATIONS:
            yield Outcome(name, _no_one_table(tiny), f"refused: {error}")
        return
    for name, check in OPERATIONS.items():
        out = folder / name
        try:
            yield Outcome(name, True, check(source, out) or "")
        except Refused as error:
            yield Outcome(name, False, f"refused: {error}")
        except Exception as error:  # the sweep goes on: any failure is a row of the table
            yield Outcome(name, False, " ".join(f"{type(error).__name__}: {error}".split())[:300])
        for made in folder.iterdir():
            if made != source.folder:
                shutil.rmtree(made)


def _saved(tiny: Tiny, folder: Path) -> Source:
    tiny.model.save_pretrained(folder)
    write_tokenizer(folder, _rows(folder))
    cls = type(tiny.model)
    model = _reloaded(cls, folder)
    again = logits(model) if tiny.logits is not None else None
    if again is not None and not _close(tiny.logits, again):
        raise Broken(f"transformers' own reload moves logits by {np.abs(tiny.logits - again).max():.3g}")
    output_key = describe(Checkpoint.open(folder)).tables.output_name
    tensors = {} if again is not None else _steady(model, _reloaded(cls, folder))
    return Source(folder, cls, again, _shares(model, output_key), output_key, tensors)


def _rows(folder: Path) -> int:
    """Ids for every row that the config's size counts."""
    from tests.sweep.shrink import VOCAB

    rows = describe(Checkpoint.open(folder)).vocabulary.rows
    return min(rows, VOCAB)


def _inspected(source: Source, out: Path) -> str | None:
    state = describe(Checkpoint.open(source.folder)).tie.state
    expected = {
        None: {TieState.NO_HEAD},
        True: {TieState.TIED, TieState.TIED_DUPLICATE},
        False: {TieState.UNTIED, TieState.UNTIED_EQUAL},
    }
    if state not in expected[source.shares]:
        raise Broken(f"{state}, but transformers {'shares' if source.shares else 'does not share'} the tables")
    return None


def _extended(source: Source, out: Path) -> str | None:
    result = extend(source.folder, out, extend_request(NEW))
    if isinstance(result, Refusal) and _may_refuse(source, result, "extend"):
        return f"refused: {result.reason}"
    _done(result)
    _kept(source, out, grown=len(NEW), shares=source.shares)
    return None


def _untied(source: Source, out: Path) -> str | None:
    result = untie(source.folder, out)
    if isinstance(result, Refusal) and _may_refuse(source, result, "untie"):
        return f"refused: {result.reason}"
    _done(result)
    _kept(source, out, grown=0, shares=False)
    return None


def _tied(source: Source, out: Path) -> str | None:
    """Equal tables become one again; different ones are refused."""
    start = source.folder
    if source.shares is False:
        refusal = tie(start, out, request=TieRequest(probe=False))
        if not (isinstance(refusal, Refusal) and refusal.exit_code in (1, 2) and not out.exists()):
            raise Broken("two different tables were tied")
        return f"refused: {refusal.reason}"
    if source.shares:
        apart = out.with_name("apart")
        result = untie(start, apart)
        start = apart if isinstance(result, OperationReport) else start
    result = tie(start, out)
    if isinstance(result, Refusal) and _may_refuse(source, result, "tie"):
        return f"refused: {result.reason}"
    _done(result)
    _kept(source, out, grown=0, shares=True)
    return None


OPERATIONS: dict[str, Callable[[Source, Path], str | None]] = {
    "inspect": _inspected,
    "extend": _extended,
    "untie": _untied,
    "tie": _tied,
}


def _no_one_table(tiny: Tiny) -> bool:
    """Whether the class has a table for each codebook of sounds and none for tokens, or joins its table of parts."""
    return tiny.model_type.startswith("musicgen") or tiny.model_type == "molmo2"


def _may_refuse(source: Source, refusal: Refusal, operation: str) -> bool:
    """Where the architecture gives the operation no meaning."""
    if operation != "extend" and source.shares is None:
        return True
    return any(reason in refusal.reason for reason in DOCUMENTED[operation])


DOCUMENTED = {
    "extend": ("hold audio codes",),
    "untie": ("at every load, whatever the file says", "also shares"),
    "tie": ("also shares", "tying changes all logits"),
}
"""Operation → what the reason of a refusal says where it counts as held; docs/support.md lists them."""


def _done(result: OperationReport | Refusal) -> None:
    if isinstance(result, Refusal):
        raise Refused(result)
    if result.proof.passed is not True:
        broken = [name for name, passed in result.proof.by_name.items() if not passed]
        raise Broken(f"the proof failed: {broken}: {[result.proof.evidence[name] for name in broken]}")


def _kept(source: Source, out: Path, grown: int, shares: bool | None) -> None:
    model = _reloaded(source.cls, out)
    if _shares(model, source.output_key) is not shares:
        raise Broken(f"the tables are {'not ' if shares else ''}one storage after a reload")
    if source.logits is None:
        _rows_kept(source, model)
        return
    new = logits(model)
    rows = source.logits.shape[-1]
    if new.shape != (*source.logits.shape[:2], rows + grown):
        raise Broken(f"logits of shape {new.shape}, not {(*source.logits.shape[:2], rows + grown)}")
    if not _close(source.logits, new[..., :rows]):
        raise Broken(f"old logits moved by {np.abs(source.logits - new[..., :rows]).max():.3g}")


def _steady(first: PreTrainedModel, second: PreTrainedModel) -> dict[str, Any]:
    """The tensors that two loads of one folder agree on: transformers leaves some of its classes' memory as it was."""
    other = second.state_dict()
    return {key: tensor.clone() for key, tensor in first.state_dict().items() if _equal(tensor, other[key])}


def _equal(first: Any, second: Any) -> bool:
    return bool(((first == second) | ((first != first) & (second != second))).all())


def _rows_kept(source: Source, model: PreTrainedModel) -> None:
    """Each tensor of the source is there with its bits, grown at the end of one axis at most."""
    new = model.state_dict()
    for key, old in source.tensors.items():
        part = new[key][tuple(slice(0, length) for length in old.shape)]
        if part.shape != old.shape or not _equal(part, old):
            raise Broken(f"{key} is not what it was")


def _close(old: Any, new: Any) -> bool:
    return bool(
        old.shape == new.shape
        and np.allclose(
            old, new, rtol=0, atol=TOLERANCE * max(1.0, np.abs(old[np.isfinite(old)]).max()), equal_nan=True
        )
    )


def _reloaded(cls: type[PreTrainedModel], folder: Path) -> PreTrainedModel:
    model, info = cls.from_pretrained(folder, output_loading_info=True)
    for name in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[name]:
            raise Broken(f"{name} after a reload: {sorted(map(str, info[name]))[:3]}")
    loaded: PreTrainedModel = model.eval()
    return loaded


def _shares(model: PreTrainedModel, output_key: str | None) -> bool | None:
    """Whether the head's storage is that of some embedding table of the model; None without a head."""
    import torch

    head = getattr(_module(model, "get_output_embeddings"), "weight", None)
    if head is None and output_key is not None:
        head = model.state_dict(keep_vars=True).get(output_key)
    if head is None:
        return None
    tables = [module.weight for module in model.modules() if isinstance(module, torch.nn.Embedding)]
    tables += [table] if (table := getattr(_module(model, "get_input_embeddings"), "weight", None)) is not None else []
    return any(table.data_ptr() == head.data_ptr() for table in tables if table is not head or _twice(model, head))


def _twice(model: PreTrainedModel, weight: Any) -> bool:
    """Whether two modules hold `weight` itself."""
    return sum(getattr(module, "weight", None) is weight for module in model.modules()) > 1


def _module(model: PreTrainedModel, getter: str) -> Any:
    try:
        return getattr(model, getter)()
    except (AttributeError, NotImplementedError):
        return None
