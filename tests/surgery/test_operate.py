"""What running a plan costs and leaves: linked shards are not read whole, and a run that ends early ends soon."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.synthetic import TINY, write_checkpoint
from vocabsurgeon.checkpoint.record import RECORD
from vocabsurgeon.surgery import operate
from vocabsurgeon.surgery.operate import RunOptions
from vocabsurgeon.surgery.run import untie
from vocabsurgeon.surgery.verify import verify


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_checkpoint(tmp_path / "m", TINY, head=False)


def _sums(folder: Path) -> set[str]:
    files = json.loads((folder / RECORD).read_text())["source_fingerprint"]["files"]
    return {key for name, entry in files.items() if name.endswith(".safetensors") for key in entry} - {"bytes"}


def test_untouched_shards_are_summed_whole_when_copied_and_sampled_when_linked(source: Path, tmp_path: Path) -> None:
    untie(source, tmp_path / "copied")
    untie(source, tmp_path / "linked", RunOptions(link=True))
    assert _sums(tmp_path / "copied") == {"crc32", "sha256"}, "what is copied whole has the result's sum"
    assert _sums(tmp_path / "linked") == {"sampled_crc32"}


@pytest.mark.parametrize("link", [False, True])
def test_verify_knows_the_source_of_either_by_its_record(source: Path, tmp_path: Path, link: bool) -> None:
    untie(source, tmp_path / "out", RunOptions(link=link))
    assert verify(source, tmp_path / "out").passed


def test_sum_of_the_source_is_given_up_when_writing_fails(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[bool] = []

    def sum_slowly(source: Any, names: Any, sampled: Any, stopped: Any) -> dict[str, Any]:
        while not stopped():
            pass
        told.append(True)
        return {}

    def fail(*given: Any, **named: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(operate, "source_sums", sum_slowly)
    monkeypatch.setattr(operate, "write", fail)
    with pytest.raises(KeyboardInterrupt):
        untie(source, tmp_path / "out")
    assert told and not (tmp_path / "out").exists()
