"""At least every model that passes with `transformers.exporters` alone passes here: in docs/export-support.md at every
run, measured again in `make test-sweep` (an hour or two), which writes that page."""

from __future__ import annotations

import pytest

from tests.onnx.sweep.page import PAGE, page
from tests.onnx.sweep.run import Outcome, behind, outcomes, subjects


@pytest.mark.sweep
def test_what_transformers_exporters_pass_passes_here() -> None:
    seen = []
    for outcome in outcomes(subjects(), ("ours", "theirs")):
        print("\t".join(vars(outcome).values()), flush=True)
        seen.append(outcome)
    PAGE.write_text(page(seen))
    assert behind(seen) == []


def test_the_page_names_every_class_and_its_reasons() -> None:
    text = PAGE.read_text()
    assert [pair for pair in subjects() if f"| {pair[0]} | {pair[1]} |" not in text] == []
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")][1:]
    lacking = [row[1] for row in rows if row[2].startswith("no (") and row[3][0:2] in ("pr", "de", "mo")]
    assert lacking == []


def test_a_page_tells_what_failed_and_why() -> None:
    seen = [
        Outcome("a", "A", "ours", "passed", "cache"),
        Outcome("a", "A", "theirs", "failed", "A is odd"),
        Outcome("b", "B", "ours", "failed", "B is odd"),
    ]
    text = page(seen)
    assert "| a | A | cache | no (1) |\n| b | B | no (1) | not measured |" in text
    assert "here 1 of the 2 that could be built pass, alone 0 of the 1" in text
    assert "With a *decode* there and no cache here: none." in text
    assert text.endswith("1. the class is odd\n")


def test_a_page_tells_what_has_no_cache_here() -> None:
    seen = [
        Outcome("a", "A", "ours", "passed", "no cache: A keeps none"),
        Outcome("a", "A", "theirs", "passed", "prefill decode"),
        Outcome("b", "B", "ours", "passed", "cache"),
        Outcome("b", "B", "theirs", "passed", "prefill decode"),
        Outcome("c", "C", "ours", "passed", "no cache"),
        Outcome("c", "C", "theirs", "passed", "model"),
    ]
    assert "With a *decode* there and no cache here: A." in page(seen)
