"""The exit code of every kind of ending, and that each tells itself in one line."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.cli.runner import command, environment, in_process, vocabsurgeon
from tests.surgery.shelf import contents, leftovers, shelved, taken, with_tensors
from vocabsurgeon.checkpoint import writer
from vocabsurgeon.vocabulary import describe


def test_0_done_and_proved(tmp_path: Path) -> None:
    ran = vocabsurgeon("extend", shelved(), tmp_path / "out", "--token", "<a>")
    assert (ran.code, ran.stderr) == (0, "") and "written" in ran.stdout


def test_1_the_answer_is_no(tmp_path: Path) -> None:
    assert vocabsurgeon("tie", shelved(tied=False), tmp_path / "out").code == 1
    broken = taken(tmp_path / "broken", tied=False)
    with_tensors(broken, lambda tensors: tensors["model.norm.weight"].neg_())
    assert vocabsurgeon("verify", shelved(tied=False), broken).code == 1
    (broken / "config.json").write_text(
        (broken / "config.json").read_text().replace('vocab_size": 64', 'vocab_size": 63')
    )
    assert vocabsurgeon("check", broken).code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect"],
        ["inspect", "absent"],
        ["inspect", "x", "y"],
        ["nonsense"],
        ["inspect", "x", "--nonsense"],
        ["extend", "x", "y", "--seed", "many"],
        ["verify", "x", "y", "--expect", "nonsense"],
    ],
    ids=" ".join,
)
def test_2_bad_usage(arguments: list[str]) -> None:
    ran = vocabsurgeon(*arguments)
    assert (ran.code, ran.stdout) == (2, "") and ran.line.startswith("vocabsurgeon: ")


def test_2_no_command_shows_help() -> None:
    ran = vocabsurgeon()
    assert ran.code == 2 and "Commands:" in ran.stderr


def test_0_help_and_version() -> None:
    assert vocabsurgeon("--help").code == vocabsurgeon("extend", "--help").code == 0


def test_70_a_bug_is_one_line_and_a_traceback_only_if_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug\nof ours")

    monkeypatch.setattr(describe, "find_tables", fail)
    ran = vocabsurgeon("inspect", shelved())
    assert (ran.code, ran.stdout) == (70, "") and "report it" in ran.line and "ZeroDivisionError" in ran.line
    verbose = vocabsurgeon("inspect", shelved(), "-v")
    assert verbose.code == 70 and "Traceback" in verbose.stderr


@pytest.mark.parametrize("key", ["model.embed_tokens.weight", "model.norm.weight"])
@pytest.mark.parametrize("operation", ["extend", "untie"])
def test_1_a_flipped_byte_leaves_no_out(
    operation: str, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = writer._write_segment

    def flipping(source, segment, target):  # type: ignore[no-untyped-def]
        yield from honest(source, segment, target)
        if segment.info.key == key:
            os.lseek(target, -1, os.SEEK_CUR)
            last = os.pread(target, 1, os.lseek(target, 0, os.SEEK_CUR))[0]
            os.write(target, bytes([last ^ 1]))

    real_open = open

    def readable(file, mode="r", *rest, **named):  # type: ignore[no-untyped-def]
        return real_open(file, "x+b" if mode == "xb" else mode, *rest, **named)

    monkeypatch.setattr(writer, "_write_segment", flipping)
    monkeypatch.setattr(writer, "open", readable, raising=False)
    out = tmp_path / "out"
    ran = vocabsurgeon(operation, shelved(), out, *(["--token", "<a>"] if operation == "extend" else []), "--json")
    assert ran.code == 1 and "promise was broken" in ran.line
    assert leftovers(out) == []
    assert ran.document["out"] is None and ran.document["changed"] is False
    assert False in ran.document["proof"].values()


def test_1_a_broken_promise_is_told_even_when_quiet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_edited_whole", None)
    monkeypatch.setattr(writer, "_carried", lambda *_: [])
    ran = vocabsurgeon("untie", shelved(), tmp_path / "out", "-q")
    assert (ran.code, ran.stdout) == (1, "") and "files_carried" in ran.line and leftovers(tmp_path / "out") == []


def test_no_verify_says_not_checked(tmp_path: Path) -> None:
    ran = vocabsurgeon("untie", shelved(), tmp_path / "out", "--no-verify", "--json")
    assert ran.code == 0 and set(ran.document["proof"].values()) == {None}
    assert "not checked" in vocabsurgeon("untie", shelved(), tmp_path / "more", "--no-verify").stdout


SLOW = """
import os, sys, time
from vocabsurgeon.checkpoint import writer
honest = writer._write_segment
def slow(source, segment, target):
    yield from honest(source, segment, target)
    print("writing", file=sys.stderr, flush=True)
    time.sleep(30)
writer._write_segment = slow
from vocabsurgeon.cli import main
main(prog_name="vocabsurgeon")
"""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_a_signal_during_the_write_leaves_nothing(number: signal.Signals, code: int, tmp_path: Path) -> None:
    source, out = taken(tmp_path / "source"), tmp_path / "parent" / "out"
    before = contents(source, without=())
    arguments = [command()[0], "-W", "error", "-c", SLOW, "untie", str(source), str(out)]
    with subprocess.Popen(
        arguments, env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None and run.stderr.readline() == "writing\n"
        assert any(path.name.startswith(".out.staged-") for path in out.parent.iterdir())
        time.sleep(0.05)
        run.send_signal(number)
        stdout, stderr = run.communicate(timeout=60)
    assert run.returncode == code and stdout == "" and "Traceback" not in stderr, stderr
    assert "nothing was left behind" in stderr
    assert not out.parent.exists() and contents(source, without=()) == before


def test_a_hangup_that_nohup_ignores_is_ignored(tmp_path: Path) -> None:
    source, out = taken(tmp_path / "source"), tmp_path / "out"
    arguments = [command()[0], "-W", "error", "-c", SLOW, "untie", str(source), str(out)]
    with subprocess.Popen(
        ["nohup", *arguments], env=environment(), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr is not None
        assert any(line == "writing\n" for line in run.stderr)
        run.send_signal(signal.SIGHUP)
        time.sleep(0.2)
        assert run.poll() is None
        run.terminate()
        run.communicate(timeout=60)
    assert run.returncode == 143


def test_a_reader_that_goes_away_is_no_fault() -> None:
    with subprocess.Popen(
        command("inspect", shelved(), "--json"), env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.close()
        assert run.stderr.read() == b""
    assert run.returncode == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "JSON"])
def test_2_a_full_disk_behind_stdout(options: list[str], unbuffered: str) -> None:
    arguments, env = command("inspect", shelved(), *options), environment(PYTHONUNBUFFERED=unbuffered)
    with open("/dev/full", "w") as full:
        done = subprocess.run(arguments, env=env, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "standard output" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["inspect", "--help"]], ids=" ".join)
def test_2_a_full_disk_behind_the_help(arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command(*arguments), env=environment(PYTHONUNBUFFERED=""), stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "standard output" in done.stderr


@pytest.mark.parametrize("options", [[], ["--json"]], ids=["text", "JSON"])
def test_a_terminal_without_unicode_gets_escapes(options: list[str], tmp_path: Path) -> None:
    arguments = ["extend", shelved(), tmp_path / "out", "--token", "<é→😀>", *options]
    ran = in_process(arguments, env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert (ran.code, ran.stderr) == (0, "") and ran.stdout.isascii()
    if options:
        assert ran.document["tokens"][0]["content"] == "<é→😀>"
