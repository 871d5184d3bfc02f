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


VLLM, SGLANG, MLX_LM = "vLLM 0.34.0", "SGLang 0.5.23", "mlx-lm 0.32.0"
TGI = "text-generation-inference 3.3.6-dev0"

_LEFT_OUT = "leaves the head out: the input embedding serves as one"
_STOPS = "stops at the head, for which it has no place"
_TIES_ANYWAY = "ties the two tables whatever the file says: only one of them is used"
_RANDOM = "makes a head where the flag is false, and never loads it: its numbers are left to chance"
_TIED_ALONE = "stops: it takes tied checkpoints alone"

HEAD_DROPPED_BY: Mapping[str, tuple[tuple[str, tuple[str, ...]], ...]] = {
    LLAMA_CPP: ((_LEFT_OUT, ("gemma", "gemma2")), (_STOPS, ("cohere", "cohere2"))),
    VLLM: (
        (_STOPS, ("gemma2", "gemma3n", "gemma3n_text")),
        (_LEFT_OUT, ("cohere", "cohere2", "cohere2_moe")),
        (_TIES_ANYWAY, ("lfm2", "lfm2_moe", "whisper", "zamba2")),
    ),
    SGLANG: (
        (_LEFT_OUT, ("cohere", "cohere2", "cohere2_moe", "cohere2_vision", "gemma", "gemma2", "gpt2", "gpt_bigcode")),
        (_RANDOM, ("gemma3_text", "gemma3n_text")),
    ),
    MLX_LM: ((_STOPS, ("cohere", "cohere2", "gemma", "gemma2", "gemma3n", "gpt2", "lfm2", "lfm2_moe")),),
    TGI: (
        (_LEFT_OUT, ("bloom", "gpt2", "gpt_bigcode", "mamba", "opt")),
        (_STOPS, ("gemma", "gemma2", "gemma3_text")),
        (_TIED_ALONE, ("mpt",)),
    ),
}
"""Reader → what it does with a head of its own → the model types. A type that is not here was
found in order, or was not looked at: docs/readers.md says which."""

_TWO_TABLES = ("untied", "untied-equal")


def readings_of(state: str, model_type: str | None) -> tuple[Reading, ...]:
    """What readers make of a file in `state`: transformers 4.57, 5.24 and llama.cpp where the file says two things,
    and those known to drop the head where it is a table of its own. Empty where readers agree."""
    if state in _TWO_TABLES:
        return heads_dropped(model_type)
    known = READINGS.get(state)
    if known is None:
        return ()
    return (*known, LLAMA_CPP_READINGS.get(model_type or "", {}).get(state, _NOT_SEEN))


def heads_dropped(model_type: str | None) -> tuple[Reading, ...]:
    """The readers that are known to ignore, refuse or lose a head of its own in this type."""
    entries = ((reader, does, types) for reader, rows in HEAD_DROPPED_BY.items() for does, types in rows)
    return tuple(Reading(reader, does) for reader, does, types in entries if model_type in types)
