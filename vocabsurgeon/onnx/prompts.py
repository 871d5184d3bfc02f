"""Token ids to compare a graph and its model on: text of many scripts, random ids, and the table's highest rows."""

from __future__ import annotations

import numpy as np

from vocabsurgeon.checkpoint.source import Checkpoint

LONGEST = 48
"""Most tokens of a prompt."""
_RANDOM = (24, 7)
_HIGHEST = 16
TEXTS = (
    "The quick brown fox jumps over the lazy dog, and 3.14159 is not quite π.",
    "def add(a, b):\n    return a + b  # naïve\n\nprint(add(1, 2))",
    "Zürich, São Paulo, Kraków: Straßen, ações, żółć. Это тест. Ελληνικά.",
    "今日は良い天気です。你好,世界。안녕하세요 세계",
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया 🙂🚀👩‍👩‍👧",
)


def prompts(source: Checkpoint, rows: int, longest: int = LONGEST) -> dict[str, list[int]]:
    """Name → ids, each below `rows` and at most `longest` of them, never fewer than 3 prompts. Same source, same ids.

    Text is encoded with the checkpoint's tokenizer.json; where there is none, or it knows none of the words, the random
    prompts stand alone. The first prompt, `highest ids`, is the last rows of the table, where added tokens are.
    """
    random = np.random.default_rng(0)
    chosen = {"highest ids": list(range(rows - 1, max(-1, rows - 1 - _HIGHEST), -1))}
    chosen |= {f"random {i}": random.integers(0, rows, size).tolist() for i, size in enumerate(_RANDOM)}
    chosen |= _texts(source, rows)
    return {name: ids[: max(1, longest)] for name, ids in chosen.items()}


def _texts(source: Checkpoint, rows: int) -> dict[str, list[int]]:
    if not source.has("tokenizer.json"):
        return {}
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_str(source.read_text("tokenizer.json"))
    except Exception:  # tokenizers raises bare Exception; `check` is where a damaged tokenizer is reported
        return {}
    encoded = {f"text {i}": tokenizer.encode(text).ids for i, text in enumerate(TEXTS)}
    known = {name: [i for i in ids if i < rows] for name, ids in encoded.items()}
    return {name: ids for name, ids in known.items() if len(set(ids)) > 2}
