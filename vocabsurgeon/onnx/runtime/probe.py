"""A program of its own: opens one session, runs it once, and tells what memory that took. Imports nothing of ours.

`python probe.py REQUEST`: REQUEST is JSON with `graph`, `entries` and `runs`. One JSON object goes to stdout; then it
waits for the end of stdin, so that the parent can look at its memory.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any


def main(request: dict[str, Any]) -> tuple[dict[str, Any], Any]:
    """The figures, and the session, which has to live until the parent has looked.

    Bytes of growth since before the session, by /proc: `resident_anonymous` and `resident_file` after load,
    `peak_load` while loading, `peak` while loading and running one token (absent where that failed, with `not_run`).
    """
    import numpy  # noqa: F401 - what a session imports on its first run is not the session's memory
    import onnxruntime

    before = _resident()
    _reset_peak()
    begun = time.perf_counter()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for key, value in request["entries"].items():
        options.add_session_config_entry(key, value)
    session = onnxruntime.InferenceSession(request["graph"], options, providers=["CPUExecutionProvider"])
    told: dict[str, Any] = {"load_s": time.perf_counter() - begun}
    after = _resident()
    told |= {f"resident_{kind}": max(0, after[kind] - before[kind]) for kind in after}
    start = sum(before.values())
    told["peak_load"] = max(0, _peak() - start)
    try:
        told["step_s"] = _run(session, 1, request["runs"])
        told["peak"] = max(0, _peak() - start)
        told["prefill_s"] = _run(session, request["tokens"], request["runs"])
    except Exception as error:  # a graph whose inputs mean something else; the load is measured all the same
        told["not_run"] = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    return told, session


def _run(session: Any, tokens: int, runs: int) -> float:
    """The shortest of `runs` runs over `tokens` tokens from an empty cache, in seconds."""
    feed = {value.name: _example(value, tokens) for value in session.get_inputs()}
    taken = []
    for _ in range(runs):
        begun = time.perf_counter()
        session.run(None, feed)
        taken.append(time.perf_counter() - begun)
    return min(taken)


def _example(value: Any, tokens: int) -> Any:
    """An input for one sequence of `tokens` tokens: masks all ones, anything else zeros."""
    import numpy as np

    kinds = {
        "tensor(float)": np.float32,
        "tensor(float16)": np.float16,
        "tensor(double)": np.float64,
        "tensor(int32)": np.int32,
        "tensor(int64)": np.int64,
        "tensor(bool)": np.bool_,
    }
    shape = [size if isinstance(size, int) else _size(str(size), tokens) for size in value.shape]
    return np.full(shape, int("mask" in value.name), kinds[value.type])


def _size(dimension: str, tokens: int) -> int:
    """How long a named dimension is: one sequence, nothing in the cache."""
    name = dimension.lower()
    if "batch" in name:
        return 1
    return 0 if "past" in name and "+" not in name and "total" not in name else tokens


def _resident() -> dict[str, int]:
    """Anonymous and file-mapped resident bytes, counted page by page."""
    with open("/proc/self/smaps_rollup") as file:
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in file if line.rstrip().endswith("kB")}
    return {"anonymous": sizes["Anonymous"], "file": sizes["Rss"] - sizes["Anonymous"]}


def _reset_peak() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _peak() -> int:
    """The most bytes that were resident at once since `_reset_peak`; Linux keeps it for the sum of both kinds alone."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) * 1024 for line in file if line.startswith("VmHWM:"))


if __name__ == "__main__":
    try:
        answer, kept = main(json.loads(sys.argv[1]))
    except Exception as error:  # told to the parent, which has the words for it
        answer = {"failed": f"{type(error).__name__}: {error}".splitlines()[0][:300]}
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    sys.stdin.read()
