"""Names besides the saved one under which files hold a tensor: asked of the class's own load-time renaming."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from tests.families.observe import Facts
from vocabsurgeon.vocabulary.meta_device import loaded_names

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Key = tuple[str, str]


def aliases_of(observed: Mapping[Key, Facts]) -> dict[Key, dict[str, tuple[str, ...]]]:
    """For each class, stored key → every name known from two types or more that it loads as the same tensor.

    Names that differ by the base model's prefix alone are left out: every class accepts them.
    """
    names = _known_names(observed)
    found = {}
    for key, facts in observed.items():
        model = facts.subject.build()
        if _renames(model):
            found[key] = _aliases(model, facts, names)
    return found


def _known_names(observed: Mapping[Key, Facts]) -> list[str]:
    types: dict[str, set[str]] = {}
    for (model_type, _), facts in observed.items():
        for name in itertools.chain.from_iterable(facts.modules.items()):
            types.setdefault(name, set()).add(model_type)
    return sorted(name for name, known_to in types.items() if len(known_to) > 1 and "*" not in name)


def _renames(model: PreTrainedModel) -> bool:
    """Whether the class has names of its own to translate at load."""
    from transformers.conversion_mapping import get_model_conversion_mapping

    return bool(get_model_conversion_mapping(model, add_legacy=False))


def _aliases(model: PreTrainedModel, facts: Facts, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    loaded = loaded_names(model, names)
    found = {}
    for stored, module in facts.modules.items():
        same = [name for name in (module, *names) if loaded.get(name, module) == module]
        found[stored] = tuple(_distinct(stored, same, facts.row["prefix"]))
    return found


def _distinct(stored: str, names: Iterable[str], prefix: str) -> list[str]:
    """`names` without `stored`, each once, spelled with the base model's prefix and without it counting as one."""
    known = {_bare(stored, prefix): stored}
    for name in names:
        known.setdefault(_bare(name, prefix), name)
    return list(known.values())[1:]


def _bare(name: str, prefix: str) -> str:
    return name.removeprefix(f"{prefix}.") if prefix else name
