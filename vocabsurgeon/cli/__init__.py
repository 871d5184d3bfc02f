"""The command line: one group, one error boundary. Commands parse, call the library once and render."""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

import click

from vocabsurgeon.errors import VocabsurgeonError, one_line

COMMANDS = ("inspect", "extend", "tie", "untie", "verify", "check", "export", "audit", "dedupe", "demo")
"""Each is a module of this package with a click command of the same name, imported when it is asked for."""

BUG, INTERRUPTED, TERMINATED = 70, 130, 143
_ENDING = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
_REPORT = "this is a bug of vocabsurgeon: please report it with the command and the output of -v"


class Terminated(BaseException):
    """SIGTERM or SIGHUP, as an exception, so that a staged folder is rolled back on the way out."""


class Boundary(click.Group):
    """A group that imports commands lazily and turns every outcome into the contract's exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        with _one_thread_for_numpy():
            module = importlib.import_module(f"vocabsurgeon.cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def main(self, args: Sequence[str] | None = None, *rest: Any, **extra: Any) -> NoReturn:
        """Run and exit: 0 done, 1 the answer is no, 2 bad usage or input, 70 our bug, 130 or 143 stopped."""
        extra["standalone_mode"] = False
        arguments = list(sys.argv[1:] if args is None else args)
        for number in _ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:  # nohup's, say
                signal.signal(number, _terminate)
        _escape_what_cannot_be_printed()
        try:
            code = super().main(arguments, *rest, **extra)
            sys.stdout.flush()
        except BaseException as error:
            code = _exit_code(error, verbose="-v" in arguments or "--verbose" in arguments)
        sys.exit(code if isinstance(code, int) else 0)


def _escape_what_cannot_be_printed() -> None:
    """A terminal or pipe with a small character set gets escapes instead of an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


@contextmanager
def _one_thread_for_numpy() -> Iterator[None]:
    """numpy's OpenBLAS starts a thread a core when it is imported: half of that import, and nothing here needs them."""
    name = "OPENBLAS_NUM_THREADS"
    if name in os.environ:
        yield
        return
    os.environ[name] = "1"
    try:
        yield
    finally:
        del os.environ[name]


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated


def _exit_code(error: BaseException, verbose: bool) -> int:
    """The exit code of what went wrong, after telling it in one line on stderr."""
    if isinstance(error, click.exceptions.Exit):
        return error.exit_code
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, VocabsurgeonError):
        return _tell(str(error), error.exit_code)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(error.format_message(), err=True)
        return 2
    if isinstance(error, click.ClickException):
        return _tell(one_line(error.format_message().replace("\n", " ")), 2)
    if isinstance(error, KeyboardInterrupt | click.Abort):
        return _tell("interrupted; nothing was left behind", INTERRUPTED)
    if isinstance(error, Terminated):
        return _tell("terminated; nothing was left behind", TERMINATED)
    if isinstance(error, OSError) and _stdout_refuses():
        return _tell(f"standard output: cannot be written: {error.strerror}", 2)
    if verbose:
        traceback.print_exception(error, file=sys.stderr)
    return _tell(f"{type(error).__name__}: {one_line(str(error))[:300]}; {_REPORT}", BUG)


def _stdout_refuses() -> bool:
    """Whether what is left to print cannot be printed; the interpreter's own last try is then spared."""
    try:
        sys.stdout.flush()
    except OSError:
        from vocabsurgeon.cli.options import drop_stdout

        drop_stdout()
        return True
    return False


def _tell(line: str, code: int) -> int:
    click.echo(f"vocabsurgeon: {line}", err=True)
    return code


@click.group(cls=Boundary, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="vocabsurgeon")
def main() -> None:
    """Change the vocabulary end of a Hugging Face checkpoint, and know what you got.

    Every command that writes makes a new folder OUT, proves it against the source, and gives it its name last.

    Exit codes: 0 done and proved; 1 it ran and the answer is no; 2 bad usage or input; 70 a bug of ours.
    """
