"""`tokenizer_edits`: assigned tokens → the files that must say so. Each file differs from its source by that alone."""

from __future__ import annotations

from vocabsurgeon.checkpoint.added_tokens import ADDED
from vocabsurgeon.checkpoint.edits import WriteFile
from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.checkpoint.special_tokens import CONFIG, SPECIAL_MAP
from vocabsurgeon.checkpoint.vocabulary_files import FAST, SLOW, Folder
from vocabsurgeon.surgery.tokens.assignment import Assignment
from vocabsurgeon.surgery.tokens.fast_edits import edited_fast
from vocabsurgeon.surgery.tokens.role_values import GENERATION, generation_config
from vocabsurgeon.surgery.tokens.sibling_edits import edited_added, edited_config, edited_special_map
from vocabsurgeon.tokenizer.chat_templates import with_default_template

_NEW = "{\n}\n"
"""What a file that the source lacks starts from."""


def tokenizer_edits(
    folder: Folder, assignment: Assignment, *, chat_template: str | None = None
) -> tuple[WriteFile, ...]:
    """The files to write, changed ones only; config.json is `role_config_values`' part.

    tokenizer.json, tokenizer_config.json, special_tokens_map.json, added_tokens.json (made where files of a slow
    tokenizer are), generation_config.json and the chat template, wherever a reader takes it from. A slow
    tokenizer's own files are left alone. Raises `ConfigError` where a file is damaged.
    """
    documents = dict(assignment.files.documents) if assignment.files else {}
    if folder.has(GENERATION) and assignment.roles:
        documents[GENERATION] = JsonText.parse(folder.read_bytes(GENERATION), GENERATION)
    edited = _edited(folder, documents, assignment) if assignment.tokens or assignment.roles else documents
    files: dict[str, JsonText | bytes] = dict(edited)
    if chat_template is not None:
        files |= with_default_template(folder, edited, chat_template)
    written = (_written(folder, name, content) for name, content in files.items())
    return tuple(file for file in written if not folder.has(file.name) or folder.read_bytes(file.name) != file.content)


def _written(folder: Folder, name: str, content: JsonText | bytes) -> WriteFile:
    """An edited JSON file says what it changes of the source's; a new one, and a text, is written whole."""
    if isinstance(content, bytes):
        return WriteFile(name, content)
    return WriteFile(name, content.raw, content.changes if folder.has(name) else None)


def _edited(folder: Folder, documents: dict[str, JsonText], assignment: Assignment) -> dict[str, JsonText]:
    edited = dict(documents)
    for name, edit in _EDITORS.items():
        if name in documents:
            edited[name] = edit(documents[name], assignment)
    if CONFIG not in documents:
        edited |= _made(CONFIG, edited_config(JsonText(_NEW.encode(), CONFIG), assignment))
    if ADDED not in documents and any(folder.has(name) for name in SLOW):
        edited |= _made(ADDED, edited_added(JsonText(_NEW.encode(), ADDED), assignment))
    if GENERATION in documents:
        edited[GENERATION] = generation_config(documents[GENERATION], assignment.role_ids)
    return edited


_EDITORS = {FAST: edited_fast, CONFIG: edited_config, SPECIAL_MAP: edited_special_map, ADDED: edited_added}


def _made(name: str, document: JsonText) -> dict[str, JsonText]:
    return {} if document.raw == _NEW.encode() else {name: document}
