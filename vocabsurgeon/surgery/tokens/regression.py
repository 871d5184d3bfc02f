"""Whether a tokenizer still does to old text what it did, and what each new token is to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from vocabsurgeon.checkpoint.tokenizer import SMALL, TokenizerFiles
from vocabsurgeon.checkpoint.vocabulary_files import FAST, SLOW, Folder
from vocabsurgeon.surgery.tokens.loaded import LoadedTokenizer
from vocabsurgeon.surgery.tokens.sample import SAMPLE, around

if TYPE_CHECKING:
    from vocabsurgeon.surgery.tokens.assignment import AssignedToken


class TokenizedFolder(Folder, Protocol):
    """A folder that knows its tokenizer, as `Checkpoint` does."""

    @property
    def tokenizer(self) -> TokenizerFiles | None:
        """The tokenizer files as data, None where there are none."""


@dataclass(frozen=True)
class Baseline:
    """What a tokenizer does: the ids of each sample text, and the id of each token."""

    texts: tuple[tuple[str, tuple[int, ...]], ...]
    tokens: Mapping[str, int]


@dataclass(frozen=True)
class Finding:
    """One thing that is not as it was or should be. `check`: old-ids, old-text, new-token or declared-ids."""

    check: str
    detail: str


def compare_tokenizers(
    before: Baseline | TokenizedFolder, after: TokenizedFolder, new: Sequence[AssignedToken] = ()
) -> tuple[Finding, ...]:
    """What is wrong with the tokenizer in `after`: empty where all is kept and each of `new` is one id anywhere.

    Old text: the built-in sample, and the source's special tokens in and between words, where no new token is.
    Raises `TokenizerError` where a tokenizer cannot be read or loaded.
    """
    if not isinstance(before, Baseline):
        if not new and _same_files(before, after):
            return ()
        before = baseline_of_folder(before)
    files = after.tokenizer
    if files is not None and files.slow_only and not new and not before.texts:
        moved = [token for token, number in before.tokens.items() if files.token_to_id.get(token) != number]
        return tuple(Finding("old-ids", f"{token!r} was {before.tokens[token]}") for token in moved)
    if files is None or files.slow_only:
        return (Finding("old-ids", f"the result has no {FAST}"),)
    loaded = LoadedTokenizer(files.documents[FAST].raw)
    findings = [*_declared_ids(files, loaded, new), *_old_ids(before, loaded, new)]
    return (*findings, *_old_text(before, loaded, new), *_new_tokens(loaded, new))


def baseline(files: TokenizerFiles, loaded: LoadedTokenizer) -> Baseline:
    """What `loaded`, the tokenizer of `files`, does to the sample and to the special tokens of `files`."""
    special = [token.content for token in files.added if token.special] or list(files.specials.contents)
    texts = (*SAMPLE, *around(special))
    return Baseline(tuple((text, loaded.ids(text)) for text in texts), files.token_to_id)


def baseline_of_folder(folder: TokenizedFolder) -> Baseline:
    """As `baseline`, loading the tokenizer of `folder`; a folder without a tokenizer.json yields ids alone."""
    files = folder.tokenizer
    if files is None:
        return Baseline((), {})
    if files.slow_only:
        return Baseline((), files.token_to_id)
    return baseline(files, LoadedTokenizer(files.documents[FAST].raw))


def _same_files(before: Folder, after: Folder) -> bool:
    names = (FAST, *SMALL, *SLOW)
    return all(
        before.has(name) == after.has(name)
        and (not before.has(name) or before.read_bytes(name) == after.read_bytes(name))
        for name in names
    )


def _declared_ids(files: TokenizerFiles, loaded: LoadedTokenizer, new: Sequence[AssignedToken]) -> Iterator[Finding]:
    yield from (Finding("declared-ids", fault) for fault in files.faults)
    for token in new:
        stated, real = files.token_to_id.get(token.content), loaded.id(token.content)
        if (stated, real) != (token.id, token.id):
            detail = f"{token.content!r} should be {token.id}, the files say {stated}, the tokenizers library {real}"
            yield Finding("declared-ids", detail)


def _old_ids(before: Baseline, loaded: LoadedTokenizer, new: Sequence[AssignedToken]) -> Iterator[Finding]:
    replaced = {token.id for token in new if token.status == "replaced"}
    taken = Counter(before.tokens.values())
    for token, number in before.tokens.items():
        if number in replaced or taken[number] > 1:
            continue
        now = loaded.token(number)
        if now != token:
            yield Finding("old-ids", f"id {number} was {token!r} and is now {now!r}")
    for token_new in new:
        if token_new.status == "added" and token_new.id in taken:
            yield Finding("old-ids", f"id {token_new.id} of {token_new.content!r} was taken")


def _old_text(before: Baseline, loaded: LoadedTokenizer, new: Sequence[AssignedToken]) -> Iterator[Finding]:
    changed = [token for token in new if token.status != "exists"]
    for text, old in before.texts:
        if any(_holds(text, token, loaded) for token in changed):
            continue
        now = loaded.ids(text)
        if now != old:
            place = next((i for i, pair in enumerate(zip(old, now, strict=False)) if len(set(pair)) > 1), len(old))
            yield Finding("old-text", f"{text[:40]!r} gives other ids from position {place} on")


def _holds(text: str, token: AssignedToken, loaded: LoadedTokenizer) -> bool:
    names = [token.content, *([token.request.replaces] if token.request.replaces else [])]
    if any(name in text for name in names):
        return True
    return token.request.normalized and loaded.normalized(token.content) in loaded.normalized(text)


def _new_tokens(loaded: LoadedTokenizer, new: Sequence[AssignedToken]) -> Iterator[Finding]:
    for token in new:
        if token.status == "exists":
            continue
        if loaded.ids(token.content) != (token.id,):
            yield Finding(
                "new-token",
                f"{token.content!r} alone gives {list(loaded.ids(token.content))[:8]}, not its id",
            )
        for text in _placements(token):
            if loaded.ids(text).count(token.id) != 1:
                yield Finding("new-token", f"{text!r} does not hold {token.content!r} as one id")
        swapped = token.content.swapcase()
        if (
            token.status == "added"
            and not token.request.normalized
            and token.content not in swapped
            and token.id in loaded.ids(swapped)
        ):
            yield Finding("new-token", f"{swapped!r} is read as {token.content!r}")


def _placements(token: AssignedToken) -> tuple[str, ...]:
    content = token.content
    apart = (f"the old {content} fox", f"{content} at the start", f"at the end {content}")
    return apart if token.request.single_word else (*apart, f"a{content}a", f"語{content}語", f"1{content}.\n")
