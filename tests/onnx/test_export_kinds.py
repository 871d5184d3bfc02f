"""`export` of what is no decoder-only model with a cache: encoders, encoder–decoders, and models with other states."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.export_report import ExportReport
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.parity import check_parity
from vocabsurgeon.onnx.tasks import choose_task

COMMON = {"vocab_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
BERT = COMMON | {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 512,
}
BART = COMMON | {
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 2,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "max_position_embeddings": 128,
    "decoder_start_token_id": 2,
}
T5 = COMMON | {
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
MODERN = BERT | {"local_attention": 8, "global_attn_every_n_layers": 2, "max_position_embeddings": 64}
WHISPER = BART | {"num_mel_bins": 8, "max_source_positions": 10, "max_target_positions": 64}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "bert": ("BertConfig", "BertForMaskedLM", BERT),
    "modernbert": ("ModernBertConfig", "ModernBertForMaskedLM", MODERN),
    "bart": ("BartConfig", "BartForConditionalGeneration", BART),
    "t5": ("T5Config", "T5ForConditionalGeneration", T5),
    "whisper": ("WhisperConfig", "WhisperForConditionalGeneration", WHISPER),
    "bert body": ("BertConfig", "BertModel", BERT),
}


@dataclass(frozen=True)
class Case:
    """A checkpoint, what it was exported to, and the report."""

    checkpoint: Path
    folder: Path
    report: ExportReport


Get = Callable[..., Case]


def save(name: str, folder: Path, **config: Any) -> Path:
    """A random model of `MODELS`, every parameter random."""
    import torch
    import transformers

    config_class, model_class, row = MODELS[name]
    torch.manual_seed(0)
    model = getattr(transformers, model_class)(getattr(transformers, config_class)(**(row | config))).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        for key, buffer in model.named_buffers():
            if key.endswith("final_logits_bias"):
                buffer.copy_(torch.randn_like(buffer))
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Get:
    """`kinds(name)`: each exported once; do not write into what it returns."""
    made: dict[str, Case] = {}

    def get(name: str) -> Case:
        if name not in made:
            root = tmp_path_factory.mktemp("kind")
            checkpoint = save(name, root / "checkpoint")
            made[name] = Case(checkpoint, root / "out", export(checkpoint, root / "out"))
        return made[name]

    return get


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


def test_states_of_another_kind_mean_no_cache_and_a_note(tmp_path: Path) -> None:
    import transformers

    config = transformers.Mamba2Config(
        vocab_size=64,
        hidden_size=16,
        num_hidden_layers=1,
        state_size=8,
        head_dim=8,
        num_heads=4,
        n_groups=1,
        chunk_size=4,
        expand=2,
    )
    transformers.Mamba2ForCausalLM(config).save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o")
    assert report.passed, report.notes
    assert report.inputs == ("input_ids", "attention_mask", "position_ids")
    assert any("without a cache" in note for note in report.notes)


def test_a_task_that_the_class_does_not_do_is_one_line(tmp_path: Path) -> None:
    folder = save("bert", tmp_path / "c")
    with pytest.raises(OnnxError) as caught:
        export(folder, tmp_path / "o", ExportOptions(task="text2text-generation"))
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    ("named", "task"),
    [
        ("BertForMaskedLM", "fill-mask"),
        ("BertModel", "feature-extraction"),
        ("T5EncoderModel", "feature-extraction"),
        ("BartForConditionalGeneration", "text2text-generation"),
        ("WhisperForConditionalGeneration", "automatic-speech-recognition"),
        ("LlamaForCausalLM", "text-generation"),
    ],
)
def test_the_task_follows_from_the_class(tmp_path: Path, named: str, task: str) -> None:
    folder = save("bert", tmp_path / "c")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": [named]}))
    assert choose_task(Checkpoint.open(folder), "auto").name == task
