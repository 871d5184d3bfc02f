"""Which files hold the weights, and the index over them: safetensors, else torch's own. Headers only, no meanings."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vocabsurgeon.checkpoint.header import Header, TensorInfo, open_regular, read_header
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.shard_names import ShardSet, may_be_renamed, shard_sets
from vocabsurgeon.errors import CheckpointError, HeaderError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"


@dataclass(frozen=True)
class Shards:
    """The weight files in index order, and the index document where there is one."""

    headers: Mapping[str, Header]
    index: JsonText | None
    index_name: str = INDEX

    @property
    def files(self) -> tuple[str, ...]:
        """The names of the weight files, and of the index where there is one."""
        return (*self.headers, self.index_name) if self.index else tuple(self.headers)

    @property
    def unindexed(self) -> bool:
        """Whether the files are a numbered set, or one under a name of its own, that no index names."""
        return self.index is None and not {form.single for form in _FORMATS} & set(self.headers)

    @property
    def pickled(self) -> bool:
        """Whether the weights are in torch's own format, which is read but never written."""
        return any(header.pickled for header in self.headers.values())

    @cached_property
    def tensors(self) -> Mapping[str, TensorInfo]:
        """Tensor key → where it lies, over all files, in file and header order."""
        return {info.key: info for header in self.headers.values() for info in header.tensors}

    @property
    def total_size(self) -> int:
        """Bytes of tensor data over all files: what the index calls `total_size`."""
        return sum(info.nbytes for info in self.tensors.values())


@dataclass(frozen=True)
class _Format:
    """A format of weight files: the name of a lone one, of the index over several, and how to read one."""

    single: str
    index: str
    read: Callable[[Path, str], Header]


def _read_pickled(path: Path, name: str) -> Header:
    from vocabsurgeon.checkpoint.pickled.read import read_pickled  # what few checkpoints need is not loaded for all

    return read_pickled(path, name)


_FORMATS = (
    _Format(SINGLE, INDEX, read_header),
    _Format("pytorch_model.bin", "pytorch_model.bin.index.json", _read_pickled),
)
"""In the order in which readers take them: safetensors count where both are there."""


def read_shards(root: Path) -> Shards:
    """Read the headers below `root`: one `model.safetensors`, or the shards that the index names, else the same of
    `pytorch_model.bin`, else a complete set of numbered files that no index names.

    Raises `CheckpointError` where none exists, where a lone file and an index differ, where a lone file and numbered
    files without an index lie side by side, where a numbered set lacks a file, and where index and shards disagree.
    """
    for form in _FORMATS:
        if os.path.lexists(root / form.index):
            return _indexed(root, form)
        if os.path.lexists(root / form.single):
            _require_alone(root, form)
            return Shards({form.single: form.read(root / form.single, form.single)}, None)
    return _numbered(root)


def safetensors_name(name: str) -> str:
    """What file `name` of torch's format is called as safetensors: `pytorch_model-1.bin` → `model-1.safetensors`."""
    return f"{name.removesuffix('.bin').removeprefix('pytorch_')}.safetensors"


@dataclass(frozen=True)
class Beside:
    """Weights of the model in the folder that are not read, by name: other readers may take them."""

    other_format: tuple[str, ...]
    """In the format that does not count where both are there, the index over them included."""
    unnamed: tuple[str, ...]
    """Numbered files of the format that is read, which no index names."""


def beside(files: Iterable[str], shards: Shards) -> Beside:
    """The weights among `files` (all of the folder) that lie beside those of `shards`."""
    here = [name for name in files if "/" not in name and name not in shards.files]
    numbered = {form: [name for held in _sets(here, form) for name in held.files] for form in _FORMATS}
    read = _FORMATS[1] if shards.pickled else _FORMATS[0]
    others = [form for form in _FORMATS if form is not read]
    plain = [name for form in others for name in (form.single, form.index) if name in here]
    return Beside(tuple(sorted((*plain, *(name for form in others for name in numbered[form])))), tuple(numbered[read]))


def _sets(names: Iterable[str], form: _Format) -> list[ShardSet]:
    """The numbered sets that bear the format's own stem."""
    stem, _, ending = form.single.rpartition(".")
    return [found for found in shard_sets(names) if (found.stem, found.ending) == (stem, ending)]


def _require_alone(root: Path, form: _Format) -> None:
    sets = _sets(os.listdir(root), form)
    if not sets:
        return
    lone = len(sets) == 1 and len(sets[0].missing) == 1
    number = f"{sets[0].missing[0]:0{_DIGITS}}-of-{sets[0].total:0{_DIGITS}}" if lone else ""
    stem, _, ending = form.single.rpartition(".")
    hint = f"if it is number {sets[0].missing[0]} of them, call it {stem}-{number}.{ending} again; " if lone else ""
    raise CheckpointError(
        f"lies beside {'; '.join(map(str, sets))}, and no {form.index} says which weights count",
        where=form.single,
        hint=f"{hint}if it is the whole model, move the numbered files to another folder",
    )


_DIGITS = 5
"""Of a shard's number, as save_pretrained writes it."""


def _numbered(root: Path) -> Shards:
    """The one complete numbered set, read whole; what is no such set is refused with advice that loses nothing."""
    every = shard_sets(os.listdir(root))
    usual = [found for form in _FORMATS for found in every if found in _sets(found.files, form)]
    sets = usual or list(every)
    sets = [found for found in sets if found.ending == "safetensors"] or sets
    if not sets:
        raise _no_weights(root)
    form = next(form for form in _FORMATS if form.single.endswith(sets[0].ending))
    if len(sets) > 1 or not sets[0].complete:
        missing = len(sets) == 1
        raise CheckpointError(
            f"has no {form.index}, only {'; '.join(map(str, sets))}",
            where=root,
            hint="fetch the missing files"
            if missing
            else "keep the set that counts, move the others to another folder",
        )
    shards = Shards({name: form.read(root / name, name) for name in sets[0].files}, None, form.index)
    _refuse_twice(shards)
    return shards


def _indexed(root: Path, form: _Format) -> Shards:
    index = JsonText.parse(_content(root / form.index), form.index)
    weight_map = _weight_map(index.value, form.index)
    names = list(dict.fromkeys(weight_map.values()))
    if os.path.lexists(root / form.single) and form.single not in names:
        raise CheckpointError(
            f"lies beside {form.index}, which does not name it: readers disagree about which weights count",
            where=form.single,
            hint="remove the stale one",
        )
    headers = {name: form.read(_inside(root, name, form.index), name) for name in names}
    shards = Shards(headers, index, form.index)
    _agree(shards, weight_map)
    return shards


def _content(path: Path) -> bytes:
    try:
        with open_regular(path, path.name) as file:
            content: bytes = file.read()
            return content
    except OSError as error:
        raise CheckpointError(f"cannot be read: {error.strerror}", where=path.name) from error


def _weight_map(value: Any, index: str) -> Mapping[str, str]:
    weight_map = value.get("weight_map") if isinstance(value, dict) else None
    if not isinstance(weight_map, dict) or not all(isinstance(name, str) for name in weight_map.values()):
        raise CheckpointError("has no weight_map from tensor to file", where=index)
    if not weight_map:
        raise CheckpointError("has an empty weight_map", where=index)
    return weight_map


def _inside(root: Path, name: str, index: str) -> Path:
    """The shard's path; a name that could leave the folder is an attack or a mistake."""
    if name != os.path.basename(name) or name in ("", ".", "..") or "\x00" in name or "\\" in name:
        raise CheckpointError(f"names the shard {name!r}, which is not a plain file name", where=index)
    path = root / name
    if not os.path.exists(path):
        raise CheckpointError(f"is missing, though {index} names it", where=name, hint="fetch the file again")
    return path


def _agree(shards: Shards, weight_map: Mapping[str, str]) -> None:
    """Every tensor is in exactly the file the index says, and every tensor in a file is in the index."""
    held = _refuse_twice(shards)
    for key, name in weight_map.items():
        info = shards.tensors.get(key)
        if info is None or info.file != name:
            raise CheckpointError(f"is not in {name}, where {shards.index_name} says it is", where=key)
    for key, name in held:
        if key not in weight_map:
            raise CheckpointError(f"is in {name}, but {shards.index_name} does not list it", where=key)


def _refuse_twice(shards: Shards) -> list[tuple[str, str]]:
    """Every (tensor, file) there is; raises `HeaderError` where two files hold a tensor of one name."""
    held = [(info.key, name) for name, header in shards.headers.items() for info in header.tensors]
    if len(held) != len(shards.tensors):
        counts = Counter(key for key, _ in held)
        twice, count = counts.most_common(1)[0]
        more = sum(number > 1 for number in counts.values()) - 1
        names = " and ".join(name for key, name in held if key == twice)
        raise HeaderError(
            f"is stored in {'two' if count == 2 else count} shards, {names}"
            + (f", and so are {more} more" if more else ""),
            where=twice,
            hint="readers disagree about which counts: write the shards again with each tensor in one of them",
        )
    return held


_OTHER_FORMATS = {
    "tf_model.h5": "holds TensorFlow weights only; load it with from_tf=True and save it to get safetensors",
    "flax_model.msgpack": "holds Flax weights only; load it with from_flax=True and save it to get safetensors",
}


def _no_weights(root: Path) -> CheckpointError:
    for name, reason in _OTHER_FORMATS.items():
        if os.path.lexists(root / name):
            return CheckpointError(reason, where=root / name)
    others = sorted(path.name for path in root.glob("*.safetensors"))
    if others:
        shown = ", ".join(others[:_SHOWN]) + (f" and {len(others) - _SHOWN} more" if len(others) > _SHOWN else "")
        whole = len(others) == 1 and may_be_renamed(others[0])
        return CheckpointError(
            f"has no {SINGLE} and no {INDEX}, only {shown}",
            where=root,
            hint=f"rename it to {SINGLE}" if whole else f"fetch {SINGLE}, or {INDEX} and every file that it names",
        )
    return CheckpointError(
        f"holds no weights: neither {SINGLE} nor {INDEX}", where=root, hint="name the folder that save_pretrained wrote"
    )


_SHOWN = 4
