"""Tables of every floating dtype: old rows keep their bits, a new row is the exact mean rounded once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.models.pickled import as_pickled
from tests.surgery.shelf import HEAD, INPUT, bits, taken, tensors_of, with_tensors
from vocabsurgeon.checkpoint.dtypes import by_torch_name
from vocabsurgeon.checkpoint.evaluate import round_once
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend

FLOATS = (
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
)


def _source(folder: Path, dtype: str, *, pickled: bool = False) -> Path:
    source = with_tensors(
        taken(folder, tied=False),
        lambda tensors: tensors.update({key: tensors[key].to(getattr(torch, dtype)) for key in (INPUT, HEAD)}),
    )
    return as_pickled(source) if pickled else source


@pytest.mark.parametrize("pickled", [False, True], ids=["safetensors", "bin"])
@pytest.mark.parametrize("dtype", FLOATS)
def test_extend_keeps_old_rows_and_rounds_the_new_one_once(tmp_path: Path, dtype: str, pickled: bool) -> None:
    source = _source(tmp_path / "source", dtype)
    old = tensors_of(source)
    source = as_pickled(source) if pickled else source
    report = extend(source, tmp_path / "out", extend_request(["<a>"], describe=["<a>=w3 w4 w9"]))
    assert not isinstance(report, Refusal) and report.proof.passed is True
    new = tensors_of(tmp_path / "out")
    for key in (INPUT, HEAD):
        assert new[key].dtype is getattr(torch, dtype) and bits(new[key][:-1]) == bits(old[key])
        mean = old[key][[3, 4, 9]].to(torch.float64).numpy().mean(axis=0)
        numpy = by_torch_name()[dtype].numpy
        assert numpy is not None and bits(new[key][-1]) == round_once(mean, numpy).tobytes()
        steps = np.abs(np.frombuffer(bits(new[key][-1]), numpy).astype(np.float64) - mean)
        nearest = np.sort(np.abs(_every_value(numpy)[None] - mean[:, None]), axis=1)[:, 0] if "8" in dtype else steps
        assert np.array_equal(steps, nearest), "an 8-bit row is the nearest of all 256 values"


def _every_value(dtype: np.dtype) -> np.ndarray:  # type: ignore[type-arg]
    values = np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)
    return values[np.isfinite(values)]


def test_a_table_of_exponents_alone_is_refused(tmp_path: Path) -> None:
    """float8_e8m0fnu holds scales: no sign and no zero, so no embedding."""
    source = _source(tmp_path / "source", "float8_e8m0fnu")
    refusal = extend(source, tmp_path / "out", extend_request(["<a>"]))
    assert isinstance(refusal, Refusal) and "F8_E8M0" in refusal.reason and refusal.exit_code == 2
