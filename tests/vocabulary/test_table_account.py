"""Every stored tensor with a vocabulary-sized axis gets a class, and ordinary checkpoints give no finding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.models.tiny import VOCAB, build
from tests.surgery.shelf import HEAD, INPUT, Tensors, shelved, taken, with_config, with_tensors
from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.vocabulary import table_account
from vocabsurgeon.vocabulary.config_sizes import collides
from vocabsurgeon.vocabulary.describe import Description, describe
from vocabsurgeon.vocabulary.findings import check
from vocabsurgeon.vocabulary.meta_device import names_of_class
from vocabsurgeon.vocabulary.table_account import COPY, short_copies

ODD = 61
"""Rows that no other number of the tiny config.json comes to; those of `VOCAB` are two feed-forward widths."""


def _with(folder: Path, vocab: int = ODD, **tensors: torch.Tensor) -> Description:
    """The tiny llama with `tensors` stored beside its own, `__` in a name standing for a dot."""
    named = {key.replace("__", "."): tensor for key, tensor in tensors.items()}
    taken(folder, tied=False, vocab_size=vocab)
    return describe(Checkpoint.open(with_tensors(folder, lambda held: held.update(named))))


def _copies(description: Description) -> list[str]:
    return [table.key for table in description.tables.others if table.role == COPY]


def _unknown(description: Description) -> dict[str, int]:
    return {table.info.key: table.axis for table in description.not_understood}


@pytest.mark.parametrize(
    "key",
    [
        "model.layers.2.embed_tokens.weight",
        "model.layers.61.shared_head.head.weight",
        "model.layers.45.transformer.shared_head.output.weight",
        "model.mtp.embed_tokens.weight",
        "mtp.embed_tokens.weight",
        "mtp.lm_head.weight",
        "mtp.0.emb.tok_emb.weight",
        "mtp.0.head.weight",
        "model.mtp_layers.0.embed_tokens.weight",
        "mtp.layers.1.shared_head.head.weight",
        "medusa_head.0.1.weight",
        "speculator.head.2.weight",
        "_orig_mod.model.layers.2.shared_head.head.weight",
    ],
)
@pytest.mark.parametrize("vocab", [ODD, VOCAB])
def test_a_table_of_a_draft_grows_along_by_its_name(key: str, vocab: int, tmp_path: Path) -> None:
    found = _with(tmp_path / "source", vocab, **{key: torch.randn(vocab, 16)})
    assert _copies(found) == [key] and not found.not_understood
    assert found.to_dict()["tables"][-1] == {
        "role": "copy",
        "key": key,
        "file": "model.safetensors",
        "shape": [vocab, 16],
        "dtype": "F32",
        "bytes": vocab * 64,
    }


def test_a_table_with_the_bits_of_a_known_one_is_a_copy_under_any_name(tmp_path: Path) -> None:
    def add(tensors: Tensors) -> None:
        tensors["mirror"] = tensors[HEAD].clone()
        tensors["other.way"] = tensors[HEAD] + 1

    found = describe(Checkpoint.open(with_tensors(taken(tmp_path / "s", tied=False, vocab_size=ODD), add)))
    assert _copies(found) == ["mirror"] and _unknown(found) == {"other.way": 0}


def test_zeros_are_no_copies_of_zeros(tmp_path: Path) -> None:
    def add(tensors: Tensors) -> None:
        tensors[HEAD].zero_()
        tensors["zeros"] = torch.zeros_like(tensors[HEAD])

    found = describe(Checkpoint.open(with_tensors(taken(tmp_path / "s", tied=False, vocab_size=ODD), add)))
    assert not _copies(found) and _unknown(found) == {"zeros": 0}


def test_what_is_as_long_as_nothing_but_the_vocabulary_counts_whatever_its_name(tmp_path: Path) -> None:
    shapes = {"a": (ODD,), "b.c": (1, ODD), "d": (ODD, 7), "e": (5, ODD, 3), "f": (ODD - 4, 7)}
    found = _with(tmp_path / "source", **{key: torch.randn(shape) for key, shape in shapes.items()})
    assert _unknown(found) == {"a": 0, "b.c": 1, "d": 0, "e": 1}
    assert found.to_dict()["tables_not_understood"][1] == {
        "key": "b.c",
        "file": "model.safetensors",
        "shape": [1, ODD],
        "axis": 1,
        "reason": "no class or reader known here has it",
    }


def test_where_the_size_is_a_width_too_the_name_has_to_speak_of_a_vocabulary(tmp_path: Path) -> None:
    fits = {
        "logit_mask": (VOCAB,),
        "t2d": (VOCAB,),
        "token_prior": (1, VOCAB),
        "aux.word_embeddings.weight": (VOCAB, 16),
    }
    no = {
        "extra.up_proj.weight": (VOCAB, 16),
        "extra.norm.weight": (VOCAB,),
        "layers.9.scale": (VOCAB,),
        "extra.head_mix.weight": (VOCAB, 5),
        "position_embeddings.weight": (VOCAB, 16),
        "vision.patch_embed.weight": (VOCAB, 16),
        "embed_norm.weight": (VOCAB,),
        "attn.head.weight": (VOCAB, 16),
    }
    found = _with(tmp_path / "source", VOCAB, **{key: torch.randn(shape) for key, shape in (fits | no).items()})
    assert set(_unknown(found)) == set(fits)


def test_a_padded_size_counts_where_the_name_speaks_of_a_vocabulary(tmp_path: Path) -> None:
    found = _with(tmp_path / "s", ODD, vocab_mask=torch.ones(64), token_scores=torch.ones(64, 16), other=torch.ones(64))
    assert set(_unknown(found)) == {"vocab_mask", "token_scores"}


@pytest.mark.parametrize(
    ("key", "tensor", "told"),
    [
        ("logit_mask", torch.ones(VOCAB), "laid on the logits"),
        ("final_logits_bias", torch.ones(1, VOCAB), "laid on the logits"),
        ("t2d", torch.ones(VOCAB, dtype=torch.bool), "a draft's ids"),
        ("d2t", torch.ones(VOCAB, dtype=torch.int64), "a draft's ids"),
        ("lm_head.lora_B.default.weight", torch.ones(VOCAB, 16), "LoRA"),
    ],
)
def test_what_another_rule_binds_to_ids_is_told_by_that_rule(
    key: str, tensor: torch.Tensor, told: str, tmp_path: Path
) -> None:
    (found,) = _with(tmp_path / "source", VOCAB, **{key: tensor}).not_understood
    assert found.info.key == key and told in found.reason


def test_what_lies_beside_quantized_weights_is_no_table(tmp_path: Path) -> None:
    tensors = {"model.layers.0.mlp.up_proj.qweight": (4, ODD), "model.layers.0.mlp.up_proj.g_idx": (ODD,)}
    scales = {"model.layers.0.mlp.up_proj.scales": (2, ODD)}
    folder = with_config(taken(tmp_path / "s", vocab_size=ODD), quantization_config={"quant_method": "gptq"})
    add = {key: torch.ones(shape) for key, shape in (tensors | scales).items()}
    found = describe(Checkpoint.open(with_tensors(folder, lambda held: held.update(add))))
    assert not found.not_understood


def test_parameters_of_the_class_are_its_own_affair(tmp_path: Path) -> None:
    import transformers

    settings = transformers.RobertaConfig(
        vocab_size=32, hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2
    )
    transformers.RobertaForMaskedLM(settings).save_pretrained(tmp_path)
    source = Checkpoint.open(tmp_path)
    assert not describe(source).not_understood
    names = ["lm_head.dense.weight", "roberta.encoder.layer.7.output.dense.bias", "lm_head.mask", "roberta.extra"]
    assert names_of_class(source, names) == {*names[:2]}


def test_a_vector_of_no_layer_that_the_class_does_not_have_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tensors = {
        "model.mystery": torch.ones(1, VOCAB),
        "model.layers.0.gamma": torch.ones(VOCAB),
        "vision.norm": torch.ones(VOCAB),
    }
    found = _with(tmp_path / "source", VOCAB, **tensors)
    assert set(_unknown(found)) == {"model.mystery"}
    monkeypatch.setattr(table_account, "names_of_class", lambda *_: None)  # as where a library is missing
    assert not describe(found.source).not_understood


def test_the_class_is_asked_where_something_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(table_account, "names_of_class", lambda _, names: asked.extend(names) or frozenset(names))
    describe(Checkpoint.open(shelved()))
    assert asked == []
    assert not _with(tmp_path / "source", mystery=torch.ones(ODD)).not_understood
    assert asked == ["mystery"]


def test_a_copy_left_behind_is_an_error_by_its_name_and_by_its_rows(tmp_path: Path) -> None:
    def add(tensors: Tensors) -> None:
        tensors["model.layers.2.shared_head.head.weight"] = torch.randn(ODD - 1, 16)
        tensors["old.embedding.weight"] = tensors[INPUT][: ODD - 3].clone()
        tensors["old.embedding.bias"] = torch.randn(ODD - 3, 16)

    found = describe(Checkpoint.open(with_tensors(taken(tmp_path / "s", tied=False, vocab_size=ODD), add)))
    assert [table.key for table in short_copies(found.tables)] == [
        *("model.layers.2.shared_head.head.weight", "old.embedding.weight")
    ]
    report = check(found)
    assert not report.passed
    assert [finding.severity for finding in report.findings] == ["error", "error"]
    assert f"has {ODD} rows" in report.findings[0].message


def test_a_draft_with_ids_of_its_own_is_no_copy(tmp_path: Path) -> None:
    tensors = {"mtp.lm_head.weight": torch.randn(ODD - 9, 16), "mtp.d2t": torch.arange(ODD - 9)}
    found = _with(tmp_path / "source", **tensors)
    assert not _copies(found) and not found.not_understood


def test_check_warns_of_what_is_not_understood(tmp_path: Path) -> None:
    report = check(_with(tmp_path / "source", logit_mask=torch.ones(ODD)))
    (finding,) = report.findings
    assert report.passed and finding.severity == "warning"
    assert "logit_mask [61]" in finding.message and "--keep-size logit_mask" in finding.fix


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma2", "gpt_neox", "bloom", "opt"])
@pytest.mark.parametrize("vocab", [16, 32, 64, 128])
def test_tiny_models_whose_widths_are_the_vocabulary_give_nothing(family: str, vocab: int, tmp_path: Path) -> None:
    found = describe(Checkpoint.open(build(family, tmp_path / "source", tied=False, vocab_size=vocab)))
    assert not _copies(found) and not found.not_understood


def test_another_vocabulary_s_size_collides() -> None:
    config = Config.parse(
        '{"text_config": {"vocab_size": 61, "vocab_size_per_layer_input": 61, "padded_vocab_size": 67}}'
    )
    assert collides(config, None, 61) and not collides(config, None, 67)


def test_a_number_collides_with_widths_their_multiples_and_heads() -> None:
    text = (
        '{"hidden_size": 48, "num_heads": 5, "head_dim": 11, "dims": [70], "expand": 7, "max_positions": 13, '
        '"vocab_size": 61, "eos_token_id": 67}'
    )
    config = Config.parse(text)
    assert [size for size in (48, 5, 96, 144, 55, 70, 336, 13) if not collides(config, None, size)] == []
    assert [size for size in (61, 67, 53, 10, 26, 48 * 5, 48 * 5 + 1) if collides(config, None, size)] == []
