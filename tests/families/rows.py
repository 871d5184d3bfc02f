"""The observed facts as rows of families.json: one JSON object a line, what is usual left out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from tests.families.observe import Facts
from tests.families.recipes import (
    ADAPTIVE_IF,
    APART_IF_FALSE,
    BEYOND_MOVES,
    IN_PARTS,
    MORE_BIASES,
    MORE_SIZES,
    NO_TOKENS,
    SCALED_IF_TIED,
    TABLE_IS_HEAD_IF_FALSE,
    TAILS,
    TIED_ALONG,
    TIED_BESIDE,
)

Row = dict[str, Any]
Key = tuple[str, str]
"""(model type, class name)."""


def rows(observed: Mapping[Key, Facts], aliases: Mapping[Key, Mapping[str, tuple[str, ...]]]) -> list[Row]:
    """One row for all classes of a type that share their facts, by type, the most telling class first."""
    grouped: dict[str, Row] = {}
    for (model_type, class_name), facts in observed.items():
        row = _row(model_type, facts, aliases.get((model_type, class_name), {}))
        kept = grouped.setdefault(json.dumps(row), row | {"classes": []})
        kept["classes"].append(class_name)
    return sorted(grouped.values(), key=lambda row: str(row["type"]))


def text(version: str, table: list[Row], unbuilt: Mapping[str, str], without: Iterable[str]) -> str:
    """families.json: every row a line, so that a new release of transformers shows as the lines it changes."""
    lines = [
        f'"transformers": {json.dumps(version)},',
        '"rows": [',
        ",\n".join(json.dumps(_ordered(row)) for row in table),
        "],",
        '"unbuilt": {',
        ",\n".join(f"{json.dumps(name)}: {json.dumps(reason)}" for name, reason in sorted(unbuilt.items())),
        "},",
        f'"without_vocabulary": {json.dumps(sorted(without))}',
    ]
    return "{\n" + "\n".join(lines) + "\n}\n"


def _ordered(row: Row) -> Row:
    return {"type": row["type"], "classes": row["classes"]} | row


def _row(model_type: str, facts: Facts, aliases: Mapping[str, tuple[str, ...]]) -> Row:
    """What the class shows and what recipes.py adds; what is usual or empty is left out."""
    seen, usual = facts.row, model_type.partition("+")[0].replace("-", "_")
    headed, moved = seen["output"] is not None, any(seen["beyond"])
    sizes = list(dict.fromkeys((*seen["sizes"], *MORE_SIZES.get(model_type, ()))))
    row: Row = {
        "type": model_type,
        **seen,
        "biases": seen["biases"] | (MORE_BIASES.get(model_type, {}) if headed else {}),
        "also": {key: list(names) for key, names in sorted(aliases.items()) if names},
        "sizes": [] if sizes == ["vocab_size"] else sizes,
        "beyond": seen["beyond"] if moved else [],
        "beyond_moves": moved and BEYOND_MOVES[model_type],
        "table_is_head_if_false": TABLE_IS_HEAD_IF_FALSE.get(model_type, "") if headed else "",
        "adaptive_if": ADAPTIVE_IF.get(model_type, ""),
        "tails": TAILS.get(model_type, ()),
        "in_parts": IN_PARTS.get(model_type, ()),
        "no_tokens": NO_TOKENS.get(model_type, ""),
        "tied_along": TIED_ALONG.get(model_type, ""),
        "scaled_if_tied": model_type in SCALED_IF_TIED,
        "shared_if_tied": [*seen["shared_if_tied"], *(TIED_BESIDE.get(model_type, ()) if headed else ())],
        "apart_if_false": APART_IF_FALSE.get(model_type, "") if len(seen["others"]) > 1 else "",
        "source": "" if seen["source"] == f"{usual}.modeling_{usual}" else seen["source"],
    }
    return {key: row[key] for key in sorted(row, key=_ORDER.index) if row[key]}


_ORDER = (
    *("type", "input", "output", "biases", "others", "also", "sizes", "elsewhere", "beyond", "beyond_moves"),
    *("table_is_head_if_false", "adaptive_if", "tails", "in_parts", "no_tokens", "tied_along", "scaled_if_tied"),
    *(
        "tie",
        "text",
        "root_default",
        "text_default",
        "flags",
        "follow_flag",
        "shared",
        "shared_if_tied",
        "apart_if_false",
    ),
    *("prefix", "source"),
)
"""Of the fields in the file."""
