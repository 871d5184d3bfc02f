"""What a model class does with its vocabulary, seen from outside by names and shapes. No tying here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from tests.families import builds
from tests.families.builds import Path
from tests.families.stored import stored
from tests.families.subject import Subject
from tests.families.tying import Tying, observe_tying

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

_SIZE_NAME = re.compile(r"vocab|n_words|n_token|num_tokens|num_embeddings")
T = TypeVar("T")
_MORE = 64
"""Rows by which a vocabulary is grown, to see what grows along."""


class NoVocabulary(Exception):
    """The class has no table that grows with a vocabulary size of its config."""


@dataclass(frozen=True)
class Facts:
    """One class of one model type. Keys are those of the files that the class saves; layer numbers are `*`."""

    input: str
    output: str | None
    biases: Mapping[str, int]
    """Key → vocabulary axis."""
    others: Mapping[str, int]
    sizes: tuple[str, ...]
    """Names of the config values that the tables follow."""
    beyond: tuple[int, int]
    """Rows that the input table and the head have beyond the size their config states."""
    modules: Mapping[str, str]
    """Stored key → key in the module tree, for every tensor named here."""
    prefix: str
    tying: Tying
    source: str


@dataclass(frozen=True)
class _Sizes:
    main: tuple[Path, ...]
    """Paths of config values that the input table or the head follows."""
    along: tuple[Path, ...]
    """Paths of values equal to the main one by default that only other tables follow."""
    idle: tuple[Path, ...]
    """Paths beside the main one of sizes equal to it by default that no tensor follows."""


def observe(model_type: str, class_name: str) -> Facts:
    """The facts of one class. Raises `NoVocabulary`, or whatever the class raises where it cannot be built."""
    subject = Subject.smallest(model_type, class_name)
    source, head, sizes = _tables(subject)
    axes = _vocabulary_axes(subject, sizes)
    if source not in axes:
        raise NoVocabulary("the input table does not grow with the config's size")
    head = head if head in axes else None
    names = {key: stored(subject.model, key)[0] for key in axes}
    rest = {key: axis for key, axis in axes.items() if key not in (source, head)}
    biases = {key for key in rest if key.endswith("bias")}
    return Facts(
        names[source],
        names[head] if head else None,
        _starred({names[key]: axis for key, axis in rest.items() if key in biases}),
        _starred({names[key]: axis for key, axis in rest.items() if key not in biases}),
        tuple(dict.fromkeys(path[-1] for path in (*sizes.main, *sizes.along))),
        _beyond(subject, sizes, source, head),
        {starred(stored_key): starred(key) for key, stored_key in names.items()},
        subject.model.base_model_prefix,
        observe_tying(subject, names, head, sizes.main[0][:-1]),
        subject.cls.__module__.removeprefix("transformers.models."),
    )


def _tables(subject: Subject) -> tuple[str, str | None, _Sizes]:
    """The keys of the input table and the head in the module tree, and the sizes they follow."""
    source, head = _table_key(subject.model, "get_input_embeddings"), _table_key(subject.model, "get_output_embeddings")
    changed = _changed_by_size(subject)
    if source is None or not any(source in keys for keys in changed.values()):
        source, head = _by_growth(subject.model, changed)
    rows, values = _rows(subject.model, source, head), _candidates(subject.model)
    main = [path for path, keys in changed.items() if keys & {source, head}]
    if head is None:
        heads = [key for path in main for key in changed[path] if _kind(subject.model, key) == "Linear"]
        head = heads[0] if len(set(heads)) == 1 else None
    main.sort(key=lambda path: (source not in changed[path], path[-1] != "vocab_size", len(path), path))
    main = main[:1] + [path for path in main[1:] if values[path] in rows]
    along = [path for path in changed if path not in main and values[path] == values[main[0]]]
    beside = (
        path for path in values if path not in changed and path[:-1] == main[0][:-1] and path[-1].endswith("vocab_size")
    )
    idle = [path for path in beside if values[path] == values[main[0]]]
    return source, head, _Sizes(tuple(main), tuple(along), tuple(idle))


def _rows(model: PreTrainedModel, source: str, head: str | None) -> tuple[int, ...]:
    shapes = _shapes(model)
    return tuple(shapes[key][0] for key in (source, head) if key)


def _beyond(subject: Subject, sizes: _Sizes, source: str, head: str | None) -> tuple[int, int]:
    """A class with two sizes (source and target language) has each table follow its own."""
    values = _candidates(subject.model)
    stated = [values[path] for path in sizes.main]
    rows = _rows(subject.model, source, head)
    input_rows, output_rows = rows[0], rows[-1]
    return input_rows - stated[0], output_rows - (output_rows if output_rows in stated else stated[0])


def _by_growth(model: PreTrainedModel, changed: Mapping[Path, set[str]]) -> tuple[str, str | None]:
    """Where the class names no input table: the one embedding that the nearest `vocab_size` grows."""
    text = model.config.get_text_config(decoder=True)
    level = next((path for path, config in builds.levels(model.config).items() if config is text), ())
    for path in sorted(
        changed, key=lambda path: (path[:-1] != level, "text" not in "".join(path[:-1]), len(path), path)
    ):
        embeddings = [key for key in changed[path] if _kind(model, key) == "Embedding"]
        if path[-1] == "vocab_size" and len(embeddings) == 1:
            heads = [key for key in changed[path] if _kind(model, key) == "Linear"]
            return embeddings[0], heads[0] if len(heads) == 1 else None
    raise NoVocabulary("no single embedding grows with a vocab_size")


def _kind(model: PreTrainedModel, key: str) -> str:
    """`Embedding`, `Linear` or the class name of the module whose `weight` this is; empty for anything else."""
    from torch.nn import Embedding, Linear

    module, _, name = key.rpartition(".")
    if name != "weight":
        return ""
    owner = model.get_submodule(module)
    return (
        "Embedding" if isinstance(owner, Embedding) else "Linear" if isinstance(owner, Linear) else type(owner).__name__
    )


def _table_key(model: PreTrainedModel, getter: str) -> str | None:
    """The key of the table that `model.<getter>()` holds, in the module tree."""
    try:
        module = getattr(model, getter)()
    except (AttributeError, NotImplementedError):
        return None
    named = [name for name, found in model.named_modules() if found is module]
    return f"{named[0]}.weight" if named and getattr(module, "weight", None) is not None else None


def _changed_by_size(subject: Subject) -> dict[Path, set[str]]:
    """Path of each config value that could be a vocabulary size → keys of the tensors whose shape follows it."""
    before = _shapes(subject.model)
    changed = {}
    for path, value in _candidates(subject.model).items():
        try:
            after = _shapes(subject.with_values({path: value + _MORE}))
        except Exception:  # a value that cannot be changed alone is not a vocabulary size
            continue
        if keys := {key for key, shape in after.items() if before.get(key, shape) != shape}:
            changed[path] = keys
    return changed


def _candidates(model: PreTrainedModel) -> dict[Path, int]:
    return {
        (*path, key): value
        for path, level in builds.levels(model.config).items()
        for key, value in vars(level).items()
        if type(value) is int and _SIZE_NAME.search(key)
    }


def _vocabulary_axes(subject: Subject, sizes: _Sizes) -> dict[str, int]:
    """Key in the module tree → axis, as the tensor lies in a file, for everything that grows with the vocabulary."""
    values = _candidates(subject.model)
    grown = subject.with_values({path: values[path] + _MORE for path in (*sizes.main, *sizes.along)})
    before, after = _shapes(subject.model), _shapes(grown)
    keys = [key for key, shape in before.items() if after.get(key, shape) != shape]
    pairs = {key: (stored(subject.model, key)[1], stored(grown, key)[1]) for key in keys}
    return {key: _axis(old, new) for key, (old, new) in pairs.items()}


def _shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    return {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}


def _axis(old: Tensor, new: Tensor) -> int:
    """The one axis along which the shapes differ."""
    (axis,) = (axis for axis, (a, b) in enumerate(zip(old.shape, new.shape, strict=True)) if a != b)
    return axis


def _starred(keys: Mapping[str, T]) -> dict[str, T]:
    return {starred(key): value for key, value in keys.items()}


def starred(key: str) -> str:
    """`key` with its numbers as `*`: how many layers there are is the checkpoint's affair."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", key)
