"""The published tokenizers of Llama 3, Qwen 3 and Gemma 3 (`make test-real`): few bytes change, every reader agrees."""

from __future__ import annotations

import os
from difflib import SequenceMatcher
from pathlib import Path

import pytest

from tests.models.tokenizers import Folder
from vocabsurgeon.surgery.tokens import Assignment, TokenRefusal, TokenRequest, assign
from vocabsurgeon.surgery.tokens.edits import tokenizer_edits
from vocabsurgeon.surgery.tokens.regression import compare_tokenizers

pytestmark = pytest.mark.real
NEXT = {"llama3": 128256, "qwen3": 151669, "gemma3": 262145}


@pytest.fixture(params=NEXT)
def source(request: pytest.FixtureRequest) -> Folder:
    root = os.environ.get("VOCABSURGEON_MODELS")
    path = Path(root or "") / f"tokenizer-{request.param}"
    if not root or not path.is_dir():
        pytest.skip("VOCABSURGEON_MODELS names no folder with the tokenizers")
    return Folder(path)


def new_lines(before: bytes, after: bytes) -> list[bytes]:
    """Lines of `after` that are not in `before`, which loses nothing: a comma may be added behind a line."""
    old, new = before.split(b"\n"), after.split(b"\n")
    start = next(i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1])
    end = next(i for i in range(1, len(old)) if old[-i] != new[-i]) - 1
    inner_old, inner_new = old[start : len(old) - end], new[start : len(new) - end]
    gained = []
    for kind, a, b, c, d in SequenceMatcher(None, inner_old, inner_new, autojunk=False).get_opcodes():
        if kind != "equal":
            lines = inner_new[c:d]
            for line in inner_old[a:b]:
                lines.remove(line + b",")
            gained += lines
    return gained


def test_files_differ_by_the_new_entries_and_transformers_agrees(source: Folder, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    first = NEXT[source.root.name.removeprefix("tokenizer-")]
    requests = (TokenRequest("<|tool|>"), TokenRequest("<|call|>"), TokenRequest("plainword", special=False))
    assignment = assign(source, source.tokenizer, requests)
    assert isinstance(assignment, Assignment)
    assert [token.id for token in assignment.tokens] == [first, first + 1, first + 2]
    edits = tokenizer_edits(source, assignment)
    assert {edit.name for edit in edits} == {"tokenizer.json", "tokenizer_config.json"}
    for edit in edits:
        assert len(new_lines(source.read_bytes(edit.name), edit.content)) <= 3 * 9 + 3
    result = source.copied_to(tmp_path / "out", edits)
    assert compare_tokenizers(assignment.baseline or source, result, assignment.tokens) == ()

    before, after = AutoTokenizer.from_pretrained(source.root), AutoTokenizer.from_pretrained(result.root)
    names = [request.content for request in requests]
    assert after.convert_tokens_to_ids(names) == [first, first + 1, first + 2]
    assert set(after.all_special_tokens) == {*before.all_special_tokens, "<|tool|>", "<|call|>"}
    assert (after.eos_token, after.pad_token, after.chat_template) == (
        before.eos_token,
        before.pad_token,
        before.chat_template,
    )
    text = "The mother's other <|tool|>word<|call|> naïve 語 😀\n  x"
    for part in text.replace("<|call|>", "<|tool|>").split("<|tool|>"):
        assert after(part).input_ids == before(part).input_ids
    assert sorted(number for number in after(text).input_ids if number >= first) == [first, first + 1]


def test_a_reserved_token_is_replaced_and_an_ordinary_entry_refused(source: Folder, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    name = source.root.name.removeprefix("tokenizer-")
    old = {"llama3": "<|reserved_special_token_5|>", "qwen3": "<|box_start|>", "gemma3": "<unused9>"}[name]
    assignment = assign(source, source.tokenizer, [TokenRequest("<|mine|>", replaces=old)])
    assert isinstance(assignment, Assignment)
    assert source.tokenizer is not None
    number = source.tokenizer.token_to_id[old]
    result = source.copied_to(tmp_path / "out", tokenizer_edits(source, assignment))
    assert compare_tokenizers(assignment.baseline or source, result, assignment.tokens) == ()
    loaded = AutoTokenizer.from_pretrained(result.root)
    assert loaded.convert_tokens_to_ids("<|mine|>") == number
    assert "<|mine|>" in loaded.all_special_tokens
    assert len(loaded) == NEXT[name]
    assert isinstance(assign(source, source.tokenizer, [TokenRequest("other")]), TokenRefusal)
