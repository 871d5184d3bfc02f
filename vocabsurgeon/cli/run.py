"""How the commands that write run: show the plan, or carry it out and show the report."""

from __future__ import annotations

from typing import NoReturn

import click

from vocabsurgeon.cli.options import Output, finish
from vocabsurgeon.errors import one_line
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.run import Operation, plan_for, run


def run_operation(
    checkpoint: str,
    out: str,
    operation: Operation,
    output: Output,
    *,
    dry_run: bool,
    overwrite: bool,
    link: bool,
    no_verify: bool,
    input_key: str | None,
    output_key: str | None,
    trust_remote_code: bool,
) -> None:
    """One library call, then the result on the output; a refusal and a broken promise set the exit code."""
    if dry_run:
        _, plan = plan_for(checkpoint, operation, input_key, output_key, output.progress, trust_remote_code)
        if isinstance(plan, Refusal):
            _refused(plan, output)
        output.show(plan)
        return
    options = RunOptions(overwrite=overwrite, link=link, verify=not no_verify)
    tables = {"input_key": input_key, "output_key": output_key}
    report = run(checkpoint, out, operation, options, output.progress, **tables, trust_remote_code=trust_remote_code)
    if isinstance(report, Refusal):
        _refused(report, output)
    output.show(report)
    if not report.passed:
        broken = [name for name, passed in report.proof.by_name.items() if passed is False]
        click.echo(f"vocabsurgeon: {out} was not written, a promise was broken: {', '.join(broken)}", err=True)
    finish(report.passed)


def _refused(refusal: Refusal, output: Output) -> NoReturn:
    """Show a refusal (what was measured or JSON on stdout, the reason in one line on stderr) and exit with its code."""
    output.show(refusal)
    ways = f"; {', or '.join(refusal.ways_out)}" if refusal.ways_out else ""
    evidence = f" ({'; '.join(refusal.evidence)})" if refusal.evidence else ""
    click.echo(f"vocabsurgeon: {one_line(refusal.reason + evidence + ways)}", err=True)
    raise click.exceptions.Exit(refusal.exit_code)
