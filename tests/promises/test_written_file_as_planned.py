"""`WrittenFileAsPlanned`: a file that the plan writes whole has the planned bytes."""

from __future__ import annotations

import hashlib
from pathlib import Path

from tests.promises.pairs import Pair
from vocabsurgeon.surgery.promises import WrittenFileAsPlanned


def _pair(tmp_path: Path) -> Pair:
    pair = Pair("extend", WrittenFileAsPlanned, tmp_path)
    (pair.out / "chat_template.jinja").write_bytes(b"{{ messages }}")
    pair.promises = [WrittenFileAsPlanned("chat_template.jinja", hashlib.sha256(b"{{ messages }}").hexdigest())]
    return pair


def test_holds_of_an_honest_result(tmp_path: Path) -> None:
    assert _pair(tmp_path).holds()


def test_fails_where_a_byte_differs_or_the_file_is_gone(tmp_path: Path) -> None:
    pair = _pair(tmp_path)
    (pair.out / "chat_template.jinja").write_bytes(b"{{ messages }} ")
    assert "has another content" in pair.broken()
    (pair.out / "chat_template.jinja").unlink()
    assert "is missing" in pair.broken()
