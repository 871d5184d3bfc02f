"""Which vocabulary tables are stored quantized, and what shows it. Names, shapes and dtypes only; nothing is decoded.

Plain tables beside quantized layers are plain tables: nothing here mentions them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from vocabsurgeon.checkpoint.config import Config, Path, dotted
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.source import Checkpoint

if TYPE_CHECKING:
    from vocabsurgeon.vocabulary.tables import Tables

COMPANIONS: Mapping[str, str] = {
    **dict.fromkeys(("qweight", "qzeros", "g_idx"), "GPTQ or AWQ"),
    **dict.fromkeys(("SCB", "weight_format"), "bitsandbytes int8"),
    **dict.fromkeys(("weight.absmax", "weight.*quant_map", "weight.nested_absmax"), "bitsandbytes 4-bit"),
    "weight.quant_state.*": "bitsandbytes 4-bit",
    **dict.fromkeys(("weight_scale_inv", "qscale_weight"), "fp8 with scales"),
    **dict.fromkeys(("weight_scale", "weight_scale_2", "weight_sf*"), "weights with scales"),
    **dict.fromkeys(
        ("weight_packed", "weight_shape", "weight_zero_point", "weight_global_scale"), "compressed-tensors"
    ),
    "weight_scales": "EETQ int8",
    **dict.fromkeys(("weight_blocks", "weight_quantizer.*"), "weights in blocks with scales"),
    "W_q": "HQQ",
    **dict.fromkeys(("_weight_*", "weight:*"), "torchao"),
    **dict.fromkeys(("weight._data", "weight._scale", "weight._shift"), "quanto"),
    **dict.fromkeys(("codebooks", "codes"), "AQLM"),
    **dict.fromkeys(("centroids.weight", "res_centroids.weight"), "VPTQ"),
    "dense_weights": "SpQR",
    "tables2": "HIGGS",
    "dqweight": "FP-Quant",
    "qbiases": "Metal",
    **dict.fromkeys(("embedding_quantized", "embedding_scale"), "Gemma's own"),
}
"""Name of a tensor beside a module's `weight` (`*` for any text) → the format whose writers store it there.

From transformers 5.24: `serialized_names` of its quantizers, and the modules of its integrations."""

AMBIGUOUS: Mapping[str, str] = {
    "scale": "weights with scales",
    **dict.fromkeys(("scales", "biases"), "MLX"),
    **dict.fromkeys(("zero", "zeros"), "HQQ"),
    "indices": "VPTQ",
}
"""Names that a module of another kind may use too: they count beside a weight that is absent or too narrow to be
plain."""

_SETTINGS = ("quantization_config", "compression_config", "quantization")
"""Where a config level describes how its model was quantized; the last is MLX's."""


@dataclass(frozen=True)
class Quantization:
    """How the config says that the checkpoint was quantized. Layers are meant; the tables may be plain."""

    path: Path
    """Of the object in config.json."""
    method: str | None
    """`gptq`, `fp8`, …: what readers choose their loader by. None where it is not stated."""
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class QuantizedTable:
    """One table that is stored quantized. `key` is its weight's name, stored or not."""

    role: str
    key: str
    scheme: str
    """The config's `quant_method`, else the format that the tensors' names or the dtype speak of."""
    tensors: tuple[str, ...]
    """The stored tensors that show it."""
    evidence: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """An entry of `quantized` in the JSON of `inspect`."""
        return {"role": self.role, "key": self.key, "scheme": self.scheme, "tensors": list(self.tensors)}


def quantization_of(config: Config) -> Quantization | None:
    """The outermost statement of config.json about quantization, None where there is none."""
    for path, level in config.levels.items():
        for name in _SETTINGS:
            settings = level.get(name)
            if isinstance(settings, dict):
                return Quantization((*path, name), _method(name, settings), settings)
    return None


def quantized_tables(source: Checkpoint, tables: Tables) -> tuple[QuantizedTable, ...]:
    """The vocabulary tables of `source` that are stored quantized, the input embedding and the LM head first.

    A table counts as quantized where a companion tensor (scales, zero points, packed weights) lies beside it, or where
    its elements are integers or of a type without arithmetic. An fp8 table without scales is a plain table.
    """
    names = {"input": tables.input.key if tables.input else tables.input_name}
    if tables.has_head and tables.output_name:
        names["output"] = tables.output.key if tables.output else tables.output_name
    named = [*names.items(), *(("other", table.key) for table in tables.others if table.role != "output_bias")]
    found = (quantized_table(source, role, key) for role, key in named)
    return tuple(table for table in found if table)


def quantized_table(source: Checkpoint, role: str, key: str) -> QuantizedTable | None:
    """How the table named `key` is stored quantized; None where it is plain, or nothing of it is stored."""
    weight = source.tensors.get(key)
    shown = dict(_companions(source, key, weight))
    narrow = weight is not None and _is_packed(weight, role)
    if weight is None and not shown:
        return None
    if not shown and not narrow:
        return None
    stated = quantization_of(source.config)
    scheme = (stated.method if stated else None) or next(iter(shown.values()), None) or f"{_dtype(weight)} elements"
    seen = [*([weight] if weight else []), *(source.tensors[name] for name in shown)]
    evidence = [f"{info.file}: {info.key} {list(info.shape)} {info.dtype.name}" for info in seen[:_MOST]]
    if stated and stated.method:
        evidence.append(f"config.json: {dotted((*stated.path, 'quant_method'))} is {stated.method}")
    return QuantizedTable(role, key, scheme, tuple(info.key for info in seen), tuple(evidence))


_MOST = 4
"""Tensors named as evidence; a format has up to seven a module."""


def is_companion(config: Config, key: str) -> bool:
    """Whether `key` names a tensor that lies beside a quantized weight, whose sizes are that weight's."""
    names = {**COMPANIONS, **AMBIGUOUS} if quantization_of(config) else COMPANIONS
    return any(fnmatchcase(key, f"*.{pattern}") for pattern in names)


def _companions(source: Checkpoint, key: str, weight: TensorInfo | None) -> Iterator[tuple[str, str]]:
    """Stored tensors that only a quantized `key` has beside it, each with the format it speaks of."""
    module = key.removesuffix(".weight")
    known = COMPANIONS if weight is not None and _is_wide(weight) else {**COMPANIONS, **AMBIGUOUS}
    for name in source.tensors:
        if name == key or not name.startswith(f"{module}."):
            continue
        beside = name[len(module) + 1 :]
        for pattern, scheme in known.items():
            if fnmatchcase(beside, pattern):
                yield name, scheme
                break


def _is_wide(info: TensorInfo) -> bool:
    return info.dtype.floating and info.dtype.bits > 8


def _is_packed(info: TensorInfo, role: str) -> bool:
    """Whether no arithmetic on rows is possible. Other tables may hold whole numbers by nature (token → expert)."""
    if info.dtype.floating:
        return info.dtype.numpy is None
    return role in ("input", "output") or info.dtype.bits <= 8


def _dtype(info: TensorInfo | None) -> str:
    return info.dtype.name if info else "packed"


def _method(name: str, settings: Mapping[str, Any]) -> str | None:
    """What `quant_method` says; bitsandbytes files of old and MLX files do not say it."""
    method = settings.get("quant_method")
    if isinstance(method, str):
        return method
    if settings.get("load_in_8bit") or settings.get("load_in_4bit"):
        return "bitsandbytes"
    return "mlx" if name == "quantization" else None
