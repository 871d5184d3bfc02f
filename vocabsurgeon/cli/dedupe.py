"""`vocabsurgeon dedupe`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.cli.options import Output, common, finish, finite, out_argument


@click.command("dedupe")
@click.argument("path", metavar="MODEL_OR_DIR")
@out_argument
@click.option(
    "--target",
    type=click.Choice(["onnx", "ort"]),
    default="onnx",
    show_default=True,
    help="onnx: standard operators alone; ort: onnxruntime's FusedMatMul for a product with a table's transpose.",
)
@click.option(
    "--atol", type=float, callback=finite, metavar="X", help="Absolute tolerance of the outputs (default: by dtype)."
)
@click.option(
    "--rtol", type=float, callback=finite, metavar="X", help="Relative tolerance of the outputs (default: by dtype)."
)
@click.option("--dry-run", is_flag=True, help="Say what would be merged; write nothing.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is a checkpoint or an export.")
@click.option("--no-verify", is_flag=True, help="Do not run the graphs; the report then says 'not checked'.")
@common
def command(path: str, out: str, output: Output, no_verify: bool, **options: Any) -> None:
    """Rewrite the ONNX export MODEL_OR_DIR to OUT so that each distinct weight is stored once.

    Equal tensors become one, across the graphs of a folder too; a transposed copy becomes a use of the table itself;
    one data file holds it all, without orphans. A token table that a session would copy when it loads is read as it
    lies, and session options are written beside. Other files are carried along. OUT appears only where onnxruntime
    gives the same outputs before and after, on random inputs and on text; exit 1 where it does not, or cannot run them.
    """
    from vocabsurgeon.onnx.dedupe.operate import dedupe
    from vocabsurgeon.onnx.dedupe.options import DedupeOptions

    report = dedupe(path, out, DedupeOptions(verify=not no_verify, **options), output.progress)
    output.show(report)
    if report.changed and not report.passed:
        told = report.parity.reasons if report.parity else (report.unchecked or "", "--no-verify keeps it unchecked")
        click.echo(f"vocabsurgeon: {out} was not written: {'; '.join(told[:3])}", err=True)
    finish(report.passed)
