"""Options that commands share, and the one sink for what they print: results to stdout, everything else to stderr."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import click

from vocabsurgeon.checkpoint.progress import Progress, silent
from vocabsurgeon.errors import OutputError

F = TypeVar("F", bound=Callable[..., Any])


class Result(Protocol):
    """What every library call returns: a value that knows its JSON."""

    def to_dict(self) -> dict[str, Any]: ...


@dataclass
class Output:
    """How this run prints."""

    as_json: bool
    verbosity: int
    color: bool
    _bar: Any = field(default=None, repr=False)

    def show(self, result: Result) -> None:
        """The result on stdout: one JSON object, or the text a person reads."""
        document = result.to_dict()
        try:
            self._print(document)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_stdout()  # the reader has seen enough; what was to be written is written, and the exit code stands
        except OSError as error:
            drop_stdout()
            raise OutputError(f"cannot be written: {error.strerror}", where="standard output") from error

    def _print(self, document: dict[str, Any]) -> None:
        if self.as_json:
            from vocabsurgeon.report.as_json import dumps

            click.echo(dumps(document, encoding=sys.stdout.encoding))
        elif self.verbosity >= 0:
            from vocabsurgeon.report.text import show

            show(document, color=self.color, verbose=self.verbosity > 0)

    @property
    def progress(self) -> Progress:
        """A bar on stderr where a person looks at one, else nothing."""
        if self.verbosity < 0 or not sys.stderr.isatty():
            return silent
        if self._bar is None:
            from vocabsurgeon.report.progress import Bar

            self._bar = Bar(color=self.color)
        bar: Progress = self._bar
        return bar


def drop_stdout() -> None:
    """Nothing more can be written there; without this the interpreter's own last flush would complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def common(function: F) -> F:
    """`--json`, `-q/-v`, `--no-color`, passed on as `output: Output`."""

    def wrapped(*args: Any, as_json: bool, quiet: bool, verbose: bool, no_color: bool, **options: Any) -> Any:
        output = Output(as_json, -1 if quiet else int(verbose), not no_color)
        return function(*args, output=output, **options)

    wrapped.__name__, wrapped.__doc__ = function.__name__, function.__doc__
    wrapped.__click_params__ = getattr(function, "__click_params__", [])  # type: ignore[attr-defined]
    for decorate in reversed(_COMMON):
        wrapped = decorate(wrapped)
    return wrapped  # type: ignore[return-value]


_COMMON = (
    click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else."),
    click.option("-q", "--quiet", is_flag=True, help="Print errors only."),
    click.option("-v", "--verbose", is_flag=True, help="Print all evidence; with a bug of ours, its traceback."),
    click.option("--no-color", is_flag=True, envvar="NO_COLOR", help="Plain text."),
)


def writes(function: F) -> F:
    """Options of every command that writes a checkpoint."""
    for decorate in reversed(_WRITES):
        function = decorate(function)
    return function


_WRITES = (
    click.option("--dry-run", is_flag=True, help="Print the plan; write nothing."),
    click.option("--overwrite", is_flag=True, help="Replace OUT if it is a checkpoint or an export."),
    click.option("--link", is_flag=True, help="Hard-link the files that do not change instead of copying them."),
    click.option("--no-verify", is_flag=True, help="Skip the proof; the report then says 'not checked'."),
)


def table_keys(function: F) -> F:
    """`--trust-remote-code`, `--input-key` and `--output-key`, for types that nothing else knows."""
    for decorate in reversed(_KEYS):
        function = decorate(function)
    return function


_KEYS = (
    click.option("--input-key", metavar="KEY", help="The stored tensor that is the input embedding."),
    click.option("--output-key", metavar="KEY", help="The stored tensor that is the LM head."),
    click.option(
        "--trust-remote-code",
        is_flag=True,
        help="Let the code that CKPT brings run, to ask its own class about its tables.",
    ),
)


def finite(context: click.Context, parameter: click.Parameter, value: float | None) -> float | None:
    """The callback of options that are a ratio or a tolerance: NaN, infinity and negatives make no sense."""
    if value is not None and not (math.isfinite(value) and value >= 0):
        raise click.BadParameter(f"{value} is not a number from 0 up")
    return value


max_ratio_option = click.option(
    "--max-ratio",
    type=float,
    callback=finite,
    default=1.01,
    show_default=True,
    metavar="X",
    help="Exit 1 above this ratio of stored to expected bytes.",
)

checkpoint_argument = click.argument("checkpoint", metavar="CKPT")
out_argument = click.argument("out", metavar="OUT")


def finish(passed: bool) -> None:
    """Exit 1 where the answer is no."""
    if not passed:
        raise click.exceptions.Exit(1)
