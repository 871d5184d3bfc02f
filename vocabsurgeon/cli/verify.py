"""`vocabsurgeon verify`."""

from __future__ import annotations

from typing import Any

import click

from vocabsurgeon.cli.options import Output, common, finish, table_keys
from vocabsurgeon.surgery.default_promises import EXPECTED
from vocabsurgeon.surgery.verify import RecordReport, VerifyReport, verify, verify_record


@click.command("verify")
@click.argument("before", metavar="[BEFORE]")
@click.argument("after", metavar="AFTER", required=False)
@click.option("--expect", type=click.Choice(list(EXPECTED)), help="The tie state was to change to this.")
@click.option("--logits", is_flag=True, help="Load both models in float32 and compare their logits on old ids.")
@table_keys
@common
def command(before: str, after: str | None, expect: str | None, output: Output, **options: Any) -> None:
    """Prove the checkpoint AFTER against BEFORE, and tell what changed. Exit 1 where a promise is broken.

    The promises are those of AFTER's vocabsurgeon.json, else that old ids, old rows, untouched tensors and the tie
    state are kept. With --logits, exit 1 too where an old id has another logit.

    AFTER alone (a checkpoint or an export) is compared with the SHA-256 sums in its own vocabsurgeon.json: what changed
    since it was written.
    """
    if after is None and (expect or any(options.values())):
        raise click.UsageError("options that compare need both BEFORE and AFTER")
    report: RecordReport | VerifyReport
    report = verify_record(before) if after is None else verify(before, after, expect, output.progress, **options)
    output.show(report)
    finish(report.passed)
