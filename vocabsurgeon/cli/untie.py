"""`vocabsurgeon untie`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.cli.options import Output, checkpoint_argument, common, out_argument, table_keys, writes
from vocabsurgeon.cli.run import run_operation
from vocabsurgeon.surgery.run import untying


@click.command("untie")
@checkpoint_argument
@out_argument
@writes
@table_keys
@common
def command(checkpoint: str, out: str, output: Output, **options: Any) -> None:
    """Write CKPT with two stored tables, and a config that says so at every level.

    The LM head starts as a copy of the input embedding: logits stay equal bit for bit.
    """
    run_operation(checkpoint, out, untying(), output, **options)
