"""One class of one model type with the config it is observed under, and its variants with other config values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.families import builds
from tests.families.builds import Json, Path

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Subject:
    """`model` is `cls` built from a config.json that states `json` alone."""

    model_type: str
    cls: type[PreTrainedModel]
    json: Json
    model: PreTrainedModel

    @classmethod
    def smallest(cls, model_type: str, class_name: str) -> Subject:
        """The class with few layers, or as its default config has it; raises what the class raises at the latter."""
        model_class = builds.model_class(class_name)
        return cls(model_type, model_class, *builds.smallest(model_type, model_class))

    def with_values(self, values: Mapping[Path, Any]) -> PreTrainedModel:
        """The model with the values at full paths stated too."""
        return builds.build(self.model_type, self.cls, self._stating(values))

    def dump_with(self, values: Mapping[Path, Any]) -> str:
        """The config that `with_values` builds from, as text: equal texts build equal models."""
        return builds.dumped(builds.config_of(self.model_type, self._stating(values)))

    def _stating(self, values: Mapping[Path, Any]) -> Json:
        return builds.merged(self.json, builds.stated(self.model.config, values))
