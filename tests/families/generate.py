"""Writes families.json from transformers' own classes: `python -m tests.families.generate --write`.

Without `--write` it compares. Every class is built on the meta device: no weights, no downloads, about two minutes.
"""

from __future__ import annotations

import difflib
import logging
import sys
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.families import builds
from tests.families.aliases import aliases_of
from tests.families.observe import Facts, observe
from tests.families.recipes import BY_HAND, COMPOSED
from tests.families.rows import Key, Row, rows, text
from vocabsurgeon.vocabulary.class_tables import NoVocabulary

FAMILIES = Path(__file__).parents[2] / "vocabsurgeon" / "vocabulary" / "families.json"
TAKES_ANOTHER = "takes the config of a model inside it"
"""An auto class maps some composite types to the class of their text model, whose own type has a row."""


@dataclass
class Observed:
    """What building the classes showed."""

    facts: dict[Key, Facts] = field(default_factory=dict)
    unbuilt: dict[str, str] = field(default_factory=dict)
    """`type/class` → why it could not be built here."""
    without: set[str] = field(default_factory=set)
    """Types none of whose classes has a vocabulary."""


def generated(wanted: Callable[[str], bool] = lambda model_type: True) -> str:
    """The text of families.json for the model types that are wanted."""
    import transformers

    observed = observed_classes(key for key in builds.classes() if wanted(key[0]))
    by_hand = [row for row in BY_HAND if wanted(row["type"])]
    table = sorted((*_rows(observed), *by_hand), key=lambda row: str(row["type"]))
    return text(transformers.__version__, table, observed.unbuilt, observed.without - {row["type"] for row in by_hand})


def generated_rows(model_types: set[str]) -> list[Row]:
    """The rows of those model types alone. Names that only other types gave away are missing from `also`."""
    return _rows(observed_classes(key for key in builds.classes() if key[0] in model_types))


@builds.timm_towers_empty()
def observed_classes(keys: Iterable[Key]) -> Observed:
    """Build and observe each (model type, class name)."""
    observed = Observed()
    for key in keys:
        if key[0] in COMPOSED:
            observed.unbuilt["/".join(key)] = "wraps two models of any type"
            continue
        try:
            observed.facts[key] = observe(*key)
        except NoVocabulary:
            observed.without.add(key[0])
        except Exception as error:  # whatever a class raises is the reason to write down
            reason = _one_line(error) if _takes_this_config(*key) else TAKES_ANOTHER
            observed.unbuilt["/".join(key)] = reason
    observed.unbuilt = {
        name: why for name, why in observed.unbuilt.items() if why != TAKES_ANOTHER or not _has_row(observed, name)
    }
    observed.without -= {model_type for model_type, _ in observed.facts}
    return observed


def _has_row(observed: Observed, name: str) -> bool:
    return name.partition("/")[0] in {model_type for model_type, _ in observed.facts}


@builds.timm_towers_empty()
def _rows(observed: Observed) -> list[Row]:
    return rows(observed.facts, aliases_of(observed.facts))


def _takes_this_config(model_type: str, class_name: str) -> bool:
    try:
        return issubclass(builds.config_class(model_type), builds.model_class(class_name).config_class or object)
    except (AttributeError, ImportError):  # not exported, or a library is missing
        return True


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:80]


def main(arguments: list[str]) -> int:
    """Write the file, or print what would change in it; 1 if anything would."""
    import transformers

    transformers.logging.set_verbosity(logging.ERROR)
    warnings.simplefilter("ignore")
    new, old = generated(), FAMILIES.read_text() if FAMILIES.exists() else ""
    if arguments == ["--write"]:
        FAMILIES.write_text(new)
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(old.splitlines(True), new.splitlines(True), "committed", "generated", n=0)
    )
    return int(new != old)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
