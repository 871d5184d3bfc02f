"""How far an export's logits may be from the model's, by dtype: measured rounding, times one margin."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """Allowed difference = `atol` + `rtol` × the model's largest logit in absolute value."""

    atol: float
    rtol: float

    def allowed(self, scale: float) -> float:
        """What a logit may differ by where the largest is `scale`."""
        return self.atol + self.rtol * scale


ROUNDING = {"float32": 4e-6, "float16": 3.1e-3, "bfloat16": 3.3e-2}
"""Dtype → the largest difference that arithmetic alone made to a logit, ÷ the largest logit.

Measured by tests/benchmarks/test_onnx_tolerances.py, torch 2.13 and onnxruntime 1.32, on eleven tiny families against
float64 on the same weights. float32: gemma-3-270m, onnxruntime to torch over a parity check (tiny models:
1e-6). float16: Gemma-3, onnxruntime to torch; to float64 it is 2e-3, torch 2.5e-3. bfloat16: Gemma-3, torch to float64,
for onnxruntime's CPU provider does not run it. A random network of 16 layers, which amplifies every rounding, comes to
2e-5, 2.4e-2 and 1.4e-1: in float16 such a model may need `--rtol`.
"""
MARGIN = 5
"""For models, prompts and machines that were not measured."""
TOLERANCES = {dtype: Tolerance(MARGIN * rounding, MARGIN * rounding) for dtype, rounding in ROUNDING.items()}


def tolerance_for(dtype: str, atol: float | None = None, rtol: float | None = None) -> Tolerance:
    """The table's tolerance for `dtype` (torch spelling; unknown ones as float32), with what is given instead."""
    default = TOLERANCES.get(dtype, TOLERANCES["float32"])
    if atol is not None and rtol is None:
        return Tolerance(atol, 0.0)
    return Tolerance(default.atol if atol is None else atol, default.rtol if rtol is None else rtol)
