"""config.json as levels: the root and every nested sub-configuration. What a level means is decided elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vocabsurgeon.checkpoint.json_text import JsonText
from vocabsurgeon.errors import ConfigError

CONFIG = "config.json"
TIE_FLAG = "tie_word_embeddings"
Path = tuple[str, ...]

_NOT_MODELS = {"quantization_config", "compression_config", "rope_parameters", "rope_scaling", "task_specific_params"}
"""Objects of a config that describe something else than a (sub-)model."""
_NESTED_NAMES = {"encoder", "decoder", "text_encoder", "audio_encoder", "generator", "question_encoder"}
"""Keys of sub-models that do not end in `_config`."""


@dataclass(frozen=True)
class Config:
    """The parsed config.json; nothing in it is executed, unknown keys are kept."""

    document: JsonText

    @classmethod
    def parse(cls, text: str, where: str = CONFIG) -> Config:
        """Raises `ConfigError` unless `text` is a JSON object."""
        document = JsonText.parse(text, where)
        if not isinstance(document.value, dict):
            raise ConfigError("is not a JSON object", where=where)
        return cls(document)

    @property
    def data(self) -> dict[str, Any]:
        """The root level."""
        value: dict[str, Any] = self.document.value
        return value

    @property
    def model_type(self) -> str | None:
        """`model_type` of the root, None where absent."""
        return self._string(self.data.get("model_type"), "model_type")

    @property
    def architecture(self) -> str | None:
        """The first entry of `architectures`, None where absent."""
        names = self.data.get("architectures")
        if names is None or names == []:
            return None
        if not isinstance(names, list):
            raise ConfigError(f"architectures is {names!r}, not a list of class names", where=CONFIG)
        return self._string(names[0], "architectures")

    @cached_property
    def levels(self) -> Mapping[Path, Mapping[str, Any]]:
        """Path → object for the root `()` and every nested model configuration, outermost first."""
        return dict(_levels(self.data))

    def flags(self) -> Mapping[Path, bool]:
        """`tie_word_embeddings` of each level that states it."""
        stated = {path: level[TIE_FLAG] for path, level in self.levels.items() if level.get(TIE_FLAG) is not None}
        for path, value in stated.items():
            if not isinstance(value, bool):
                raise ConfigError(f"{dotted((*path, TIE_FLAG))} is {value!r}, not true or false", where=CONFIG)
        return stated

    def numbers(self, key: str) -> Mapping[Path, int]:
        """The whole number under `key` (say `vocab_size`) of each level that states it."""
        stated = {path: level[key] for path, level in self.levels.items() if level.get(key) is not None}
        for path, value in stated.items():
            if type(value) is not int or value < 0:
                raise ConfigError(f"{dotted((*path, key))} is {value!r}, not a whole number", where=CONFIG)
        return stated

    def with_values(self, values: Mapping[Path, Any]) -> Config:
        """A config with the value at each full path replaced or added; every other byte of the text is kept."""
        document = self.document
        for path, value in values.items():
            document = document.set(path, value)
        return Config(document)

    @staticmethod
    def _string(value: Any, key: str) -> str | None:
        if value is not None and not isinstance(value, str):
            raise ConfigError(f"{key} is {value!r}, not a string", where=CONFIG)
        return value


def dotted(path: Path) -> str:
    """`("text_config", "vocab_size")` → `text_config.vocab_size`."""
    return ".".join(path)


def level_name(path: Path) -> str:
    """What messages call a level: `root`, or the dotted path."""
    return dotted(path) or "root"


def _levels(root: Mapping[str, Any]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Each level before the levels inside it. A loop, since a hostile file nests deeper than Python calls."""
    pending: list[tuple[Path, Mapping[str, Any]]] = [((), root)]
    while pending:
        path, level = pending.pop()
        yield path, level
        inner = [((*path, key), value) for key, value in level.items() if isinstance(value, dict) and _is_model(key)]
        pending += reversed(inner)


def _is_model(key: str) -> bool:
    return (key.endswith("_config") and key not in _NOT_MODELS) or key in _NESTED_NAMES
