"""Which values of a checkpoint's JSON files are token ids, and what each means: one table of keys, then `unknown`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

from vocabsurgeon.checkpoint.config import CONFIG

GENERATION = "generation_config.json"
PROCESSORS = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "image_processor_config.json",
    "feature_extractor_config.json",
)
_ADAPTER = "adapter_config.json"


@dataclass(frozen=True)
class IdKey:
    """One row: the keys it is about, in what form they hold ids, and what those mean.

    `form`: `ids` (one id, a list, or lists of lists), `pairs` ([position, id]), `by name` (object name → id), `biased`
    (object of ids, or [[ids], bias]), `start` (the first id of a range), `none` (no token id, whatever the name).
    `kind`: `role`, `marker` (a placeholder that the model looks for), `forced`, `banned`, `language`, `start`,
    `other vocabulary`, `trained`, or `no id`.
    """

    keys: re.Pattern[str]
    kind: str
    form: str = "ids"

    @classmethod
    def of(cls, keys: str, kind: str, form: str = "ids") -> IdKey:
        """A row whose pattern covers the whole key."""
        return cls(re.compile(rf"(?:{keys})\Z"), kind, form)


ROLE = r"bos|eos|pad|unk|sep|cls|mask"
UNKNOWN = IdKey.of(".*", "unknown")

TABLE: tuple[IdKey, ...] = (
    # Names that look like ids and hold none (config classes of transformers 5.24, and what checkpoints add).
    IdKey.of(r"(?:t2u_)?(?:max|min|num|n|mm|default_num|pred_num|img_max)_\w*", "no id", "none"),
    IdKey.of(
        r"_?\w*(?:layer|block|channel|state|out|projection|hook|feature|expert)_?s?_(?:ids?|ind(?:ex|ices)|idx)",
        "no id",
        "none",
    ),
    IdKey.of(r"_?out_indices|altup_active_idx|eval_idx|head_in_index|decode_index|merge_index", "no id", "none"),
    IdKey.of(
        r"\w*ignore_(?:index|id)|\w*label_index|moe_layer_(?:start|end)_index|lang_id|speaker_id", "no id", "none"
    ),
    IdKey.of(
        r"\w*layer_offset|time_sampling_offset|vocoder_offset|default_prompt_id|speaker_embedding_id", "no id", "none"
    ),
    IdKey.of(
        r"(?:use|router|pred_(?:num|zero)|scale|attn|vision_use)_\w*|\w*_per_(?:token|image|frame|\w+)|\w*(?:layer|attn)_map",
        "no id",
        "none",
    ),
    IdKey.of(
        r"max_\w*|prompt_lookup_num_tokens|\w*assistant_tokens|class_ids?|id2label|label2id|position_id\w*",
        "no id",
        "none",
    ),
    IdKey.of(
        r"(?:revision|run|user|model|repo|commit|job|peft|bos_loss|cls_loss)_ids?|\w*_seq(?:uence)?_id", "no id", "none"
    ),
    IdKey.of(
        r"(?:image|audio|video)_(?:seq_)?(?:tokens|num_tokens)|num_\w*tokens|begin_index|\w*initial_timestamp_index",
        "no id",
        "none",
    ),
    # Ids of audio codes, characters, units, tags: they count in another table than the tokenizer's.
    IdKey.of(
        r"(?:codec|codebook|audio_stream|t2u|coarse|semantic|tts_codec|subs|tag|unit|char|fine)_\w*", "other vocabulary"
    ),
    IdKey.of(
        r"vocoder_lang_code_to_id|t2u_lang_code_to_id|char_to_id|audio_latent_token_id|audio_pad_token_id",
        "other vocabulary",
        "by name",
    ),
    IdKey.of(
        r"audio_prompt_(?:bos_)?token_id|blank_token_id|start_token_id|end_token_id|pred_token_id", "other vocabulary"
    ),
    IdKey.of(r"text_pad_token|text_encoding_offset", "other vocabulary", "start"),
    # Roles. XLM and FlauBERT write `pad_index`.
    IdKey.of(rf"_?(?:{ROLE})_token_ids?|(?:{ROLE})_(?:index|id)|eod_token_id", "role"),
    IdKey.of(
        r"decoder_start_token_ids?|decoder_(?:bos|eos|pad)_token_id|prev_sot_token_id|no_timestamps_token_id", "role"
    ),
    # What generation puts in or leaves out.
    IdKey.of(r"forced_(?:bos|eos)_token_ids?", "forced"),
    IdKey.of(r"forced_decoder_ids", "forced", "pairs"),
    IdKey.of(r"force_words_ids", "forced"),
    IdKey.of(r"(?:begin_)?suppress_tokens|bad_words_ids", "banned"),
    IdKey.of(r"sequence_bias", "banned", "biased"),
    IdKey.of(
        r"(?:lang|task|lang_code|text_decoder_lang_to_code|text_decoder_lang_code|language|task_token|lang_token)(?:_to)?_ids?",
        "language",
        "by name",
    ),
    # What a PEFT adapter trains.
    IdKey.of(r"trainable_token_indices", "trained", "by name"),
    # Placeholders and boundaries that models look for in the text.
    IdKey.of(r"vocabulary_map", "marker", "by name"),
    IdKey.of(r"(?:\w*_)?(?:token_ids?|token_index|token_indices|token_idx)", "marker"),
    IdKey.of(
        r"(?:im|img|image|video|audio|vision|slice|newline|frame|line|row|col|point|ref|box)_?\w*_id|newline_id",
        "marker",
    ),
    IdKey.of(r"\w*_token", "marker"),
    # The first id of a range: Gemma 3n's `vocab_offset`, Apertus 1.5's image and audio codes.
    IdKey.of(r"vocab_offset|(?:image|audio|video|text)_(?:token|vocab)_offset", "start", "start"),
)
"""The first row that covers a key decides."""

_ID_LIKE = re.compile(
    r"(?:^|_)(?:id|ids|idx|index|indices|token|tokens)$|_to_id$|(?:token|vocab\w*|encoding)_offset$|vocabulary_map$|"
    r"bad_words|sequence_bias$"
)
_NOT_OPENED = re.compile(r"id2label|label2id|quantization_config|compression_config|rope_\w+|\w*_map")


@dataclass(frozen=True)
class DeclaredId:
    """A value that names a token id. `path`: keys and list positions; `level`: the object that holds the key."""

    file: str
    path: tuple[str | int, ...]
    level: tuple[str, ...]
    key: str
    kind: str
    id: int
    alone: bool = True
    """False for an id inside a sequence of several (a banned word of two tokens)."""

    @property
    def where(self) -> str:
        """`text_config.pad_token_id in config.json`."""
        return f"{'.'.join(map(str, (*self.level, self.key)))} in {self.file}"

    @property
    def of_text(self) -> bool:
        """Whether the id counts in the tokenizer's vocabulary rather than in one of codes, characters or pixels."""
        return self.kind not in ("other vocabulary", "trained") and not any(map(_OTHER_LEVEL.search, self.level))


_OTHER_LEVEL = re.compile(
    r"vision|audio|speech|talker|codec|code2wav|token2wav|code_predictor|depth|vq|qformer|image|video|backbone|"
    r"generation_encoder|vocoder|unit|semantic|coarse|fine|patcher|timestamp|acoustic|reading_order|mimi|tokenizer|encodec|generator"
)


class Folder(Protocol):
    """What is read here: names of files and their bytes."""

    @property
    def files(self) -> tuple[str, ...]:
        """Names relative to the folder."""

    def read_bytes(self, name: str) -> bytes:
        """The content of a file."""


def read_declared_ids(folder: Folder) -> tuple[DeclaredId, ...]:
    """Every token id that the folder's config, generation, processor and adapter files name, in that order of files.

    A file that is no JSON object is passed over: what reads it says so.
    """
    names = [name for name in (CONFIG, GENERATION, *PROCESSORS) if name in folder.files]
    adapters = [name for name in folder.files if name.rpartition("/")[2] == _ADAPTER]
    return tuple(found for name in (*names, *adapters) for found in declared_ids(name, read_object(folder, name)))


def read_object(folder: Folder, name: str) -> Mapping[str, Any]:
    """The JSON object in file `name`; empty where the file is absent or holds something else."""
    if name not in folder.files:
        return {}
    try:
        value = json.loads(folder.read_bytes(name))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def declared_ids(file: str, content: Mapping[str, Any]) -> Iterator[DeclaredId]:
    """The ids that `content`, the object in `file`, names at any depth. A loop, since hostile files nest deeply."""
    pending: list[tuple[tuple[str, ...], Mapping[str, Any]]] = [((), content)]
    while pending:
        level, held = pending.pop()
        for key, value in held.items():
            row = classified(key)
            if row is not None and row.form != "none":
                for place, number, alone in _numbers(row.form, value):
                    yield DeclaredId(file, (*level, key, *place), level, key, row.kind, number, alone)
            if isinstance(value, dict) and (row is None or row.kind == "unknown") and not _NOT_OPENED.match(key):
                pending.append(((*level, key), value))


@cache
def classified(key: str) -> IdKey | None:
    """The row for `key`; `UNKNOWN` where the name looks like an id's and no row covers it, None for any other key."""
    if not _ID_LIKE.search(key):
        return None
    return next((row for row in TABLE if row.keys.match(key)), UNKNOWN)


_Place = tuple[str | int, ...]


def _numbers(form: str, value: Any) -> Iterator[tuple[_Place, int, bool]]:
    """Place inside the value, id, and whether it stands alone. Negative numbers stand for "none"."""
    if _is_id(value):
        yield (), value, True
    elif isinstance(value, dict):
        yield from (
            ((name, *place), number, alone)
            for name, inner in value.items()
            for place, number, alone in _listed(form, inner)
        )
    elif isinstance(value, list):
        yield from _listed(form, value)


def _listed(form: str, value: Any) -> Iterator[tuple[_Place, int, bool]]:
    if _is_id(value):
        yield (), value, True
        return
    if not isinstance(value, list):
        return
    for position, item in enumerate(value):
        if _is_id(item):
            yield (position,), item, True
        elif isinstance(item, list) and form == "pairs":
            if len(item) == 2 and _is_id(item[1]):
                yield (position, 1), item[1], True
        elif isinstance(item, list):
            words = item[0] if form == "biased" and item and isinstance(item[0], list) else item
            yield from (
                ((position, place), number, len(words) == 1) for place, number in enumerate(words) if _is_id(number)
            )


def _is_id(value: Any) -> bool:
    return type(value) is int and value >= 0
