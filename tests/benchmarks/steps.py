"""Time of a decoder's steps, several sessions in turn. A program of its own: `python steps.py REQUEST`, JSON on stdout.

REQUEST is JSON: `sessions` (name → graph and session configuration entries), `shapes` (name → new tokens, cached tokens
and rounds). In each round every session runs `IN_A_ROW` times, as decoding does, so that a busy machine slows all of
them alike; the order turns with the rounds. The first run of a row counts for nothing: it finds the caches of the CPU
full of another session's weights, which moves a step by half.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import numpy as np
import onnxruntime

IN_A_ROW = 4


def main(request: dict[str, Any]) -> dict[str, dict[str, list[float]]]:
    """Session → shape → seconds of each run that counts."""
    sessions = {name: _open(graph, entries) for name, (graph, entries) in request["sessions"].items()}
    taken: dict[str, dict[str, list[float]]] = {name: {} for name in sessions}
    for shape, (tokens, past, rounds) in request["shapes"].items():
        feed = _feed(next(iter(sessions.values())), tokens, past)
        for round_number in range(rounds):
            names = list(sessions)
            first = round_number % len(names)
            for name in names[first:] + names[:first]:
                seconds = [_seconds(sessions[name], feed) for _ in range(IN_A_ROW)]
                taken[name].setdefault(shape, []).extend(seconds[1:])
    return taken


def _seconds(session: Any, feed: dict[str, Any]) -> float:
    begun = time.perf_counter()
    session.run(["logits"], feed)
    return time.perf_counter() - begun


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
