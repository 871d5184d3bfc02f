"""Two hundred shards, in either format: each operation works, with few files open, and rewrites what it must."""

from __future__ import annotations

import json
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from tests.models.pickled import INDEX as PICKLED_INDEX
from tests.models.pickled import save
from tests.models.tiny import model, write_tokenizer
from tests.surgery.shelf import HEAD, INPUT, bits, shares, tensors_of
from vocabsurgeon.checkpoint.shards import INDEX
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, tie, untie
from vocabsurgeon.vocabulary.describe import describe

SHARDS = 200
FEW = 24
"""Files that may be open beside those that are open already."""


@pytest.fixture(params=["safetensors", "bin"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A tied Llama whose table is stored twice, one or two tensors a shard."""
    folder, built = tmp_path / "source", model("llama", num_hidden_layers=23, hidden_size=8, intermediate_size=8)
    built.config.save_pretrained(folder)
    write_tokenizer(folder, built.config.vocab_size)
    tensors = {key: tensor.clone() for key, tensor in sorted(built.state_dict().items())}
    assert SHARDS <= len(tensors) < 2 * SHARDS
    weight_map = {}
    for number in range(SHARDS):
        part = {key: tensors[key] for key in list(tensors)[number::SHARDS]}
        name = f"model-{number + 1:05}-of-{SHARDS:05}.safetensors"
        if request.param == "bin":
            name = f"pytorch_{name.replace('safetensors', 'bin')}"
            save(part, folder / name)
        else:
            save_file(part, folder / name, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(part, name)
    index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": weight_map}
    (folder / (PICKLED_INDEX if request.param == "bin" else INDEX)).write_text(json.dumps(index))
    return folder


@contextmanager
def _few_files() -> Iterator[None]:
    """What opens many files at once fails inside."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    opened = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    resource.setrlimit(resource.RLIMIT_NOFILE, (opened + FEW, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_each_operation_works_with_few_open_files(source: Path, tmp_path: Path) -> None:
    with _few_files():
        before = describe(Checkpoint.open(source))
        reports = {
            "grown": extend(source, tmp_path / "grown", extend_request(["<a>"])),
            "tied": tie(source, tmp_path / "tied"),
            "untied": untie(source, tmp_path / "untied"),
        }
    old = _tensors(source)
    assert old.keys() == before.source.tensors.keys()
    for name, report in reports.items():
        assert not isinstance(report, Refusal) and report.proof.passed is True
        new = tensors_of(tmp_path / name)
        assert new.keys() == old.keys() - ({HEAD} if name == "tied" else set())
        assert all(bits(new[key][: len(old[key])]) == bits(old[key]) for key in new)
        assert len(new[INPUT]) == len(old[INPUT]) + (name == "grown")
        assert len(list((tmp_path / name).glob("*.safetensors"))) >= SHARDS - 1


def test_result_loads_in_transformers(source: Path, tmp_path: Path) -> None:
    import transformers

    extend(source, tmp_path / "out", extend_request(["<a>"]))
    loaded, info = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(info[name] for name in ("missing_keys", "unexpected_keys", "mismatched_keys")) and shares(loaded)


def test_untouched_shards_are_linked(source: Path, tmp_path: Path) -> None:
    """Safetensors can be; shards of the old format are all written anew."""
    pickled = Checkpoint.open(source).shards.pickled
    extend(source, tmp_path / "out", extend_request(["<a>"]), RunOptions(link=True))
    own = [path for path in (tmp_path / "out").glob("*.safetensors") if path.stat().st_nlink == 1]
    assert len(own) == (SHARDS if pickled else 2)


def _tensors(folder: Path) -> dict[str, torch.Tensor]:
    state = tensors_of(folder)
    for file in folder.glob("*.bin"):
        state |= torch.load(file, weights_only=True)
    return state
