"""Operations on `pytorch_model.bin` checkpoints: the result is safetensors and loads alike; a no-op changes nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open

from tests.models.pickled import INDEX, SINGLE, as_pickled, loaded, save
from tests.surgery.shelf import (
    HEAD,
    INPUT,
    bits,
    contents,
    logits_of,
    reloaded,
    report_of,
    shares,
    taken,
    tensors_of,
    with_config,
)
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, tie, untie
from vocabsurgeon.surgery.verify import verify
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.tie_state import TieState

KINDS = pytest.mark.parametrize(
    ("old", "shards"), [(False, 1), (True, 1), (False, 3), (True, 3)], ids=["zip", "old", "zip-3", "old-3"]
)
_OPERATIONS = {
    "extend": lambda source, out: extend(source, out, extend_request(["<a>", "<b>"])),
    "tie": tie,
    "untie": untie,
}


def _state(source: Path) -> dict[str, torch.Tensor]:
    return {key: tensor for file in sorted(source.glob("*.bin")) for key, tensor in loaded(file).items()}


def _run(operation: str, source: Path, out: Path) -> OperationReport:
    report = _OPERATIONS[operation](source, out)
    assert not isinstance(report, Refusal) and report.proof.passed is True
    return report


@KINDS
@pytest.mark.parametrize("operation", _OPERATIONS)
def test_result_is_safetensors_of_the_same_division_with_the_same_logits(
    tmp_path: Path, operation: str, old: bool, shards: int
) -> None:
    source, out = as_pickled(taken(tmp_path / "source"), old=old, shards=shards), tmp_path / "out"
    before = contents(source)
    report = _run(operation, source, out)
    weights = {"model.safetensors"}
    if shards > 1:
        weights = {f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)}
        weights |= {"model.safetensors.index.json"}
    assert {path.name for path in out.glob("*.safetensors*")} == weights and not list(out.glob("*.bin*"))
    old_weights = {path.name for path in source.glob("pytorch_model*")}
    assert {entry["file"] for entry in report.to_dict()["files_omitted"]} == old_weights
    assert contents(source) == before
    model = reloaded(out)
    assert shares(model) is (operation != "untie")
    assert np.array_equal(logits_of(model), logits_of(reloaded(source)))
    assert verify(source, out).passed


@KINDS
def test_untouched_tensors_keep_their_bits_and_metadata_is_what_transformers_writes(
    tmp_path: Path, old: bool, shards: int
) -> None:
    source, out = as_pickled(taken(tmp_path / "source"), old=old, shards=shards), tmp_path / "out"
    _run("extend", source, out)
    written, wanted = tensors_of(out), _state(source)
    assert written.keys() == wanted.keys()
    for key, tensor in wanted.items():
        assert bits(written[key][: len(tensor)]) == bits(tensor), key
    for file in out.glob("*.safetensors"):
        with safe_open(file, "pt") as opened:
            assert opened.metadata() == {"format": "pt"}


@KINDS
@pytest.mark.parametrize("link", [False, True])
def test_a_run_that_changes_nothing_keeps_the_old_format_byte_for_byte(
    tmp_path: Path, old: bool, shards: int, link: bool
) -> None:
    source = as_pickled(taken(tmp_path / "source"), old=old, shards=shards, alias=False)
    report = tie(source, tmp_path / "out", RunOptions(link=link))
    assert not isinstance(report, Refusal) and report.proof.passed is True
    assert not report.to_dict()["changed"] and contents(tmp_path / "out") == contents(source)
    sums = report_of(tmp_path / "out")["source_fingerprint"]["files"]
    of_weights = [entry.keys() for name, entry in sums.items() if name.endswith(".bin")]
    assert len(of_weights) == shards
    assert all(("sampled_crc32" in keys) is link for keys in of_weights), "what is linked is not read whole"


def test_a_change_of_the_config_alone_writes_safetensors_too(tmp_path: Path) -> None:
    """Other formats of the same weights stay: the weights did not change."""
    source = as_pickled(with_config(taken(tmp_path / "source"), tie_word_embeddings=False), alias=False)
    (source / "tf_model.h5").write_bytes(b"weights")
    assert describe(Checkpoint.open(source)).tie.state is TieState.HEADLESS
    report = _run("tie", source, tmp_path / "out")
    assert [entry["file"] for entry in report.to_dict()["files_omitted"]] == [SINGLE]
    assert (tmp_path / "out" / "tf_model.h5").exists() and (tmp_path / "out" / "model.safetensors").exists()
    assert shares(reloaded(tmp_path / "out"))


@pytest.mark.parametrize("link", [False, True])
def test_untie_stores_a_copy_of_the_one_table(tmp_path: Path, link: bool) -> None:
    source = as_pickled(taken(tmp_path / "source"), alias=False)
    report = untie(source, tmp_path / "out", RunOptions(link=link))
    assert not isinstance(report, Refusal) and report.proof.passed is True
    assert not shares(reloaded(tmp_path / "out"))
    assert len(list((tmp_path / "out").glob("*.safetensors"))) == 1 + link


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_tables_and_weights_that_lie_transposed_become_row_major(tmp_path: Path, old: bool) -> None:
    source = as_pickled(taken(tmp_path / "source", tied=False), old=old)
    turned = {key: t.t().contiguous().t() if t.dim() == 2 else t for key, t in _state(source).items()}
    save(turned, source / SINGLE, old=old)
    assert Checkpoint.open(source).tensors[INPUT].order == (1, 0)
    request = extend_request(["<a>", "<b>"], init="mean")
    for name in ("turned", "straight"):
        report = extend(source, tmp_path / name, request)
        assert not isinstance(report, Refusal) and report.proof.passed is True
        save({key: t.contiguous() for key, t in turned.items()}, source / SINGLE, old=old)
    one, other = (tensors_of(tmp_path / name) for name in ("turned", "straight"))
    assert all(bits(one[key]) == bits(other[key]) for key in other) and one.keys() == other.keys()


def test_a_transposed_head_is_compared_by_value(tmp_path: Path) -> None:
    source = as_pickled(taken(tmp_path / "source"))
    state = _state(source)
    save({**state, HEAD: state[HEAD].t().contiguous().t()}, source / SINGLE)
    assert describe(Checkpoint.open(source)).tie.values_equal is True
    assert report_rows(_run("tie", source, tmp_path / "out")) == {INPUT}


def report_rows(report: OperationReport) -> set[str]:
    """The stored tables of the result."""
    return {table["key"] for table in report.to_dict()["tables"]}


def test_two_files_of_one_new_name_are_refused(tmp_path: Path) -> None:
    source = as_pickled(taken(tmp_path / "source"), shards=2)
    first, second = "pytorch_model-00001-of-00002.bin", "model-00001-of-00002.bin"
    (source / "pytorch_model-00002-of-00002.bin").rename(source / second)
    index = (source / INDEX).read_text()
    (source / INDEX).write_text(index.replace("pytorch_model-00002-of-00002.bin", second))
    assert first in Checkpoint.open(source).shards.headers
    with pytest.raises(CheckpointError, match=r"model-00001-of-00002\.safetensors: would be the name of two"):
        extend(source, tmp_path / "out", extend_request(["<a>"]))
    assert not (tmp_path / "out").exists()
