"""How a compared number was come by: the calls since the caches were empty, so that they can be made again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Call:
    """One call: `ids` and `positions [batch, sequence]`, `mask [batch, past + sequence]`, all int64."""

    ids: Array
    mask: Array
    positions: Array

    @property
    def attended(self) -> Array:
        """Which positions count, `[batch, sequence]` bool: what a hidden token attends to differs by runtime."""
        counts: Array = self.mask[:, -self.ids.shape[1] :].astype(bool)
        return counts


@dataclass(frozen=True, eq=False)
class Trail:
    """`encoded`: what an encoder was given before, None without one. `calls`: of the decoder, or of the one graph, from
    an empty cache on; the last is the one that was compared. None: the encoder's states were."""

    calls: tuple[Call, ...] = ()
    encoded: Mapping[str, Array] | None = None
