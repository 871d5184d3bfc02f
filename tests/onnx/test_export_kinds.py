"""`export` of what is no decoder-only model with a cache: encoders, encoder–decoders, and models with other states."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.onnx.conftest import Exported
from tests.onnx.kinds import MODELS, save
from tests.sweep.models import built
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx import seq2seq_parts
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.load import load_model
from vocabsurgeon.onnx.parity.check import check_parity
from vocabsurgeon.onnx.parts_of import parts_of
from vocabsurgeon.onnx.tasks import TEXT_TO_TEXT, choose_task

Get = Callable[..., Exported]


@pytest.mark.parametrize("name", MODELS)
def test_every_kind_passes_and_stores_each_weight_once(kinds: Get, name: str) -> None:
    document = kinds(name).report.to_dict()
    assert document["passed"], document["notes"]
    assert document["bytes"]["orphaned"] == 0
    assert document["bytes"]["ratio"] <= 1.01
    assert document["duplicates"] == []


def test_a_masked_language_model_takes_segments_and_gives_logits(kinds: Get) -> None:
    report = kinds("bert").report
    assert (report.inputs, report.outputs) == (("input_ids", "attention_mask", "token_type_ids"), ("logits",))
    document = report.to_dict()
    assert (document["task"], document["cache"]) == ("fill-mask", False)
    assert {"left-padded batch", "right-padded batch", "one token"} <= set(document["parity"]["checks"])
    assert document["parity"]["greedy_equal"] is None


def test_a_model_without_a_head_gives_its_last_hidden_state(kinds: Get) -> None:
    report = kinds("bert body").report
    assert (report.to_dict()["task"], report.outputs) == ("feature-extraction", ("last_hidden_state",))
    assert report.parity.mean_kl is None
    assert report.parity.max_abs_diff > 0


def test_an_encoder_is_compared_beyond_its_window(kinds: Get) -> None:
    assert "beyond the window" in kinds("modernbert").report.parity.checks


@pytest.mark.parametrize("name", ["bart", "t5"])
def test_encoder_and_decoder_read_one_data_file_under_the_standard_names(kinds: Get, name: str) -> None:
    case = kinds(name)
    assert sorted(path.name for path in case.folder.glob("*onnx*")) == [
        "decoder_model.onnx",
        "encoder_model.onnx",
        "model.onnx_data",
    ]
    encoder, decoder = (read_onnx(case.folder / f"{part}_model.onnx") for part in ("encoder", "decoder"))
    assert (encoder.inputs, encoder.outputs) == (("input_ids", "attention_mask"), ("last_hidden_state",))
    layers = range(2 if name == "bart" else 1)
    cache = [f"{i}.{role}.{part}" for i in layers for role in ("decoder", "encoder") for part in ("key", "value")]
    fixed = ("encoder_attention_mask", "input_ids", "encoder_hidden_states")
    assert decoder.inputs == (*fixed, *(f"past_key_values.{layer}" for layer in cache))
    assert decoder.outputs == ("logits", *(f"present.{layer}" for layer in cache))
    assert encoder.data_files == decoder.data_files == (case.folder / "model.onnx_data",)
    table = [{(t.offset, t.shape) for t in graph.tensors if t.shape == (64, 16)} for graph in (encoder, decoder)]
    assert table[0] == table[1]
    assert len(table[0]) == 1


def test_a_step_does_not_compute_the_encoders_keys_again(kinds: Get) -> None:
    """Whatever the states are in a step, the answer is the same: their keys are taken from the past."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(kinds("bart").folder / "decoder_model.onnx"))
    random = np.random.default_rng(0)
    past = {
        value.name: random.standard_normal((1, 2, 5 if "encoder" in value.name else 3, 8)).astype(np.float32)
        for value in session.get_inputs()
        if value.name.startswith("past_key_values")
    }
    feed = {"input_ids": np.array([[7]]), "encoder_attention_mask": np.ones((1, 5), np.int64), **past}
    states = [random.standard_normal((1, 5, 16)).astype(np.float32), np.zeros((1, 5, 16), np.float32)]
    first, second = (session.run(None, feed | {"encoder_hidden_states": given}) for given in states)
    np.testing.assert_array_equal(first[0], second[0])
    assert {out.shape[2] for out in first[1:]} == {4, 5}


def test_speech_is_encoded_from_features(kinds: Get) -> None:
    encoder = read_onnx(kinds("whisper").folder / "encoder_model.onnx")
    assert encoder.inputs == ("input_features",)
    assert kinds("whisper").report.to_dict()["task"] == "automatic-speech-recognition"


@pytest.mark.parametrize("name", ["bert", "t5"])
def test_audit_compares_every_kind_with_its_checkpoint(kinds: Get, name: str) -> None:
    case = kinds(name)
    document = audit(case.folder, case.checkpoint).to_dict()
    assert document["parity"] == case.report.parity.to_dict()
    assert document["passed"]


def test_a_changed_weight_of_the_encoder_fails(kinds: Get, tmp_path: Path) -> None:
    import shutil

    case = kinds("t5")
    folder = Path(shutil.copytree(case.folder, tmp_path / "copy"))
    place = next(t for t in read_onnx(folder / "encoder_model.onnx").tensors if t.shape == (16, 32))
    with open(folder / "model.onnx_data", "r+b") as file:
        file.seek(place.offset)
        file.write(np.full(64, 0.9, np.float32).tobytes())
    graphs = [folder / "encoder_model.onnx", folder / "decoder_model.onnx"]
    report = check_parity(graphs, Checkpoint.open(case.checkpoint))
    assert not report.passed
    assert report.encoder is not None
    assert any(reason.startswith("encoder: states differ") for reason in report.reasons)


def test_a_cross_cache_that_is_not_read_fails(kinds: Get, tmp_path: Path) -> None:
    import shutil

    case = kinds("bart")
    folder = Path(shutil.copytree(case.folder, tmp_path / "copy"))
    model = onnx.load(folder / "decoder_model.onnx", load_external_data=False)
    swapped = {"past_key_values.0.encoder.key": "past_key_values.0.encoder.value"}
    for node in model.graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = swapped.get(name, name)
    onnx.save(model, folder / "decoder_model.onnx")
    graphs = [folder / "encoder_model.onnx", folder / "decoder_model.onnx"]
    report = check_parity(graphs, Checkpoint.open(case.checkpoint))
    assert not report.passed
    assert "decoded in steps" in report.worst or "greedy" in report.worst


@pytest.mark.parametrize(
    ("model_type", "named", "why"),
    [
        ("rwkv", "RwkvForCausalLM", "the model keeps states in a form of its own"),
        # widens the mask by an image's tokens as soon as there is a cache, image or not
        ("git", "GitForCausalLM", "with one, logits differ by"),
        # starts from nothing where it is given several tokens, which is too little for parity to see in its numbers
        ("zamba", "ZambaForCausalLM", "with one, the model does not go on from what it keeps (past_ssm.0)"),
    ],
)
def test_a_cache_that_does_not_hold_is_left_out_and_a_note_says_why(
    tmp_path: Path, model_type: str, named: str, why: str
) -> None:
    built(model_type, named, tied=True).model.save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o")
    assert report.passed, report.notes
    assert report.inputs == ("input_ids", "attention_mask", "position_ids")
    assert not report.exported.caches
    assert any(note.startswith(f"exported without a cache: {why}") for note in report.notes)
    assert audit(tmp_path / "o", tmp_path / "c").passed


def test_an_encoder_decoder_that_refuses_a_cache_is_exported_without_one(
    kinds: Get, monkeypatch: pytest.MonkeyPatch
) -> None:
    from transformers.cache_utils import DynamicCache, DynamicLayer

    class Full(DynamicLayer):
        def update(self, *_: object, **__: object) -> None:
            raise ValueError("no place left")

    def refusing(cache: DynamicCache) -> DynamicCache:
        made = DynamicCache()
        made.layers = [Full() for _ in cache.layers]
        return made

    monkeypatch.setattr(seq2seq_parts, "whole", refusing)
    source = Checkpoint.open(kinds("bart").checkpoint)
    parts = parts_of(load_model(source, TEXT_TO_TEXT, "float32"), TEXT_TO_TEXT, cache=True)
    assert not parts.caches
    (note,) = parts.notes
    assert note.startswith("exported without a cache: with one, the model does not run")
    assert "no place left" in note


@pytest.mark.parametrize(
    ("model_type", "named", "caches"),
    [
        ("llama4_text", "Llama4ForCausalLM", True),  # rotates by complex numbers
        ("mvp", "MvpForConditionalGeneration", True),  # wants the encoder's mask for every token
        ("fsmt", "FSMTForConditionalGeneration", True),  # wants it as it is
        ("neomme", "NeoMMEForMaskedLM", False),  # a window for each layer
        ("perceiver", "PerceiverForMaskedLM", False),  # answers for every position it has
        ("tapas", "TapasForMaskedLM", False),  # sums over segments, by nodes that are put in after tracing
        ("t5gemma", "T5GemmaForConditionalGeneration", True),  # a decoder with windows, whose cache transformers cuts
        ("rembert", "RemBertForCausalLM", True),  # wraps its cache as if there were an encoder
    ],
)
def test_classes_with_ways_of_their_own(tmp_path: Path, model_type: str, named: str, caches: bool) -> None:
    built(model_type, named, tied=True).model.save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o", ExportOptions(max_ratio=2))
    assert report.passed, report.notes
    assert report.exported.caches is caches


def test_tables_that_a_class_computes_and_never_saves_come_on_top(tmp_path: Path) -> None:
    model = built("marian", "MarianMTModel", tied=True).model
    model.save_pretrained(tmp_path / "c")
    assert not any("embed_positions" in key for key in Checkpoint.open(tmp_path / "c").tensors)
    report = export(tmp_path / "c", tmp_path / "o")
    assert report.passed, report.notes
    assert report.audit.bytes.ratio is not None and report.audit.bytes.ratio > 1.01
    table = model.config.max_position_embeddings * model.config.d_model * 4
    assert report.computed == table  # one for encoder and decoder


def test_parameters_that_a_class_keeps_in_float32_are_expected_in_float32(tmp_path: Path) -> None:
    folder = save("t5", tmp_path / "c")
    report = export(folder, tmp_path / "o", ExportOptions(dtype="float16"))
    assert report.passed, report.notes
    kept = sum(info.nbytes for key, info in Checkpoint.open(folder).tensors.items() if ".wo." in key)
    assert report.audit.bytes.ratio == 1 and report.widened == report.audit.widened == kept // 2 > 0
    assert any("keeps in float32, which the ratio counts" in note for note in report.notes)
    audited = audit(tmp_path / "o", folder)
    assert audited.passed and audited.bytes.ratio == 1 and audited.widened == report.widened
    assert any("of what is needed are float32" in note for note in audited.notes)


def test_a_task_that_the_class_does_not_do_is_one_line(tmp_path: Path) -> None:
    folder = save("bert", tmp_path / "c")
    with pytest.raises(OnnxError) as caught:
        export(folder, tmp_path / "o", ExportOptions(task="text2text-generation"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("model_type", "named", "task"),
    [
        ("bert", "BertForMaskedLM", "fill-mask"),
        ("bert", "BertModel", "feature-extraction"),
        ("t5", "T5EncoderModel", "feature-extraction"),
        ("bart", "BartForConditionalGeneration", "text2text-generation"),
        ("whisper", "WhisperForConditionalGeneration", "automatic-speech-recognition"),
        ("llama", "LlamaForCausalLM", "text-generation"),
        ("voxtral", "VoxtralForConditionalGeneration", "text-generation"),  # a decoder that listens
    ],
)
def test_the_task_follows_from_the_class(tmp_path: Path, model_type: str, named: str, task: str) -> None:
    folder = save("bert", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"model_type": model_type, "architectures": [named]}))
    assert choose_task(Checkpoint.open(folder), "auto").name == task
