"""Exports that go on from states, index keys and compressed keys: names, numbers, and what a forgotten one does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.onnx.broken import copied, miswritten
from tests.onnx.conftest import Exported
from tests.onnx.states import QUICK, STATEFUL, decoded
from tests.sweep.models import built
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.onnx.audit import audit
from vocabsurgeon.onnx.caches import form_of
from vocabsurgeon.onnx.dedupe.operate import dedupe
from vocabsurgeon.onnx.export import ExportOptions, export
from vocabsurgeon.onnx.parity.bisect import FirstDifference
from vocabsurgeon.onnx.parity.check import check_parity
from vocabsurgeon.onnx.session import Session

Get = Callable[[str], Exported]


@pytest.fixture(scope="session")
def stateful(tmp_path_factory: pytest.TempPathFactory) -> Get:
    """`stateful(name)`: a row of `STATEFUL`, each exported once; do not write into what it returns."""
    made: dict[str, Exported] = {}

    def get(name: str) -> Exported:
        if name not in made:
            root = tmp_path_factory.mktemp("stateful")
            STATEFUL[name].model().save_pretrained(root / "checkpoint")
            made[name] = Exported(root / "checkpoint", root / "out", export(root / "checkpoint", root / "out"))
        return made[name]

    return get


NAMES = [pytest.param(name, marks=() if name in QUICK else pytest.mark.sweep) for name in STATEFUL]


@pytest.mark.parametrize("name", NAMES)
def test_all_that_a_layer_keeps_has_an_input_and_an_output(stateful: Get, name: str) -> None:
    report = stateful(name).report
    assert report.passed, report.notes
    past = STATEFUL[name].past
    assert report.inputs[3:] == past
    present = tuple(
        entry.replace("past_key_values", "present").replace("past_", "present_") for entry in STATEFUL[name].past
    )
    assert report.outputs == ("logits", *present)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sizes", [(1,) * 40, (17, 1, 1, 1, 20)], ids=["one by one", "several at once"])
def test_steps_from_zeros_give_what_the_whole_text_gives(stateful: Get, name: str, sizes: tuple[int, ...]) -> None:
    import torch
    import transformers

    case = stateful(name)
    ids = np.random.default_rng(5).integers(5, 150, (2, sum(sizes)))
    model = transformers.AutoModelForCausalLM.from_pretrained(case.checkpoint).eval()
    with torch.no_grad():
        expected = model(torch.from_numpy(ids), use_cache=False).logits.numpy()
    np.testing.assert_allclose(decoded(case, ids, sizes), expected, rtol=0, atol=2e-5 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize(
    ("name", "past"),
    [
        ("lfm2", "past_conv.0"),
        ("qwen3.5", "past_recurrent.0"),
        pytest.param("mamba2", "past_ssm.1", marks=pytest.mark.sweep),
        ("minimax", "past_recurrent.1"),
        pytest.param("inkling", "past_conv.1.2", marks=pytest.mark.sweep),
        pytest.param("deepseek v3.2", "past_key_values.1.indexer_key", marks=pytest.mark.sweep),
        ("deepseek v4", "past_key_values.0.indexer_kv"),
        ("deepseek v4", "past_key_values.1.compressor_gate"),
        ("minimax m3", "past_key_values.1.indexer_key"),
    ],
)
def test_a_state_that_is_forgotten_fails_parity(stateful: Get, tmp_path: Path, name: str, past: str) -> None:
    case = stateful(name)
    folder = copied(case.folder, tmp_path)
    forget(folder / "model.onnx", past)
    report = check_parity(folder / "model.onnx", Checkpoint.open(case.checkpoint))
    assert not report.passed
    assert {"new tokens", "one token"}.isdisjoint(report.failed_checks)  # a first call keeps nothing yet


def forget(graph: Path, past: str) -> None:
    """Let every reader of cache input `past` see zeros."""
    model = onnx.load(graph, load_external_data=False)
    kind = next(value for value in model.graph.input if value.name == past).type.tensor_type.elem_type
    for node in model.graph.node:
        node.input[:] = ["forgotten" if given == past else given for given in node.input]
    zero = onnx.helper.make_tensor("", kind, [1], [0])
    model.graph.node.insert(0, onnx.helper.make_node("Mul", [past, "zero"], ["forgotten"]))
    model.graph.node.insert(0, onnx.helper.make_node("Constant", [], ["zero"], value=zero))
    onnx.save(model, graph)


def test_a_state_that_is_written_wrong_is_named(stateful: Get, tmp_path: Path) -> None:
    case = stateful("qwen3.5")
    folder = copied(case.folder, tmp_path)
    miswritten(folder / "model.onnx", "present_recurrent.0")
    report = check_parity(folder / "model.onnx", Checkpoint.open(case.checkpoint))
    assert isinstance(report.first_difference, FirstDifference)
    assert report.first_difference.where == "cache of layer 0 (recurrent)"


def test_states_stay_in_float32_where_the_class_keeps_them_so(tmp_path: Path) -> None:
    STATEFUL["qwen3.5"].model().save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o", ExportOptions(dtype="float16"))
    assert report.passed, report.notes
    graph = onnx.load(tmp_path / "o" / "model.onnx", load_external_data=False).graph
    types = {value.name: value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)}
    for cache in ("past", "present"):
        assert types[f"{cache}_recurrent.0"] == onnx.TensorProto.FLOAT
        assert types[f"{cache}_conv.0"] == onnx.TensorProto.FLOAT16


def test_other_tools_read_an_export_with_states(stateful: Get, tmp_path: Path) -> None:
    case = stateful("qwen3.5")
    assert audit(case.folder, case.checkpoint).to_dict()["parity"] == case.report.parity.to_dict()
    report = dedupe(case.folder, tmp_path / "deduped")
    assert report.passed
    assert Session(tmp_path / "deduped" / "model.onnx").past == list(STATEFUL["qwen3.5"].past)


def test_layers_that_share_keys_take_none(tmp_path: Path) -> None:
    import transformers

    small = built("gemma3n_text", "Gemma3nForCausalLM", tied=True).model.config.to_dict()
    four = {name: [*small[name], *small[name]] for name in ("intermediate_size", "layer_types")}
    config = (
        small | four | {"num_hidden_layers": 4, "num_kv_shared_layers": 2, "activation_sparsity_pattern": [0.0] * 4}
    )
    model = transformers.Gemma3nForCausalLM(transformers.Gemma3nTextConfig(**config))
    model.save_pretrained(tmp_path / "c")
    report = export(tmp_path / "c", tmp_path / "o")
    assert report.passed, report.notes
    assert report.inputs[3:] == tuple(
        f"past_key_values.{layer}.{part}" for layer in (0, 1) for part in ("key", "value")
    )


def test_a_cache_with_a_tensor_that_is_not_known_has_no_form() -> None:
    import torch
    from transformers.cache_utils import DynamicCache

    model = STATEFUL["lfm2"].model()
    with torch.no_grad():
        cache: Any = model(torch.zeros(1, 2, dtype=torch.int64), use_cache=True).cache
    assert form_of(cache, model.config) is not None
    cache.layers[1].positions = torch.zeros(2)
    assert form_of(cache, model.config) is None
    assert form_of(DynamicCache(), model.config) is None


def test_a_filled_cache_shares_nothing_that_a_model_writes_over() -> None:
    import torch

    model = STATEFUL["qwen3.5"].model()
    ids = torch.tensor([[5, 6]])
    with torch.no_grad():
        kept: Any = model(ids, use_cache=True).cache
        form = form_of(kept, model.config)
        assert form is not None
        before = [tensor.clone() for tensor in form.read(kept)]
        filled = form.filled(form.read(kept))
        model(ids, cache=filled, use_cache=True)
    assert all(torch.equal(one, other) for one, other in zip(before, form.read(kept), strict=True))
    assert form.read(filled)[2].shape[2] == 4
