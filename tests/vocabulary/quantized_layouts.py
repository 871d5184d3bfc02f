"""How each quantization format lays a module out in a file, in tiny: shapes and dtypes as its writer has them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.surgery.shelf import Tensors

Layout = Callable[[torch.Tensor], dict[str, torch.Tensor]]
"""The plain weight `[rows, width]` → name behind the module's (`.weight`, `.SCB`, …) → tensor."""
F8 = torch.float8_e4m3fn


def _ints(*shape: int, dtype: torch.dtype = torch.int32) -> torch.Tensor:
    return torch.arange(int(torch.Size(shape).numel()), dtype=torch.int64).remainder(100).to(dtype).reshape(shape)


def _halves(*shape: int) -> torch.Tensor:
    return torch.full(shape, 0.5, dtype=torch.float16)


def _gptq(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {
        ".qweight": _ints(width // 8, rows),
        ".qzeros": _ints(1, rows // 8),
        ".scales": _halves(1, rows),
        ".g_idx": _ints(width),
    }


def _awq(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {".qweight": _ints(width, rows // 8), ".qzeros": _ints(1, rows // 8), ".scales": _halves(1, rows)}


def _int8(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        ".weight": _ints(*weight.shape, dtype=torch.int8),
        ".SCB": torch.ones(weight.shape[0]),
        ".weight_format": _ints(1, dtype=torch.uint8),
    }


def _nf4(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {
        ".weight": _ints(weight.numel() // 2, 1, dtype=torch.uint8),
        ".weight.absmax": torch.ones(weight.numel() // 64),
        ".weight.quant_map": torch.linspace(-1, 1, 16),
        ".weight.quant_state.bitsandbytes__nf4": _ints(80, dtype=torch.uint8),
    }


def _fp8_blocks(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".weight": weight.to(F8), ".weight_scale_inv": torch.ones(1, 1)}


def _fp8_scale(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".weight": weight.to(F8), ".weight_scale": torch.ones(weight.shape[0], 1)}


def _deepseek(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".weight": weight.to(F8), ".scale": torch.ones(1, 1)}


def _packed(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {".weight_packed": _ints(rows, width // 8), ".weight_scale": _halves(rows, 1), ".weight_shape": _ints(2)}


def _fake(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".weight": weight.bfloat16(), ".weight_scale": _halves(weight.shape[0], 1)}


def _nvfp4(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {
        ".weight": _ints(rows, width // 2, dtype=torch.uint8),
        ".weight_scale": torch.ones(rows, 1).to(F8),
        ".weight_scale_2": torch.ones(1),
    }


def _hqq(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".W_q": _ints(weight.numel() // 2, dtype=torch.uint8), ".scale": _halves(4, 1), ".zero": _halves(4, 1)}


def _mlx(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {
        ".weight": _ints(rows, width // 8).to(torch.uint32),
        ".scales": _halves(rows, 1),
        ".biases": _halves(rows, 1),
    }


def _eetq(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".weight": _ints(*weight.shape, dtype=torch.int8), ".weight_scales": _halves(weight.shape[0])}


def _torchao(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {"._weight_qdata": _ints(*weight.shape, dtype=torch.int8), "._weight_scale": torch.ones(weight.shape[0], 1)}


def _bitnet(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {".weight": _ints(rows // 4, width, dtype=torch.uint8), ".weight_scale": torch.ones(1)}


def _gemma(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    rows, width = weight.shape
    return {
        ".embedding_quantized": _ints(rows, width // 2, dtype=torch.uint8),
        ".embedding_scale": torch.ones(rows, 1),
    }


def _bare(weight: torch.Tensor) -> dict[str, torch.Tensor]:
    return {".weight": _ints(*weight.shape, dtype=torch.int8)}


FORMATS: dict[str, tuple[Layout, dict[str, Any] | None]] = {
    "gptq": (_gptq, {"quant_method": "gptq", "bits": 4, "group_size": 16, "lm_head": True}),
    "awq": (_awq, {"quant_method": "awq", "bits": 4, "group_size": 16, "zero_point": True}),
    "bitsandbytes": (_int8, {"quant_method": "bitsandbytes", "load_in_8bit": True, "llm_int8_skip_modules": ["x"]}),
    "bitsandbytes-nf4": (_nf4, {"quant_method": "bitsandbytes", "load_in_4bit": True}),
    "fp8": (_fp8_blocks, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "fbgemm_fp8": (_fp8_scale, {"quant_method": "fbgemm_fp8"}),
    "fp8-deepseek": (_deepseek, {"quant_method": "fp8", "weight_block_size": [128, 128]}),
    "compressed-tensors": (_packed, {"quant_method": "compressed-tensors", "format": "pack-quantized", "ignore": []}),
    "compressed-tensors-fake": (_fake, {"quant_method": "compressed-tensors", "format": "dense"}),
    "modelopt": (_nvfp4, {"quant_method": "modelopt", "ignore": []}),
    "hqq": (_hqq, {"quant_method": "hqq", "quant_config": {}, "skip_modules": []}),
    "mlx": (_mlx, None),
    "eetq": (_eetq, {"quant_method": "eetq", "weights": "int8"}),
    "torchao": (_torchao, {"quant_method": "torchao", "include_input_output_embeddings": True}),
    "bitnet": (_bitnet, {"quant_method": "bitnet"}),
    "gemma": (_gemma, {"quant_method": "gemma", "quantize_embeddings": True}),
    "unsaid": (_bare, None),
}
"""Format → its layout, and what config.json says of it."""


def quantize(tensors: Tensors, module: str, name: str) -> None:
    """Put `module` into format `name`, in place of its `weight`."""
    layout, _ = FORMATS[name]
    weight = tensors.pop(f"{module}.weight")
    tensors.update({module + beside: tensor for beside, tensor in layout(weight).items()})


def settings_of(name: str) -> dict[str, Any]:
    """The root values of a config.json that speak of the format."""
    if name == "mlx":
        return {"quantization": {"group_size": 64, "bits": 4}}
    _, settings = FORMATS[name]
    return {} if settings is None else {"quantization_config": settings}
