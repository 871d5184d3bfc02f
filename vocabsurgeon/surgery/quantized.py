"""What quantization means for an operation: a quantized table is refused, a new plain head stays plain at load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from vocabsurgeon.checkpoint.config import Config, Path, dotted
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.quantized import Quantization, quantization_of

DEFAULT_LIST = ("modules_to_not_convert",)
SKIP_LISTS: Mapping[str, tuple[str, ...]] = {
    "bitsandbytes": ("llm_int8_skip_modules",),
    "compressed-tensors": ("ignore",),
    "modelopt": ("ignore", "exclude_modules"),
    "quark": ("exclude",),
    "hqq": ("skip_modules",),
    "aqlm": ("linear_weights_not_to_quantize",),
    "fp8": ("modules_to_not_convert", "ignored_layers"),
    "mxfp8": ("modules_to_not_convert", "ignored_layers"),
}
"""Method → the names of its list of modules that a reader leaves plain; `DEFAULT_LIST` for every other method.

From transformers 5.24 (`utils/quantization_config.py`); modelopt's from the files it writes."""

TAKES_ALL_WITHOUT_LIST = frozenset({"compressed-tensors", "quark", "aqlm"})
"""Methods whose readers make every linear module a quantized one where no list is given. The others leave the LM head
plain by default, and lose that default as soon as a list is given."""

NEVER_HEADS = frozenset({"gptq", "awq", "auto-round", "mxfp4", "mlx"})
"""Methods whose readers leave a head plain whatever the list: they quantize the layers' blocks, or add their defaults
to the list, or look for the companion tensors."""


def refuse_quantized(description: Description, operation: str) -> Refusal | None:
    """The refusal of `operation` where a table it would have to read or write is stored quantized."""
    tables = description.quantized
    if not tables:
        return None
    named = " and ".join(f"{table.key} ({table.role}, {table.scheme})" for table in tables)
    stored = "is stored quantized" if len(tables) == 1 else "are stored quantized"
    return Refusal(
        operation,
        f"{named} {stored}: rows of it cannot be read, added or compared",
        tuple(line for table in tables for line in table.evidence),
        (f"run `vocabsurgeon {operation}` on the checkpoint it was quantized from, and quantize the result",),
    )


def plain_head_values(config: Config, head: str) -> Mapping[Path, Any]:
    """The config values that make readers leave the newly stored plain head `head` plain; nothing where they do.

    A reader of a quantized checkpoint makes linear modules quantized ones before it loads them; a plain head would
    then have no place to go. The method's list of modules to skip gets the head's name where it does not cover it.
    """
    stated = quantization_of(config)
    if stated is None or stated.method in NEVER_HEADS:
        return {(*stated.path, "lm_head"): False} if stated and stated.settings.get("lm_head") is True else {}
    names = SKIP_LISTS.get(stated.method or "", DEFAULT_LIST)
    held = next((name for name in names if isinstance(stated.settings.get(name), list)), None)
    if held is None:
        return {(*stated.path, names[0]): [_module(head)]} if stated.method in TAKES_ALL_WITHOUT_LIST else {}
    skipped = stated.settings[held]
    if any(_covers(entry, head.removesuffix(".weight")) for entry in skipped):
        return {}
    return {(*stated.path, held): [*skipped, *_entries(stated, head)]}


def plain_head_notes(values: Mapping[Path, Any]) -> Iterator[str]:
    """What the report says about those values."""
    for path in values:
        yield f"config.json: {dotted(path)} was changed so that readers leave the stored head plain"


def _entries(stated: Quantization, head: str) -> tuple[str, ...]:
    """AQLM lists weights in files it writes, and its reader compares modules: it gets both spellings."""
    module = _module(head)
    return (module, f"{module}.weight") if stated.method == "aqlm" else (module,)


def _module(head: str) -> str:
    """The module's name as lists hold it: `lm_head` however deep (readers compare ends), others in full."""
    module = head.removesuffix(".weight")
    return "lm_head" if module.endswith("lm_head") else module


def _covers(entry: Any, module: str) -> bool:
    """Whether a list's entry means `module`, as transformers, compressed-tensors (`re:`) or quark (globs) read it.

    An entry that is no valid pattern means nothing.
    """
    if not isinstance(entry, str):
        return False
    if entry.startswith("re:"):
        return _matches(entry[3:], module)
    return module.endswith(entry) or fnmatchcase(module, entry) or _matches(rf"(?:{entry})(?:(?<=\.)|(?=\.|$))", module)


def _matches(pattern: str, text: str) -> bool:
    try:
        return re.match(pattern, text) is not None
    except (re.error, RecursionError, OverflowError):
        return False
