"""Builds a model class on the meta device from what a config.json would state. Knows nothing of vocabularies."""

from __future__ import annotations

import contextlib
import copy
import json
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.families.recipes import AUTO_CLASSES, RECIPES, VARIANTS

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Json = dict[str, Any]
Path = tuple[str, ...]

_LAYER_COUNTS = (
    "num_hidden_layers",
    "num_layers",
    "n_layer",
    "encoder_layers",
    "decoder_layers",
    "num_decoder_layers",
    "depth",
)
_FEW = 2


def classes() -> Iterator[tuple[str, str]]:
    """Every (model type, class name) of the auto classes in `AUTO_CLASSES`, each once, then the variants."""
    from transformers.models.auto import modeling_auto

    seen: dict[tuple[str, str], None] = {}
    for auto_class in AUTO_CLASSES:
        for model_type, names in getattr(modeling_auto, auto_class).items():
            seen.update({(model_type, name): None for name in ([names] if isinstance(names, str) else names)})
    yield from (*seen, *VARIANTS.items())


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


def smallest(model_type: str, cls: type[PreTrainedModel]) -> tuple[Json, PreTrainedModel]:
    """A config with few layers that `cls` can be built from, else the default one; and the model.

    Raises whatever the class raises where even its default config cannot be built.
    """
    recipe = RECIPES.get(cls.__name__, RECIPES.get(model_type, {}))
    try:
        few = merged(_few_layers(config_of(model_type, recipe)), recipe)
        return few, build(model_type, cls, few)
    except Exception:  # any class may refuse a shrunken config in its own way
        return recipe, build(model_type, cls, recipe)


def config_of(model_type: str, stated: Json) -> PreTrainedConfig:
    """The config that a reader makes of a config.json holding `stated` alone."""
    config: PreTrainedConfig = config_class(model_type).from_dict(copy.deepcopy(stated))
    return config


def build(model_type: str, cls: type[PreTrainedModel], stated: Json) -> PreTrainedModel:
    """`cls` on the meta device: names and shapes, no memory."""
    import torch

    with torch.device("meta"), _quiet(), timm_towers_empty():
        return cls(config_of(model_type, stated))


def levels(config: PreTrainedConfig) -> dict[Path, PreTrainedConfig]:
    """Path → config for the root and every nested config, outermost first."""
    found: dict[Path, PreTrainedConfig] = {(): config}
    for name in sorted(config.sub_configs or {}):
        nested: Any = getattr(config, name, None)
        if hasattr(nested, "to_dict"):
            found |= {(name, *path): level for path, level in levels(nested).items()}
    return found


def stated(config: PreTrainedConfig, values: Mapping[Path, Any]) -> Json:
    """`values` at full paths as nested objects, each sub-config with its model type."""
    result: Json = {}
    for path, value in values.items():
        level, here = result, config
        for name in path[:-1]:
            here = getattr(here, name)
            level = level.setdefault(name, {"model_type": here.model_type} if here.model_type else {})
        level[path[-1]] = value
    return result


def merged(base: Json, over: Json) -> Json:
    """`base` with `over` laid on top, level by level."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def _few_layers(config: PreTrainedConfig) -> Json:
    counts = {
        (*path, key): _FEW
        for path, level in levels(config).items()
        for key in _LAYER_COUNTS
        if type(value := getattr(level, key, None)) is int and value > _FEW
    }
    return stated(config, counts)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Some classes print at construction."""
    with contextlib.redirect_stdout(sys.stderr):
        yield


@contextlib.contextmanager
def timm_towers_empty() -> Iterator[None]:
    """Vision towers of the timm library have no vocabulary: an empty module stands for one, timm installed or not."""
    from transformers import PreTrainedModel
    from transformers.models.timm_wrapper.modeling_timm_wrapper import TimmWrapperModel

    with mock.patch.object(TimmWrapperModel, "__init__", PreTrainedModel.__init__):
        yield


def dumped(config: PreTrainedConfig) -> str:
    """Two configs of one dump build the same model."""
    return json.dumps(config.to_dict(), sort_keys=True, default=str)
