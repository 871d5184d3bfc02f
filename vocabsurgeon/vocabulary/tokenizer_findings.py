"""What `check` has to say about a tokenizer's files alone. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles, unmeasured
from vocabsurgeon.tokenizer.chat_templates import default_templates
from vocabsurgeon.vocabulary.weight_names import Severity

Told = tuple[Severity, str, str]
"""Severity, message and fix of a finding."""


def tokenizer_findings(source: Checkpoint) -> Iterator[Told]:
    """Each finding about the tokenizer and the chat templates of `source`."""
    if source.tokenizer is None:
        yield _none(unmeasured(source))
    else:
        for text in source.tokenizer.findings:
            yield "warning", text, "make the tokenizer files agree before adding tokens"
        yield from _by_class(source.tokenizer)
    yield from _templates(source)


def _none(reason: str | None) -> Told:
    if reason is None:
        return "note", "there is no tokenizer, so ids were not checked", "copy the tokenizer files into the folder"
    fix = "save it once as tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(...))"
    return "note", f"ids were not checked: {reason}", fix


def _by_class(tokenizer: TokenizerFiles) -> Iterator[Told]:
    if not tokenizer.by_class:
        return
    shown = ", ".join(f"{token!r} {tokenizer.token_to_id[token]}" for token in tokenizer.by_class[:3])
    more = ", …" if len(tokenizer.by_class) > 3 else ""
    count = f"{len(tokenizer.by_class)} ids are" if len(tokenizer.by_class) > 1 else "an id is"
    yield (
        "note",
        f"{count} fixed by the class {tokenizer.class_name}, not by a file: {shown}{more}",
        "a tokenizer.json (AutoTokenizer.from_pretrained(...).save_pretrained(...)) states them for every reader",
    )


def _templates(source: Checkpoint) -> Iterator[Told]:
    held = default_templates(source)
    if len({template.strip() for template in held.values()}) > 1:
        yield (
            "warning",
            f"{', '.join(held)} hold different default chat templates: a tokenizer and a processor read different ones",
            "`vocabsurgeon extend --chat-template FILE` writes one into each of them",
        )
