"""Roles (bos, eos, …) and listed special tokens, and the key under which a tokenizer's own files list them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText

ROLES = ("bos", "eos", "pad", "unk", "sep", "cls", "mask")
EXTRA = "extra_special_tokens"
ADDITIONAL = "additional_special_tokens"
CONFIG = "tokenizer_config.json"
SPECIAL_MAP = "special_tokens_map.json"


@dataclass(frozen=True)
class Specials:
    """`roles`: role → content. `listed`: contents under the list's key, in order. `file` and `key`: where a new special
    token is listed, so that transformers counts it in `all_special_tokens` and keeps those that are listed already."""

    roles: Mapping[str, str]
    listed: tuple[str, ...]
    file: str
    key: str

    @property
    def contents(self) -> tuple[str, ...]:
        """Every content with a role or in the list, once each."""
        return tuple(dict.fromkeys((*self.roles.values(), *self.listed)))


def read_specials(documents: Mapping[str, JsonText]) -> Specials:
    """What transformers 5 takes for special, seen on 5.24.

    special_tokens_map.json counts where there is no `added_tokens_decoder`, and then before tokenizer_config.json;
    `additional_special_tokens` counts where `extra_special_tokens` is missing or empty.
    """
    settings = documents[CONFIG].value if CONFIG in documents else {}
    legacy = documents[SPECIAL_MAP].value if SPECIAL_MAP in documents else {}
    merged = merged_settings(documents)
    roles = {role: content for role in ROLES if (content := content_of(merged.get(f"{role}_token"))) is not None}
    key = _own_key(merged)
    file = SPECIAL_MAP if merged is not settings and legacy.get(key) and not settings.get(key) else CONFIG
    return Specials(MappingProxyType(roles), listed_contents(merged.get(key)), file, key)


def merged_settings(documents: Mapping[str, JsonText]) -> Mapping[str, Any]:
    """What tokenizer_config.json says, and special_tokens_map.json before it where that counts."""
    settings = documents[CONFIG].value if CONFIG in documents else {}
    legacy = documents[SPECIAL_MAP].value if SPECIAL_MAP in documents else {}
    return settings if "added_tokens_decoder" in settings else {**settings, **legacy}


def listed_contents(value: Any) -> tuple[str, ...]:
    """The contents in a list of special tokens, or in an object of named ones; none for anything else."""
    entries = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    contents = (content_of(entry) for entry in entries)
    return tuple(content for content in contents if content is not None)


def content_of(value: Any) -> str | None:
    """The content of a special token that is given as text or as an object; None for anything else."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None


def _own_key(settings: Mapping[str, Any]) -> str:
    if not settings.get(EXTRA) and ADDITIONAL in settings:
        return ADDITIONAL
    return EXTRA
