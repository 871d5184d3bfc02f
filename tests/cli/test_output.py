"""What goes where: one JSON object on stdout and nothing else, `-q` and `-v`, `--dry-run`, `--overwrite`, no color."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.runner import in_process, vocabsurgeon
from tests.surgery.shelf import config_of, contents, leftovers, reloaded, shelved, taken, with_config

WRITING = {"extend": ["--token", "<a>"], "tie": [], "untie": []}
READING = ("inspect", "check")


def _arguments(operation: str, out: Path) -> list[str | Path]:
    if operation in READING:
        return [operation, shelved()]
    if operation == "verify":
        return ["verify", shelved(), shelved()]
    return [operation, shelved(), out, *WRITING[operation]]


@pytest.mark.parametrize("operation", [*READING, "verify", *WRITING])
def test_json_is_one_object_and_nothing_else(operation: str, tmp_path: Path) -> None:
    ran = vocabsurgeon(*_arguments(operation, tmp_path / "out"), "--json")
    assert (ran.code, ran.stderr) == (0, "")
    assert ran.document["schema"] == f"vocabsurgeon.{operation}/1"
    assert ran.stdout.endswith("}\n") and ran.stdout.startswith("{")


@pytest.mark.parametrize("operation", [*READING, "verify", *WRITING])
def test_quiet_says_nothing_and_verbose_says_more(operation: str, tmp_path: Path) -> None:
    quiet = vocabsurgeon(*_arguments(operation, tmp_path / "quiet"), "-q")
    assert (quiet.code, quiet.stdout, quiet.stderr) == (0, "", "")
    usual = vocabsurgeon(*_arguments(operation, tmp_path / "usual"))
    verbose = vocabsurgeon(*_arguments(operation, tmp_path / "verbose"), "-v")
    assert len(verbose.stdout) >= len(usual.stdout) > 0
    if operation not in READING:
        assert verbose.stdout.count("\n") > usual.stdout.count("\n")


@pytest.mark.parametrize("operation", [*READING, "verify", *WRITING])
def test_text_fits_a_screen_and_has_no_escape_codes_in_a_pipe(operation: str, tmp_path: Path) -> None:
    ran = vocabsurgeon(*_arguments(operation, tmp_path / "out"))
    assert ran.stdout.count("\n") <= 40 and "\x1b" not in ran.stdout


@pytest.mark.parametrize("operation", WRITING)
@pytest.mark.parametrize("options", [[], ["--json"], ["-v"]], ids=["text", "JSON", "verbose"])
def test_dry_run_writes_nothing(operation: str, options: list[str], tmp_path: Path) -> None:
    source, out = taken(tmp_path / "source", tied=operation != "tie"), tmp_path / "out"
    if operation == "tie":
        with_config(source, tie_word_embeddings=True)
        vocabsurgeon("untie", shelved(), tmp_path / "equal")
        source = tmp_path / "equal"
    before = contents(tmp_path, without=())
    ran = vocabsurgeon(operation, source, out, *WRITING[operation], "--dry-run", *options)
    assert ran.code == 0, ran.stderr
    assert contents(tmp_path, without=()) == before and leftovers(out) == []
    if "--json" in options:
        assert ran.document["dry_run"] is True and ran.document["plan"]["promises"]
    else:
        assert "nothing was written" in ran.stdout


def test_dry_run_tells_what_the_run_then_does(tmp_path: Path) -> None:
    arguments = ["extend", shelved(tied=False), tmp_path / "out", "--token", "w5 w6", "--json"]
    planned, done = vocabsurgeon(*arguments, "--dry-run").document, vocabsurgeon(*arguments).document
    for key in ("content", "id", "row", "status", "pieces", "piece_ids", "init", "expression"):
        assert planned["tokens"][0][key] == done["tokens"][0][key]
    assert [planned[key] for key in planned if key.startswith("rows_")] == [
        done[key] for key in planned if key.startswith("rows_")
    ]


def test_existing_out_needs_overwrite(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "tokenizer.json").write_text("mine")
    refused = vocabsurgeon("untie", shelved(), out)
    assert refused.code == 2 and "--overwrite" in refused.line and contents(out) == {"tokenizer.json": b"mine"}
    assert vocabsurgeon("untie", shelved(), out, "--overwrite").code == 0
    assert (out / "tokenizer.json").read_text() != "mine" and leftovers(out) == ["out"]
    assert config_of(out)["tie_word_embeddings"] is False


def test_a_refusal_leaves_what_would_have_been_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "tokenizer.json").write_text("mine")
    assert vocabsurgeon("tie", shelved(tied=False), out, "--overwrite").code == 1
    assert contents(out) == {"tokenizer.json": b"mine"}


def test_link_shares_what_does_not_change(tmp_path: Path) -> None:
    source, out = taken(tmp_path / "source", max_shard_size="6KB"), tmp_path / "out"
    assert vocabsurgeon("untie", source, out, "--link").code == 0
    same = [path.name for path in source.iterdir() if (out / path.name).exists() and path.samefile(out / path.name)]
    assert {path.name for path in source.glob("*.safetensors")} <= set(same)
    reloaded(out)


def test_keys_can_be_named_for_a_type_nobody_knows(tmp_path: Path) -> None:
    source = with_config(taken(tmp_path / "source", tied=False), model_type="unheard_of", architectures=["UnheardOf"])
    keys = ("--input-key", "lm_head.weight", "--output-key", "model.embed_tokens.weight")
    tables = vocabsurgeon("inspect", source, *keys, "--json").document["tables"]
    assert [(table["role"], table["key"]) for table in tables] == [
        ("input", "lm_head.weight"),
        ("output", "model.embed_tokens.weight"),
    ]
    ran = vocabsurgeon("extend", source, tmp_path / "out", "--token", "<a>", *keys, "--json")
    assert ran.code == 0 and ran.document["rows_after"] == 65
    verified = vocabsurgeon("verify", source, tmp_path / "out", "--json")
    assert verified.code == 0
    missing = vocabsurgeon("inspect", source, "--input-key", "absent")
    assert missing.code == 2 and "absent" in missing.line


def test_tokens_file_and_options_make_one_request(tmp_path: Path) -> None:
    file = tmp_path / "tokens.jsonl"
    file.write_text('"<a>"\n{"content": "<b>", "special": true, "describe": "w3 w4"}\n')
    arguments = ["--tokens-file", file, "--token", "<c>", "--no-special", "--describe", "<c>=w5", "--role", "eos=<b>"]
    ran = vocabsurgeon("extend", shelved(), tmp_path / "out", *arguments, "--json")
    tokens = {token["content"]: token for token in ran.document["tokens"]}
    assert [tokens[name]["special"] for name in ("<c>", "<a>", "<b>")] == [False, False, True]
    assert (tokens["<b>"]["pieces"], tokens["<c>"]["pieces"]) == (["w3", "w4"], ["w5"])
    assert config_of(tmp_path / "out")["eos_token_id"] == tokens["<b>"]["id"]


def test_chat_template_is_written(tmp_path: Path) -> None:
    template = tmp_path / "t.jinja"
    template.write_text("{{ messages }}\n")
    ran = vocabsurgeon("extend", shelved(), tmp_path / "out", "--chat-template", template, "--json")
    assert ran.code == 0 and ran.document["changed"] is True
    assert (tmp_path / "out" / "chat_template.jinja").read_text() == "{{ messages }}\n"


def test_light_commands_import_neither_torch_nor_transformers(tmp_path: Path) -> None:
    ran = in_process(
        ["extend", shelved(), tmp_path / "out", "--token", "<a>", "--json"], env={"PYTHONPROFILEIMPORTTIME": "1"}
    )
    assert ran.code == 0
    imported = {line.rsplit("|", 1)[-1].strip() for line in ran.stderr.splitlines() if line.startswith("import time:")}
    assert "vocabsurgeon.surgery.run" in imported and not imported & {
        "torch",
        "transformers",
        "onnx",
        "onnxruntime",
        "matplotlib",
    }


def test_json_of_a_table_with_infinities_is_valid(tmp_path: Path) -> None:
    from tests.surgery.shelf import with_tensors

    source = taken(tmp_path / "source", tied=False)
    with_tensors(source, lambda tensors: tensors["model.embed_tokens.weight"][5].fill_(float("inf")))
    with_tensors(source, lambda tensors: tensors["lm_head.weight"][6].fill_(float("nan")))
    arguments = ["extend", source, tmp_path / "out", "--token", "w5 w6", "--json"]
    ran = vocabsurgeon(*arguments)
    assert ran.code == 0, ran.stderr
    json.loads(ran.stdout, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    assert ran.document["tokens"][0]["norm"] is None
    assert vocabsurgeon("inspect", tmp_path / "out", "--compare", "--json").code == 0
