"""`vocabsurgeon demo`: the whole main job on the model that ships in the package."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import click

from vocabsurgeon.cli.options import Output, Result, common

TOKENS = ("<|tool_call|>", "<|tool_result|>", "asyncio.TaskGroup")
"""Two that a chat template would want, and a word that the tokenizer splits."""


@click.command("demo")
@click.option("--keep", metavar="FOLDER", help="Keep every step's result in this new folder.")
@common
def command(keep: str | None, output: Output) -> None:
    """Show the main job on a small trained model, offline: inspect, extend, untie, tie, verify, export, audit."""
    with ExitStack() as stack:
        model = stack.enter_context(as_file(files("vocabsurgeon") / "demo_model"))
        folder = Path(keep) if keep else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        steps = [_run(step, model, folder, output) for step in STEPS]
    if output.as_json:
        output.show(_Story(steps))


def _run(
    step: tuple[str, str, Callable[[Path, Path], Any]], model: Path, folder: Path, output: Output
) -> dict[str, Any]:
    """Tell what comes, do it, show what came of it."""
    shown, why, do = step
    if not output.as_json and output.verbosity >= 0:
        click.secho(f"\n$ vocabsurgeon {shown}", bold=True, color=None if output.color else False)
        click.echo(f"# {why}")
    result = do(model, folder)
    if not output.as_json:
        output.show(result)
    if getattr(result, "passed", True) is False:
        raise click.exceptions.Exit(1)
    document: dict[str, Any] = result.to_dict()
    return document


class _Story:
    """Every step's document in one."""

    def __init__(self, steps: list[dict[str, Any]]) -> None:
        self._steps = steps

    def to_dict(self) -> dict[str, Any]:
        """The JSON of `demo`."""
        return {"schema": "vocabsurgeon.demo/1", "passed": True, "steps": self._steps}


def _inspect(model: Path, folder: Path) -> Result:
    from vocabsurgeon.checkpoint.source import Checkpoint
    from vocabsurgeon.vocabulary.describe import describe

    return describe(Checkpoint.open(model))


def _extend(model: Path, folder: Path) -> Result:
    from vocabsurgeon.surgery.request import extend_request
    from vocabsurgeon.surgery.run import extend

    return extend(model, folder / "extended", extend_request(TOKENS))


def _untie(model: Path, folder: Path) -> Result:
    from vocabsurgeon.surgery.run import untie

    return untie(folder / "extended", folder / "untied")


def _tie(model: Path, folder: Path) -> Result:
    from vocabsurgeon.surgery.run import tie

    return tie(folder / "untied", folder / "tied-again")


def _verify(model: Path, folder: Path) -> Result:
    from vocabsurgeon.surgery.verify import verify

    return verify(folder / "extended", folder / "tied-again")


def _export(model: Path, folder: Path) -> Result:
    from vocabsurgeon.checkpoint.source import Checkpoint
    from vocabsurgeon.onnx.export import export

    return export(Checkpoint.open(folder / "extended"), folder / "onnx")


def _audit(model: Path, folder: Path) -> Result:
    from vocabsurgeon.checkpoint.source import Checkpoint
    from vocabsurgeon.onnx.audit import audit

    return audit(folder / "onnx", Checkpoint.open(folder / "extended"))


STEPS: tuple[tuple[str, str, Callable[[Path, Path], Any]], ...] = (
    ("inspect demo_model", "Is the head tied? How many rows, how many ids?", _inspect),
    (
        f"extend demo_model extended {' '.join(f'--token {token!r}' for token in TOKENS)}",
        "Spare rows are used first; every old row keeps its bits; new rows are the mean of their old subwords.",
        _extend,
    ),
    ("untie extended untied", "Store the head as a table of its own; the flag says so.", _untie),
    ("tie untied tied-again", "The two tables are equal bit for bit, so tying loses nothing.", _tie),
    ("verify extended tied-again", "There and back again: nothing may differ.", _verify),
    ("export extended onnx", "To ONNX: the tied table must be stored once, and the logits must match.", _export),
    ("audit onnx --checkpoint extended", "What does the export physically store?", _audit),
)
