"""Inputs that are made up fit each other: sizes that belong together are equal, ids stay below their table's rows."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.onnx.exports import model, value
from tests.onnx.handmade import inline, table
from vocabsurgeon.onnx.dedupe.comparison import Comparison
from vocabsurgeon.onnx.dedupe.feeds import Input, feeds
from vocabsurgeon.onnx.dedupe.lookups import rows_looked_up

IDS = Input("input_ids", "tensor(int64)", ["batch_size", "sequence_length"], 40)
PAST = Input("past_key_values.0.key", "tensor(float16)", ["batch_size", 2, "past_sequence_length", 8], None)


def shapes(inputs: list[Input]) -> dict[str, dict[str, tuple[int, ...]]]:
    made = feeds(inputs, [])
    return {check: {name: array.shape for name, array in given.items()} for check, given in made.items()}


@pytest.mark.parametrize(
    "dimension", ["total_sequence_length", "past_sequence_length + sequence_length", "past_sequence_length + 1", None]
)
def test_a_mask_covers_past_and_sequence(dimension: str | None) -> None:
    mask = Input("attention_mask", "tensor(int64)", ["batch_size", dimension], None)
    made = shapes([IDS, mask, PAST])
    assert made["one step"] == {"input_ids": (1, 1), "attention_mask": (1, 6), "past_key_values.0.key": (1, 2, 5, 8)}
    assert made["random ids"]["past_key_values.0.key"] == (2, 2, 0, 8)


def test_without_a_past_a_step_is_one_token() -> None:
    mask = Input("attention_mask", "tensor(int64)", ["batch_size", None], None)
    assert shapes([IDS, mask])["one step"] == {"input_ids": (1, 1), "attention_mask": (1, 1)}


def test_dimensions_without_a_telling_name_follow_the_input() -> None:
    ids = Input("input_ids", "tensor(int64)", ["s0", "s1"], 40)
    cache = Input("input.cache.layers.0.keys", "tensor(float)", ["s0", 2, "s2", 8], None)
    mask = Input("attention_mask", "tensor(int64)", ["s0", "s3"], None)
    made = shapes([ids, cache, mask])
    assert made["random ids"] == {
        "input_ids": (2, 7),
        "input.cache.layers.0.keys": (2, 2, 0, 8),
        "attention_mask": (2, 7),
    }
    assert made["one step"]["attention_mask"] == (1, 6)


def test_values_mean_what_the_names_say() -> None:
    positions = Input("position_ids", "tensor(int64)", ["batch_size", "sequence_length"], None)
    types = Input("token_type_ids", "tensor(int32)", ["batch_size", "sequence_length"], 2)
    branch = Input("use_cache_branch", "tensor(bool)", [1], None)
    made = feeds([IDS, positions, types, branch, PAST], [[3, 99, 5]])
    assert all(given["input_ids"].max() < 40 for given in made.values())
    assert made["text 0"]["input_ids"].tolist() == [[3, 99 % 40, 5]]
    assert made["one step"]["position_ids"].tolist() == [[5]]
    assert made["random ids"]["position_ids"][1].tolist() == list(range(7))
    assert set(np.unique(made["random ids"]["token_type_ids"])) <= {0, 1}
    assert (made["random ids"]["use_cache_branch"].item(), made["one step"]["use_cache_branch"].item()) == (False, True)


def test_a_type_that_cannot_be_made_makes_nothing() -> None:
    assert feeds([IDS, Input("text", "tensor(string)", [1], None)], []) == {}


ONE = np.ones(4, np.float32)


@pytest.mark.parametrize(
    ("before", "after", "passed"),
    [
        (ONE, ONE, True),
        (ONE, ONE + 1e-6, True),
        (ONE, ONE + 1e-3, False),
        (ONE, ONE.astype(np.float64), False),
        (ONE, ONE.reshape(2, 2), False),
        (np.arange(4), np.arange(4) + 1, False),
        (np.array([1, np.nan, np.inf], np.float32), np.array([1, np.nan, np.inf], np.float32), True),
        (np.array([1, np.nan], np.float32), np.array([1.000001, np.nan], np.float32), True),
        (np.array([1, np.inf], np.float32), np.array([1, -np.inf], np.float32), False),
        (np.array([1, np.nan], np.float32), np.array([np.nan, 1], np.float32), False),
        (ONE, "nothing: it did not run", False),
    ],
)
def test_outputs_are_compared_by_type_shape_and_tolerance(before: object, after: object, passed: bool) -> None:
    comparison = Comparison()
    comparison.add("g", "c", "o", "float32", before, after)
    report = comparison.report(())
    assert report is not None and report.passed is passed
    assert report.bit_exact is (passed and np.array_equal(before, after, equal_nan=True))  # type: ignore[arg-type]


def test_nothing_compared_is_no_parity() -> None:
    assert Comparison().report(()) is None


def test_tables_that_a_branch_looks_ids_up_in_count() -> None:
    """As in the merged decoders of optimum."""
    lookup = helper.make_node("Gather", ["table", "ids"], ["x"])
    branch = helper.make_graph([lookup], "branch", [], [value("x", 1, None)])
    node = helper.make_node("If", ["flag"], ["y"], then_branch=branch, else_branch=branch)
    inputs = [value("ids", TensorProto.INT64, [3]), value("flag", TensorProto.BOOL, [])]
    made = model([node], [inline("table", table(40, 8))], inputs, [value("y", 1, None)])
    assert rows_looked_up(made) == {"ids": 40}


def test_a_size_that_is_written_as_a_name_is_a_size() -> None:
    """As `transformers.exporters` states the width of a head."""
    cache = Input("input.cache.layers.0.keys", "tensor(float)", ["s18", 2, "s39", "8"], None)
    assert shapes([IDS, cache])["one step"]["input.cache.layers.0.keys"] == (1, 2, 5, 8)


def test_a_width_that_the_graph_leaves_open_is_told() -> None:
    """As onnxruntime-genai's builder leaves it."""
    past = Input("past_key_values.0.key", "tensor(float)", ["batch_size", 2, "past_sequence_length", "kv_dim"], None)
    made = feeds([IDS, past], [], head=16)
    assert [given["past_key_values.0.key"].shape for given in made.values()] == [(2, 2, 0, 16), (1, 2, 5, 16)]


@pytest.mark.parametrize(
    ("nodes", "rows"),
    [
        ([helper.make_node("Gather", ["table", "ids"], ["x"])], 40),
        ([helper.make_node("Gather", ["table", "ids"], ["x"], axis=1)], 8),
        ([helper.make_node("Gather", ["table", "ids"], ["x"], axis=-1)], 8),
        ([helper.make_node("Transpose", ["table"], ["t"]), helper.make_node("Gather", ["t", "ids"], ["x"])], 8),
        (
            [
                helper.make_node("Transpose", ["table"], ["t"], perm=[0, 1]),
                helper.make_node("Gather", ["t", "ids"], ["x"]),
            ],
            40,
        ),
        ([helper.make_node("Gather", ["table", "ids"], ["x"], axis=7)], None),
    ],
)
def test_rows_of_the_table_that_ids_look_up(nodes: list[onnx.NodeProto], rows: int | None) -> None:
    made = model(nodes, [inline("table", table(40, 8))], [value("ids", TensorProto.INT64, [3])], [value("x", 1, None)])
    assert rows_looked_up(made).get("ids") == rows
