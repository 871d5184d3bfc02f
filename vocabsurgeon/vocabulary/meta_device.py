"""What the families table says of a class, asked of the class itself: for types that the table does not hold.

The class is built on the meta device, without weights. Nothing a checkpoint brings is executed unless that is allowed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import one_line
from vocabsurgeon.vocabulary.class_tables import ClassTables, starred, tables_of
from vocabsurgeon.vocabulary.class_tying import Groups, tying_of
from vocabsurgeon.vocabulary.families import Family, family_from_row
from vocabsurgeon.vocabulary.model_class import ModelClass, Unknown, class_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DECIDED_BY = "transformers on the meta device"


@dataclass(frozen=True)
class Observed:
    """The facts of the class, None where it cannot be built or has no vocabulary; the evidence says what happened."""

    family: Family | None
    evidence: tuple[str, ...]


def observe(source: Checkpoint, *, trust_remote_code: bool = False) -> Observed:
    """Build the class that `source` names and see what it does with its vocabulary.

    Whatever the class raises becomes evidence. Code that the checkpoint brings (`auto_map`) is imported with
    `trust_remote_code` alone. Imports torch and transformers: seconds.
    """
    try:
        import transformers

        with silenced():
            subject = class_of(source, trust_remote_code)
            family = _family(source, subject, f"transformers {transformers.__version__}")
    except Unknown as reason:
        return Observed(None, (f"{DECIDED_BY}: {reason}",))
    except Exception as error:  # a model class fails in its own way: the next fallback decides
        told = one_line(" ".join(f"{type(error).__name__}: {error}".split()))[:_MOST]
        return Observed(None, (f"{DECIDED_BY}: the class cannot be asked: {told}",))
    head = family.output_key or "no head"
    return Observed(family, (f"{DECIDED_BY}: {family.architecture} has {family.input_key} and {head}",))


def names_of_class(source: Checkpoint, names: Iterable[str]) -> frozenset[str] | None:
    """Those of `names` that transformers' own class of `source` loads as a parameter or buffer of its own.

    None where it cannot be built. What the checkpoint brings as code is not asked. Imports torch and transformers.
    """
    names = tuple(names)
    try:
        with silenced():
            model = class_of(source).build()
            held = {starred(name) for name in (*model.state_dict(), *(name for name, _ in model.named_buffers()))}
            loaded = loaded_names(model, names)
    except Exception:  # a model class fails in its own way: then nothing is known to be its own
        return None
    prefix = model.base_model_prefix
    spelled = {name: {starred(text) for text in _spellings(loaded[name], prefix)} for name in names}
    return frozenset(name for name in names if spelled[name] & held)


def _spellings(name: str, prefix: str) -> tuple[str, ...]:
    return (name, f"{prefix}.{name}", name.removeprefix(f"{prefix}.")) if prefix else (name,)


_MOST = 200
"""Characters of a foreign error that are shown."""


def _family(source: Checkpoint, subject: ModelClass, version: str) -> Family:
    model = subject.build()
    tables = tables_of(subject, model)
    row = {"type": source.config.model_type, "classes": [type(model).__name__], **facts_of(subject, model, tables)}
    return family_from_row(row | {"also": _also(source, model, tables)}, type(model).__name__, version)


def facts_of(subject: ModelClass, model: PreTrainedModel, tables: ClassTables) -> dict[str, Any]:
    """A row of families.json as far as the class shows it: without `type`, `classes` and `also`.

    `model` and `tables` are those of `subject`. Raises `Unknown` where no rule tells how it ties.
    """
    tying = tying_of(subject, tables.output, tables.axes, tables.sizes[0][:-1])
    names = tables.stored
    rest = {names[key]: axis for key, axis in tables.axes.items() if key not in (tables.input, tables.output)}
    output = names[tables.output] if tables.output else None
    shared, tied = (_named(groups, names) for groups in (tying.shared, tying.shared_if_tied))
    pair = sorted((names[tables.input], output or ""))
    return {
        "input": names[tables.input],
        "output": output,
        "biases": {key: axis for key, axis in rest.items() if key.endswith("bias")},
        "others": {key: axis for key, axis in rest.items() if not key.endswith("bias")},
        "sizes": list(dict.fromkeys(path[-1] for path in tables.sizes)),
        "elsewhere": [list(path) for path in tables.elsewhere],
        "beyond": list(tables.beyond),
        **tying.rule,
        "shared": shared,
        "shared_if_tied": [group for group in tied if group not in shared and group != pair],
        "prefix": model.base_model_prefix,
        "source": type(model).__module__.removeprefix("transformers.models."),
    }


def _named(groups: Groups, names: Mapping[str, str]) -> list[list[str]]:
    return sorted(sorted({names[key] for key in group}) for group in groups)


def _also(source: Checkpoint, model: PreTrainedModel, tables: ClassTables) -> dict[str, list[str]]:
    """Saved name → the names under which this checkpoint holds the tensor, by the class's own renaming at load."""
    found: dict[str, list[str]] = {}
    for name, key in loaded_names(model, source.tensors).items():
        if key in tables.stored and starred(name) != tables.stored[key]:
            found.setdefault(tables.stored[key], []).append(name)
    return found


def loaded_names(model: PreTrainedModel, names: Iterable[str]) -> dict[str, str]:
    """Each name in files → the key of the module tree that it becomes at load, apart from the base model's prefix."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    transforms = get_model_conversion_mapping(model)
    renamings = [entry for entry in transforms if isinstance(entry, WeightRenaming)]
    converters = [entry for entry in transforms if isinstance(entry, WeightConverter)]
    held = model.state_dict()
    return {name: rename_source_key(name, renamings, converters, model.base_model_prefix, held)[0] for name in names}
