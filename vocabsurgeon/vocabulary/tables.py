"""Which stored tensors are vocabulary tables, and who said so. Names and shapes only; values are never read here."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from vocabsurgeon.checkpoint.config import CONFIG
from vocabsurgeon.checkpoint.header import TensorInfo
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.checkpoint.training_names import TrainingNames, training_names, under_names
from vocabsurgeon.errors import CheckpointError, UsageError
from vocabsurgeon.vocabulary import meta_device
from vocabsurgeon.vocabulary.beyond import Beyond, rows_beyond
from vocabsurgeon.vocabulary.by_name import DECIDED_BY as SHAPES_AND_NAMES
from vocabsurgeon.vocabulary.by_name import ByName, tables_by_name
from vocabsurgeon.vocabulary.composed import composed_family
from vocabsurgeon.vocabulary.families import Family, VocabTensor, family_for, known_input_keys
from vocabsurgeon.vocabulary.quantized import quantized_table
from vocabsurgeon.vocabulary.sharing import Sharing, sharing_of
from vocabsurgeon.vocabulary.spellings import (
    bare,
    below_another_prefix,
    first_stored,
    of_one_parameter,
    output_keys,
    speller,
    stored_as,
)
from vocabsurgeon.vocabulary.weight_files import ZERO_3


@dataclass(frozen=True)
class Table:
    """One stored tensor with a vocabulary axis."""

    role: str
    """`input`, `output`, `output_bias`, `other` of the class, or `copy`: of no class, and grows along."""
    key: str
    info: TensorInfo
    axis: int = 0
    beyond: int = 0
    """Rows at its end that are no vocabulary (image tokens, prompt vectors, durations)."""
    beyond_moves: bool = False
    """Whether the model finds those behind the vocabulary's size, so that they move when it grows."""

    @property
    def rows(self) -> int:
        """Its length along the vocabulary axis."""
        return self.info.shape[self.axis]

    @property
    def vocabulary(self) -> int:
        """Its rows that the vocabulary's size counts."""
        return self.rows - self.beyond


@dataclass(frozen=True)
class Tables:
    """The vocabulary tables of a checkpoint. At least one of `input` and `output` is there."""

    architecture: str | None
    family: Family | None
    decided_by: str
    """`families table`, `transformers on the meta device`, `shapes and names`, or `--input-key/--output-key`."""
    has_head: bool
    input: Table | None
    output: Table | None
    input_name: str
    """The key the input embedding has or would have in this checkpoint."""
    output_name: str | None
    """The key the LM head has or would have; None where the architecture has none."""
    others: tuple[Table, ...]
    sharing: Sharing
    stored_keys: frozenset[str]
    """Every key that the checkpoint stores."""
    evidence: tuple[str, ...] = ()
    """What the fallbacks saw, where the families table does not hold the type."""
    training: TrainingNames = field(default_factory=TrainingNames)
    """What a training framework left in the stored names; the tables are found behind it."""

    @property
    def partner(self) -> Table | None:
        """The stored table that the LM head is one parameter with where they are tied: the input embedding, but for
        models that read with one table and write with another (two vocabularies, a decoder's own table).
        """
        group = self.sharing.with_head(self.output.key if self.output else self.output_name)
        tables = [table for table in (self.input, *self.others) if table and table.key in group]
        if self.output is not None:
            tables = [table for table in tables if table.vocabulary == self.output.vocabulary] or tables
        return next(iter(tables), self.input)

    @property
    def stored(self) -> tuple[Table, ...]:
        """Every table there is: input, output, then the rest."""
        return tuple(table for table in (self.input, self.output, *self.others) if table)

    @property
    def untied_copies(self) -> Mapping[str, str]:
        """Key → stored key to copy: what must be stored too once the tables are no longer tied."""
        partner = self.partner.key if self.partner else None
        return dict(self.sharing.untied_copies(self.stored_keys, partner, self.output_name))

    @property
    def missing(self) -> tuple[str, ...]:
        """Keys that are random at every load where the tables are not tied: further tables, stored under no name."""
        group = self.sharing.with_head(self.output_name)
        return tuple(key for key in self.untied_copies if key in group and key != self.output_name)

    @property
    def mismatched(self) -> tuple[Table, ...]:
        """Tables whose rows do not fit the LM head's, though the model has one vocabulary."""
        head = self.output or self.partner
        if not self.has_head or head is None:
            return ()
        one = self.family is None or len(self.family.size_keys) == 1
        group = self.sharing.with_head(self.output_name) if one else ()
        pair = (self.partner,) if self.partner and self.output else ()
        biases = [table for table in self.others if table.role == "output_bias"]
        members = [table for table in self.stored if table.key in group and table.role != "output_bias"]
        return tuple(table for table in (*pair, *members, *biases) if table.vocabulary != head.vocabulary)

    @property
    def fixed_beyond(self) -> int:
        """Rows behind the vocabulary of the input embedding that ids of fixed numbers use (image tokens)."""
        return self.input.beyond if self.input and not self.input.beyond_moves else 0

    @property
    def main(self) -> Table:
        """The table that counts rows: the input embedding, or the head where it alone is stored."""
        table = self.input or self.output
        assert table is not None
        return table


def _under_stored_names(source: Checkpoint, names: TrainingNames, tables: Tables) -> Tables:
    """`tables`, found under plain names, under those that `source` stores; what is not stored keeps its plain name."""
    if not names:
        return tables
    stored = {plain: key for key, plain in names.plain.items()}

    def key_of(plain: str) -> str:
        return stored.get(plain, plain)

    def table_of(table: Table) -> Table:
        return replace(table, key=key_of(table.key), info=source.tensors[key_of(table.key)])

    return replace(
        tables,
        input=tables.input and table_of(tables.input),
        output=tables.output and table_of(tables.output),
        others=tuple(map(table_of, tables.others)),
        input_name=key_of(tables.input_name),
        output_name=tables.output_name and key_of(tables.output_name),
        sharing=tables.sharing.under(key_of),
        stored_keys=frozenset(source.tensors),
        training=names,
    )


def find_tables(
    source: Checkpoint,
    input_key: str | None = None,
    output_key: str | None = None,
    trust_remote_code: bool = False,
    observed: Family | None = None,
) -> Tables:
    """The vocabulary tables of `source`.

    The families table decides; for a type it does not hold, transformers' own class on the meta device (seconds; with
    `trust_remote_code` the class that the checkpoint brings), then shapes and names; `input_key` and `output_key`
    overrule all. `observed` is what the meta device showed of the same class before.

    Raises `UsageError` for a given key that is not stored, `CheckpointError` where no table is found, where more than
    one could be it, or a table is not two-dimensional.
    """
    _require_named(source, input_key, output_key)
    names = training_names(source.tensors)
    facts = _class_facts(under_names(source, names.plain), input_key, trust_remote_code, observed)
    names = _with_wrappers(source, names, facts[0])
    first, second = (None if key is None else names.plain.get(key, key) for key in (input_key, output_key))
    return _under_stored_names(source, names, _find(under_names(source, names.plain), first, second, *facts))


def _with_wrappers(source: Checkpoint, names: TrainingNames, family: Family | None) -> TrainingNames:
    """`names`, with wrappers before the class's own names where its input embedding is stored under none of them."""
    seen = under_names(source, names.plain)
    if family is None or first_stored(seen, [family.input_key], family.base_model_prefix, family.also):
        return names
    keys = [key for key in (family.input_key, family.output_key) if key]
    expected = [name for key in keys for name in (key, *family.also.get(key, ()))]
    return training_names(source.tensors, expected)


def _find(
    source: Checkpoint,
    input_key: str | None,
    output_key: str | None,
    family: Family | None,
    decided: str,
    told: tuple[str, ...],
) -> Tables:
    """The tables of a checkpoint whose names are plain."""
    _refuse_no_table(source, family)
    names = ByName(None, None, ()) if family else tables_by_name(source, input_key, output_key)
    prefix, also = (family.base_model_prefix, family.also) if family else ("", {})
    inputs = [input_key] if input_key else [family.input_key] if family else [*filter(None, [names.input])]
    inputs = inputs or list(known_input_keys())
    architecture = source.config.architecture
    outputs = [output_key] if output_key else output_keys(family, architecture, names.output)
    found_output = first_stored(source, outputs, "", also) if outputs else None
    found_input = _found_input(source, family, inputs)
    if found_input == found_output and input_key is None:  # some heads bear a name that elsewhere is an input table's
        found_input = None
    if found_input is None:
        _require_one(source, family, inputs, found_output, told)
    input_name, output_name = found_input or inputs[0], found_output or (outputs[0] if outputs else None)
    named = bool(input_key or output_key)
    beyond = rows_beyond(family, source.config, _rows(source, found_input), _rows(source, found_output))
    without = family is not None and found_input is not None and found_input in bare(family.input_key, prefix)
    return Tables(
        architecture,
        family,
        "--input-key/--output-key" if named else decided,
        bool(outputs),
        _table(source, "input", found_input, beyond),
        _table(source, "output", found_output, beyond),
        input_name,
        output_name,
        _others(source, family, prefix, beyond, {found_input, found_output}) or _bias_beside(source, found_output),
        sharing_of(
            family,
            speller(source, prefix, also, without),
            input_name,
            output_name,
            named=named,
            apart=family is not None and source.config.data.get(family.apart_if_false) is False,
        ),
        frozenset(source.tensors),
        (*told, *names.evidence),
    )


def _require_named(source: Checkpoint, input_key: str | None, output_key: str | None) -> None:
    """Raises `UsageError` for keys that name no stored tensor, or one for both roles."""
    if input_key is not None and input_key == output_key:
        raise UsageError(f"both name {input_key}", where="--input-key and --output-key", hint="name one table once")
    for key in (input_key, output_key):
        if key is not None and key not in source.tensors:
            raise UsageError(
                f"no tensor {key} is stored",
                where=source.root,
                hint="`--input-key` and `--output-key` name stored tensors",
            )


def _found_input(source: Checkpoint, family: Family | None, inputs: Iterable[str]) -> str | None:
    """The stored input embedding: under its own names, as another table of its parameter, or under a known name."""
    prefix, also = (family.base_model_prefix, family.also) if family else ("", {})
    found = (
        first_stored(source, inputs, prefix, also)
        or first_stored(source, of_one_parameter(family), prefix)
        or first_stored(source, known_input_keys(), prefix)
    )
    return found or (below_another_prefix(source, family.input_key, prefix) if family else None)


def _require_one(
    source: Checkpoint, family: Family | None, inputs: Iterable[str], output: str | None, told: Iterable[str]
) -> None:
    """Without an input embedding: a head of a class that may tie is a table too; anything else is an error."""
    architecture = source.config.architecture
    if output is None:
        _refuse_packed(source, inputs)
        raise CheckpointError(
            f"no vocabulary table found (model_type {source.config.model_type!r}, architecture {architecture!r})"
            + "".join(f"; {line}" for line in told),
            where=source.root,
            hint="name it with --input-key and --output-key",
        )
    if family is None and not source.config.flags().get(()):
        raise CheckpointError(
            f"is the only table found, and it looks like an output: no input embedding is known for {architecture!r}",
            where=f"{source.tensors[output].file}: {output}",
            hint="name the input embedding with --input-key; a head alone (CTC) is no vocabulary to extend",
        )


def _class_facts(
    source: Checkpoint, input_key: str | None, trust_remote_code: bool, observed: Family | None
) -> tuple[Family | None, str, tuple[str, ...]]:
    """The facts of the class, who knows them, and what was seen on the way."""
    if observed is not None:
        return observed, meta_device.DECIDED_BY, ()
    family = _family(source, source.config.model_type, source.config.architecture)
    if family is not None:
        reads_table = source.config.data.get(family.table_is_head_if_false) is False
        return replace(family, tie_level="always") if reads_table else family, "families table", ()
    if input_key:
        return None, SHAPES_AND_NAMES, ()
    seen = meta_device.observe(source, trust_remote_code=trust_remote_code)
    return seen.family, meta_device.DECIDED_BY if seen.family else SHAPES_AND_NAMES, seen.evidence


def _refuse_no_table(source: Checkpoint, family: Family | None) -> None:
    if family and family.adaptive_if and source.config.data.get(family.adaptive_if) is True:
        raise CheckpointError(
            f"{family.adaptive_if} is true: the head is an adaptive softmax, clusters of ids instead of a table",
            where=CONFIG,
        )
    stored = [key for key in (family.in_parts if family else ()) if key in source.tensors]
    if family and stored:
        raise CheckpointError(
            f"is only a part of the input embedding, which {family.model_type} joins of {len(family.in_parts)} tensors "
            "at load: tables in parts cannot be edited",
            where=f"{source.tensors[stored[0]].file}: {stored[0]}",
        )


def _rows(source: Checkpoint, key: str | None) -> int | None:
    return source.tensors[key].rows if key is not None else None


def _refuse_packed(source: Checkpoint, inputs: Iterable[str]) -> None:
    """Some formats store an embedding under other names alone: then it is there, but cannot be read."""
    packed = next((table for key in inputs if (table := quantized_table(source, "input", key))), None)
    if packed:
        raise CheckpointError(
            f"the input table is stored quantized ({packed.scheme}): {'; '.join(packed.evidence)}",
            where=packed.key,
            hint="work on the checkpoint it was quantized from",
        )


def _family(source: Checkpoint, model_type: str | None, architecture: str | None) -> Family | None:
    """The row of the class; where that has no head but the files hold one, the files decide: a class with a head."""
    if not model_type:
        return None
    if composed := composed_family(source.config):
        return composed
    text = source.config.levels.get(("text_config",), {}).get("model_type")
    inner = text if isinstance(text, str) else None
    family, headed = family_for(model_type, architecture, inner), family_for(model_type, None, inner)
    if family and headed and family.output_key is None and headed.output_key is not None:
        return headed if first_stored(source, [headed.output_key], "", headed.also) else family
    return family


def _table(source: Checkpoint, role: str, key: str | None, beyond: Beyond) -> Table | None:
    if key is None:
        return None
    info = source.tensors[key]
    if len(info.shape) != 2 or 0 in info.shape:
        message = f"is the {role} table but has shape {list(info.shape)}, not [rows, width]"
        raise CheckpointError(message, where=key, hint=ZERO_3 if 0 in info.shape else None)
    return Table(role, key, info, 0, beyond.input if role == "input" else beyond.output, beyond.moves)


def _others(
    source: Checkpoint, family: Family | None, prefix: str, beyond: Beyond, found: Collection[str | None]
) -> tuple[Table, ...]:
    """The class's other tables that are stored, each once; a bias has the head's rows beyond the vocabulary."""
    tables: dict[str, Table] = {}
    for role, tensors in _by_role(family).items() if family else ():
        for tensor in tensors:
            for key in stored_as(source, tensor.key, prefix, family.also if family else {}):
                if key not in found:
                    _require_axis(source.tensors[key], tensor.axis)
                    over = beyond.output if role == "output_bias" else 0
                    tables.setdefault(key, Table(role, key, source.tensors[key], tensor.axis, over, beyond.moves))
    return tuple(tables.values())


def _require_axis(info: TensorInfo, axis: int) -> None:
    if len(info.shape) <= axis:
        raise CheckpointError(
            f"has shape {list(info.shape)}, where its vocabulary is due along dimension {axis}",
            where=f"{info.file}: {info.key}",
        )


def _bias_beside(source: Checkpoint, head: str | None) -> tuple[Table, ...]:
    """The bias beside an LM head whose class no table knows."""
    key = f"{head.removesuffix('.weight')}.bias" if head and head.endswith(".weight") else ""
    info = source.tensors.get(key)
    return (Table("output_bias", key, info),) if info and head and info.shape == source.tensors[head].shape[:1] else ()


def _by_role(family: Family) -> Mapping[str, tuple[VocabTensor, ...]]:
    return {"output_bias": family.output_bias, "other": family.others}
