"""Promises about the files a plan writes, by content: exactly the planned changes, in parsed data, and no other."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.edits import WriteFile
from vocabsurgeon.checkpoint.json_changes import JsonChange, Path
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.promises.base import Promise, Verdict, verdict


@dataclass(frozen=True)
class EditedFileAsPlanned(Promise):
    """JSON file `file` says what the source's says, with `changes` made to it, and nothing else.

    Compared as parsed data, key by key: absent and added keys, types, and the order of lists count; white space and the
    order of keys do not. The changes are made by code of this module's own, not by the writer's.
    """

    name: ClassVar[str] = "edited_files_as_planned"
    file: str
    changes: tuple[JsonChange, ...]

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Parses both files."""
        missing = [f"{self.file} is missing" for side in (before, after) if not side.has(self.file)]
        if missing:
            return Verdict(False, (missing[0],))
        old, new = before.read_bytes(self.file), after.read_bytes(self.file)
        try:
            problems = list(_problems(old, new, self.changes))
        except (ValueError, RecursionError, LookupError, TypeError) as error:
            problems = [f"cannot be compared: {error}"]
        told = [f"{self.file}: {problem}" for problem in problems]
        return verdict(told, f"{self.file}: {len(self.changes)} planned changes and no other")


@dataclass(frozen=True)
class WrittenFileAsPlanned(Promise):
    """File `file`, which is written whole, has the planned content (its SHA-256, in hexadecimal)."""

    name: ClassVar[str] = "written_files_as_planned"
    file: str
    sha256: str

    def check(self, before: Checkpoint, after: Checkpoint) -> Verdict:
        """Hashes the file."""
        if not after.has(self.file):
            return Verdict(False, (f"{self.file} is missing",))
        same = hashlib.sha256(after.read_bytes(self.file)).hexdigest() == self.sha256
        return verdict([] if same else [f"{self.file} has another content"], f"{self.file} is as planned")


def content_promises(written: Sequence[WriteFile]) -> tuple[Promise, ...]:
    """What the result must hold of each file in `written`; config.json is `ConfigAsIntended`'s part."""
    return tuple(
        WrittenFileAsPlanned(file.name, hashlib.sha256(file.content).hexdigest())
        if file.changes is None
        else EditedFileAsPlanned(file.name, file.changes)
        for file in written
        if file.name != CONFIG
    )


def parse_json(raw: bytes) -> Any:
    """The document in `raw`; a key that an object holds twice is kept too, under a name that no JSON key can have.

    Raises `ValueError` where it is no JSON.
    """
    return json.loads(raw.decode("utf-8"), object_pairs_hook=_object)


def json_differences(wanted: Any, found: Any, path: Path = ()) -> Iterator[str]:
    """Where two parsed documents differ, a line each, key by key."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        for key in dict.fromkeys((*wanted, *found)):
            if key not in found:
                yield f"{_dotted((*path, key))} is gone"
            elif key not in wanted:
                yield f"{_dotted((*path, key))} = {found[key]!r:.80} appeared"
            else:
                yield from json_differences(wanted[key], found[key], (*path, key))
    elif isinstance(wanted, list) and isinstance(found, list):
        if len(wanted) != len(found):
            yield f"{_dotted(path)} has {len(found)} entries, not {len(wanted)}"
        for place, (one, other) in enumerate(zip(wanted, found, strict=False)):
            yield from json_differences(one, other, (*path, place))
    elif type(wanted) is not type(found) or not (wanted == found or (wanted != wanted and found != found)):
        yield f"{_dotted(path)} is {found!r:.80}, not {wanted!r:.80}"


def changed(data: Any, changes: Sequence[JsonChange]) -> Any:
    """Parsed `data` with `changes` made, in place. Raises `LookupError` or `TypeError` for one that does not fit."""
    for change in changes:
        holder, last = data, change.path[-1]
        for key in change.path[:-1]:
            holder = holder[key]
        if change.kind == "append":
            holder[last] = [*holder[last], *change.value]
        elif change.kind == "remove":
            del holder[last]
        elif change.kind == "rename":
            held = {change.value if key == last else key: value for key, value in holder.items()}
            holder.clear()
            holder.update(held)
        else:
            holder[last] = change.value
    return data


def _problems(old: bytes, new: bytes, changes: Sequence[JsonChange]) -> Iterator[str]:
    head = _heads(old, new)
    if head is not None and all(change.path[0] != _TAIL for change in changes):
        try:
            wanted, found = changed(parse_json(head[0]), changes), parse_json(head[1])
        except ValueError:  # the cut was not at the end of a member of the outermost object
            pass
        else:
            yield from json_differences(wanted, found)
            return
    wanted = changed(parse_json(old), changes)
    yield from json_differences(wanted, parse_json(new))


_TAIL = "model"
_LARGE = 1 << 20


def _heads(old: bytes, new: bytes) -> tuple[bytes, bytes] | None:
    """Both documents up to the member `model`, from where on they are equal byte for byte; None for small ones.

    A tokenizer.json of tens of megabytes is nearly all `model`. That the cut lies in the outermost object shows in that
    the heads parse: one bracket closes them.
    """
    if min(len(old), len(new)) < _LARGE:
        return None
    place = old.find(b'"' + _TAIL.encode() + b'"', len(old) - _common_tail(old, new))
    if place < 0:
        return None
    stand_in = b'"' + _TAIL.encode() + b'": 0}'
    return old[:place] + stand_in, new[: place + len(new) - len(old)] + stand_in


def _common_tail(old: bytes, new: bytes) -> int:
    """How many bytes at the end are the same."""
    low, high = 0, min(len(old), len(new))
    first, second = memoryview(old), memoryview(new)
    while low < high:
        middle = (low + high + 1) // 2
        if first[len(old) - middle : len(old) - low] == second[len(new) - middle : len(new) - low]:
            low = middle
        else:
            high = middle - 1
    return low


def _object(pairs: list[tuple[str, Any]]) -> dict[Any, Any]:
    held: dict[Any, Any] = dict(pairs)
    if len(held) != len(pairs):
        held["duplicate keys",] = [[key, value] for key, value in pairs]
    return held


def _dotted(path: Path) -> str:
    return ".".join(map(str, path)) or "the document"
