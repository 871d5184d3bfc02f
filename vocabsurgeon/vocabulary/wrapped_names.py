"""What is said of names that a training framework left in a checkpoint: evidence, reason, and the way out. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from vocabsurgeon.checkpoint.training_names import Marker
from vocabsurgeon.vocabulary.tables import Tables


def evidence(tables: Tables) -> Iterator[str]:
    """A line for each marker in the names: on how many tensors, whose it is, and what readers make of it; and more."""
    names = tables.training
    for marker, count in names.counts:
        reads = _TAKEN_OFF if _taken_off(tables, marker) else _NOT_FOUND
        yield (
            f"`{marker.text}` is in the names of {count} of {names.total} tensors, as {marker.written_by} leaves it: "
            f"{reads}"
        )
    yield from beside(tables)


def _taken_off(tables: Tables, marker: Marker) -> bool:
    """Whether the base model's own prefix is there twice, of which transformers 5 takes one (`rename_source_key`)."""
    return tables.family is not None and marker.text == f"{tables.family.base_model_prefix}."


def beside(tables: Tables) -> Iterator[str]:
    """A line for what makes such names more than a matter of renaming: two tensors of one name, an adapter."""
    names = tables.training
    for key in names.clashes[:_SHOWN]:
        yield f"{key}: another tensor has the name that this would have without the wrapper's"
    if names.adapters:
        yield f"{len(names.adapters)} tensors of an adapter lie there too, so it is not merged: {names.adapters[0]}, …"


_NOT_FOUND = "readers find no tensor by such a name, and leave what they miss random or stop"
_TAKEN_OFF = "transformers 5.24 takes one off at load, transformers 4.57, vLLM and llama.cpp's converter do not"
_SHOWN = 3


def hidden(tables: Tables) -> bool:
    """Whether a vocabulary table is stored under a name by which readers do not find it."""
    return any(table.key in tables.training.plain for table in tables.stored)


def reason(tables: Tables) -> str:
    """Why nothing is edited here, in one sentence."""
    names = tables.training
    count = len(names.plain) + len(names.clashes)
    of = "every tensor's name" if count == names.total else f"the names of {count} of {names.total} tensors"
    whose = " and ".join(marker.written_by for marker, _ in names.counts)
    return (
        f"{names.marks} is in {of}, left there by {whose}: readers do not find such tensors, and would not in a result"
    )


def ways_out(tables: Tables) -> tuple[str, ...]:
    """What to do, so that nothing is lost."""
    names = tables.training
    if names.adapters:
        return (
            "merge the adapter with PEFT: `model.merge_and_unload().save_pretrained(folder)`, and name that folder",
        )
    if names.clashes:
        which = ", ".join(names.clashes[:_SHOWN])
        return (f"decide which tensor counts, {which} or the one of its plain name, and leave out the other", _RENAME)
    return (
        f"rename the tensors: take {names.marks} out of every name, which changes no value "
        "(a few lines of Python in docs/training-names.md, for shards and their index too)",
        "save again where it was trained, from the model inside the wrapper",
    )


_RENAME = "then take the wrapper's name out of the rest: docs/training-names.md"
