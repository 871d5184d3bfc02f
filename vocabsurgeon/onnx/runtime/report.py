"""What sessions of an export took in memory, as plain data. Measuring is `runtime.measure`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Measured:
    """One session in a fresh process. Bytes are growth since before it was opened; None is what was not measured.

    `resident_anonymous`, `resident_file`: after load. `peak`: both together at their highest, loading and running one
    token; file pages count when they were touched, though the system can drop them. `peak_load`: loading alone.
    `table_copies`: how often the vocabulary table lies in memory after running. `load_s`, `step_s`, `prefill_s`:
    seconds to open the session, for one token, and for a prompt of 64, the shortest of five. `not_run`: why something
    is None.
    """

    resident_anonymous: int | None
    resident_file: int | None
    peak: int | None
    table_copies: int | None
    peak_load: int | None = None
    load_s: float | None = None
    step_s: float | None = None
    prefill_s: float | None = None
    not_run: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """The contract's keys first."""
        return asdict(self)


@dataclass(frozen=True)
class GraphRuntime:
    """One graph: `weights` and `table` bytes, the session with `default` options, and with each of `presets`."""

    name: str
    weights: int
    table: int | None
    default: Measured
    presets: Mapping[str, Measured]

    def to_dict(self) -> dict[str, Any]:
        """The default options' figures, with those of each preset below them."""
        return {
            **self.default.to_dict(),
            "graph": self.name,
            "weights": self.weights,
            "table_bytes": self.table,
            "presets": {name: measured.to_dict() for name, measured in self.presets.items()},
        }


@dataclass(frozen=True)
class RuntimeReport:
    """Every graph of an export, each measured by itself."""

    graphs: tuple[GraphRuntime, ...]

    def to_dict(self) -> dict[str, Any]:
        """The figures of the graph with the highest peak, and all of them under `graphs`."""
        worst = max(self.graphs, key=lambda graph: graph.default.peak or graph.default.peak_load or 0)
        return {**worst.to_dict(), "graphs": {graph.name: graph.to_dict() for graph in self.graphs}}
