"""The layout of DESIGN, held over the syntax trees: who may import whom, no cycles, sizes, types and docstrings."""

from __future__ import annotations

import ast
import statistics
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import vocabsurgeon

PACKAGE = Path(vocabsurgeon.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
TREES = {file: ast.parse(file.read_text()) for file in FILES}
LAYERS: dict[str, set[str]] = {
    "errors": set(),
    "checkpoint": {"errors"},
    "tokenizer": {"checkpoint", "errors"},
    "classes": {"checkpoint", "errors"},
    "vocabulary": {"classes", "tokenizer", "checkpoint", "errors"},
    "surgery": {"vocabulary", "classes", "tokenizer", "checkpoint", "errors"},
    "onnx": {"classes", "tokenizer", "checkpoint", "errors"},
    "report": set(),
    "cli": {"surgery", "onnx", "vocabulary", "classes", "tokenizer", "checkpoint", "report", "errors"},
    "__main__": {"cli"},
}
"""Layer → the layers it may import besides itself."""
HEAVY = {"torch", "transformers", "onnx", "onnxruntime", "onnx_ir", "onnxscript", "matplotlib", "jinja2"}
FORBIDDEN_NAMES = {"utils", "util", "helpers", "helper", "common", "manager", "handler", "process", "misc"}
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _module(file: Path) -> str:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _layer(module: str) -> str:
    return module.split(".")[1]


def _imports(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _ours(tree: ast.AST) -> set[str]:
    """The modules of the package that are imported, each by the name of its own file."""
    modules = {_module(file) for file in FILES}
    found = set()
    for name in _imports(tree):
        if name.split(".")[0] == "vocabsurgeon":
            found.add(name if name in modules else name.rpartition(".")[0])
    return found


MODULES = [pytest.param(file, id=_module(file)) for file in FILES if _module(file) != "vocabsurgeon"]


@pytest.mark.parametrize("file", MODULES)
def test_layers_import_downwards_only(file: Path) -> None:
    layer = _layer(_module(file))
    imported = _ours(TREES[file])
    assert "vocabsurgeon" not in imported, "no module imports the package root"
    assert {_layer(module) for module in imported} - {layer} <= LAYERS[layer]


def test_every_layer_is_in_the_table() -> None:
    assert {_layer(_module(file)) for file in FILES if _module(file) != "vocabsurgeon"} == set(LAYERS)


def test_there_is_no_import_cycle() -> None:
    graph = {_module(file): _ours(_at_top(tree)) - {_module(file)} for file, tree in TREES.items()}
    try:
        list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        pytest.fail(f"import cycle: {' → '.join(error.args[1])}")


def _at_top(tree: ast.Module) -> ast.Module:
    """The tree without function bodies and without what is imported for types alone."""
    kept = [node for node in tree.body if not isinstance(node, Function) and not _for_types(node)]
    return ast.Module([node for node in kept if not isinstance(node, ast.ClassDef)], [])


def _for_types(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@pytest.mark.parametrize("file", MODULES)
def test_heavy_libraries_are_imported_where_they_are_used(file: Path) -> None:
    if _layer(_module(file)) == "onnx":
        return  # tests/test_lazy_imports.py asks the interpreter
    assert not {name.split(".")[0] for name in _imports(_at_top(TREES[file]))} & HEAVY


@pytest.mark.parametrize("file", MODULES)
def test_files_and_functions_keep_their_size(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 400
    long = {
        node.name: _length(node) for node in ast.walk(TREES[file]) if isinstance(node, Function) and _length(node) > 60
    }
    assert not long


def _length(node: Function) -> int:
    """Lines of the body, its docstring left out."""
    body = node.body[1:] if ast.get_docstring(node) else node.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def test_the_median_file_and_most_functions_are_short() -> None:
    sizes = [len(file.read_text().splitlines()) for file in FILES]
    assert statistics.median(size for size in sizes if size) <= 160
    lengths = sorted(_length(node) for tree in TREES.values() for node in ast.walk(tree) if isinstance(node, Function))
    assert lengths[int(len(lengths) * 0.9)] <= 20


def _public(file: Path) -> Iterator[tuple[str, Function]]:
    """The public functions of a module and the public methods of its public classes."""
    for node in TREES[file].body:
        if isinstance(node, Function) and not node.name.startswith("_"):
            yield node.name, node
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            for inner in node.body:
                if isinstance(inner, Function) and not inner.name.startswith("_"):
                    yield f"{node.name}.{inner.name}", inner


@pytest.mark.parametrize("file", MODULES)
def test_everything_public_is_documented_and_typed(file: Path) -> None:
    tree = TREES[file]
    assert ast.get_docstring(tree) or not tree.body, "a module says what lives in it"
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    undocumented = [node.name for node in classes if not ast.get_docstring(node)]
    undocumented += [name for name, node in _public(file) if not ast.get_docstring(node) and not _overrides(name, file)]
    assert not undocumented
    assert not [name for name, node in _public(file) if not _typed(node)]


OVERRIDES = {"get_command", "list_commands", "run", "add", "to_dict"}
"""Methods whose meaning a base class or protocol of a library gives."""


def _overrides(name: str, file: Path) -> bool:
    return "." in name and name.rpartition(".")[2] in OVERRIDES


def _typed(node: Function) -> bool:
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    named = [argument for argument in arguments if argument.arg not in ("self", "cls")]
    return node.returns is not None and all(argument.annotation is not None for argument in named)


def test_names_say_what_is_in_a_module() -> None:
    stems = {part for file in FILES for part in file.relative_to(PACKAGE).with_suffix("").parts}
    assert not stems & FORBIDDEN_NAMES


def test_only_the_reports_and_the_command_line_print() -> None:
    printing = {
        _module(file)
        for file, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print"
    }
    assert {_layer(module) for module in printing} <= {"report", "cli"}


def test_only_one_module_renames_and_only_the_checkpoint_layer_writes() -> None:
    def calls(*names: str) -> set[str]:
        return {
            _module(file)
            for file, tree in TREES.items()
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute)
            and node.attr in names
            and isinstance(node.value, ast.Name)
            and node.value.id == "os"
        }

    assert calls("rename", "replace", "renames") == {"vocabsurgeon.checkpoint.staging"}
    assert {_layer(module) for module in calls("write", "link", "fsync")} <= {"checkpoint", "onnx"}
