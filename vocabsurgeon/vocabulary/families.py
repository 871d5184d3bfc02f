"""Which tensor plays which vocabulary role in which model class: families.json as frozen data.

tests/families/generate.py writes it from transformers' own classes, a test holds it true; nothing is decided here.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Path = tuple[str, ...]
"""A config level: `()` is the root, `("text_config",)` one below."""

_HEADS = re.compile(
    r"LMHead|WithLM|DoubleHeads|For(CausalLM|MaskedLM|MultimodalLM|ConditionalGeneration|PreTraining|Seq2Seq|"
    r"VisionText2Text)|[a-z]LM$"
)
"""Names of classes with a head, for classes the table does not hold. A bare LM may be the model's (XLMRoberta…)."""


@dataclass(frozen=True)
class VocabTensor:
    """A tensor with a vocabulary axis, under the name the class saves. `*` in `key` stands for any layer's number."""

    key: str
    axis: int


@dataclass(frozen=True)
class Family:
    """The facts of one model class, as transformers' own class shows them on the meta device.

    Keys are the names the class saves. A file may hold them with or without `base_model_prefix`: the reader's affair.
    """

    model_type: str
    architecture: str
    input_key: str
    output_key: str | None
    """None where the class has no LM head."""
    output_bias: tuple[VocabTensor, ...]
    """Every bias over the vocabulary: of the head, `cls.predictions.bias`, `final_logits_bias` (axis 1)."""
    others: tuple[VocabTensor, ...]
    """The rest that grows with the vocabulary: an encoder's own table, per-layer embeddings, token → expert tables."""
    also: Mapping[str, tuple[str, ...]]
    """Key → other names that the class loads as the same tensor."""
    shared: tuple[tuple[str, ...], ...]
    """Keys of one parameter whatever the config says."""
    shared_if_tied: tuple[tuple[str, ...], ...]
    """Keys of one parameter where the tables are tied; the plain pair of input and output is left out."""
    apart_if_false: str
    """The root's config value that, where false, leaves the encoder's table and the common one out of every group."""
    tie_level: str
    """Which config level the class obeys: `root`, `text`, `either`, `both`, `root-else-text` (text where the root is
    silent), `always`, `never`; empty without a head."""
    nested: Path
    """The level that the names with `text`, `either` and `both` mean beside the root."""
    root_default: bool
    text_default: bool
    """What each of the two levels counts as where it is silent (the text level: for the default text model)."""
    flag_keys: tuple[str, ...]
    """Names of the flag in the root of a config.json; an earlier one overrules a later one."""
    follow_flag: Mapping[str, bool]
    """Further values of the class's config that are the flag's where a file leaves them out → what they are where it
    leaves out the flag too (T5 scales what goes into the head)."""
    size_keys: tuple[str, ...]
    """Names of the config values that hold the vocabulary's size."""
    elsewhere: tuple[Path, ...]
    """Config levels where such a value is the size of another vocabulary (a talker's codes), whatever its number."""
    rows_beyond: tuple[int, int]
    """Rows of the input table and of the head beyond the config's size, by default (mllama: 8 image tokens, 0)."""
    beyond_moves: bool
    """Whether the model counts those from the size on, so that they move when it grows."""
    table_is_head_if_false: str
    """The root's config value that, where false, makes the input embedding itself the head; empty for nearly all."""
    adaptive_if: str
    """The root's config value that makes the LM head an adaptive softmax; empty for nearly all."""
    tails: tuple[str, ...]
    """Tensors that hold the rows behind the tables, whose ids follow the size; empty for nearly all."""
    in_parts: tuple[str, ...]
    """Stored tensors that are joined to one input embedding at load; empty where it is stored as one."""
    no_tokens: str
    """Why the tables have no meaning as a vocabulary of tokens; empty where they have."""
    tied_along: str
    """What else the tie flag shares, far from the tables; empty for nearly all."""
    scaled_if_tied: bool
    """Whether what goes into the head is multiplied by width ** -0.5 where the tables are tied, and only there."""
    base_model_prefix: str
    source: str
    """Where the facts come from: the transformers version and the class."""

    @property
    def tie_forced(self) -> bool | None:
        """True or False where the class ties or does not, whatever the config says; None where the config decides."""
        return {"always": True, "never": False}.get(self.tie_level)

    @property
    def tie_default(self) -> bool:
        """What a config that is silent at every level declares."""
        return self.declares({})

    def declares(self, flags: Mapping[Path, bool]) -> bool:
        """Whether the class ties its tables where the config levels state `flags`; False without a head."""
        root, text = flags.get((), self.root_default), flags.get(self.nested, self.text_default)
        said = {"always": True, "root": root, "text": text, "either": root or text, "both": root and text}
        said["root-else-text"] = root if () in flags else text
        return said.get(self.tie_level, False)

    def obeyed(self, flags: Mapping[Path, bool]) -> Mapping[Path, bool]:
        """The part of `flags` that the class listens to."""
        if self.tie_level == "root" or (self.tie_level == "root-else-text" and () in flags):
            levels: tuple[Path, ...] = ((),)
        elif self.tie_forced is not None or not self.tie_level:
            levels = ()
        else:
            levels = (self.nested,) if self.tie_level == "text" else ((), self.nested)
        return {path: flags[path] for path in levels if path in flags}


def family_for(model_type: str, architecture: str | None, text_type: str | None = None) -> Family | None:
    """The facts of the class `architecture` of `model_type`; None where the table does not hold the type.

    Without an architecture: the class with an LM head that the type is best known for, else the base model. For a
    class the table does not hold: the same where its name says that it has a head, else the base model.
    `text_type` is the `model_type` of the text model inside, for types that may hold several (BLIP-2: OPT, T5).
    """
    rows = _rows().get(f"{model_type}+{text_type}") or _rows().get(model_type, ())
    exact = [row for row in rows if architecture in row["classes"]]
    headed = architecture is None or _HEADS.search(architecture)
    likely = [row for row in rows if ("output" in row) == bool(headed)]
    chosen = next(iter((*exact, *likely, *rows)), None)
    version = f"transformers {_table()['transformers']}"
    return None if chosen is None else family_from_row(chosen, architecture or chosen["classes"][0], version)


def known_input_keys() -> tuple[str, ...]:
    """Every name of an input embedding, the most common first."""
    return _known("input")


def known_output_keys() -> tuple[str, ...]:
    """Every name of an LM head, the most common first."""
    return _known("output")


def known_model_types() -> tuple[str, ...]:
    """Every model type the table holds, sorted."""
    return tuple(sorted(name for name in _rows() if "+" not in name))


@cache
def _table() -> Mapping[str, Any]:
    table: dict[str, Any] = json.loads(files("vocabsurgeon.vocabulary").joinpath("families.json").read_text("utf-8"))
    return table


@cache
def _rows() -> Mapping[str, tuple[Mapping[str, Any], ...]]:
    rows: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for row in _table()["rows"]:
        rows[row["type"]] = (*rows.get(row["type"], ()), row)
    return rows


@cache
def _known(role: str) -> tuple[str, ...]:
    counts: Counter[str] = Counter()
    for row in _table()["rows"]:
        if role in row:
            counts.update((row[role], *row.get("also", {}).get(row[role], ())))
    return tuple(key for key, _ in counts.most_common())


def family_from_row(row: Mapping[str, Any], architecture: str, version: str) -> Family:
    """The facts of a row of families.json, or of one observed just now; `version` is the library's that showed them."""
    observed = architecture if architecture in row["classes"] else row["classes"][0]
    model_type = row["type"].partition("+")[0]
    usual = model_type.replace("-", "_")
    return Family(
        model_type=model_type,
        architecture=architecture,
        input_key=row["input"],
        output_key=row.get("output"),
        output_bias=_tensors(row.get("biases", {})),
        others=_tensors(row.get("others", {})),
        also={key: tuple(names) for key, names in row.get("also", {}).items()},
        shared=_groups(row.get("shared", ())),
        shared_if_tied=_groups(row.get("shared_if_tied", ())),
        apart_if_false=row.get("apart_if_false", ""),
        tie_level=row.get("tie", ""),
        nested=tuple(row.get("text", ())),
        root_default=row.get("root_default", False),
        text_default=row.get("text_default", False),
        flag_keys=(*row.get("flags", ()), "tie_word_embeddings"),
        follow_flag=row.get("follow_flag", {}),
        size_keys=tuple(row.get("sizes", ("vocab_size",))),
        elsewhere=_groups(row.get("elsewhere", ())),
        rows_beyond=_pair(row.get("beyond", (0, 0))),
        beyond_moves=row.get("beyond_moves", False),
        table_is_head_if_false=row.get("table_is_head_if_false", ""),
        adaptive_if=row.get("adaptive_if", ""),
        tails=tuple(row.get("tails", ())),
        in_parts=tuple(row.get("in_parts", ())),
        no_tokens=row.get("no_tokens", ""),
        tied_along=row.get("tied_along", ""),
        scaled_if_tied=row.get("scaled_if_tied", False),
        base_model_prefix=row.get("prefix", ""),
        source=f"{version}: {row.get('source', f'{usual}.modeling_{usual}')}.{observed}",
    )


def _tensors(axes: Mapping[str, int]) -> tuple[VocabTensor, ...]:
    return tuple(VocabTensor(key, axis) for key, axis in axes.items())


def _groups(groups: Iterable[Iterable[str]]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(group) for group in groups)


def _pair(numbers: Iterable[int]) -> tuple[int, int]:
    first, second = numbers
    return first, second
