"""Time of a decoder's steps, several sessions in turn. A program of its own: `python steps.py REQUEST`, JSON on stdout.

REQUEST is JSON: `sessions` (name → graph and session configuration entries), `shapes` (name → new tokens, cached tokens
and rounds). Sessions take turns within each round, so that a busy machine slows all of them alike.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import onnxruntime


def main(request: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Session → shape → seconds of each round."""
    sessions = {name: _open(graph, entries) for name, (graph, entries) in request["sessions"].items()}
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in sessions}
    for shape, (tokens, past, rounds) in request["shapes"].items():
        feed = _feed(next(iter(sessions.values())), tokens, past)
        for round_number in range(rounds):
            for name, session in list(sessions.items())[:: 1 if round_number % 2 else -1]:
                begun = time.perf_counter()
                session.run(["logits"], feed)
                taken[name].setdefault(shape, []).append(time.perf_counter() - begun)
    return taken


def _open(graph: str, entries: dict[str, str]) -> Any:
    options = onnxruntime.SessionOptions()
    for key, value in entries.items():
        options.add_session_config_entry(key, value)
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])


def _feed(session: Any, tokens: int, past: int) -> dict[str, Any]:
    feed = {
        "input_ids": np.arange(3, 3 + tokens)[None],
        "attention_mask": np.ones((1, past + tokens), np.int64),
        "position_ids": np.arange(past, past + tokens)[None],
    }
    random = np.random.default_rng(0)
    for value in session.get_inputs():
        if value.name not in feed:
            _, heads, _, width = value.shape
            feed[value.name] = random.standard_normal((1, heads, past, width), dtype=np.float32)
    return feed


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
