"""`vocabsurgeon extend`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from vocabsurgeon.cli.options import Output, checkpoint_argument, common, out_argument, table_keys, writes
from vocabsurgeon.cli.run import run_operation
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.extend import ExtendRequest
from vocabsurgeon.surgery.extend_tables import SIDES
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extending


@click.command("extend")
@checkpoint_argument
@out_argument
@click.option("--token", "tokens", multiple=True, metavar="TEXT", help="A token to add; may be repeated.")
@click.option("--tokens-file", metavar="F", help="Tokens from a .txt (one a line), .json, .jsonl or .yaml file.")
@click.option(
    "--special/--no-special",
    default=True,
    help="Whether new tokens are special (default: yes); a tokens file may say otherwise.",
)
@click.option(
    "--init",
    default="subword-mean",
    metavar="NAME",
    show_default=True,
    help="New rows: subword-mean, mean, zeros, normal, or copy:TOKEN.",
)
@click.option("--describe", multiple=True, metavar="'TOKEN=text'", help="Take the pieces from this text instead.")
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE=TOKEN",
    help="Make TOKEN the bos, eos, pad, unk, sep, cls or mask token.",
)
@click.option(
    "--replace", "replaces", multiple=True, metavar="OLD=NEW", help="Give the reserved token OLD's id and row to NEW."
)
@click.option("--promote", is_flag=True, help="Allow an ordinary vocabulary entry to become an added token.")
@click.option(
    "--chat-template", metavar="FILE", help="Make this the default chat template, for tokenizer and processor."
)
@click.option("--pad-to-multiple-of", type=int, metavar="N", help="Round the number of rows up.")
@click.option(
    "--side",
    type=click.Choice(SIDES),
    help="Which vocabulary of an encoder-decoder model grows, where it has two.",
)
@click.option(
    "--keep-size",
    multiple=True,
    metavar="KEY",
    help="Leave the stored tensor KEY as it is, though it has an entry for each id; may be repeated.",
)
@click.option("--seed", type=int, default=0, metavar="N", show_default=True, help="For --init normal.")
@writes
@table_keys
@common
def command(checkpoint: str, out: str, output: Output, **options: Any) -> None:
    """Write CKPT with new tokens in its vocabulary.

    Existing ids keep their tokens, existing rows their bits. New tokens get the ids above the highest one; their rows
    start from the mean of the old subwords that their text splits into. Spare rows are used before the table grows.
    """
    request = _request(options)
    run_operation(checkpoint, out, extending(request), output, **options)


def _request(options: dict[str, Any]) -> ExtendRequest:
    """Take the options of the request out of `options`; what is left is how to run."""
    template = options.pop("chat_template")
    names = (
        "tokens",
        "tokens_file",
        "special",
        "init",
        "describe",
        "roles",
        "replaces",
        "promote",
        "pad_to_multiple_of",
        "seed",
        "side",
        "keep_size",
    )
    return extend_request(**{name: options.pop(name) for name in names}, chat_template=_read(template))


def _read(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot be read: {error}", where=path) from error
