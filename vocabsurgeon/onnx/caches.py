"""What a transformers cache holds, tensor by tensor, and a cache made of such tensors.

Keys and values are kept whole: where transformers drops what a sliding window has passed, the mask alone hides it here,
so that one rule holds at every length.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from vocabsurgeon.onnx.compressed_cache import PROJECTED, compresses, whole_compression
from vocabsurgeon.onnx.horizons import stated
from vocabsurgeon.onnx.signature import BATCH, PAST, Dimensions, KeptTensor, growing_name, state_name

if TYPE_CHECKING:
    import torch

_INDEXES = {"indexer_keys": ("indexer_key", 1), "idx_keys": ("indexer_key", 2)}
_GROWING = {"keys": ("key", 2), "values": ("value", 2), **_INDEXES}
"""Attribute of a layer → what it is called, and the axis along which it grows."""
_STATES = {"conv_states": "conv", "recurrent_states": "recurrent"}
"""Attribute of a layer → what kind of state it holds, by number."""
_SCANS = ("mamba_d_state", "ssm_state_size", "state_size")
"""Config keys of Mamba's kind, whose recurrent state is called `ssm`."""
_CACHES_OWN = "linear_cache"
"""MiniMax's cache holds states itself, in a list by layer."""


@dataclass(frozen=True)
class Slot:
    """Where a cache holds one tensor: attributes, keys and indices one after the other. `axis`: along which it grows,
    None for a state of one size."""

    name: str
    path: tuple[str | int, ...]
    axis: int | None

    def read(self, cache: Any) -> torch.Tensor:
        """The tensor."""
        tensor: torch.Tensor = reduce(_within, self.path, cache)
        return tensor

    def write(self, cache: Any, tensor: torch.Tensor) -> None:
        """Put `tensor` there."""
        holder: Any = reduce(_within, self.path[:-1], cache)
        key: Any = self.path[-1]
        if isinstance(holder, list | dict):
            holder[key] = tensor
        else:
            setattr(holder, key, tensor)


@dataclass(frozen=True)
class CacheForm:
    """A cache as it is after a call, and where its tensors are."""

    template: Any
    slots: tuple[Slot, ...]

    def read(self, cache: Any) -> list[torch.Tensor]:
        """The tensors of a cache of this form."""
        return [slot.read(cache) for slot in self.slots]

    def filled(self, tensors: Sequence[torch.Tensor]) -> Any:
        """A cache of this form that holds `tensors`; states are copied, as a model writes over them in place."""
        cache = _copied(self.template)
        cache.layers = [_copied(layer) for layer in cache.layers]
        for slot, tensor in zip(self.slots, tensors, strict=True):
            slot.write(cache, tensor.clone() if slot.axis is None else tensor)
        return cache

    def kept(self, dtype: torch.dtype, length: str = PAST) -> tuple[KeptTensor, ...]:
        """The tensors as inputs of a graph in `dtype`; `length` is what the axis is called that grows."""
        return tuple(_kept(slot, slot.read(self.template), dtype, length) for slot in self.slots)

    def follows(self, tokens: int) -> bool:
        """Whether all that grows has a number for each of the `tokens` of the call, and for nothing else."""
        sizes = {slot.read(self.template).shape[slot.axis] for slot in self.slots if slot.axis is not None}
        return sizes <= {tokens}


def form_of(cache: Any, config: Any, role: str = "") -> CacheForm | None:
    """The form of a cache that a model of `config` has filled; None where it is not made of layers, or a layer holds
    a tensor that is not known.

    `role` goes before the names of keys and values, as in `decoder.key`.
    """
    if not hasattr(cache, "layers"):
        return None
    form = CacheForm(cache, tuple(slots_of(cache, config, role)))
    known = {id(tensor) for tensor in form.read(cache)}
    held = (tensor for layer in cache.layers for tensor in _tensors(layer))
    return form if known and all(id(tensor) in known for tensor in held) else None


def of_own_tokens(cache: Any) -> Any:
    """The cache of a decoder's own tokens: classes that could attend to an encoder wrap it, with or without one."""
    return getattr(cache, "self_attention_cache", cache)


def slots_of(cache: Any, config: Any, role: str = "") -> Iterator[Slot]:
    """Where a cache that has been filled holds its tensors, layer by layer."""
    scans = any(stated(config.get_text_config(), key) for key in _SCANS)
    for number, layer in enumerate(cache.layers):
        place = ("layers", number)
        for attribute, (part, axis) in _GROWING.items():
            if getattr(layer, attribute, None) is not None:
                yield Slot(growing_name(number, f"{role}{part}"), (*place, attribute), axis)
        for attribute, part in PROJECTED.items():
            for key in getattr(layer, attribute, ()):
                yield Slot(growing_name(number, f"{key}_{part}"), (*place, attribute, key), 1)
        for attribute, kind in _STATES.items():
            yield from _states(layer, number, attribute, "ssm" if scans and kind == "recurrent" else kind)
    for number, state in enumerate(getattr(cache, _CACHES_OWN, ())):
        if hasattr(state, "shape"):
            yield Slot(state_name(number, "recurrent", None), (_CACHES_OWN, number), None)


def whole(cache: Any) -> Any:
    """An empty cache for the model that made `cache`, whose layers keep everything."""
    from transformers.cache_utils import DynamicCache

    empty: Any = type(cache)() if hasattr(cache, _CACHES_OWN) else DynamicCache()
    empty.layers = [_whole_layer(layer) for layer in cache.layers]
    return empty


def _whole_layer(layer: Any) -> Any:
    from transformers import cache_utils

    if compresses(layer):
        return whole_compression(layer)
    if isinstance(layer, cache_utils.LinearAttentionCacheLayerMixin):
        attends = isinstance(layer, cache_utils.DynamicLayer)
        states = cache_utils.LinearAttentionAndFullAttentionLayer if attends else cache_utils.LinearAttentionLayer
        return states(number_of_states=layer.number_of_states)
    special = isinstance(layer, cache_utils.DummyLayer) or any(hasattr(layer, name) for name in _INDEXES)
    kind = type(layer) if special else cache_utils.DynamicLayer
    return kind()


def _states(layer: Any, number: int, attribute: str, kind: str) -> Iterator[Slot]:
    states = getattr(layer, attribute, {})
    for key, state in states.items():
        if state is not None:
            name = state_name(number, kind, key if len(states) > 1 else None)
            yield Slot(name, ("layers", number, attribute, key), None)


def _tensors(layer: Any) -> Iterator[torch.Tensor]:
    """What a layer holds, by itself or in a mapping."""
    import torch

    for held in vars(layer).values():
        yield from (
            one for one in (held.values() if isinstance(held, dict) else [held]) if isinstance(one, torch.Tensor)
        )


def _kept(slot: Slot, tensor: torch.Tensor, dtype: torch.dtype, length: str) -> KeptTensor:
    import torch

    dimensions: Dimensions = tuple(
        BATCH if axis == 0 else length if axis == slot.axis else size for axis, size in enumerate(tensor.shape)
    )
    return KeptTensor(slot.name, dimensions, wide=tensor.dtype == torch.float32 != dtype)


def _within(holder: Any, key: Any) -> Any:
    return holder[key] if isinstance(holder, list | dict) else getattr(holder, key)


def _copied(holder: Any) -> Any:
    """A copy whose lists and dictionaries are its own; what they hold is shared."""
    made = copy(holder)
    vars(made).update({name: copy(held) for name, held in vars(made).items() if isinstance(held, list | dict)})
    return made
