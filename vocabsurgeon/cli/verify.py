"""`vocabsurgeon verify`."""

from __future__ import annotations

import click

from vocabsurgeon.cli.options import Output, common, finish
from vocabsurgeon.surgery.verify import EXPECTED, verify


@click.command("verify")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--expect", type=click.Choice(list(EXPECTED)), help="The tie state was to change to this.")
@common
def command(before: str, after: str, expect: str | None, output: Output) -> None:
    """Prove the checkpoint AFTER against BEFORE, and tell what changed. Exit 1 where a promise is broken.

    The promises are those of AFTER's vocabsurgeon.json, else that old ids, old rows, untouched tensors and the tie
    state are kept.
    """
    report = verify(before, after, expect, output.progress)
    output.show(report)
    finish(report.passed)
