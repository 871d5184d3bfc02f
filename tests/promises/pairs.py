"""An honest result for each promise to hold of, and a way to flip one bit in it behind the tool's back."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from tests.surgery.shelf import shelved, taken
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import Promise, Verdict
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import Operation, extending, plan_for, run, tying, untying

TOKENS = ("<new>", "w5 w6")


def extending_two() -> Operation:
    """Two new tokens on 64 rows."""
    return extending(extend_request(TOKENS))


def source_of(operation: str, tmp_path: Path) -> Path:
    """The checkpoint that `operation` is honest work on."""
    if operation == "tie":
        run(shelved(), tmp_path / "apart", untying())
        return tmp_path / "apart"
    if operation in LOSSY:
        return taken(tmp_path / "source", tied=False)
    return taken(
        tmp_path / "source", tied=operation == "untie", max_shard_size="6KB" if operation == "extend" else "1GB"
    )


LOSSY = {
    "keep input": TieRequest("input", allow_lossy=True, probe=False),
    "keep output": TieRequest("output", allow_lossy=True, probe=False),
    "keep mean": TieRequest("mean", refit_norm=True, allow_lossy=True, probe=False),
}
"""Ways to tie two different tables."""
OPERATIONS: dict[str, Callable[[], Operation]] = {
    "extend": extending_two,
    "tie": tying,
    "untie": untying,
    **{name: partial(tying, request) for name, request in LOSSY.items()},
}


class Pair:
    """A source, the result of an operation on it, and the plan's promise of one class."""

    def __init__(self, operation: str, promise: type[Promise], tmp_path: Path) -> None:
        self.source = source_of(operation, tmp_path)
        self.out = tmp_path / "out"
        _, plan = plan_for(self.source, OPERATIONS[operation]())
        assert isinstance(plan, Plan)
        self.promises = [made for made in plan.promises if isinstance(made, promise)]
        report = run(self.source, self.out, OPERATIONS[operation]())
        assert not isinstance(report, Refusal) and report.passed

    def verdicts(self) -> list[Verdict]:
        """What the promises say of the folders as they lie there now."""
        before, after = Checkpoint.open(self.source), Checkpoint.open(self.out)
        return [promise.check(before, after) for promise in self.promises]

    def holds(self) -> bool:
        """Whether there is such a promise and every one is kept, with evidence."""
        verdicts = self.verdicts()
        return bool(verdicts) and all(verdict.passed is True and verdict.evidence for verdict in verdicts)

    def broken(self) -> str:
        """The evidence of the one that is broken; fails where none is."""
        broken = [verdict for verdict in self.verdicts() if verdict.passed is False]
        assert broken and all(verdict.evidence for verdict in broken)
        return "; ".join(broken[0].evidence)


def flip(folder: Path, key: str, row: int = 0, bit: int = 1) -> None:
    """Flip one bit in the first element of a row of tensor `key`, in the file itself."""
    info = Checkpoint.open(folder).tensors[key]
    with open(folder / info.file, "r+b") as file:
        position = info.start + row * (info.nbytes // info.shape[0])
        file.seek(position)
        byte = file.read(1)[0]
        file.seek(position)
        file.write(bytes([byte ^ bit]))


def edit_json(name: str, change: Callable[[Any], object]) -> Callable[[Path], None]:
    """What changes the JSON file `name` of a folder, parsed and written again, by `change`."""

    def edited(out: Path) -> None:
        document = json.loads((out / name).read_text())
        change(document)
        (out / name).write_text(json.dumps(document, indent=2))

    return edited
