"""What each operation does in each tie state: the one table. No other module branches on a state to decide an edit."""

from __future__ import annotations

from enum import Enum, auto

from vocabsurgeon.vocabulary.tie_state import TieState


class Action(Enum):
    """What a plan does with the tables."""

    GROW = auto()
    """Every stored table grows alike; flags stay."""
    GROW_AND_UNTIE_FLAGS = auto()
    """Every stored table grows; the flags are set to what the files hold."""
    NOTHING = auto()
    DROP_COPY = auto()
    """Drop the head that repeats the input embedding; flags true."""
    FLAGS_TRUE = auto()
    FLAGS_FALSE = auto()
    STORE_COPY = auto()
    """Store the one table a second time under the other name; flags false."""
    LOSSY_TIE = auto()
    """Would drop one of two different tables."""
    REFUSE = auto()


OPERATIONS: dict[tuple[TieState, str], Action] = {
    (TieState.TIED, "extend"): Action.GROW,
    (TieState.TIED, "tie"): Action.NOTHING,
    (TieState.TIED, "untie"): Action.STORE_COPY,
    (TieState.TIED_DUPLICATE, "extend"): Action.GROW,
    (TieState.TIED_DUPLICATE, "tie"): Action.DROP_COPY,
    (TieState.TIED_DUPLICATE, "untie"): Action.FLAGS_FALSE,
    (TieState.UNTIED, "extend"): Action.GROW,
    (TieState.UNTIED, "tie"): Action.LOSSY_TIE,
    (TieState.UNTIED, "untie"): Action.NOTHING,
    (TieState.UNTIED_EQUAL, "extend"): Action.GROW,
    (TieState.UNTIED_EQUAL, "tie"): Action.DROP_COPY,
    (TieState.UNTIED_EQUAL, "untie"): Action.NOTHING,
    (TieState.CONFLICT, "extend"): Action.GROW_AND_UNTIE_FLAGS,
    (TieState.CONFLICT, "tie"): Action.LOSSY_TIE,
    (TieState.CONFLICT, "untie"): Action.FLAGS_FALSE,
    (TieState.HEADLESS, "extend"): Action.REFUSE,
    (TieState.HEADLESS, "tie"): Action.FLAGS_TRUE,
    (TieState.HEADLESS, "untie"): Action.STORE_COPY,
    (TieState.INPUT_MISSING, "extend"): Action.REFUSE,
    (TieState.INPUT_MISSING, "tie"): Action.REFUSE,
    (TieState.INPUT_MISSING, "untie"): Action.REFUSE,
    (TieState.ROW_MISMATCH, "extend"): Action.REFUSE,
    (TieState.ROW_MISMATCH, "tie"): Action.REFUSE,
    (TieState.ROW_MISMATCH, "untie"): Action.REFUSE,
    (TieState.NO_HEAD, "extend"): Action.GROW,
    (TieState.NO_HEAD, "tie"): Action.REFUSE,
    (TieState.NO_HEAD, "untie"): Action.REFUSE,
}

WAYS_OUT: dict[TieState, tuple[str, ...]] = {
    TieState.HEADLESS: (
        "`vocabsurgeon tie` declares the head to be the input embedding (sets the flag)",
        "`vocabsurgeon untie` stores a copy of the input embedding as the head",
    ),
    TieState.INPUT_MISSING: ("fetch the checkpoint again: its input embedding is missing",),
    TieState.ROW_MISMATCH: ("fetch the checkpoint again, or undo the edit that resized one table alone",),
    TieState.NO_HEAD: ("nothing to do: the architecture has no LM head to share or to separate",),
}

REASONS: dict[TieState, str] = {
    TieState.HEADLESS: "the checkpoint is headless: declared untied, but without an LM head, random at every load",
    TieState.INPUT_MISSING: "the input embedding is not stored, so it is random at every load",
    TieState.ROW_MISMATCH: "input embedding and LM head have different numbers of rows",
    TieState.NO_HEAD: "the architecture has no LM head",
}
