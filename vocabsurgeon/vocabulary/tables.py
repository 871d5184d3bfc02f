"""Which stored tensors are vocabulary tables, and who said so. Names and shapes only; values are never read here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError, UsageError
from vocabsurgeon.vocabulary.families import Family, VocabTensor, family_for, known_input_keys, known_output_keys


@dataclass(frozen=True)
class Table:
    """One stored tensor with a vocabulary axis."""

    role: str
    """`input`, `output`, `output_bias`, or `other`."""
    key: str
    info: TensorInfo
    axis: int = 0

    @property
    def rows(self) -> int:
        """Its length along the vocabulary axis."""
        return self.info.shape[self.axis]


@dataclass(frozen=True)
class Tables:
    """The vocabulary tables of a checkpoint. At least one of `input` and `output` is there."""

    architecture: str | None
    family: Family | None
    decided_by: str
    """`families table`, `known names`, or `--input-key/--output-key`."""
    has_head: bool
    input: Table | None
    output: Table | None
    input_name: str
    """The key the input embedding has or would have in this checkpoint."""
    output_name: str | None
    """The key the LM head has or would have; None where the architecture has none."""
    others: tuple[Table, ...]

    @property
    def stored(self) -> tuple[Table, ...]:
        """Every table there is: input, output, then the rest."""
        return tuple(table for table in (self.input, self.output, *self.others) if table)

    @property
    def main(self) -> Table:
        """The table that counts rows: the input embedding, or the head where it alone is stored."""
        table = self.input or self.output
        assert table is not None
        return table


def find_tables(source: Checkpoint, input_key: str | None = None, output_key: str | None = None) -> Tables:
    """The vocabulary tables of `source`.

    The families table decides; for a type it does not hold, the names known from all other types; `input_key` and
    `output_key` overrule both. Raises `UsageError` for a given key that is not stored, `CheckpointError` where no
    table is found or a table is not two-dimensional.
    """
    for key in (input_key, output_key):
        if key is not None and key not in source.tensors:
            raise UsageError(
                f"no tensor {key} is stored",
                where=source.root,
                hint="`--input-key` and `--output-key` name stored tensors",
            )
    model_type, architecture = source.config.model_type, source.config.architecture
    family = _family(source, model_type, architecture)
    prefix = family.base_model_prefix if family else ""
    inputs = [input_key] if input_key else [family.input_key] if family else list(known_input_keys())
    outputs = [output_key] if output_key else _outputs(family, architecture)
    also = family.also if family else {}
    found_input = _first(source, inputs, prefix, also) or _first(source, known_input_keys(), prefix)
    found_output = _first(source, outputs, "", also) if outputs else None
    if found_input is None and found_output is None:
        raise CheckpointError(
            f"no vocabulary table found (model_type {model_type!r}, architecture {architecture!r})",
            where=source.root,
            hint="name it with --input-key and --output-key",
        )
    decided = "--input-key/--output-key" if input_key or output_key else "families table" if family else "known names"
    return Tables(
        architecture,
        family,
        decided,
        bool(outputs),
        _table(source, "input", found_input),
        _table(source, "output", found_output),
        found_input or inputs[0],
        found_output or (outputs[0] if outputs else None),
        _others(source, family, prefix),
    )


def _family(source: Checkpoint, model_type: str | None, architecture: str | None) -> Family | None:
    """The row of the class; where that has no head but the files hold one, the files decide: a class with a head."""
    if not model_type:
        return None
    family, headed = family_for(model_type, architecture), family_for(model_type, None)
    if family and headed and family.output_key is None and headed.output_key is not None:
        return headed if _first(source, [headed.output_key], "", headed.also) else family
    return family


def _outputs(family: Family | None, architecture: str | None) -> list[str]:
    if family is not None:
        return [family.output_key] if family.output_key else []
    if architecture is not None and architecture.endswith("Model"):
        return []
    return list(known_output_keys())


def _first(
    source: Checkpoint, keys: Iterable[str], prefix: str, also: Mapping[str, tuple[str, ...]] = MappingProxyType({})
) -> str | None:
    """The first of `keys` that is stored, as such, under another of its names, or with or without the base prefix."""
    for key in keys:
        for name in (key, *also.get(key, ())):
            for spelling in _spellings(name, prefix):
                if spelling in source.tensors:
                    return spelling
    return None


def _spellings(key: str, prefix: str) -> Iterator[str]:
    yield key
    if prefix and key.startswith(prefix + "."):
        yield key[len(prefix) + 1 :]
    elif prefix:
        yield f"{prefix}.{key}"


def _table(source: Checkpoint, role: str, key: str | None) -> Table | None:
    if key is None:
        return None
    info = source.tensors[key]
    if len(info.shape) != 2 or 0 in info.shape:
        raise CheckpointError(f"is the {role} table but has shape {list(info.shape)}, not [rows, width]", where=key)
    return Table(role, key, info)


def _others(source: Checkpoint, family: Family | None, prefix: str) -> tuple[Table, ...]:
    if family is None:
        return ()
    return tuple(
        Table(role, key, source.tensors[key], tensor.axis)
        for role, tensors in _by_role(family).items()
        for tensor in tensors
        if (key := _first(source, [tensor.key], prefix, family.also)) is not None
    )


def _by_role(family: Family) -> Mapping[str, tuple[VocabTensor, ...]]:
    return {"output_bias": family.output_bias, "other": family.others}
