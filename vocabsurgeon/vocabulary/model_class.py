"""The model class that a config.json names, and how to build it on the meta device: names and shapes, no weights.

Torch and transformers are imported on call. Code that a checkpoint brings runs only where the caller says so.
"""

from __future__ import annotations

import contextlib
import copy
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.config import TIE_FLAG, Path
from vocabsurgeon.checkpoint.source import Checkpoint

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

Json = Mapping[str, Any]
AUTO_MAP = "auto_map"
_LAYERS = (
    *("num_hidden_layers", "num_layers", "n_layer", "depth"),
    *("encoder_layers", "decoder_layers", "num_decoder_layers"),
)
_FEW = 2
_MOST_LAYERS = 1000
"""A config that asks for more is not one to build."""


class Unknown(Exception):
    """No class can be found or built; the text says why."""


@dataclass(frozen=True)
class ModelClass:
    """`cls` as `config_class` configures it from `json`: the config.json without its tie flags."""

    config_class: type[PreTrainedConfig]
    cls: type[PreTrainedModel]
    json: Json

    def config(self, values: Mapping[Path, Any] | None = None) -> PreTrainedConfig:
        """The config that a reader makes of the JSON with `values` at full paths stated too."""
        plain = merged(self.json, stated(self.config(), values)) if values else self.json
        config: PreTrainedConfig = self.config_class.from_dict(copy.deepcopy(dict(plain)))
        return config

    def build(self, values: Mapping[Path, Any] | None = None) -> PreTrainedModel:
        """The model of that config on the meta device. Raises whatever the class raises."""
        import torch

        with torch.device("meta"), contextlib.redirect_stdout(sys.stderr):
            return self.cls(self.config(values))


def class_of(source: Checkpoint, trust_remote_code: bool = False) -> ModelClass:
    """The class that config.json names, with few layers where it can be built so.

    The first entry of `architectures` counts, else the auto class with an LM head that knows the type. Without
    `trust_remote_code` no `auto_map` is followed at any level. Raises `Unknown` where nothing knows the type, and
    whatever the class raises.
    """
    data = source.config.data
    if any(level.get(key, 0) > _MOST_LAYERS for level in source.config.levels.values() for key in _counts(level)):
        raise Unknown(f"config.json asks for more than {_MOST_LAYERS} layers")
    remote = data.get(AUTO_MAP) if trust_remote_code else None
    found = _remote(source, remote) if isinstance(remote, dict) else _installed(source)
    return smallest(ModelClass(*found, _without(data)))


def _counts(level: Json) -> list[str]:
    return [key for key in _LAYERS if type(level.get(key)) is int]


def levels(config: PreTrainedConfig) -> dict[Path, PreTrainedConfig]:
    """Path → config for the root and every nested config, outermost first."""
    found: dict[Path, PreTrainedConfig] = {(): config}
    for name in sorted(config.sub_configs or {}):
        nested: Any = getattr(config, name, None)
        if hasattr(nested, "to_dict"):
            found |= {(name, *path): level for path, level in levels(nested).items()}
    return found


def stated(config: PreTrainedConfig, values: Mapping[Path, Any]) -> dict[str, Any]:
    """`values` at full paths as nested objects, each with the model type that `config` has there."""
    result: dict[str, Any] = {}
    for path, value in values.items():
        level, here = result, config
        for name in path[:-1]:
            here = getattr(here, name)
            level = level.setdefault(name, {"model_type": here.model_type} if here.model_type else {})
        level[path[-1]] = value
    return result


def merged(base: Json, over: Json) -> dict[str, Any]:
    """`base` with `over` laid on top, level by level."""
    result = dict(base)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(result.get(key), dict)
        result[key] = merged(result[key], value) if both else value
    return result


def _installed(source: Checkpoint) -> tuple[type[PreTrainedConfig], type[PreTrainedModel]]:
    """Config and model class that the installed transformers has for the type."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    model_type, named = source.config.model_type, source.config.architecture
    if not model_type or model_type not in CONFIG_MAPPING:
        brings = ", and config.json's own code runs with --trust-remote-code alone"
        told = brings if source.config.data.get(AUTO_MAP) else ""
        raise Unknown(f"transformers {transformers.__version__} does not know model_type {model_type!r}{told}")
    config_class: type[PreTrainedConfig] = CONFIG_MAPPING[model_type]
    cls = getattr(transformers, named, None) if named else None
    if not (isinstance(cls, type) and issubclass(cls, transformers.PreTrainedModel)):
        cls = _auto(config_class)
    if cls is None:
        raise Unknown(f"transformers {transformers.__version__} has no model class for {model_type!r}")
    return config_class, cls


_AUTO = ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "MASKED_LM", "IMAGE_TEXT_TO_TEXT", "PRETRAINING")
"""Tasks of transformers' auto classes that have an LM head, the most telling first."""


def _auto(config_class: type[PreTrainedConfig]) -> type[PreTrainedModel] | None:
    from transformers.models.auto import modeling_auto

    mappings = [getattr(modeling_auto, f"MODEL_FOR_{task}_MAPPING") for task in _AUTO]
    for mapping in (*mappings, modeling_auto.MODEL_MAPPING):
        found = mapping.get(config_class, None)
        if found is not None:
            cls: type[PreTrainedModel] = found[0] if isinstance(found, tuple) else found
            return cls
    return None


def _remote(source: Checkpoint, auto_map: Json) -> tuple[type[PreTrainedConfig], type[PreTrainedModel]]:
    """Config and model class that the checkpoint's own code defines. Imports that code."""
    from transformers.dynamic_module_utils import get_class_from_dynamic_module
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    named = source.config.architecture
    references = [text for name, text in auto_map.items() if name != "AutoConfig" and name.startswith("AutoModel")]
    flat = [text for entry in references for text in (entry if isinstance(entry, list) else [entry]) if text]
    chosen = next((text for text in flat if text.rpartition(".")[2] == named), next(iter(flat), None))
    model_type = source.config.model_type
    if chosen is None:
        raise Unknown("auto_map names no model class")
    cls = get_class_from_dynamic_module(chosen, str(source.root))
    if auto_map.get("AutoConfig"):
        return get_class_from_dynamic_module(auto_map["AutoConfig"], str(source.root)), cls
    if model_type and model_type in CONFIG_MAPPING:
        return CONFIG_MAPPING[model_type], cls
    raise Unknown("auto_map names no config class")


def smallest(whole: ModelClass) -> ModelClass:
    """The class with few layers, for speed; `whole` itself where it cannot be built so."""
    counts = {
        (*path, key): count
        for path, level in levels(whole.config()).items()
        for key in _LAYERS
        if type(count := getattr(level, key, None)) is int and count > _FEW
    }
    few = ModelClass(whole.config_class, whole.cls, _cut(whole, counts))
    with contextlib.suppress(Exception):  # any class may refuse a shrunken config in its own way
        few.build()
        return few
    return whole


def _cut(whole: ModelClass, counts: Mapping[Path, int]) -> Json:
    """The JSON with those counts at `_FEW`, and lists of a level with an entry for each layer cut to as many."""
    values: dict[Path, Any] = dict.fromkeys(counts, _FEW)
    for path, count in counts.items():
        for key, value in _at(whole.json, path[:-1]).items():
            if isinstance(value, list) and len(value) == count:
                values[*path[:-1], key] = value[:_FEW]
    return merged(whole.json, stated(whole.config(), values))


def _at(level: Any, path: Path) -> Json:
    for name in path:
        level = level.get(name) if isinstance(level, dict) else None
    return level if isinstance(level, dict) else {}


_FLOAT = "__float__"
"""How transformers writes numbers that JSON has not."""
_LEFT_OUT = {TIE_FLAG, AUTO_MAP, "quantization_config", "compression_config"}
"""What must not be stated when a class is asked what it does by default, or would run code."""


def _without(value: Any) -> Any:
    """`value` without those keys at every depth, and with `{"__float__": "Infinity"}` as the number it stands for."""
    if isinstance(value, dict):
        if value.keys() == {_FLOAT}:
            return float(value[_FLOAT])
        return {key: _without(item) for key, item in value.items() if key not in _LEFT_OUT}
    return [_without(item) for item in value] if isinstance(value, list) else value
