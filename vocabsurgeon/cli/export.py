"""`vocabsurgeon export`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.cli.options import Output, checkpoint_argument, common, finish, finite, max_ratio_option, out_argument
from vocabsurgeon.onnx.tasks import TASKS


@click.command("export")
@checkpoint_argument
@out_argument
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "float16", "bfloat16"]),
    default="auto",
    show_default=True,
    help="auto: the checkpoint's where the runtime loads it, else float32.",
)
@click.option(
    "--task",
    type=click.Choice(["auto", *TASKS]),
    default="auto",
    show_default=True,
    help="What the graphs are for (auto: by the architecture in the config).",
)
@click.option("--no-cache", is_flag=True, help="Export without a cache: no keys, values or states go in or out.")
@click.option("--opset", type=int, metavar="N", help="ONNX opset version.")
@click.option(
    "--atol", type=float, callback=finite, metavar="X", help="Absolute tolerance of the logits (default: by dtype)."
)
@click.option(
    "--rtol", type=float, callback=finite, metavar="X", help="Relative tolerance of the logits (default: by dtype)."
)
@max_ratio_option
@click.option("--trust-remote-code", is_flag=True, help="Allow code that the checkpoint brings to run.")
@click.option("--dry-run", is_flag=True, help="Export and check in a temporary folder beside OUT; leave nothing.")
@click.option("--overwrite", is_flag=True, help="Replace OUT if it is a checkpoint or an export.")
@common
def command(checkpoint: str, out: str, output: Output, no_cache: bool, **options: Any) -> None:
    """Export CKPT to ONNX (one data file for all graphs), then audit what was stored and compare its logits.

    Decoders and encoders become model.onnx, encoder–decoder models encoder_model.onnx and decoder_model.onnx.

    OUT appears only where the audit and the parity check passed.
    """
    from vocabsurgeon.onnx.export import ExportOptions, export

    report = export(Checkpoint.open(checkpoint), out, ExportOptions(cache=not no_cache, **options), output.progress)
    output.show(report)
    finish(report.passed)
