"""Which new tokens must also enter the model's vocabulary, because the tokenizers library counts ids for itself."""

from __future__ import annotations

from collections.abc import Sequence

from vocabsurgeon.checkpoint.added_tokens import counted_ids
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.checkpoint.vocabulary_files import FAST
from vocabsurgeon.surgery.token_refusal import TokenRefusal
from vocabsurgeon.surgery.token_status import Decision


def tokens_in_model(files: TokenizerFiles, decisions: Sequence[Decision]) -> tuple[str, ...] | TokenRefusal:
    """The contents that have to stand in `model.vocab`: none, or, where the ids have holes, all the new ones.

    tokenizers ignores the id of an added token and counts on, by rules that differ between its versions; an entry in
    `model.vocab` settles it. A Unigram vocabulary is a list without holes, so there it cannot be done.
    """
    added = [decision for decision in decisions if decision.status == "added"]
    if _counted_right(files, decisions, {}):
        return ()
    entries = {decision.request.content: decision.id for decision in added}
    if files.model_type != "Unigram" and _counted_right(files, decisions, entries):
        return tuple(entries)
    first = added[0].request.content if added else None
    return TokenRefusal(
        "the tokenizer's ids have holes, and no edit of its files makes every reader give the new tokens the next ids",
        first,
        (f"highest id {files.max_id}, {files.count} ids, {len(files.vocabulary)} of them in the model's vocabulary",),
        "fill the holes with placeholder tokens first",
    )


def _counted_right(files: TokenizerFiles, decisions: Sequence[Decision], entries: dict[str, int]) -> bool:
    vocabulary = {**files.vocabulary, **entries}
    renamed = {decision.request.replaces: decision.request.content for decision in decisions}
    wanted = {token.content: token.id for token in files.added}
    contents = [entry["content"] for entry in files.documents[FAST].read(("added_tokens",)) or ()]
    for old, new in renamed.items():
        if old is not None and old in vocabulary:
            vocabulary[new] = vocabulary.pop(old)
    contents = [renamed.get(content, content) for content in contents]
    missing = [decision.request.content for decision in decisions if decision.request.content not in contents]
    wanted = {renamed.get(content, content): number for content, number in wanted.items()}
    wanted |= {decision.request.content: decision.id for decision in decisions}
    counted = counted_ids(vocabulary, [*contents, *missing])
    return all(ids == {wanted[content]} for content, ids in counted.items())
