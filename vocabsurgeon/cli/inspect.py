"""`vocabsurgeon inspect`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.cli.options import Output, checkpoint_argument, common, finish, table_keys
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.live import live_check


@click.command("inspect")
@checkpoint_argument
@click.option("--compare", is_flag=True, help="Read two stored tables to the end and say how far apart they are.")
@click.option("--load", is_flag=True, help="Load the model through transformers and show what it does with the tables.")
@table_keys
@common
def command(checkpoint: str, compare: bool, load: bool, output: Output, **tables: Any) -> None:
    """Tell what the vocabulary end of CKPT is: tables, tie state, ids and rows, bytes.

    Reads headers and JSON. Values are read only where two tables are stored, to compare them. With --load, exit 1 where
    the model in memory is not what the files say.
    """
    source = Checkpoint.open(checkpoint)
    description = describe(source, compare=compare, **tables)
    if not load:
        output.show(description)
        return
    checked = live_check(description, tables["trust_remote_code"])
    output.show(checked)
    finish(checked.passed)
