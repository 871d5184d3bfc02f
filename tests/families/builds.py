"""The model classes that the generator asks, and what their configs must state. Knows nothing of vocabularies."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.families.recipes import AUTO_CLASSES, RECIPES, VARIANTS
from vocabsurgeon.vocabulary.model_class import ModelClass, smallest

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Json = dict[str, Any]


def classes() -> Iterator[tuple[str, str]]:
    """Every (model type, class name) of the auto classes in `AUTO_CLASSES`, each once, then the variants."""
    from transformers.models.auto import modeling_auto

    seen: dict[tuple[str, str], None] = {}
    for auto_class in AUTO_CLASSES:
        for model_type, names in getattr(modeling_auto, auto_class).items():
            seen.update({(model_type, name): None for name in ([names] if isinstance(names, str) else names)})
    yield from (*seen, *VARIANTS.items())


def subject(model_type: str, class_name: str) -> ModelClass:
    """The class with few layers where it can be built so, and with what its recipe states."""
    recipe = RECIPES.get(class_name, RECIPES.get(model_type, {}))
    return smallest(ModelClass(config_class(model_type), model_class(class_name), recipe))


def model_class(name: str) -> type[PreTrainedModel]:
    """The class of that name; raises `AttributeError` where transformers does not export it."""
    import transformers

    found: type[PreTrainedModel] = getattr(transformers, name)
    return found


def config_class(model_type: str) -> type[PreTrainedConfig]:
    """The config class of a model type (or variant)."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    found: type[PreTrainedConfig] = CONFIG_MAPPING[model_type.partition("+")[0]]
    return found


def config_of(model_type: str, stated: Json) -> PreTrainedConfig:
    """The config that a reader makes of a config.json holding `stated` alone."""
    config: PreTrainedConfig = config_class(model_type).from_dict(copy.deepcopy(stated))
    return config


@contextlib.contextmanager
def timm_towers_empty() -> Iterator[None]:
    """Vision towers of the timm library have no vocabulary: an empty module stands for one, timm installed or not."""
    from transformers import PreTrainedModel
    from transformers.models.timm_wrapper.modeling_timm_wrapper import TimmWrapperModel

    with mock.patch.object(TimmWrapperModel, "__init__", PreTrainedModel.__init__):
        yield
