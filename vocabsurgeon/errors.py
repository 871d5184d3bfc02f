"""The one family of expected errors: what is wrong, where, what to do. Imports nothing of the package.

A refusal ("the answer is no") is not an error: it is a value, see `surgery.plan.Refusal`.
"""

from __future__ import annotations


class VocabsurgeonError(Exception):
    """An expected failure, told in one line.

    `message` says what is wrong, `where` names the file, tensor or token, `hint` says what to do next.
    `exit_code` is the process exit status of the command-line tool (2: bad usage or bad input).
    """

    exit_code = 2

    def __init__(self, message: str, *, where: object = None, hint: str | None = None) -> None:
        self.message = message
        self.where = None if where is None else str(where)
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        line = self.message if self.where is None else f"{self.where}: {self.message}"
        if self.hint:
            line = f"{line}; {self.hint}"
        return one_line(line)


class UsageError(VocabsurgeonError):
    """The request does not make sense: options that exclude each other, a bad token, a bad path."""


class CheckpointError(VocabsurgeonError):
    """The folder is not a checkpoint that can be read."""


class HeaderError(CheckpointError):
    """A safetensors header breaks the format's rules."""


class ConfigError(CheckpointError):
    """A JSON file of the checkpoint is unreadable or says something impossible."""


class TokenizerError(CheckpointError):
    """The tokenizer files are unreadable, contradict each other, or cannot take the change."""


class OutputError(VocabsurgeonError):
    """OUT cannot be written: it exists, lies inside the source, or the disk said no."""


class OnnxError(VocabsurgeonError):
    """An ONNX file or its external data cannot be read, or the model cannot be exported."""


def one_line(text: str) -> str:
    """`text` with control characters escaped, so that a name from a file can neither break the line nor color it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
