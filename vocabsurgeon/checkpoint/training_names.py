"""Names of tensors as training frameworks leave them (`_orig_mod.`, `module.`, `base_model.model.`): stored → plain.

A framework wraps a module, the wrapper's own name gets into the state dict, and readers find no tensor by such a name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from vocabsurgeon.checkpoint.source import Checkpoint


@dataclass(frozen=True)
class Marker:
    """What a wrapper adds to names, as text with its dots, and whose behavior that is."""

    text: str
    written_by: str
    pattern: str = ""
    """How it looks in a name where that is not `text` alone."""


CERTAIN = (
    Marker("_orig_mod.", "torch.compile (OptimizedModule, since torch 2.0)"),
    Marker("_fsdp_wrapped_module.", "torch's FullyShardedDataParallel"),
    Marker("_fpw_module.", "FullyShardedDataParallel of fairscale and torch before 1.13"),
    Marker("_checkpoint_wrapped_module.", "torch's checkpoint_wrapper (activation checkpointing)"),
    Marker("_forward_module.", "Lightning's strategies and Fabric"),
    Marker("modules_to_save.<adapter>.", "PEFT (modules_to_save)", r"modules_to_save\.[^.]+\."),
    Marker("base_layer.", "PEFT (a layer with an adapter)"),
    Marker("original_module.", "PEFT (the untrained module beside modules_to_save)"),
)
"""Anywhere in a name: no class of transformers 5.24 names a part so (its sources were searched, and the tiny types)."""

WRAPPERS = (
    Marker("module.", "DistributedDataParallel, DataParallel or DeepSpeed"),
    Marker("base_model.model.", "PEFT (PeftModel)"),
    Marker("pretrained_model.", "TRL (a model with a value head)"),
    Marker("_module.", "Opacus (GradSampleModule)"),
    Marker("model.", "a module that holds the model, such as a LightningModule"),
)
"""Before names. Classes have parts of such names too (LeViT's `module`), so they count only where the class's own
table is stored behind them and nowhere else."""

ADAPTER = re.compile(r"(^|\.)(lora_|vera_|ia3_|hada_|lokr_|oft_|boft_|trainable_tokens_|prompt_encoder)")
"""Tensors of an adapter beside the weights it changes (PEFT's tuners): the model is not merged."""

_ANYWHERE = tuple(
    (marker, re.compile(rf"(?:^|(?<=\.)){marker.pattern or re.escape(marker.text)}")) for marker in CERTAIN
)


@dataclass(frozen=True)
class TrainingNames:
    """Which stored names are no plain ones. Empty for nearly every checkpoint."""

    plain: Mapping[str, str] = field(default_factory=dict)
    """Stored key → what it would be called without the wrapper, for each that is seen through."""
    counts: tuple[tuple[Marker, int], ...] = ()
    """Each marker, and how many tensors bear it."""
    total: int = 0
    """Tensors that are stored."""
    clashes: tuple[str, ...] = ()
    """Stored keys that are not seen through: another tensor has, or would get, the same plain name."""
    adapters: tuple[str, ...] = ()
    """Stored keys of an adapter's own tensors, beside such names."""

    def __bool__(self) -> bool:
        return bool(self.counts)

    @property
    def marks(self) -> str:
        """The markers as they stand in names."""
        return " and ".join(f"`{marker.text}`" for marker, _ in self.counts)


def training_names(keys: Collection[str], expected: Iterable[str] = ()) -> TrainingNames:
    """What training frameworks left in `keys`.

    `expected` are names of the class's own vocabulary tables, where its input embedding is stored under none of its
    names: with them, wrappers before names are recognized too.
    """
    counts: Counter[Marker] = Counter()
    text = "\n".join(keys)
    patterns = [(marker, found) for marker, found in _ANYWHERE if marker.text.partition("<")[0] in text]
    stripped = {key: _without_certain(key, patterns, counts) for key in keys}
    stripped = dict(_without_wrapper(stripped, tuple(expected), counts))
    marked = {key: plain for key, plain in stripped.items() if plain != key}
    if not marked:
        return TrainingNames()
    free, clashes = _distinct(marked, keys)
    adapters = tuple(key for key in keys if ADAPTER.search(key))
    order = {marker: number for number, marker in enumerate((*WRAPPERS, *CERTAIN))}
    counted = tuple(sorted(counts.items(), key=lambda entry: order.get(entry[0], -1)))
    return TrainingNames(free, counted, len(keys), clashes, adapters)


def under_names(source: Checkpoint, names: Mapping[str, str]) -> Checkpoint:
    """`source` with its tensors called `names` (old → new); they lie where they lay."""
    if not names:
        return source
    headers = {
        file: replace(
            header, tensors=tuple(replace(info, key=names.get(info.key, info.key)) for info in header.tensors)
        )
        for file, header in source.shards.headers.items()
    }
    return replace(source, shards=replace(source.shards, headers=headers))


def _without_certain(key: str, patterns: Iterable[tuple[Marker, re.Pattern[str]]], counts: Counter[Marker]) -> str:
    for marker, pattern in patterns:
        key, found = pattern.subn("", key)
        if found:
            counts[marker] += 1
    return key


def _without_wrapper(
    names: Mapping[str, str], expected: Collection[str], counts: Counter[Marker]
) -> Iterator[tuple[str, str]]:
    """`names` (stored → plain so far) without the wrapper behind which an expected table lies, if one does."""
    held = tuple(dict.fromkeys(names.values()))
    start, wrapper = _wrapper(held, expected)
    prefix = start + wrapper
    roots = {name.partition(".")[0] for name in expected}
    whole = bool(start) or all(name.startswith(prefix) for name in held)
    for key, name in names.items():
        rest = name.removeprefix(prefix)
        if rest != name and (whole or rest.partition(".")[0] in roots):
            counts[_marker_of(wrapper)] += 1
            name = start + rest
        yield key, name


def _wrapper(held: Collection[str], expected: Iterable[str]) -> tuple[str, str]:
    """What stands before the wrapper's name and stays, and the wrapper's name, where it hides an expected table."""
    for name in expected:
        for stored in () if name in held else held:
            if stored.endswith("." + name):
                prefix = stored.removesuffix(name)
                if _made_of_wrappers(prefix) or all(other.startswith(prefix) for other in held):
                    return "", prefix
            for match in re.finditer(r"(?<=\.)module\.", stored):
                if stored[: match.start()] + stored[match.end() :] == name:
                    return stored[: match.start()], match.group()
    return "", ""


def _made_of_wrappers(prefix: str) -> bool:
    """Whether `prefix` is one known wrapper after the other."""
    return re.fullmatch("(?:" + "|".join(re.escape(marker.text) for marker in WRAPPERS) + ")+", prefix) is not None


def _marker_of(prefix: str) -> Marker:
    """The row of the wrapper, or of several as one."""
    if not _made_of_wrappers(prefix):
        return Marker(prefix, WRAPPERS[-1].written_by)
    parts = [marker for marker in WRAPPERS if marker.text in prefix]
    exact = next((marker for marker in parts if marker.text == prefix), None)
    return exact or Marker(prefix, ", ".join(marker.written_by for marker in parts))


def _distinct(marked: Mapping[str, str], keys: Collection[str]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Those that get a name of their own, and those that do not. PEFT's untrained module gives way to the trained."""
    taken = {key for key in keys if key not in marked}
    free: dict[str, str] = {}
    clashes = []
    for key in sorted(marked, key=lambda key: "original_module." in key):
        if marked[key] in taken:
            clashes.append(key)
        else:
            free[key] = marked[key]
            taken.add(marked[key])
    return free, tuple(clashes)
