"""`vocabsurgeon audit`."""

from __future__ import annotations

import click

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.cli.options import Output, common, finish, max_ratio_option


@click.command("audit")
@click.argument("path", metavar="PATH")
@click.option(
    "--checkpoint",
    metavar="CKPT",
    help="The checkpoint it was exported from: gives the expected bytes, and checks parity.",
)
@click.option("--runtime", is_flag=True, help="Open each graph in onnxruntime too, and measure its memory.")
@max_ratio_option
@common
def command(path: str, checkpoint: str | None, max_ratio: float, runtime: bool, output: Output) -> None:
    """Measure what PATH really stores: an ONNX file, a folder of them from any exporter, or a checkpoint.

    Reports stored, referenced, unique and orphaned bytes, copies (equal, transposed, rounded or quantized), and the
    ratio to what the weights need. Exit 1 above --max-ratio, or where logits parity fails.
    """
    from vocabsurgeon.onnx.audit import AuditOptions, audit

    source = Checkpoint.open(checkpoint) if checkpoint else None
    report = audit(path, source, AuditOptions(max_ratio=max_ratio, runtime=runtime), output.progress)
    output.show(report)
    finish(report.passed)
