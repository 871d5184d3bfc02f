"""The places of a checkpoint from which readers take the default chat template, and a new one in each of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from vocabsurgeon.checkpoint.file_names import PROCESSOR_FILES
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.vocabulary_files import Folder

JINJA = "chat_template.jinja"
NAMED_DEFAULT = "additional_chat_templates/default.jinja"
"""Tokenizers of transformers 5.24 take this before chat_template.jinja; processors the other way round."""
TOKENIZER_CONFIG = "tokenizer_config.json"
_JSON = ("processor_config.json", "chat_template.json", TOKENIZER_CONFIG)
"""JSON files with a key `chat_template`.

transformers 5.24 (`ProcessorMixin.get_processor_dict`): a processor takes processor_config.json's, then
chat_template.json's, then chat_template.jinja. A tokenizer takes chat_template.jinja, then tokenizer_config.json's.
"""
_KEY = "chat_template"
_DEFAULT = "default"


def default_templates(folder: Folder) -> Mapping[str, str]:
    """File → the default chat template that it holds. Raises `ConfigError` where a file is damaged."""
    texts = {name: folder.read_bytes(name).decode("utf-8", "replace") for name in _texts(folder)}
    held = {name: _default(document.read((_KEY,))) for name, document in _documents(folder, {}).items()}
    return {**texts, **{name: template for name, template in held.items() if template is not None}}


def with_default_template(folder: Folder, edited: Mapping[str, JsonText], template: str) -> dict[str, JsonText | bytes]:
    """The files that hold `template` as the default: each that holds one in `folder`, so that no reader sees another.

    chat_template.jinja is made where neither it nor tokenizer_config.json holds one, or a processor, which does not
    look into the latter, would have none. Templates with other names stay. `edited`: JSON files already edited.
    """
    held = default_templates(folder)
    files: dict[str, JsonText | bytes] = {name: template.encode() for name in _texts(folder)}
    for name, document in _documents(folder, edited).items():
        path = _path(document.read((_KEY,)))
        if path is not None:
            files[name] = document.set(path, template)
        elif isinstance(document.read((_KEY,)), list):
            files[name] = document.extend((_KEY,), [{"name": _DEFAULT, "template": template}])
    for_processor = any(folder.has(name) for name in PROCESSOR_FILES) and not {*_JSON[:2]} & held.keys()
    if TOKENIZER_CONFIG not in files or for_processor:
        files[JINJA] = template.encode()
    return files


def _texts(folder: Folder) -> Iterator[str]:
    yield from (name for name in (JINJA, NAMED_DEFAULT) if folder.has(name))


def _documents(folder: Folder, edited: Mapping[str, JsonText]) -> dict[str, JsonText]:
    parsed = (name for name in _JSON if folder.has(name) or name in edited)
    return {name: edited.get(name) or JsonText.parse(folder.read_bytes(name), name) for name in parsed}


def _path(value: Any) -> tuple[str | int, ...] | None:
    """Where the default stands: the value itself, an entry of a list by name, a key of an object; None: nowhere."""
    if isinstance(value, str):
        return (_KEY,)
    if isinstance(value, dict):
        return (_KEY, _DEFAULT)
    names = [entry.get("name") if isinstance(entry, dict) else None for entry in value or ()]
    return (_KEY, names.index(_DEFAULT), "template") if _DEFAULT in names else None


def _default(value: Any) -> str | None:
    if isinstance(value, dict):
        value = value.get(_DEFAULT)
    elif isinstance(value, list):
        value = next((e.get("template") for e in value if isinstance(e, dict) and e.get("name") == _DEFAULT), None)
    return value if isinstance(value, str) else None
