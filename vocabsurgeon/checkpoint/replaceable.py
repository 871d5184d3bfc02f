"""What `--overwrite` may replace: a folder that this tool or a checkpoint writer wrote, nothing else. Only reads."""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path, PurePosixPath

from vocabsurgeon.checkpoint.file_kinds import FileKind, fits, row_of

_REPOSITORIES = {".git": "git", ".hg": "Mercurial", ".svn": "Subversion", ".jj": "Jujutsu"}
"""What marks a working tree, as a folder or (git's worktrees and submodules) as a file: replacing it loses history."""
_CACHES = {".cache", "__pycache__"}
"""Book-keeping that is made anew: `hf download` notes what it fetched below `.cache`."""
_RECORD = "vocabsurgeon.json"
_PIPELINES = ("modules.json", "model_index.json")
"""What sentence-transformers and diffusers write; their weights lie in sub-folders."""
_TOKENIZERS = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model")
_TENSOR_FILES = ("onnx__", ".weight", ".bias", ".data")
"""How torch's TorchScript exporter and others name the data files of an ONNX graph: by tensor."""
_BESIDE_WEIGHTS = (
    *("**/README*", "**/LICEN[CS]E*", "**/NOTICE*", "**/USE_POLICY*", "**/.git*", "**/.DS_Store"),
    *("**/modeling_*.py", "**/configuration_*.py", "**/tokenization_*.py", "**/processing_*.py"),
    *("**/*_processing_*.py", "**/feature_extraction_*.py", "zero_to_fp32.py"),
)
"""Documentation and code that writers leave: model cards, custom code (`custom_object_save`, transformers 5.24),
DeepSpeed's script. Notes, papers, pictures and programs of other names may be somebody's work."""
_MOUNTS = Path("/proc/self/mountinfo")


def why_not_replaceable(folder: Path) -> str | None:
    """Why `folder`, which exists, may not be replaced, as words that follow its name; None where it may.

    Links are resolved. Replaceable is an empty folder, and one whose own files make it a result of this tool, a
    checkpoint, an adapter, a tokenizer or an ONNX export, with nothing in it that none of these would hold. Raises
    `OSError` where the folder cannot be read.
    """
    return _by_place(Path(os.path.realpath(folder))) or _by_content(folder)


def _by_place(folder: Path) -> str | None:
    """What the folder is to the machine and its user, whatever it holds."""
    for place, name in _lived_in():
        if folder == place:
            return f"is {name}"
        if folder in place.parents:
            return f"holds {name}, {place}"
    for mount in _mount_points():
        if folder == mount:
            return "is a mount point"
        if folder in mount.parents:
            return f"holds a mount point, {mount}"
    return "is a mount point" if os.path.ismount(folder) else None


def _lived_in() -> Iterator[tuple[Path, str]]:
    with contextlib.suppress(OSError):  # a shell may stand in a folder that is gone
        yield Path(os.path.realpath(os.getcwd())), "the current directory"
    homes = {os.path.expanduser("~"), os.environ.get("HOME", "")}
    with contextlib.suppress(ImportError, KeyError):
        import pwd

        homes.add(pwd.getpwuid(os.getuid()).pw_dir)
    for home in sorted(homes):
        if os.path.isabs(home):
            yield Path(os.path.realpath(home)), "a home folder"


def _mount_points() -> list[Path]:
    """Linux tells bind mounts apart from folders nowhere else; `os.path.ismount` does not see them."""
    with contextlib.suppress(OSError):
        lines = _MOUNTS.read_bytes().splitlines()
        return [Path(os.fsdecode(_unescaped(line.split()[4]))) for line in lines if line.count(b" ") > 4]
    return []


def _unescaped(raw: bytes) -> bytes:
    """Linux writes blanks, line ends and backslashes of a path in octal."""
    return re.sub(rb"\\([0-7]{3})", lambda match: bytes([int(match[1], 8)]), raw)


def _by_content(folder: Path) -> str | None:
    names = []
    for name in _names(folder):
        marker = next((part for part in PurePosixPath(name).parts if part in _REPOSITORIES), None)
        if marker is not None:
            return f"holds a {_REPOSITORIES[marker]} repository ({name})"
        names.append(name)
    if not names:
        return None
    recorded = _recorded(folder)
    if recorded is None and not _recognized(names):
        return f"holds no checkpoint or export ({_some(names)})"
    graphs = any(name.endswith(".onnx") for name in names)
    strange = [name for name in names if not _expected(name, recorded or (), graphs)]
    return f"holds {_some(strange)}, which no checkpoint writer wrote" if strange else None


def _names(folder: Path) -> Iterator[str]:
    """Every file and link below `folder`, relative, and every folder that marks a repository; caches are left out."""
    for parent, folders, files in os.walk(folder, onerror=_raise):
        inside = Path(parent).relative_to(folder)
        told = (name for name in folders if name in _REPOSITORIES or os.path.islink(Path(parent) / name))
        yield from ((inside / name).as_posix() for name in sorted({*files, *told}))
        folders[:] = sorted(name for name in folders if name not in _CACHES and name not in _REPOSITORIES)


def _raise(error: OSError) -> None:
    raise error


def _recorded(folder: Path) -> Collection[str] | None:
    """The files that a record of ours names; None where the folder has no record of ours."""
    try:
        document = json.loads((folder / _RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or not str(document.get("schema", "")).startswith("vocabsurgeon."):
        return None
    contents = document.get("contents")
    return frozenset(contents) if isinstance(contents, dict) else frozenset()


def _recognized(names: Collection[str]) -> bool:
    """Whether the names, without a record, are those of something that a checkpoint writer or exporter writes."""
    own = {name for name in names if "/" not in name}
    weights = any(row_of(name).kind in (FileKind.WEIGHTS_COPY, FileKind.OTHER_WEIGHTS) for name in own)
    adapter = "adapter_config.json" in own and any(name.startswith("adapter_model") for name in own)
    graph = any(name.endswith(".onnx") and name.count("/") <= 1 for name in names)
    known = any(name in own for name in (*_PIPELINES, *_TOKENIZERS))
    return ("config.json" in own and weights) or adapter or graph or known


def _expected(name: str, recorded: Collection[str], graphs: bool) -> bool:
    base = PurePosixPath(name).name
    by_tensor = graphs and (base.startswith(_TENSOR_FILES[0]) or base.endswith(_TENSOR_FILES[1:]))
    if name == _RECORD or name in recorded or by_tensor:
        return True
    if row_of(name).kind in (FileKind.CODE, FileKind.DOCUMENTATION):
        return any(fits(name, pattern) for pattern in _BESIDE_WEIGHTS)
    return row_of(name).kind is not FileKind.UNKNOWN


def _some(names: Collection[str]) -> str:
    shown = sorted(names)[:3]
    return ", ".join(shown) + (f", … ({len(names)} files)" if len(names) > len(shown) else "")
