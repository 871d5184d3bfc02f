"""What a model class does with its vocabulary, as the package sees it that asks types the table does not hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.families import builds
from vocabsurgeon.vocabulary.class_tables import starred, tables_of
from vocabsurgeon.vocabulary.meta_device import facts_of
from vocabsurgeon.vocabulary.model_class import ModelClass


@dataclass(frozen=True)
class Facts:
    """One class of one model type. Layer numbers are `*`."""

    subject: ModelClass
    row: Mapping[str, Any]
    """What the class shows of a row of families.json."""
    modules: Mapping[str, str]
    """Stored key → key in the module tree, for every tensor of the row."""


def observe(model_type: str, class_name: str) -> Facts:
    """The facts of one class. Raises `NoVocabulary`, or whatever the class raises where it cannot be built."""
    subject = builds.subject(model_type, class_name)
    model = subject.build()
    tables = tables_of(subject, model)
    modules = {stored: starred(key) for key, stored in tables.stored.items()}
    return Facts(subject, facts_of(subject, model, tables), modules)
