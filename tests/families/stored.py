"""The names under which a class's tensors lie in the files it saves, and the names in files that it accepts at load."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


def stored(model: PreTrainedModel, key: str) -> tuple[str, Tensor]:
    """Name and tensor that `save_pretrained` writes for the module tree's `key` (its own where a file splits it)."""
    from transformers.core_model_loading import revert_weight_conversion

    tensor = model.state_dict(keep_vars=True)[key]
    written = revert_weight_conversion(model, {key: tensor})
    return next(iter(written.items())) if len(written) == 1 else (key, tensor)


def loaded_name(model: PreTrainedModel, key: str) -> str:
    """The key of the module tree that a file's `key` becomes at load, apart from the base model's prefix."""
    from transformers.conversion_mapping import get_model_conversion_mapping
    from transformers.core_model_loading import WeightConverter, WeightRenaming, rename_source_key

    transforms = get_model_conversion_mapping(model)
    renamings = [entry for entry in transforms if isinstance(entry, WeightRenaming)]
    converters = [entry for entry in transforms if isinstance(entry, WeightConverter)]
    return rename_source_key(key, renamings, converters, model.base_model_prefix, model.state_dict())[0]


def renames(model: PreTrainedModel) -> bool:
    """Whether the class has names of its own to translate at load."""
    from transformers.conversion_mapping import get_model_conversion_mapping

    return bool(get_model_conversion_mapping(model, add_legacy=False))
