"""What readers make of a checkpoint that says two things: facts with versions, told by state and model type. Data only.

docs/readers.md says how each was seen; a test holds those of transformers against the version it runs with.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reading:
    """What one reader does with the file as it stands."""

    reader: str
    does: str

    def __str__(self) -> str:
        return f"{self.reader}: {self.does}"


LLAMA_CPP = "llama.cpp's converter"
_NOT_SEEN = Reading(LLAMA_CPP, "not looked at for this model type")

READINGS: Mapping[str, tuple[Reading, ...]] = {
    "conflict": (
        Reading("transformers 4.57", "drops the stored head without a word; the input embedding serves as head"),
        Reading("transformers 5.24", "keeps both tables and warns; resizing them, or saving with 4.57, drops the head"),
    ),
    "headless": (
        Reading("transformers 4.57", "makes up a random head, another at each load, and warns"),
        Reading("transformers 5.24", "makes up a random head, another at each load; its load report says MISSING"),
    ),
}
"""Tie state → what transformers does, alike for every family that was measured."""

_WRITES_BOTH = Reading(LLAMA_CPP, "does not read the flag: the stored head becomes output.weight, both tables count")
_SHARES = Reading(LLAMA_CPP, "does not read the flag: without output.weight the runtime uses token_embd for the head")
_SKIPS_HEAD = Reading(LLAMA_CPP, "leaves lm_head.weight out: the runtime uses token_embd for the head")

_BOTH_READ = {"conflict": _WRITES_BOTH, "headless": _SHARES}
_HEAD_SKIPPED = {"conflict": _SKIPS_HEAD, "headless": _SKIPS_HEAD}

LLAMA_CPP_READINGS: Mapping[str, Mapping[str, Reading]] = {
    **dict.fromkeys(("llama", "mistral", "mixtral", "qwen2", "qwen3", "t5", "mt5", "umt5"), _BOTH_READ),
    **dict.fromkeys(("gemma3", "gemma3_text"), _BOTH_READ),
    **dict.fromkeys(("gemma", "gemma2"), _HEAD_SKIPPED),
}
"""Model type → tie state → what llama.cpp does; the types whose conversion and loading code was read."""


def readings_of(state: str, model_type: str | None) -> tuple[Reading, ...]:
    """What transformers 4.57, 5.24 and llama.cpp make of a file in `state`; empty where readers agree."""
    known = READINGS.get(state)
    if known is None:
        return ()
    return (*known, LLAMA_CPP_READINGS.get(model_type or "", {}).get(state, _NOT_SEEN))
