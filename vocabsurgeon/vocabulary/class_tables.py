"""Which tensors of a built model class have a vocabulary axis: seen by growing the sizes that its config states."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vocabsurgeon.checkpoint.config import Path
from vocabsurgeon.vocabulary.model_class import ModelClass, Unknown, levels

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class NoVocabulary(Unknown):
    """The class has no input table that grows with a size of its config."""


_SIZE = re.compile(r"vocab|n_words|n_token|num_tokens|num_embeddings")
_MORE = 64
"""Rows by which a vocabulary is grown, to see what grows along."""


@dataclass(frozen=True)
class ClassTables:
    """Keys are those of the module tree."""

    input: str
    output: str | None
    axes: Mapping[str, int]
    """Key → vocabulary axis as files have it, for every tensor that grows; input and output are among them."""
    stored: Mapping[str, str]
    """Key → the name that the class saves it under, layer numbers as `*`."""
    sizes: tuple[Path, ...]
    """Where the config states the size, the one that counts first."""
    elsewhere: tuple[Path, ...]
    """Config levels with a size of the same name that tables of another vocabulary follow."""
    beyond: tuple[int, int]
    """Rows that the input table and the head have beyond that size."""


def tables_of(subject: ModelClass, model: PreTrainedModel) -> ClassTables:
    """The tables of `model`, which `subject` built. Raises `NoVocabulary` where none follows a size of the config."""
    source, head = _key(model, "get_input_embeddings"), _key(model, "get_output_embeddings")
    grown = _grown(subject, model)
    if source is None or not any(source in keys for keys in grown.values()):
        source, head = _only_embedding(model, grown), None
    if head is None:
        head = _only_linear(model, [path for path, keys in grown.items() if source in keys], grown)
    sizes = _sizes(model, grown, source, head)
    axes = _axes(subject, model, sizes)
    if source not in axes:
        raise NoVocabulary("its input table does not grow with a size of config.json")
    output = head if head in axes else None
    names = {key: starred(saved_name(model, key)) for key in axes}
    elsewhere = _elsewhere(grown, sizes)
    return ClassTables(source, output, axes, names, sizes, elsewhere, _beyond(model, sizes, source, output))


def saved_name(model: PreTrainedModel, key: str) -> str:
    """The name that `save_pretrained` writes for the module tree's `key` (its own where a file splits it)."""
    return _saved(model, key)[0]


def starred(key: str) -> str:
    """`key` with its numbers as `*`: how many layers were built is not how many there are."""
    return re.sub(r"(?<=\.)\d+(?=\.)", "*", key)


def _saved(model: PreTrainedModel, key: str) -> tuple[str, tuple[int, ...]]:
    from transformers.core_model_loading import revert_weight_conversion

    tensor = model.state_dict(keep_vars=True)[key]
    written = revert_weight_conversion(model, {key: tensor})
    name, found = next(iter(written.items())) if len(written) == 1 else (key, tensor)
    return name, tuple(found.shape)


def _key(model: PreTrainedModel, getter: str) -> str | None:
    """The key of the table that `model.<getter>()` holds; None where the class names none."""
    try:
        module = getattr(model, getter)()
    except (AttributeError, NotImplementedError):
        return None
    named = [name for name, found in model.named_modules() if found is module]
    return f"{named[0]}.weight" if named and getattr(module, "weight", None) is not None else None


def _grown(subject: ModelClass, model: PreTrainedModel) -> dict[Path, set[str]]:
    """Path of each config value that could be a vocabulary size → keys of the tensors whose shape follows it."""
    before = _shapes(model)
    grown = {}
    for path, value in _candidates(model).items():
        try:
            after = _shapes(subject.build({path: value + _MORE}))
        except Exception:  # a value that cannot be changed alone is not a vocabulary size
            continue
        if keys := {key for key, shape in after.items() if before.get(key, shape) != shape}:
            grown[path] = keys
    return grown


def _candidates(model: PreTrainedModel) -> dict[Path, int]:
    return {
        (*path, key): value
        for path, level in levels(model.config).items()
        for key, value in vars(level).items()
        if type(value) is int and value > 0 and _SIZE.search(key)
    }


def _only_embedding(model: PreTrainedModel, grown: Mapping[Path, set[str]]) -> str:
    """Where the class names no input table: the one embedding that a `vocab_size` grows, the text model's first."""
    text = model.config.get_text_config(decoder=True)
    level = next((path for path, config in levels(model.config).items() if config is text), ())
    for path in sorted(grown, key=lambda path: (path[:-1] != level, "text" not in "".join(path[:-1]), len(path), path)):
        embeddings = _of_kind(model, "Embedding", grown[path])
        if path[-1] == "vocab_size" and len(embeddings) == 1:
            return embeddings[0]
    raise NoVocabulary("no single embedding grows with a vocab_size of config.json")


def _only_linear(model: PreTrainedModel, paths: Iterable[Path], grown: Mapping[Path, set[str]]) -> str | None:
    """Where the class names no head: the one linear layer that grows with the input table."""
    linear = {key for path in paths for key in _of_kind(model, "Linear", grown[path])}
    return next(iter(linear)) if len(linear) == 1 else None


def _of_kind(model: PreTrainedModel, kind: str, keys: Iterable[str]) -> list[str]:
    """Those of `keys` that are the `weight` of a torch module of class `kind`."""
    import torch

    wanted = getattr(torch.nn, kind)
    modules = [key.removesuffix(".weight") for key in keys if key.endswith(".weight")]
    return [f"{module}.weight" for module in modules if isinstance(model.get_submodule(module), wanted)]


def _sizes(model: PreTrainedModel, grown: Mapping[Path, set[str]], source: str, head: str | None) -> tuple[Path, ...]:
    """The sizes that the input table or the head follows, then those of one value that only other tables follow."""
    values, shapes = _candidates(model), _shapes(model)
    rows = {shapes[key][0] for key in (source, head) if key}
    main = [path for path, keys in grown.items() if keys & {source, head}]
    main.sort(key=lambda path: (source not in grown[path], path[-1] != "vocab_size", len(path), path))
    main = main[:1] + [path for path in main[1:] if values[path] in rows]
    return (*main, *(path for path in grown if path not in main and values[path] == values[main[0]]))


def _elsewhere(grown: Iterable[Path], sizes: tuple[Path, ...]) -> tuple[Path, ...]:
    names, levels_of = {path[-1] for path in sizes}, {path[:-1] for path in sizes}
    return tuple(sorted({path[:-1] for path in grown if path[-1] in names} - levels_of))


def _axes(subject: ModelClass, model: PreTrainedModel, sizes: Iterable[Path]) -> dict[str, int]:
    values = _candidates(model)
    grown = subject.build({path: values[path] + _MORE for path in sizes})
    before, after = _shapes(model), _shapes(grown)
    found = {}
    for key in (key for key, shape in before.items() if after.get(key, shape) != shape):
        old, new = _saved(model, key)[1], _saved(grown, key)[1]
        (found[key],) = (axis for axis, (a, b) in enumerate(zip(old, new, strict=True)) if a != b)
    return found


def _beyond(model: PreTrainedModel, sizes: tuple[Path, ...], source: str, head: str | None) -> tuple[int, int]:
    """A class with two sizes (source and target language) has each table follow its own."""
    values, shapes = _candidates(model), _shapes(model)
    stated = [values[path] for path in sizes]
    rows, head_rows = shapes[source][0], shapes[head or source][0]
    return rows - stated[0], 0 if head_rows in stated else head_rows - stated[0]


def _shapes(model: PreTrainedModel) -> dict[str, tuple[int, ...]]:
    return {key: tuple(tensor.shape) for key, tensor in model.state_dict().items()}
