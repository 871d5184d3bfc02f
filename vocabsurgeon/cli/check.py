"""`vocabsurgeon check`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.cli.options import Output, checkpoint_argument, common, finish, table_keys
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import check


@click.command("check")
@checkpoint_argument
@table_keys
@common
def command(checkpoint: str, output: Output, **tables: Any) -> None:
    """List what is wrong or worth knowing about the vocabulary end of CKPT, with a fix each. Exit 1 on any error."""
    report = check(describe(Checkpoint.open(checkpoint), **tables))
    output.show(report)
    finish(report.passed)
