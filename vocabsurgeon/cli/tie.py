"""`vocabsurgeon tie`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.cli.options import Output, checkpoint_argument, common, out_argument, table_keys, writes
from vocabsurgeon.cli.run import run_operation
from vocabsurgeon.surgery.run import tying


@click.command("tie")
@checkpoint_argument
@out_argument
@writes
@table_keys
@common
def command(checkpoint: str, out: str, output: Output, **options: Any) -> None:
    """Write CKPT with one table for input embedding and LM head, where that loses nothing.

    Two tables that are equal bit for bit become one. Two different tables are refused (exit 1), with their distance.
    """
    run_operation(checkpoint, out, tying(), output, **options)
