"""README and docs say what the program does: help pages are current, shown commands run and print what is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.command_pages import PAGES, page
from vocabsurgeon.cli import COMMANDS

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_page_is_current(name: str) -> None:
    assert (PAGES / f"{name}.md").read_text() == page(name), "run python -m tests.docs.command_pages"


def test_no_page_without_command() -> None:
    assert {path.stem for path in PAGES.glob("*.md")} == set(COMMANDS)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)\)", document.read_text()):
        assert (document.parent / target).exists(), f"{document.name} links to {target}"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_blocks_run_and_print_what_is_shown(document: Path, tmp_path: Path) -> None:
    blocks = BLOCK.findall(document.read_text())
    if not blocks:
        return
    shutil.copytree(ROOT / "vocabsurgeon" / "demo_model", tmp_path / "demo_model")
    for kind, text in blocks:
        for command, shown in _commands(kind, text):
            printed = _run(command, tmp_path)
            assert _matches(shown, printed), f"{command}\nshown:\n{shown}\nprinted:\n{printed}"


def _commands(kind: str, text: str) -> list[tuple[str, str]]:
    """(shell command, output shown below it; a python block is one command and shows none)."""
    if kind == "python":
        return [(f"{sys.executable} - <<'CODE'\n{text}CODE", "")]
    parts = re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]
    return [(part.partition("\n")[0], part.partition("\n")[2]) for part in parts]


def _run(command: str, folder: Path) -> str:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HF_HUB_OFFLINE": "1"}
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}: {done.stdout}"
    return done.stdout


def _matches(shown: str, printed: str) -> bool:
    """Line by line; `…` in a shown line stands for any text, a line of `…` alone for any lines."""
    if not shown.strip():
        return True
    pattern = ""
    for line in shown.rstrip("\n").split("\n"):
        if line.strip() == "…":
            pattern += r"(?:.*\n)*?"
        else:
            pattern += ".*?".join(re.escape(part) for part in re.split("…", line.rstrip())) + r"[ \t]*\n"
    return re.fullmatch(pattern, printed.rstrip("\n") + "\n") is not None
