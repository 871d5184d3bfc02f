"""Writes docs/commands/*.md from the commands' own help: `python -m tests.docs.command_pages`."""

from __future__ import annotations

from pathlib import Path

import click

from vocabsurgeon.cli import COMMANDS, main

PAGES = Path(__file__).parents[2] / "docs" / "commands"


def page(name: str) -> str:
    """The page of command `name`: its help as a terminal of 100 columns shows it."""
    context = click.Context(
        main, info_name="vocabsurgeon", terminal_width=100, help_option_names=main.context_settings["help_option_names"]
    )
    command = main.get_command(context, name)
    assert command is not None
    text = command.get_help(click.Context(command, info_name=name, parent=context, terminal_width=100))
    return f"# vocabsurgeon {name}\n\n```text\n{text}\n```\n"


if __name__ == "__main__":
    for command_name in COMMANDS:
        (PAGES / f"{command_name}.md").write_text(page(command_name))
