"""Every key of every file that a run wrote, changed, removed and added, and every byte of the small ones: all found."""

from __future__ import annotations

import copy
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from vocabsurgeon.checkpoint.record import RECORD, check_record
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.plan import Plan, Refusal
from vocabsurgeon.surgery.promises import ConfigAsIntended, EditedFileAsPlanned, Promise
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend, extending, plan_for
from vocabsurgeon.surgery.verify import verify, verify_record

DEMO = Path(__file__).parents[2] / "vocabsurgeon" / "demo_model"
REQUEST = extend_request(["<|new|>", "<|end|>"], roles=["eos=<|end|>"], chat_template="{{ messages }}")


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys") / "out"
    report = extend(DEMO, folder, REQUEST)
    assert not isinstance(report, Refusal) and report.proof.passed is True
    return folder


def _promises(name: str) -> list[Promise]:
    _, plan = plan_for(DEMO, extending(REQUEST))
    assert isinstance(plan, Plan)
    about = [made for made in plan.promises if isinstance(made, EditedFileAsPlanned) and made.file == name]
    return [*about, *(made for made in plan.promises if name == "config.json" and isinstance(made, ConfigAsIntended))]


def _written(out: Path) -> list[str]:
    return sorted(
        path.name
        for path in out.glob("*.json")
        if path.name != RECORD and path.read_bytes() != (DEMO / path.name).read_bytes()
    )


def test_the_run_wrote_what_is_tried_here(out: Path) -> None:
    assert _written(out) == [
        "config.json",
        "generation_config.json",
        "special_tokens_map.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def _places(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Every path into the document; of long lists and objects the first, the middle and the last entries."""
    keys = list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    some = keys if len(keys) <= 40 else [*keys[:3], keys[len(keys) // 2], *keys[-6:]]
    for key in some:
        yield (*path, key)
        yield from _places(value[key], (*path, key))


def _mutants(document: Any) -> Iterator[tuple[str, Any]]:
    for path in _places(document):
        for kind in ("changed", "removed", "added"):
            other = copy.deepcopy(document)
            holder = other
            for key in path[:-1]:
                holder = holder[key]
            held = holder[path[-1]]
            if kind == "changed":
                holder[path[-1]] = _otherwise(held)
            elif kind == "removed":
                del holder[path[-1]]
            elif isinstance(holder, list):
                holder.insert(path[-1], held)
            else:
                holder[f"{path[-1]} "] = None
            yield f"{kind} {'.'.join(map(str, path))}", other


def _otherwise(value: Any) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return [*value, None] if isinstance(value, list) else {**value, "more": None}


@pytest.mark.parametrize(
    "name",
    ["config.json", "generation_config.json", "special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"],
)
def test_each_key_changed_removed_or_added_is_found_by_content(name: str, out: Path, tmp_path: Path) -> None:
    """Without the record: its hashes would find any of it, and say nothing of the proof by content."""
    before, folder = Checkpoint.open(DEMO), tmp_path / "out"
    shutil.copytree(out, folder)
    promises, seen = _promises(name), 0
    assert promises and all(made.check(before, Checkpoint.open(folder)).passed for made in promises)
    document = json.loads((out / name).read_text())
    for what, mutant in _mutants(document):
        (folder / name).write_text(json.dumps(mutant, ensure_ascii=False))
        after = Checkpoint.open(folder) if name == "config.json" else _opened_again(folder, before)
        assert any(made.check(before, after).passed is False for made in promises), f"{name}: {what}"
        seen += 1
    assert seen > 10


def _opened_again(folder: Path, like: Checkpoint) -> Checkpoint:
    """The result without the cost of reading its headers again: those files are not what changed."""
    return Checkpoint(folder, (*like.files, RECORD), like.config, like.shards)


SMALL = ["config.json", "generation_config.json", "special_tokens_map.json", "tokenizer_config.json"]


@pytest.mark.parametrize("name", SMALL)
def test_each_byte_of_a_small_file_flipped_is_found_by_the_record(name: str, out: Path, tmp_path: Path) -> None:
    """The other files are not summed a thousand times: they are left away, which is told alike each time."""
    for kept in (name, RECORD):
        shutil.copy(out / kept, tmp_path / kept)
    alone, raw = set(check_record(tmp_path).problems), (out / name).read_bytes()
    for place in range(len(raw)):
        flipped = bytearray(raw)
        flipped[place] ^= 1 << (place % 8)
        (tmp_path / name).write_bytes(flipped)
        assert f"{name} changed" in set(check_record(tmp_path).problems) - alone, place


CHANGES = {
    "eos points at pad": ("tokenizer_config.json", lambda d: d.update(eos_token="<|pad|>")),
    "eos removed": ("tokenizer_config.json", lambda d: d.pop("eos_token")),
    "a longer text": ("tokenizer_config.json", lambda d: d.update(model_max_length=7)),
    "another class": ("tokenizer_config.json", lambda d: d.update(tokenizer_class="X")),
    "an empty map": ("special_tokens_map.json", lambda d: d.clear()),
    "no decoder": ("tokenizer.json", lambda d: d.update(decoder=None)),
    "no post-processor": ("tokenizer.json", lambda d: d.update(post_processor={"type": "ByteLevel"})),
    "truncation": ("tokenizer.json", lambda d: d.update(truncation={"max_length": 4})),
    "merges swapped": ("tokenizer.json", lambda d: d["model"]["merges"].insert(0, d["model"]["merges"].pop(1))),
    "a merge removed": ("tokenizer.json", lambda d: d["model"]["merges"].pop()),
    "lstrip of an old token": ("tokenizer.json", lambda d: d["added_tokens"][0].update(lstrip=True)),
    "sampling": ("generation_config.json", lambda d: d.update(do_sample=True, temperature=2.0)),
    "another eos": ("generation_config.json", lambda d: d.update(eos_token_id=5)),
}


@pytest.mark.parametrize(("name", "change"), CHANGES.values(), ids=list(CHANGES))
def test_verify_finds_changes_of_meaning(name: str, change: Any, out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(out, folder)
    document = json.loads((folder / name).read_text())
    change(document)
    (folder / name).write_text(json.dumps(document, indent=2, ensure_ascii=False))
    report = verify(DEMO, folder)
    broken = {key for key, passed in report.proof.by_name.items() if passed is False}
    assert not report.passed and {"edited_files_as_planned", "record_intact"} <= broken
    assert not verify_record(folder).passed


def test_a_template_slipped_in_or_a_file_deleted_is_found(out: Path, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    shutil.copytree(out, folder)
    (folder / "chat_template.json").write_text('{"chat_template": "x"}')
    assert verify(DEMO, folder).proof.by_name["files_carried"] is False
    (folder / "chat_template.json").unlink()
    assert verify(DEMO, folder).passed
    (folder / "tokenizer_config.json").unlink()
    assert not verify(DEMO, folder).passed and not verify_record(folder).passed
