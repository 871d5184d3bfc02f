"""The post-processor of tokenizer.json when a token is renamed or a role moves: the kinds that name tokens, as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vocabsurgeon.checkpoint.json_changes import Path
from vocabsurgeon.checkpoint.json_text import JsonText

_PAIRS = ("cls", "sep")
"""Fields `[content, id]` of BertProcessing and RobertaProcessing, which are roles at the same time."""
_TEMPLATE_ROLES = ("bos", "cls", "sep")


def with_token_renamed(document: JsonText, old: str, new: str) -> JsonText:
    """`old` called `new` wherever the post-processor names it; its id stays."""
    for path, node in _nodes(document):
        for field in _PAIRS:
            if isinstance(node.get(field), list) and node[field][0] == old:
                document = document.set((*path, field, 0), new)
        document = _in_template(document, path, node, old, new, None)
    return document


def with_roles(
    document: JsonText, before: Mapping[str, str], roles: Mapping[str, str], ids: Mapping[str, int]
) -> JsonText:
    """The new holders of bos, cls and sep where the post-processor puts the old ones; other roles leave it as it is.

    `before`: the old holders. A template token that another of these roles holds stays unless that role moves along.
    """
    for path, node in _nodes(document):
        for role in [role for role in _PAIRS if role in roles and isinstance(node.get(role), list)]:
            document = document.set((*path, role, 0), roles[role]).set((*path, role, 1), ids[role])
        moved = {before[role]: role for role in _TEMPLATE_ROLES if role in roles and role in before}
        for old, role in moved.items():
            sharing = [other for other in _TEMPLATE_ROLES if before.get(other) == old]
            if all(roles.get(other) == roles[role] for other in sharing):
                document = _in_template(document, path, document.read(path), old, roles[role], ids[role])
    return document


def _nodes(document: JsonText) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The post-processor, or each one of a sequence of them."""
    node = document.read(("post_processor",))
    if not isinstance(node, dict):
        return
    inner = node.get("processors")
    if isinstance(inner, list):
        yield from ((("post_processor", "processors", place), item) for place, item in enumerate(inner))
    else:
        yield ("post_processor",), node


def _in_template(
    document: JsonText, path: Path, node: Mapping[str, Any], old: str, new: str, number: int | None
) -> JsonText:
    known = node.get("special_tokens")
    if node.get("type") != "TemplateProcessing" or not isinstance(known, dict) or old not in known or old == new:
        return document
    for side in ("single", "pair"):
        for place, item in enumerate(node.get(side) or ()):
            if isinstance(item.get("SpecialToken"), dict) and item["SpecialToken"].get("id") == old:
                document = document.set((*path, side, place, "SpecialToken", "id"), new)
    entry = {"id": new, "ids": known[old].get("ids") if number is None else [number], "tokens": [new]}
    if new in known:
        return document.remove((*path, "special_tokens", old))
    return document.rename((*path, "special_tokens", old), new).update((*path, "special_tokens", new), entry)
