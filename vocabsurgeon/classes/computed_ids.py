"""Classes of transformers that compute with token ids: there a new id may be taken for something else. One table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from vocabsurgeon.checkpoint.config import Config, Path, dotted

Tokens = Mapping[str, int]
"""Content → id of the tokenizer's tokens."""


@dataclass(frozen=True)
class ComputedIds:
    """What a class makes of ids from `first` to `last` (None: to the end).

    `mechanism` says what it does; `consequence` what that would mean for a new token; `ways_out` what to do instead.
    `eos_settles`: whether the role eos, given in the same run, puts an end to it. `source`: where it was read.
    """

    mechanism: str
    consequence: str
    first: int
    last: int | None
    ways_out: tuple[str, ...]
    source: str
    eos_settles: bool = False
    spelled: Callable[[int], str] | None = None
    """The text of the token that an id is meant for, counted from `first`; None where there is no such token."""
    padded: str = ""
    """What rows there do though no token has them (`--pad-to-multiple-of`); empty where they do no harm."""

    def takes(self, number: int, content: str = "") -> bool:
        """Whether id `number` is one of them, and `content` is not the very token it stands for."""
        inside = number >= self.first and (self.last is None or number <= self.last)
        return inside and not (self.spelled is not None and self.spelled(number - self.first) == content)


@dataclass(frozen=True)
class Facts:
    """What the rules look at. `generation` and `settings`: generation_config.json and tokenizer_config.json."""

    config: Config
    generation: Mapping[str, Any]
    settings: Mapping[str, Any]
    tokens: Tokens


@dataclass(frozen=True)
class Rule:
    """One row: the model types it is about, the reading of their files, and where transformers does it."""

    types: frozenset[str]
    read: Callable[[Facts, frozenset[str], str], Iterator[ComputedIds]]
    source: str


_REPLACE = "take over a reserved token's id: `--replace OLD=NEW`"


def computed_ids(facts: Facts) -> tuple[ComputedIds, ...]:
    """Every range of ids that the checkpoint's classes compute with; empty for types that no row holds."""
    return tuple(found for rule in RULES for found in rule.read(facts, rule.types, rule.source))


def _types(config: Config, types: frozenset[str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The levels whose model type is one of `types`."""
    yield from ((path, level) for path, level in config.levels.items() if level.get("model_type") in types)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value >= 0 else None


def _timestamps(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    own = str(facts.settings.get("tokenizer_class", "")).startswith("Whisper")
    if facts.config.model_type not in types and not own:
        return
    last_before = _whole(facts.generation.get("no_timestamps_token_id"))
    if last_before is None:
        last_before = facts.tokens.get("<|notimestamps|>")
    if last_before is None:
        return
    begin = last_before + 1
    yield ComputedIds(
        f"Whisper takes every id from {begin} (behind <|notimestamps|>) to the end for a timestamp",
        "generation would treat it as a timestamp, and decoding would print a time or nothing",
        begin,
        None,
        (f"{_REPLACE}, of one below {begin}",),
        source,
        spelled=lambda step: f"<|{step * 0.02:.2f}|>",
        padded="their logits count as timestamps in generation",
    )


_LEGACY_EOS = 2
"""transformers before 4.31 wrote 2 for the end of text whatever the tokenizer had; the classes keep that meaning."""
_EOS = 49407
"""`eos_token_id` of text configs that leave it out (transformers 5.24), but for those in `_OTHER_EOS`."""
_OTHER_EOS = {"xclip_text_model": 2}
_END = "<|endoftext|>"


def _pools_at_highest_if_legacy(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    if facts.config.model_type in _NO_POOLING:
        return
    for path, level in _text_levels(facts.config, types):
        stated = level.get("eos_token_id", _OTHER_EOS.get(str(level["model_type"]), _EOS))
        if stated == _LEGACY_EOS:
            key = dotted((*path, "eos_token_id"))
            end = f"--role 'eos={_END}'" if _END in facts.tokens else "--role eos=TOKEN with the end-of-text token"
            yield ComputedIds(
                f"{key} is 2, so the text is pooled at its highest id (argmax over the ids), not at the end of text",
                "a text with the new token would be pooled at that token",
                _end_of_text(facts) + 1,
                None,
                (f"give the class its end of text in the same run: {end}", _REPLACE),
                source,
                eos_settles=path in facts.config.levels,
            )


def _text_levels(config: Config, types: frozenset[str]) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """The text levels of the CLIP family: of its text types, and the unnamed text config of its two-part types.

    Old files say it again in `text_config_dict`, which overrules (and is completed by the class's defaults).
    """
    for path, level in config.levels.items():
        own = level.get("model_type", _parent_text_type(config, path))
        if own not in types or not str(own).endswith("_text_model"):
            continue
        again = config.data.get("text_config_dict") if path == ("text_config",) else None
        if isinstance(again, dict):
            yield ("text_config_dict",), {"model_type": own, "eos_token_id": again.get("eos_token_id", _EOS)}
        else:
            yield path, {"model_type": own, **level}


def _parent_text_type(config: Config, path: Path) -> str:
    parent = config.levels.get(path[:-1], {}) if path[-1:] == ("text_config",) else {}
    return f"{parent.get('model_type')}_text_model"


def _end_of_text(facts: Facts) -> int:
    """The id of the tokenizer's end of text; -1 where it has none."""
    end = facts.settings.get("eos_token")
    content = end.get("content") if isinstance(end, dict) else end
    return max(facts.tokens.get(name, -1) for name in (_END, content) if isinstance(name, str))


def _pools_at_highest(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    if facts.config.model_type not in types:
        return
    yield ComputedIds(
        f"{facts.config.model_type} pools a text at its highest id (argmax over the ids), whatever the config says",
        "a text with the new token would be pooled at that token",
        _end_of_text(facts) + 1,
        None,
        (_REPLACE,),
        source,
    )


def _modalities(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    if facts.config.model_type not in types:
        return
    levels = {name: facts.config.levels.get((name,), {}) for name in ("vision_config", "audio_config")}
    starts = [_whole(levels[name].get("vocab_offset", default)) for name, default in _GEMMA3N_OFFSETS.items()]
    first = min((start for start in starts if start is not None), default=None)
    if first is not None:
        yield ComputedIds(
            f"every id from {first} on is embedded as an image or a sound (vocab_offset), not by its row",
            "its row would never be read, and an id past the modality's own table crashes the model",
            first,
            None,
            (f"{_REPLACE}, of one below {first}",),
            source,
        )


_GEMMA3N_OFFSETS = {"vision_config": 262144, "audio_config": 262272}
"""Level → `vocab_offset` where it is left out (transformers 5.24)."""


def _codes(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    if facts.config.model_type not in types:
        return
    for modality, level in (("image", "vision_config"), ("audio", "audio_config")):
        start = _whole(facts.config.data.get(f"{modality}_token_offset"))
        count = _whole(facts.config.levels.get((level,), {}).get("codebook_size"))
        if start is not None and count:
            yield ComputedIds(
                f"ids {start} to {start + count - 1} are the {modality}'s codes ({modality}_token_offset + code)",
                f"{modality} input would use the new token's id",
                start,
                start + count - 1,
                ("bring a tokenizer that has tokens for those ids",),
                source,
            )


def _shifted(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    if facts.config.model_type in types:
        yield ComputedIds(
            "text ids are shifted by text_encoding_offset into a table that holds sound codes before and special ids "
            "behind them",
            "it would land on one of those, and the rows added at the table's end would never be read",
            0,
            None,
            (_REPLACE,),
            source,
        )


def _last_is_start(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    size = _whole(facts.config.data.get("vocab_size"))
    if facts.config.model_type in types and size:
        yield ComputedIds(
            f"the last id (vocab_size - 1 = {size - 1}) starts a sequence, and the head has one row less",
            "the start would move to another row",
            0,
            None,
            (),
            source,
            padded="the start moves to the last of them",
        )


def _spelled(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    spelled = facts.generation.get("id_to_text")
    if facts.config.model_type in types and isinstance(spelled, dict):
        known = [int(number) for number in spelled if str(number).isdecimal()]
        yield ComputedIds(
            "speech generation spells each text id by generation_config.json's id_to_text and char_to_id",
            "an id without an entry there crashes it",
            max(known, default=-1) + 1,
            None,
            ("add the id and its text to id_to_text first", _REPLACE),
            source,
        )


def _cut(facts: Facts, types: frozenset[str], source: str) -> Iterator[ComputedIds]:
    for path, level in _types(facts.config, types):
        limit = _whole(level.get("unpadded_vocab_size"))
        if limit is not None:
            key = dotted((*path, "unpadded_vocab_size"))
            yield ComputedIds(
                f"logits are cut to the first {limit} ids ({key})",
                "it could be read but never be generated",
                limit,
                None,
                (f"raise {key} to the number of ids you will have, then extend",),
                source,
            )


_CLIP = frozenset(name for own in ("clip", "clipseg", "groupvit", "xclip") for name in (own, f"{own}_text_model"))
_NO_POOLING = frozenset({"sam3", "sam3_video", "omdet-turbo", "oneformer"})
"""Types around a CLIP text model that never use its pooled output, or pool by themselves."""

RULES: tuple[Rule, ...] = (
    Rule(
        frozenset({"whisper"}),
        _timestamps,
        "transformers 5.24: generation.logits_process.WhisperTimeStampLogitsProcessor (since 4.29), "
        "models.whisper.tokenization_whisper._decode_asr and decode_with_timestamps",
    ),
    Rule(
        _CLIP,
        _pools_at_highest_if_legacy,
        "transformers 5.24: CLIPTextModel.forward and its copies in CLIPSeg, GroupViT and X-CLIP "
        "(`eos_token_id == 2`; since 4.31, before that always)",
    ),
    Rule(
        frozenset(name for own in ("owlvit", "owlv2", "sam3_lite_text") for name in (own, f"{own}_text_model"))
        | {"omdet-turbo", "oneformer"},
        _pools_at_highest,
        "transformers 5.24: OwlViTTextTransformer, Owlv2TextTransformer, Sam3LiteTextTextModel, "
        "OmDetTurboLanguageBackbone (class names), OneFormerTextTransformer",
    ),
    Rule(frozenset({"gemma3n"}), _modalities, "transformers 5.24 (since 4.53): Gemma3nModel.forward"),
    Rule(frozenset({"apertus1p5"}), _codes, "transformers 5.24: Apertus1p5Model.get_image_tokens, get_audio_tokens"),
    Rule(frozenset({"bark"}), _shifted, "transformers 5.24 (since 4.31): BarkSemanticModel.generate"),
    Rule(frozenset({"imagegpt"}), _last_is_start, "transformers 5.24: ImageGPTForCausalImageModeling"),
    Rule(
        frozenset({"seamless_m4t_v2"}),
        _spelled,
        "transformers 5.24 (since 4.37): SeamlessM4Tv2ForTextToSpeech._indices_to_subwords",
    ),
    Rule(
        frozenset({"inkling_mm_model", "inkling_text"}),
        _cut,
        "transformers 5.24: InklingForConditionalGeneration.forward and InklingForCausalLM.forward",
    ),
)
"""families.json holds what else depends on the size: rows behind the vocabulary, IDEFICS' tails, tables of codes."""
