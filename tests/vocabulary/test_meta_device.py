"""Types that the families table does not hold: the class itself is asked, then shapes and names, then the user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.runner import in_process, vocabsurgeon
from tests.families import builds
from tests.families.generate import FAMILIES as ROWS
from tests.models.tiny import TINY
from tests.surgery.shelf import (
    HEAD,
    INPUT,
    bits,
    contents,
    logits_of,
    reloaded,
    shares,
    shelved,
    taken,
    tensors_of,
    with_config,
    with_tensors,
)
from vocabsurgeon.checkpoint.config import Config
from vocabsurgeon.checkpoint.shards import Shards
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import CheckpointError
from vocabsurgeon.vocabulary import tables as tables_module
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.families import Family, family_for
from vocabsurgeon.vocabulary.meta_device import Observed, observe
from vocabsurgeon.vocabulary.model_class import class_of
from vocabsurgeon.vocabulary.tables import Tables, find_tables
from vocabsurgeon.vocabulary.tie_state import TieState

FACTS = (
    *("input_key", "output_key", "output_bias", "others", "shared", "shared_if_tied", "tie_level", "nested"),
    *("root_default", "text_default", "flag_keys", "rows_beyond", "elsewhere", "base_model_prefix"),
)
"""Fields of `Family` that the class shows. What was read from its code (`beyond_moves`, `no_tokens`) it does not."""
TYPES = ("llama", "gpt_neox", "bert", "roberta", "t5", "bart", "marian", "whisper", "gemma3", "qwen2_vl", "mllama")


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    """The families table holds no type."""
    monkeypatch.setattr(tables_module, "family_for", lambda *arguments: None)
    monkeypatch.setattr(tables_module, "composed_family", lambda config: None)


def _found(source: Path, **options: Any) -> Tables:
    return find_tables(Checkpoint.open(source), **options)


def _of_row(row: dict[str, Any]) -> tuple[Family | None, Observed, str]:
    """What the table says of a row's first class, what the class says under the config it was observed with."""
    model_type, name = row["type"], row["classes"][0]
    stated = dict(builds.subject(model_type, name).json)
    document = json.loads(builds.config_of(model_type, stated).to_json_string(use_diff=False))
    document |= {"architectures": [name], "model_type": model_type.partition("+")[0]}
    source = Checkpoint(Path("/nowhere"), (), Config.parse(json.dumps(document)), Shards({}, None))
    return family_for(model_type, name), observe(source), name


def _rows() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(ROWS.read_text())["rows"]
    return rows


def _differences(known: Family, seen: Family) -> list[str]:
    """The facts that differ. A size that must agree with the observed one is known to the table alone (Marian)."""
    wrong = [name for name in FACTS if getattr(seen, name) != getattr(known, name)]
    return wrong + ([] if set(seen.size_keys) <= set(known.size_keys) else ["size_keys"])


@pytest.mark.parametrize("model_type", TYPES)
def test_the_class_says_what_the_table_says(model_type: str) -> None:
    known, seen, _ = _of_row(next(row for row in _rows() if row["type"] == model_type))
    assert known is not None and seen.family is not None, seen.evidence
    assert _differences(known, seen.family) == []


@pytest.mark.sweep
def test_every_class_says_what_the_table_says() -> None:
    """Prints the agreement. A class that needs a library which is missing here cannot be asked."""
    agree, silent, differ = 0, [], []
    for row in _rows():
        known, seen, name = _of_row(row)
        assert known is not None
        if seen.family is None:
            silent.append(f"{row['type']}/{name}: {seen.evidence[0]}")
        elif wrong := _differences(known, seen.family):
            differ.append(f"{row['type']}/{name}: {', '.join(wrong)}")
        else:
            agree += 1
    print(f"{agree} agree, {len(differ)} differ, {len(silent)} cannot be asked", *differ, *silent, sep="\n")
    assert not differ and all("ImportError" in line for line in silent)


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("family", TINY)
@pytest.mark.parametrize("tied", [True, False], ids=["tied", "untied"])
def test_the_meta_device_finds_what_the_table_finds(family: str, tied: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = shelved(family, tied=tied)
    seen = describe(Checkpoint.open(source))
    assert seen.tables.decided_by == "transformers on the meta device" == seen.to_dict()["tables_found_by"]
    assert any("meta device" in line for line in seen.to_dict()["tables_evidence"])
    monkeypatch.undo()
    known = describe(Checkpoint.open(source))
    assert known.tables.decided_by == "families table" and known.to_dict()["tables_evidence"] == []
    left_out = ("tables_found_by", "tables_evidence")
    assert {key: value for key, value in seen.to_dict().items() if key not in left_out} == {
        key: value for key, value in known.to_dict().items() if key not in left_out
    }


@pytest.mark.usefixtures("unknown")
@pytest.mark.parametrize("operation", ["extend", "untie", "tie"])
def test_operations_go_by_the_meta_device(operation: str, tmp_path: Path) -> None:
    source, out = shelved("gpt_neox", tied=operation == "untie"), tmp_path / "out"
    more = {"extend": ("--token", "<new>"), "tie": ("--allow-lossy", "--no-probe", "--keep", "input")}.get(
        operation, ()
    )
    ran = vocabsurgeon(operation, source, out, *more, "--json")
    assert ran.code == 0, ran.stderr
    assert ran.document["tables_found_by"] == "transformers on the meta device"
    assert all(passed is not False for passed in ran.document["proof"].values())
    model = reloaded(out)
    assert shares(model) is (operation == "tie")
    if operation != "tie":
        assert (logits_of(model) == logits_of(reloaded(source))).all()


@pytest.mark.usefixtures("unknown")
def test_a_class_that_cannot_be_built_is_told_and_passed_over(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source", tied=False), num_attention_heads=0)
    tables = _found(source)
    assert tables.decided_by == "shapes and names"
    assert "cannot be asked" in tables.evidence[0] and len(tables.evidence) == 3
    assert [table.key for table in tables.stored] == [INPUT, HEAD]


def test_too_many_layers_are_not_built(tmp_path: Path) -> None:
    """Such a config comes from nowhere good: it would fill the memory with modules."""
    source = with_config(taken(tmp_path / "source", "qwen2"), num_hidden_layers=10**9)
    seen = observe(Checkpoint.open(source))
    assert seen.family is None and "more than 1000 layers" in seen.evidence[0]


@pytest.mark.usefixtures("unknown")
def test_a_class_without_a_vocabulary_is_no_family(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source"), model_type="vit", architectures=["ViTModel"])
    seen = observe(Checkpoint.open(source))
    assert seen.family is None and "vocab" in seen.evidence[0]


@pytest.mark.usefixtures("unknown")
def test_a_composed_model_is_asked_as_it_is(tmp_path: Path) -> None:
    """Such a type wraps two models of any type, so no table can hold it."""
    import transformers

    small = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    parts = [transformers.BertConfig(**small, intermediate_size=32) for _ in range(2)]
    config = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(*parts)
    transformers.EncoderDecoderModel(config).save_pretrained(tmp_path / "source")
    tables = _found(tmp_path / "source")
    assert tables.decided_by == "transformers on the meta device"
    assert tables.output_name == "decoder.cls.predictions.decoder.weight"


def test_the_type_decides_before_torch_is_imported() -> None:
    """A known type needs no second opinion: its description stays cheap."""
    ran = in_process(("inspect", shelved(), "--json"), env={"PYTHONPROFILEIMPORTTIME": "1"})
    assert ran.code == 0 and " numpy\n" in ran.stderr
    assert " transformers\n" not in ran.stderr and " torch\n" not in ran.stderr


# Code that a checkpoint brings.

MODELING = """
import pathlib
pathlib.Path({mark!r}).write_text("ran")
from transformers import LlamaConfig, LlamaForCausalLM


class OddConfig(LlamaConfig):
    model_type = "odd"


class OddForCausalLM(LlamaForCausalLM):
    config_class = OddConfig
"""


@pytest.fixture
def odd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A checkpoint whose class is in its own modeling_odd.py, and the file that the code writes when imported."""
    import transformers.dynamic_module_utils as dynamic

    monkeypatch.setattr(dynamic, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(dynamic, "TIME_OUT_REMOTE_CODE", 0)
    mark = tmp_path / "mark"
    source = taken(tmp_path / "odd", tied=False)
    (source / "modeling_odd.py").write_text(MODELING.format(mark=str(mark)))
    with_config(
        source,
        model_type="odd",
        architectures=["OddForCausalLM"],
        auto_map={"AutoConfig": "modeling_odd.OddConfig", "AutoModelForCausalLM": "modeling_odd.OddForCausalLM"},
    )
    return source, mark


OPERATIONS = {
    "inspect": ("inspect", "{source}", "--json"),
    "check": ("check", "{source}", "--json"),
    "extend": ("extend", "{source}", "{out}", "--token", "<new>", "--json"),
    "untie": ("untie", "{source}", "{out}", "--json"),
    "dry run": ("extend", "{source}", "{out}", "--token", "<new>", "--dry-run", "--json"),
}


@pytest.mark.parametrize("trusted", [False, True], ids=["not trusted", "trusted"])
@pytest.mark.parametrize("arguments", OPERATIONS.values(), ids=list(OPERATIONS))
def test_code_of_a_checkpoint_runs_with_the_option_alone(
    arguments: tuple[str, ...], trusted: bool, odd: tuple[Path, Path], tmp_path: Path
) -> None:
    source, mark = odd
    filled = [text.format(source=source, out=tmp_path / "out") for text in arguments]
    ran = vocabsurgeon(*filled, *(["--trust-remote-code"] if trusted else []))
    assert ran.code == 0, ran.stderr
    assert mark.exists() is trusted
    if "dry-run" not in "".join(arguments):
        wanted = "transformers on the meta device" if trusted else "shapes and names"
        assert ran.document["tables_found_by"] == wanted
        assert trusted or "--trust-remote-code" in ran.document["tables_evidence"][0]


def test_a_record_cannot_ask_for_code_to_run(odd: tuple[Path, Path], tmp_path: Path) -> None:
    source, mark = odd
    assert vocabsurgeon("untie", source, tmp_path / "out", "--trust-remote-code").code == 0
    assert "observed" not in (tmp_path / "out" / "vocabsurgeon.json").read_text()
    mark.unlink()
    assert vocabsurgeon("verify", source, tmp_path / "out", "--json").code == 0
    assert not mark.exists()


def test_no_class_sees_an_auto_map(tmp_path: Path) -> None:
    """Composite classes build their parts by auto classes, which would follow one there, or ask on stdin."""
    inner = {"model_type": "llama", "auto_map": {"AutoModel": "modeling_odd.OddModel"}}
    source = with_config(taken(tmp_path / "source"), auto_map=inner["auto_map"], text_config=inner, parts=[inner])
    assert "auto_map" not in json.dumps(class_of(Checkpoint.open(source)).json)


# Shapes and names.


def _odd(target: Path, **more: Any) -> Path:
    """A llama whose type and names nobody knows."""
    source = with_config(taken(target, tied=False), model_type="unheard_of", architectures=["UnheardOf"])

    def rename(tensors: dict[str, Any]) -> None:
        tensors["net.tok_embed.weight"], tensors["net.unembed.weight"] = tensors.pop(INPUT), tensors.pop(HEAD)
        tensors.update(more)

    return with_tensors(source, rename)


def test_telling_names_of_the_right_shape_are_taken(tmp_path: Path) -> None:
    source = _odd(tmp_path / "source")
    tables = _found(source)
    assert [table.key for table in tables.stored] == ["net.tok_embed.weight", "net.unembed.weight"]
    assert tables.decided_by == "shapes and names" and "by shapes and names" in tables.evidence[-1]
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<new>", "--json")
    assert ran.code == 0 and ran.document["rows_after"] == 65
    old, new = tensors_of(source), tensors_of(tmp_path / "out")
    assert {key: bits(tensor[: len(old[key])]) for key, tensor in new.items()} == {
        key: bits(tensor) for key, tensor in old.items()
    }


def test_the_right_name_with_another_size_is_no_table(tmp_path: Path) -> None:
    source = with_config(_odd(tmp_path / "source"), vocab_size=63)
    with pytest.raises(
        CheckpointError, match=r"no vocabulary table.*does not know model_type 'unheard_of'.*--input-key"
    ):
        _found(source)


@pytest.mark.parametrize("name", ["net.pos_embed.weight", "vision.patch_embed.weight", "net.token_type_embed.weight"])
def test_tables_of_other_things_are_not_candidates(name: str, tmp_path: Path) -> None:
    import torch

    tables = _found(_odd(tmp_path / "source", **{name: torch.zeros(64, 16)}))
    assert tables.input is not None and tables.input.key == "net.tok_embed.weight"


def test_two_candidates_are_an_error_that_names_them_and_the_option(tmp_path: Path) -> None:
    import torch

    source = _odd(tmp_path / "source", **{"net.word_embed.weight": torch.zeros(64, 16)})
    before = contents(source)
    ran = vocabsurgeon("inspect", source)
    assert ran.code == 2 and "net.tok_embed.weight" in ran.line and "net.word_embed.weight" in ran.line
    assert "--input-key" in ran.line and contents(source) == before
    told = vocabsurgeon("inspect", source, "--input-key", "net.tok_embed.weight", "--json").document
    assert [table["key"] for table in told["tables"]] == ["net.tok_embed.weight", "net.unembed.weight"]
    assert told["tables_found_by"] == "--input-key/--output-key" and told["tie"]["state"] == TieState.UNTIED


def test_two_heads_are_an_error_that_names_the_option(tmp_path: Path) -> None:
    import torch

    source = _odd(tmp_path / "source", **{"net.proj_out.weight": torch.zeros(64, 16)})
    with pytest.raises(CheckpointError, match=r"net\.proj_out.*LM head|LM head.*net\.proj_out.*--output-key"):
        _found(source)
    assert _found(source, output_key="net.unembed.weight").output_name == "net.unembed.weight"
