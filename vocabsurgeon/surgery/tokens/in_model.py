"""Which new tokens must also enter the model's vocabulary, because the tokenizers library counts ids for itself."""

from __future__ import annotations

from collections.abc import Sequence

from vocabsurgeon.checkpoint.added_tokens import counted_ids, reading_orders
from vocabsurgeon.checkpoint.tokenizer import TokenizerFiles
from vocabsurgeon.checkpoint.vocabulary_files import FAST, model_size
from vocabsurgeon.surgery.tokens.refusal import TokenRefusal
from vocabsurgeon.surgery.tokens.status import Decision


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
        "the tokenizer's ids have holes or its files list different tokens, and no edit of them makes every reader "
        "give the new tokens the next ids",
        first,
        (f"highest id {files.max_id}, {files.count} ids, {len(files.vocabulary)} of them in the model's vocabulary",),
        "fill the holes with placeholder tokens first",
    )


def _counted_right(files: TokenizerFiles, decisions: Sequence[Decision], entries: dict[str, int]) -> bool:
    """Whether each reader of the files counts every old and new id as declared, with `entries` in the vocabulary."""
    renamed = {item.request.replaces: item.request.content for item in decisions if item.request.replaces is not None}
    vocabulary = {**{renamed.get(token, token): number for token, number in files.vocabulary.items()}, **entries}
    wanted = {renamed.get(token.content, token.content): token.id for token in files.added}
    wanted |= {item.request.content: item.id for item in decisions}
    size = model_size(files.documents[FAST], files.vocabulary) + len(entries)
    new = [item.request.content for item in decisions if item.status != "exists"]
    for contents in reading_orders(files.documents).values():
        counted = counted_ids(vocabulary, size, [*(renamed.get(content, content) for content in contents), *new])
        if any(ids != {wanted[content]} for content, ids in counted.items()):
            return False
    return True
