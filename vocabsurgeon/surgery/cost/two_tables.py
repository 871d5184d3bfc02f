"""`TwoTables`: a loaded model in which both stored tables are really used, and can be replaced without a copy of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from vocabsurgeon.checkpoint.compare import tables_equal
from vocabsurgeon.checkpoint.dtypes import by_name
from vocabsurgeon.checkpoint.rows import TableReader
from vocabsurgeon.errors import CheckpointError
from vocabsurgeon.surgery.cost.result import NotMeasured
from vocabsurgeon.surgery.lossy.candidates import Candidate, NormGain, candidate_table
from vocabsurgeon.vocabulary.describe import Description
from vocabsurgeon.vocabulary.loading import LoadedModel, load_model

if TYPE_CHECKING:
    from torch import Tensor
    from torch.nn import Parameter


@dataclass(frozen=True)
class TwoTables:
    """A model on the CPU; `inputs` and `output` are the parameters that hold the stored tables, in `dtype`.

    `inputs`: the input embedding, and others that are stored with the same content and become one with it.
    """

    description: Description
    model: Any
    inputs: tuple[Parameter, ...]
    output: Parameter
    dtype: str

    @property
    def input(self) -> Parameter:
        """The first of `inputs`."""
        return self.inputs[0]

    @contextmanager
    def candidate(self, candidate: Candidate, tables: Mapping[str, Tensor]) -> Iterator[None]:
        """The model as `candidate` ties it inside the block: both roles read one table, the norm has its new values.

        `tables`: what `table` gave for each `keep`. Nothing is copied; afterwards the model is as it was.
        """
        written = [(self._vector(vector), vector) for vector in candidate.written]
        kept = {parameter: parameter.data for parameter in (*self.inputs, self.output, *(p for p, _ in written))}
        try:
            for parameter in (*self.inputs, self.output):
                parameter.data = tables[candidate.keep]
            for parameter, vector in written:
                parameter.data = _tensor(vector.values).to(parameter.dtype)
            yield
        finally:
            for parameter, data in kept.items():
                parameter.data = data

    def table(self, candidate: Candidate) -> Tensor:
        """The one table of `candidate`: one of the model's own two, or a third where they are mixed."""
        own = {"input": self.input, "output": self.output}.get(candidate.keep)
        if own is not None:
            return own.data
        return _tensor(candidate_table(self.description, candidate)).to(self.input.dtype)

    def _vector(self, vector: NormGain) -> Parameter:
        """The parameter that `vector` replaces: by name, else the one that holds what the file has under its key."""
        named = dict(self.model.named_parameters())
        shaped = {name: p for name, p in named.items() if tuple(p.shape) == vector.values.shape}
        alike = [p for name, p in shaped.items() if name.endswith(f".{vector.key}") or vector.key.endswith(f".{name}")]
        found = [shaped[vector.key]] if vector.key in shaped else alike
        if len(found) != 1 and vector.key in self.description.source.tensors:
            stored = self.description.source.rows(vector.key)
            found = [parameter for parameter in shaped.values() if _holds(parameter.reshape(-1, 1), stored)]
        if len(found) != 1:
            raise NotMeasured(f"{vector.key} is no parameter of the model that transformers makes")
        (parameter,) = found
        result: Parameter = parameter
        return result


def load_two_tables(description: Description) -> TwoTables:
    """Load the checkpoint in the dtype that most of it is stored in, and see to it that both tables count.

    A head that the class replaced by the input embedding is put back from the file. Raises `NotMeasured` where the
    model does not load, a parameter would be random, or the tables cannot be found in it.
    """
    tables = description.tables
    if tables.partner is None or tables.output is None or tables.partner.info.shape != tables.output.info.shape:
        raise NotMeasured("there are no two stored tables of one shape")
    others = _others(description, tables.partner.key, tables.output.key)
    dtype = _dtype(description)
    try:
        loaded = load_model(description.source, dtype)
    except CheckpointError as error:
        raise NotMeasured(error.message) from error
    loaded.model.requires_grad_(False)
    source = description.source
    inputs = _inputs(loaded, source.rows(tables.partner.key), others)
    output = _output(loaded, inputs, source.rows(tables.output.key))
    random = [key for key in loaded.missing if key != tables.output_name]
    if random:
        raise NotMeasured(f"{random[0]} is in no file: it would be random at every load")
    return TwoTables(description, loaded.model, inputs, output, dtype)


def _dtype(description: Description) -> str:
    """The floating type of most bytes, as torch spells it; raises `NotMeasured` where torch runs no model in it."""
    sizes: dict[str, int] = {}
    for info in description.source.tensors.values():
        if info.dtype.floating:
            sizes[info.dtype.name] = sizes.get(info.dtype.name, 0) + info.nbytes
    name = max(sizes, key=lambda each: sizes[each], default="")
    if name not in ("F64", "F32", "F16", "BF16"):
        raise NotMeasured(f"most of it is stored as {name or 'whole numbers'}, which no model is run in here")
    return by_name()[name].torch or ""


def _others(description: Description, first: str, head: str) -> bool:
    """Whether further stored tables become one with the two; raises `NotMeasured` where one of them differs."""
    source = description.source
    shared = description.tables.sharing.with_head(head)
    others = [key for key in shared if key in source.tensors and key not in (first, head)]
    for key in others:
        if not tables_equal(source.rows(first), source.rows(key)):
            raise NotMeasured(f"{key} would become the same parameter, and holds something else than {first}")
    return bool(others)


def _inputs(loaded: LoadedModel, stored: TableReader, others: bool) -> tuple[Parameter, ...]:
    """The parameters that hold the stored table: with `others` all, else the input embedding or a decoder's own."""
    first, head = loaded.input_table, loaded.output_table
    likely = [p for p in loaded.model.parameters() if tuple(p.shape) == stored.shape and (p is first or p is not head)]
    found = tuple(p for p in sorted(likely, key=lambda each: each is not first) if _holds(p, stored))
    if not found:
        raise NotMeasured(f"no parameter of the loaded model holds the stored {stored.info.key}")
    return found if others else found[:1]


def _output(loaded: LoadedModel, inputs: tuple[Parameter, ...], stored: TableReader) -> Parameter:
    from torch.nn import Parameter

    table = loaded.output_table
    if table is None or tuple(table.shape) != stored.shape:
        raise NotMeasured("the class shows no LM head of the stored shape")
    if all(table is not parameter for parameter in inputs) and _holds(table, stored):
        return table  # type: ignore[no-any-return]
    head = loaded.model.get_output_embeddings()
    head.weight = Parameter(_tensor(stored.block(0, stored.shape[0])).to(table.dtype), requires_grad=False)
    result: Parameter = head.weight
    return result


def _holds(parameter: Tensor, stored: TableReader) -> bool:
    """Whether the parameter is the stored table, rounded to its own type; stops at the first block that differs."""
    import torch

    for start, rows in stored.blocks():
        block = _tensor(rows).to(parameter.dtype)
        mine = parameter[start : start + len(rows)]
        if not torch.equal(block.nan_to_num(), mine.nan_to_num()):
            return False
    return True


def _tensor(array: np.ndarray[Any, Any]) -> Tensor:
    """The array as a tensor over the same memory; torch knows the ml_dtypes types by their bits alone."""
    import torch

    own = next((dtype for dtype in by_name().values() if dtype.numpy == array.dtype), None)
    array = np.ascontiguousarray(array)
    if own is None or own.torch is None or array.dtype.isbuiltin == 1:
        return torch.from_numpy(array)
    bits = {1: np.uint8, 2: np.int16}[array.dtype.itemsize]
    return torch.from_numpy(array.view(bits)).view(getattr(torch, own.torch))
