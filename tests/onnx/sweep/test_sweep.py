"""At least every model that passes with `transformers.exporters` alone passes here. Hours; `make test-sweep`."""

from __future__ import annotations

import pytest

from tests.onnx.sweep.run import outcomes, passing, subjects

pytestmark = pytest.mark.sweep


def test_what_transformers_exporters_pass_passes_here() -> None:
    seen = list(outcomes(subjects(), ("ours", "theirs")))
    for outcome in seen:
        print("\t".join(vars(outcome).values()))
    print(f"ours {len(passing(seen, 'ours'))}, transformers.exporters {len(passing(seen, 'theirs'))}")
    assert passing(seen, "theirs") - passing(seen, "ours") == set()
