"""Frozen dataclasses ↔ JSON, tagged with their class name. Decoding trusts nothing: the JSON may come from anywhere."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from typing import Any

from vocabsurgeon.errors import ConfigError

TAG = "is"
TRANSIENT: Mapping[str, bool] = {"transient": True}
"""Metadata of a field that is not part of the value: left out when encoding, at its default when decoding."""


def encode(value: Any) -> Any:
    """A JSON value: dataclasses become objects tagged with their class name, tuples lists."""
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            TAG: type(value).__name__,
            **{item.name: encode(getattr(value, item.name)) for item in _stored(type(value))},
        }
    if isinstance(value, tuple):
        return [encode(item) for item in value]
    return value


def decode(value: Any, classes: Mapping[str, type], where: str) -> Any:
    """The dataclass that `value` describes, one of `classes`; raises `ConfigError` where it describes none."""
    name = value.get(TAG) if isinstance(value, dict) else None
    chosen = classes.get(name) if isinstance(name, str) else None
    if chosen is None:
        raise ConfigError(f"holds an unknown entry {name!r}", where=where)
    hints = typing.get_type_hints(chosen)
    wanted = {item.name for item in _stored(chosen)}
    if set(value) - {TAG} != wanted:
        raise ConfigError(f"holds a {name} with other fields than {sorted(wanted)}", where=where)
    return chosen(**{key: _value(value[key], hints[key], where) for key in wanted})


def _stored(chosen: Any) -> list[Field[Any]]:
    return [item for item in fields(chosen) if not item.metadata.get("transient")]


def _value(value: Any, hint: Any, where: str) -> Any:
    options = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for option in options:
        origin = typing.get_origin(option)
        if option is type(None) and value is None:
            return None
        if origin is typing.Literal and value in typing.get_args(option):
            return value
        if origin is tuple and isinstance(value, list):
            return _items(value, typing.get_args(option), where)
        if isinstance(option, type) and is_dataclass(option) and _is_tagged(value, option):
            return decode(value, {option.__name__: option}, where)
        if isinstance(option, type) and issubclass(option, Enum) and value in {member.value for member in option}:
            return option(value)
        if option in (int, str, bool, float) and type(value) in ((int, float) if option is float else (option,)):
            return value
        if option is Any:
            return value
    raise ConfigError(f"holds {value!r:.80} where {hint} is due", where=where)


def _is_tagged(value: Any, option: type) -> bool:
    return isinstance(value, dict) and value.get(TAG) == option.__name__


def _items(value: list[Any], hints: tuple[Any, ...], where: str) -> tuple[Any, ...]:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return tuple(_value(item, hints[0], where) for item in value)
    if len(hints) != len(value):
        raise ConfigError(f"holds {len(value)} items where {len(hints)} are due", where=where)
    return tuple(_value(item, hint, where) for item, hint in zip(value, hints, strict=True))
