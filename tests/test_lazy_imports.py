"""A fresh interpreter imports every module of the package: the heavy libraries stay out until a function needs them."""

from __future__ import annotations

import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import vocabsurgeon

HEAVY = ("torch", "transformers", "onnxruntime", "onnxscript", "onnx", "onnx_ir", "matplotlib", "jinja2")
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(vocabsurgeon.__path__, "vocabsurgeon.")
    if module.name != "vocabsurgeon.__main__"
)
_IMPORT = """
import importlib, json, sys
told, seen = {}, set()
for name in json.loads(sys.argv[1]):
    importlib.import_module(name)
    new = [heavy for heavy in json.loads(sys.argv[2]) if heavy in sys.modules and heavy not in seen]
    seen.update(new)
    if new:
        told[name] = new
print(json.dumps(told))
"""


def _heavy_imports(modules: list[str], heavy: tuple[str, ...]) -> dict[str, list[str]]:
    """Module → heavy libraries that importing it brought in, in one fresh interpreter."""
    root = Path(vocabsurgeon.__file__).parents[1]
    arguments = [sys.executable, "-c", _IMPORT, json.dumps(modules), json.dumps(heavy)]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=root, check=True)
    told: dict[str, list[str]] = json.loads(done.stdout)
    return told


def test_every_module_outside_onnx_is_light() -> None:
    modules = ["vocabsurgeon", *(name for name in MODULES if not name.startswith("vocabsurgeon.onnx."))]
    assert {"vocabsurgeon.cli", "vocabsurgeon.onnx", "vocabsurgeon.checkpoint.writer"} <= set(modules)
    assert _heavy_imports(modules, HEAVY) == {}


def test_modules_inside_onnx_import_no_more_than_onnx() -> None:
    modules = [name for name in MODULES if name.startswith("vocabsurgeon.onnx.")]
    heavy = tuple(name for name in HEAVY if name not in ("onnx", "onnx_ir"))
    assert _heavy_imports(modules, heavy) == {}


@pytest.mark.parametrize("heavy", HEAVY)
def test_the_list_names_what_can_be_imported(heavy: str) -> None:
    """A misspelled name would never be found."""
    import importlib.util

    if heavy not in ("matplotlib", "jinja2"):
        assert importlib.util.find_spec(heavy) is not None
