"""What can be asked of `dedupe`."""

from __future__ import annotations

from dataclasses import dataclass

from vocabsurgeon.onnx.dedupe.products import PORTABLE


@dataclass(frozen=True)
class DedupeOptions:
    """`target`: `onnx` (standard operators alone) or `ort` (onnxruntime's too). `verify`: run both and compare; without
    it the report says "not checked". `atol`, `rtol`: what an output may differ by, None is the dtype's."""

    target: str = PORTABLE
    dry_run: bool = False
    overwrite: bool = False
    verify: bool = True
    atol: float | None = None
    rtol: float | None = None
