"""`vocabsurgeon inspect`."""

from __future__ import annotations

import click

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.cli.options import Output, checkpoint_argument, common, table_keys
from vocabsurgeon.vocabulary.describe import describe


@click.command("inspect")
@checkpoint_argument
@click.option("--compare", is_flag=True, help="Read two stored tables to the end and say how far apart they are.")
@table_keys
@common
def command(checkpoint: str, compare: bool, input_key: str | None, output_key: str | None, output: Output) -> None:
    """Tell what the vocabulary end of CKPT is: tables, tie state, ids and rows, bytes.

    Reads headers and JSON. Values are read only where two tables are stored, to compare them.
    """
    source = Checkpoint.open(checkpoint)
    output.show(describe(source, compare=compare, input_key=input_key, output_key=output_key))
