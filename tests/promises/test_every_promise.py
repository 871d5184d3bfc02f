"""No promise without a test that it holds and one that it fails; and each survives being stored as JSON."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest

from tests.promises.pairs import OPERATIONS, source_of
from vocabsurgeon.errors import ConfigError
from vocabsurgeon.surgery.codec import decode, encode
from vocabsurgeon.surgery.plan import Plan
from vocabsurgeon.surgery.promises import PROMISES, Promise
from vocabsurgeon.surgery.run import plan_for

HERE = Path(__file__).parent


def _subclasses(base: type) -> set[type]:
    return {base, *(found for below in base.__subclasses__() for found in _subclasses(below))}


def test_every_promise_class_is_in_the_table() -> None:
    assert {found.__name__ for found in _subclasses(Promise)} - {"Promise"} == set(PROMISES)
    assert len({promise.name for promise in PROMISES.values()}) == len(PROMISES)


@pytest.mark.parametrize("name", PROMISES)
def test_every_promise_has_a_file_that_keeps_it_and_one_that_breaks_it(name: str) -> None:
    file = HERE / f"test_{re.sub(r'(?<!^)(?=[A-Z])', '_', name).lower()}.py"
    functions = {node.name for node in ast.parse(file.read_text()).body if isinstance(node, ast.FunctionDef)}
    assert any(function.startswith("test_holds") for function in functions)
    assert any(function.startswith("test_fails") for function in functions)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_promises_survive_the_record(operation: str, tmp_path: Path) -> None:
    _, plan = plan_for(source_of(operation, tmp_path), OPERATIONS[operation]())
    assert isinstance(plan, Plan)
    for promise in plan.promises:
        stored = json.loads(json.dumps(encode(promise)))
        again = decode(stored, PROMISES, "record")
        assert encode(again) == encode(promise) and type(again) is type(promise)


@pytest.mark.parametrize(
    "entry",
    [
        None,
        1,
        [],
        {},
        {"is": "Path"},
        {"is": ["IndexExact"]},
        {"is": "IndexExact", "more": 1},
        {"is": "CopyIdentical", "key": 1, "source": "x"},
    ],
    ids=str,
)
def test_what_is_no_promise_is_refused(entry: object) -> None:
    with pytest.raises(ConfigError):
        decode(entry, PROMISES, "record")
