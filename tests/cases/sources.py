"""`L(V, tied)` with `TOK(n)` of CASES.md, and what the cases ask of results."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.models.tiny import model, wordlevel_tokenizer, write_tokenizer
from tests.surgery.shelf import tensors_of
from vocabsurgeon.surgery.extend_plan import ExtendReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend

INPUT = "model.embed_tokens.weight"


def llama(folder: Path, rows: int = 32, tied: bool = True, entries: int | None = None, dtype: str = "float32") -> Path:
    """`L(rows, tied)` with `TOK(entries)`, as many entries as rows unless given."""
    import torch

    small = {"vocab_size": rows, "num_hidden_layers": 1, "num_key_value_heads": 2}
    model("llama", tied, **small).to(getattr(torch, dtype)).save_pretrained(folder)
    write_tokenizer(folder, rows if entries is None else entries)
    return folder


def with_tokenizer(folder: Path, change: Callable[[dict[str, Any]], Any], entries: int = 32) -> Path:
    """`TOK(entries)`, edited by `change`, as the tokenizer of `folder`."""
    document = wordlevel_tokenizer(entries)
    change(document)
    (folder / "tokenizer.json").write_text(json.dumps(document, indent=2))
    return folder


def extended(source: Path, out: Path, *tokens: str, **options: Any) -> ExtendReport:
    """The report of a run that must succeed, proof and all."""
    report = extend(source, out, extend_request(tokens, **options))
    assert isinstance(report, ExtendReport), report
    assert report.proof.passed is True, report.proof.evidence
    return report


def changed_rows(before: Path, after: Path, key: str = INPUT) -> set[int]:
    """The rows of one table whose bits differ or that are new."""
    import torch

    old, new = (tensors_of(folder)[key].view(torch.uint8) for folder in (before, after))
    return {row for row in range(len(new)) if row >= len(old) or not torch.equal(old[row], new[row])}


def rows_told(report: ExtendReport) -> Mapping[str, Any]:
    """The `rows_*` entries."""
    return {key: value for key, value in report.to_dict().items() if key.startswith("rows_")}
