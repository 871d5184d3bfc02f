"""One tiny llama checkpoint for each tie state, made by hand from the two that transformers saves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.models.tiny import model, write_tokenizer
from tests.surgery.shelf import HEAD, INPUT, Tensors, taken, with_config, with_tensors
from vocabsurgeon.vocabulary.tie_state import TieState


def in_state(state: TieState, target: Path) -> Path:
    """A checkpoint in `state` at `target`."""
    return MAKERS[state](target)


def _tied(target: Path) -> Path:
    return taken(target)


def _untied(target: Path) -> Path:
    return taken(target, tied=False)


def _tied_duplicate(target: Path) -> Path:
    return with_tensors(taken(target), _copy_head)


def _untied_equal(target: Path) -> Path:
    return with_config(_tied_duplicate(target), tie_word_embeddings=False)


def _conflict(target: Path) -> Path:
    return with_config(_untied(target), tie_word_embeddings=True)


def _headless(target: Path) -> Path:
    return with_config(_tied(target), tie_word_embeddings=False)


def _no_head(target: Path) -> Path:
    model("llama").model.save_pretrained(target)
    write_tokenizer(target, 64)
    return target


def _input_missing(target: Path) -> Path:
    return with_tensors(_untied(target), lambda tensors: tensors.pop(INPUT))


def _row_mismatch(target: Path) -> Path:
    return with_tensors(_untied(target), lambda tensors: tensors.update({HEAD: tensors[HEAD][:60]}))


def _copy_head(tensors: Tensors) -> None:
    tensors[HEAD] = tensors[INPUT].clone()


MAKERS: dict[TieState, Callable[[Path], Path]] = {
    TieState.TIED: _tied,
    TieState.TIED_DUPLICATE: _tied_duplicate,
    TieState.UNTIED: _untied,
    TieState.UNTIED_EQUAL: _untied_equal,
    TieState.CONFLICT: _conflict,
    TieState.HEADLESS: _headless,
    TieState.NO_HEAD: _no_head,
    TieState.INPUT_MISSING: _input_missing,
    TieState.ROW_MISMATCH: _row_mismatch,
}
