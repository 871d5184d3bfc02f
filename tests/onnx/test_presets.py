"""Presets: what export writes beside a graph, how it is read again, and that a file cannot smuggle options in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from tests.onnx.conftest import Exported
from tests.onnx.handmade import external, save, table
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.files import read_onnx
from vocabsurgeon.onnx.presets import (
    FOLD_LIMIT,
    MEMORY_FIRST,
    NO_PREPACKING,
    PRESETS,
    SPEED_FIRST,
    presets_for,
    read_presets,
    session_options,
)

Get = Callable[..., Exported]


def viewed(folder: Path, kind: int, dtype: Any) -> Path:
    """A graph that looks tokens up in a table and reads it through a `Reshape` too."""
    array = table(64, 16).astype(dtype)
    folder.mkdir()
    (folder / "model.onnx_data").write_bytes(array.tobytes())
    shape = onnx.numpy_helper.from_array(np.array([64, 16]), "shape")
    nodes = [
        onnx.helper.make_node("Gather", ["table", "shape"], ["looked_up"]),
        onnx.helper.make_node("Reshape", ["table", "shape"], ["view"]),
    ]
    return save(folder / "model.onnx", [external("table", kind, (64, 16), 0, array.nbytes), shape], nodes)


def test_export_writes_both_and_they_open_a_session(exported: Get) -> None:
    folder = exported("llama").folder
    document = json.loads((folder / PRESETS).read_text())
    assert list(document["presets"]) == [MEMORY_FIRST, SPEED_FIRST]
    for name in document["presets"]:
        options = session_options(folder, name)
        onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    assert session_options(folder).get_session_config_entry(FOLD_LIMIT) == str(64 * 16 * 4 - 1)


def test_both_presets_compute_the_same(exported: Get) -> None:
    folder = exported("llama").folder
    ids = np.arange(6).reshape(1, 6)
    answers = []
    for name in (MEMORY_FIRST, SPEED_FIRST):
        session = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), session_options(folder, name), providers=["CPUExecutionProvider"]
        )
        feed = {"input_ids": ids, "attention_mask": np.ones_like(ids), "position_ids": ids}
        for value in session.get_inputs():
            if value.name not in feed:
                feed[value.name] = np.zeros((1, value.shape[1], 0, value.shape[3]), np.float32)
        answers.append(session.run(["logits"], feed)[0])
    np.testing.assert_allclose(*answers, rtol=1e-4, atol=1e-5)


def test_only_a_float32_table_is_kept_from_folding(tmp_path: Path) -> None:
    float32 = read_onnx(viewed(tmp_path / "a", 1, np.float32))
    float16 = read_onnx(viewed(tmp_path / "b", 10, np.float16))
    assert presets_for([float32])[0].entries == {FOLD_LIMIT: "4095"}
    assert presets_for([float16])[0].entries == {NO_PREPACKING: "1"}
    assert [preset.entries for preset in (presets_for([float32])[1], presets_for([float16])[1])] == [{}, {}]


def test_a_folder_without_presets_says_so(tmp_path: Path) -> None:
    assert read_presets(tmp_path) is None
    with pytest.raises(UsageError, match=r"has no ort_session_options\.json"):
        session_options(tmp_path)


def test_an_unknown_preset_is_named_with_those_there_are(exported: Get) -> None:
    with pytest.raises(UsageError, match="use one of: memory-first, speed-first"):
        session_options(exported("llama").folder, "fastest")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"presets": []}',
        '{"presets": {"a": {}}}',
        '{"presets": {"a": {"config_entries": 3}}}',
        "[" * 100_000,
        '{"presets": {"a": {"config_entries": {"session.optimized_model_filepath": "/tmp/x"}}}}',
        '{"presets": {"a": {"config_entries": {"session.disable_prepacking": 1}}}}',
        '{"presets": {"a": {"config_entries": {"session.disable_prepacking": "x"}}}}',
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / PRESETS).write_text(content)
    with pytest.raises(OnnxError) as caught:
        read_presets(tmp_path)
    assert PRESETS in str(caught.value)
