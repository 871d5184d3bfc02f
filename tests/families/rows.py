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
from tests.families.tying import Groups

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
    rule, usual = facts.tying.rule, model_type.partition("+")[0].replace("-", "_")
    sizes = tuple(dict.fromkeys((*facts.sizes, *MORE_SIZES.get(model_type, ()))))
    row: Row = {
        "type": model_type,
        "input": facts.input,
        "output": facts.output,
        "biases": dict(facts.biases) | (MORE_BIASES.get(model_type, {}) if facts.output else {}),
        "others": dict(facts.others),
        "also": {key: list(names) for key, names in sorted(aliases.items()) if names},
        "sizes": [] if sizes == ("vocab_size",) else list(sizes),
        "beyond": list(facts.beyond) if any(facts.beyond) else [],
        "beyond_moves": any(facts.beyond) and BEYOND_MOVES[model_type],
        "table_is_head_if_false": TABLE_IS_HEAD_IF_FALSE.get(model_type, "") if facts.output else "",
        "adaptive_if": ADAPTIVE_IF.get(model_type, ""),
        "tails": list(TAILS.get(model_type, ())),
        "in_parts": list(IN_PARTS.get(model_type, ())),
        "no_tokens": NO_TOKENS.get(model_type, ""),
        "tied_along": TIED_ALONG.get(model_type, ""),
        "scaled_if_tied": model_type in SCALED_IF_TIED,
        "tie": rule.level,
        "text": list(rule.text),
        "root_default": rule.root_default,
        "text_default": rule.text_default,
        "flags": list(facts.tying.spellings),
        "shared": [list(group) for group in facts.tying.shared],
        "shared_if_tied": _if_tied(model_type, facts),
        "apart_if_false": APART_IF_FALSE.get(model_type, "") if len(facts.others) > 1 else "",
        "prefix": facts.prefix,
        "source": "" if facts.source == f"{usual}.modeling_{usual}" else facts.source,
    }
    return {key: value for key, value in row.items() if value}


def _if_tied(model_type: str, facts: Facts) -> list[list[str]]:
    """Groups that tying adds, but for the pair of input table and head that every row implies."""
    pair = sorted((facts.input, facts.output or ""))
    added: Groups = tuple(group for group in facts.tying.shared_if_tied if group not in facts.tying.shared)
    beside = TIED_BESIDE.get(model_type, ()) if facts.output else ()
    return [list(group) for group in (*added, *([beside] if beside else [])) if list(group) != pair]
