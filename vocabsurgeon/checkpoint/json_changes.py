"""`JsonChange`: one change of a JSON document, as data: what an edit did to the text, for others to check."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Path = tuple[str | int, ...]
"""Keys and array indices from the outermost object inwards."""


@dataclass(frozen=True)
class JsonChange:
    """What happens to the value at `path`.

    `set`: it becomes `value`, added as the last key where it was absent. `append`: the list there gets the elements of
    the list `value` at its end. `remove`: it goes (`value` is None). `rename`: its key becomes the text `value`.
    """

    kind: Literal["set", "append", "remove", "rename"]
    path: Path
    value: Any = None
