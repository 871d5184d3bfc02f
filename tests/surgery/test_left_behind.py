"""`extend` leaves no tensor with an entry for each id short unsaid; `verify` finds one that another tool left so."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from tests.surgery.shelf import INPUT, Tensors, bits, report_of, taken, tensors_of, with_config, with_tensors
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.cli import main
from vocabsurgeon.errors import UsageError
from vocabsurgeon.surgery.plan import Refusal
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend
from vocabsurgeon.surgery.verify import verify
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import check

ROWS = 61
MASK, MTP = "logit_mask", "model.layers.2.embed_tokens.weight"


def _source(folder: Path, ids: int = ROWS, **tensors: torch.Tensor) -> Path:
    """The tiny llama with `tensors` stored beside its own, and a tokenizer with `ids` entries."""
    from tests.models.tiny import write_tokenizer

    with_tensors(taken(folder, tied=False, vocab_size=ROWS), lambda held: held.update(tensors))
    write_tokenizer(folder, ids)
    return folder


def _drafted(folder: Path) -> Path:
    return _source(folder, **{MTP: torch.randn(ROWS, 16)})


@pytest.mark.parametrize(
    ("key", "tensor"),
    [
        (MASK, torch.ones(ROWS)),
        ("prior", torch.ones(1, ROWS)),
        ("t2d", torch.ones(ROWS, dtype=torch.bool)),
        ("d2t", torch.zeros(ROWS, dtype=torch.int64)),
        ("unheard.of.weight", torch.randn(ROWS, 16)),
    ],
)
def test_one_that_would_stay_short_is_refused_with_the_way_out(key: str, tensor: torch.Tensor, tmp_path: Path) -> None:
    source = _source(tmp_path / "source", **{key: tensor})
    result = extend(source, tmp_path / "out", extend_request(["<new>"]))
    assert isinstance(result, Refusal) and result.exit_code == 2
    assert f"model.safetensors: {key} {list(tensor.shape)}" in result.reason and "short of 62" in result.reason
    assert f"--keep-size {key}" in result.ways_out[0] and not (tmp_path / "out").exists()

    kept = extend(source, tmp_path / "out", extend_request(["<new>"], keep_size=[key]))
    assert not isinstance(kept, Refusal) and kept.proof.passed
    assert bits(tensors_of(tmp_path / "out")[key]) == bits(tensor)
    assert [note for note in kept.plan.notes if note.startswith(f"{key} was left at 61 entries")]


def test_each_one_left_short_is_named(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", a=torch.ones(ROWS), b=torch.ones(ROWS))
    result = extend(source, tmp_path / "out", extend_request(["<new>"]))
    assert isinstance(result, Refusal)
    assert len(result.evidence) == 1 and "--keep-size a --keep-size b" in result.ways_out[0]
    half = extend(source, tmp_path / "out", extend_request(["<new>"], keep_size=["a"]))
    assert isinstance(half, Refusal) and "b [61]" in half.reason


def test_spare_rows_leave_it_as_it_is_and_say_so(tmp_path: Path) -> None:
    result = extend(_source(tmp_path / "s", 50, **{MASK: torch.ones(ROWS)}), tmp_path / "o", extend_request(["<new>"]))
    assert not isinstance(result, Refusal)
    assert f"{MASK}: its entries at new ids were left as they are" in result.plan.notes


def test_one_as_long_as_the_ids_is_short_in_the_spare_rows(tmp_path: Path) -> None:
    result = extend(_source(tmp_path / "s", 50, **{MASK: torch.ones(50)}), tmp_path / "o", extend_request(["<new>"]))
    assert isinstance(result, Refusal) and f"{MASK} [50]" in result.reason


def test_one_of_a_padded_size_has_room(tmp_path: Path) -> None:
    result = extend(_source(tmp_path / "s", **{MASK: torch.ones(64)}), tmp_path / "o", extend_request(["<new>"]))
    assert not isinstance(result, Refusal)


def test_nothing_to_add_refuses_nothing(tmp_path: Path) -> None:
    result = extend(_source(tmp_path / "s", **{MASK: torch.ones(ROWS)}), tmp_path / "o", extend_request())
    assert not isinstance(result, Refusal) and not result.plan.changed


def test_keep_size_names_a_stored_tensor_that_does_not_grow(tmp_path: Path) -> None:
    source = _drafted(tmp_path / "source")
    for key, told in (("absent", "no tensor absent"), (MTP, "grows"), (INPUT, "grows")):
        with pytest.raises(UsageError, match=told):
            extend(source, tmp_path / "out", extend_request(["<new>"], keep_size=[key]))


def test_the_command_line_has_the_option(tmp_path: Path) -> None:
    source, out = _source(tmp_path / "source", **{MASK: torch.ones(ROWS)}), tmp_path / "out"
    asked = ["extend", str(source), str(out), "--token", "<new>", "--json"]
    refused = CliRunner().invoke(main, asked)
    assert refused.exit_code == 2 and MASK in json.loads(refused.stdout)["reason"]
    assert CliRunner().invoke(main, [*asked, "--keep-size", MASK]).exit_code == 0
    assert [entry["key"] for entry in report_of(out)["tables_not_understood"]] == []  # it is 61 long, the rows 62


def test_a_draft_s_table_grows_by_its_own_rows(tmp_path: Path) -> None:
    source = _drafted(tmp_path / "source")
    result = extend(source, tmp_path / "out", extend_request(["<new>"], init="copy:w7"))
    assert not isinstance(result, Refusal) and result.proof.passed
    old, new = tensors_of(source)[MTP], tensors_of(tmp_path / "out")[MTP]
    assert new.shape == (ROWS + 1, 16) and bits(new[:ROWS]) == bits(old) and bits(new[ROWS]) == bits(old[7])
    assert verify(source, tmp_path / "out").passed and check(describe(Checkpoint.open(tmp_path / "out"))).passed


def test_a_copy_left_short_is_refused_before_it_falls_further_behind(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", **{MTP: torch.randn(ROWS - 1, 16)})
    result = extend(source, tmp_path / "out", extend_request(["<new>"]))
    assert isinstance(result, Refusal) and f"{MTP} [60, 16]" in result.reason
    kept = extend(source, tmp_path / "out", extend_request(["<new>"], keep_size=[MTP]))
    assert not isinstance(kept, Refusal) and kept.proof.passed


def _by_another_tool(source: Path, out: Path, *, along: bool) -> Path:
    """What a tool that grows the class's own tables makes of `source`: everything by one row, the rest `along`."""
    import shutil

    def grow(tensors: Tensors) -> None:
        for key, tensor in list(tensors.items()):
            if along or key in (INPUT, "lm_head.weight"):
                axis = next((axis for axis, size in enumerate(tensor.shape) if size == ROWS), None)
                if axis is not None:
                    more = tensor.narrow(axis, 0, 1)
                    tensors[key] = torch.cat((tensor, more), axis)

    shutil.copytree(source, out)
    return with_config(with_tensors(out, grow), vocab_size=ROWS + 1)


def test_verify_finds_the_copy_that_another_tool_left_short(tmp_path: Path) -> None:
    source = _drafted(tmp_path / "source")
    left, grown = (
        _by_another_tool(source, tmp_path / name, along=along) for name, along in (("l", False), ("g", True))
    )
    report = verify(source, left)
    assert not report.passed
    assert any(MTP in line for line in report.proof.evidence["old_rows_identical"])
    assert verify(source, grown).passed


def test_verify_takes_a_mask_that_another_tool_grew(tmp_path: Path) -> None:
    source = _source(tmp_path / "source", **{MASK: torch.rand(1, ROWS)})
    grown = _by_another_tool(source, tmp_path / "grown", along=True)
    assert verify(source, grown).passed
    with_tensors(grown, lambda held: held[MASK].__setitem__((0, 5), 9.0))
    assert not verify(source, grown).passed
