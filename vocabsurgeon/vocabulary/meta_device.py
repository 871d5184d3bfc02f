"""What the families table says of a class, asked of the class itself: for types that the table does not hold.

The class is built on the meta device, without weights. Nothing a checkpoint brings is executed unless that is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.quiet import silenced
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import one_line
from vocabsurgeon.vocabulary.class_tables import ClassTables, tables_of
from vocabsurgeon.vocabulary.class_tying import ClassTying, Groups, tying_of
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


_MOST = 200
"""Characters of a foreign error that are shown."""


def _family(source: Checkpoint, subject: ModelClass, version: str) -> Family:
    model = subject.build()
    tables = tables_of(subject, model)
    tying = tying_of(subject, tables.output, tables.axes, tables.sizes[0][:-1])
    row = _row(source, model, tables, tying)
    return family_from_row(row, row["classes"][0], version)


def _row(source: Checkpoint, model: PreTrainedModel, tables: ClassTables, tying: ClassTying) -> dict[str, Any]:
    """The facts as a row of families.json."""
    names = {key: _starred(name) for key, name in tables.stored.items()}
    rest = {names[key]: axis for key, axis in tables.axes.items() if key not in (tables.input, tables.output)}
    output = names[tables.output] if tables.output else None
    shared, tied = (_named(groups, names) for groups in (tying.shared, tying.shared_if_tied))
    pair = sorted((names[tables.input], output or ""))
    return {
        "type": source.config.model_type,
        "classes": [type(model).__name__],
        "input": names[tables.input],
        "output": output,
        "biases": {key: axis for key, axis in rest.items() if key.endswith("bias")},
        "others": {key: axis for key, axis in rest.items() if not key.endswith("bias")},
        "also": _also(source, model, tables),
        "sizes": list(dict.fromkeys(path[-1] for path in tables.sizes)),
        "beyond": list(tables.beyond),
        "tie": tying.level,
        "text": list(tying.text),
        "root_default": tying.root_default,
        "text_default": tying.text_default,
        "flags": list(tying.spellings),
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
    for name, key in _loaded(model, source.tensors).items():
        if key in tables.stored and name != tables.stored[key]:
            found.setdefault(_starred(tables.stored[key]), []).append(name)
    return found


def _loaded(model: PreTrainedModel, names: Iterable[str]) -> dict[str, str]:
    """Each name in files → the key of the module tree that it becomes at load."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    transforms = get_model_conversion_mapping(model)
    renamings = [entry for entry in transforms if isinstance(entry, WeightRenaming)]
    converters = [entry for entry in transforms if isinstance(entry, WeightConverter)]
    held = model.state_dict()
    return {name: rename_source_key(name, renamings, converters, model.base_model_prefix, held)[0] for name in names}


def _starred(key: str) -> str:
    """`key` with its numbers as `*`: how many layers were built is not how many there are."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", key)
