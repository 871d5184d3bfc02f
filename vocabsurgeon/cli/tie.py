"""`vocabsurgeon tie`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vocabsurgeon.cli.options import Output, checkpoint_argument, common, finite, out_argument, table_keys, writes
from vocabsurgeon.cli.run import run_operation
from vocabsurgeon.surgery.lossy.request import TieRequest
from vocabsurgeon.surgery.run import tying


@click.command("tie")
@checkpoint_argument
@out_argument
@click.option(
    "--keep",
    type=click.Choice(["input", "output", "mean", "auto"]),
    help="Which of two different tables stays; auto (the default where the cost is measured): the one of least KL.",
)
@click.option(
    "--refit-norm",
    is_flag=True,
    help="Rescale the norm before the head so that the kept table stands in for the lost head, column by column.",
)
@click.option("--allow-lossy", is_flag=True, help="Tie two different tables, whatever it costs.")
@click.option(
    "--max-kl",
    type=float,
    callback=finite,
    metavar="X",
    help="Tie two different tables where that costs a mean KL of at most X nats per token.",
)
@click.option("--probe", metavar="FILE", help="Measure the cost on this text instead of the built-in sample.")
@click.option("--no-probe", is_flag=True, help="Do not run the model: the cost is then not measured.")
@writes
@table_keys
@common
def command(checkpoint: str, out: str, output: Output, **options: Any) -> None:
    """Write CKPT with one table for input embedding and LM head.

    Two tables that are equal bit for bit become one: nothing is lost. Two different tables are refused (exit 1) with
    the measured cost of each way to tie them, unless --allow-lossy is given or --max-kl is met.
    """
    names = ("keep", "refit_norm", "allow_lossy", "max_kl")
    wanted = {name: options.pop(name) for name in names}
    probe, no_probe = options.pop("probe"), options.pop("no_probe")
    request = TieRequest(**wanted, probe=not no_probe, probe_file=None if probe is None else Path(probe))
    run_operation(checkpoint, out, tying(request), output, **options)
