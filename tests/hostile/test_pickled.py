"""Weights files of torch that lie, are cut or attack: one line, exit 2, nothing executed, nothing large allocated."""

from __future__ import annotations

import io
import json
import os
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.models.pickled import save
from vocabsurgeon.checkpoint.pickled.places import OLD_START
from vocabsurgeon.checkpoint.pickled.read import read_pickled
from vocabsurgeon.checkpoint.shards import read_shards
from vocabsurgeon.errors import CheckpointError, HeaderError

NAME = "pytorch_model.bin"
STATE = {"a": torch.arange(6.0).reshape(2, 3), "b": torch.ones(4)}


class _Attack:
    """Unpickled, it would make a file."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def _saved(state: object, *, old: bool = False) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer, _use_new_zipfile_serialization=not old)
    return buffer.getvalue()


@pytest.mark.parametrize("old", [False, True], ids=["zip", "before 1.6"])
@pytest.mark.parametrize("place", ["beside", "instead", "state"])
def test_what_would_be_executed_is_refused_and_is_not(tmp_path: Path, old: bool, place: str) -> None:
    attack = _Attack(tmp_path / "made")
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.mark = attack  # type: ignore[attr-defined]
    value = {"beside": {**STATE, "x": attack}, "instead": attack, "state": {"p": parameter}}[place]
    path = save(value, tmp_path / NAME, old=old)
    with pytest.raises(HeaderError, match=r"posix.mkdir.* nothing from a checkpoint is executed"):
        read_pickled(path, NAME)
    assert not (tmp_path / "made").exists()
    torch.load(path, weights_only=False)
    assert (tmp_path / "made").exists(), "the attack was real"


def _entries(change: Callable[[dict[str, bytes]], Any], **options: Any) -> bytes:
    """A zip archive of torch, written anew by Python after `change`."""
    with zipfile.ZipFile(io.BytesIO(_saved(STATE))) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    change(entries)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return buffer.getvalue()


def _pickle(content: bytes) -> bytes:
    return _entries(lambda entries: entries.update({"archive/data.pkl": content}))


def _replaced(raw: bytes, old: bytes, new: bytes) -> bytes:
    assert old in raw and len(old) == len(new)
    return raw.replace(old, new)


def _renamed_in_place() -> bytes:
    """The local header of a storage bears another name than the directory says."""
    raw = _saved(STATE)
    at = raw.index(b"archive/data/0")
    return raw[:at] + b"archive/data/9" + raw[at + 14 :]


def _encrypted() -> bytes:
    raw = bytearray(_saved(STATE))
    struct.pack_into("<H", raw, raw.rindex(b"archive/data/0") - 46 + 8, 1)
    return bytes(raw)


def _twice() -> bytes:
    buffer = io.BytesIO()
    with pytest.warns(UserWarning, match="Duplicate name"), zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
        archive.writestr("archive/data.pkl", b"\x80\x02}.")
    return buffer.getvalue()


def _overlapping() -> bytes:
    """Both storages' directory entries point at one place in the file, each with its own local name there."""
    raw = bytearray(_saved({"a": torch.ones(64), "b": torch.ones(1)}))
    first, second = raw.index(b"archive/data/0") - 30, raw.index(b"archive/data/1") - 30
    inner = first + 128  # inside the first storage's bytes
    size = struct.unpack("<H", raw[second + 28 : second + 30])[0] + 44
    raw[inner : inner + size] = raw[second : second + size]
    entry = raw.rindex(b"archive/data/1") - 46
    struct.pack_into("<I", raw, entry + 42, inner)
    return bytes(raw)


def _storage(change: Callable[[bytes], bytes]) -> bytes:
    with zipfile.ZipFile(io.BytesIO(_saved(STATE))) as archive:
        return _pickle(change(archive.read("archive/data.pkl")))


def _quantized() -> torch.Tensor:
    with pytest.warns(UserWarning, match="deprecated"):
        return torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8)


_SIZE_6, _SIZE_9 = b"cpuq\x06K\x06t", b"cpuq\x06K\x09t"
_SHAPE_23, _SHAPE_73 = b"K\x02K\x03\x86", b"K\x07K\x03\x86"
_STRIDE_31, _STRIDE_41, _STRIDE_01 = b"K\x03K\x01\x86", b"K\x04K\x01\x86", b"K\x00K\x01\x86"
FILES: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "no weights file of torch"),
    "text": (lambda: b"hello", "no weights file of torch"),
    "an LFS pointer": (lambda: b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"),
    "another pickle": (lambda: b"\x80\x02}q\x00.", "no weights file of torch"),
    "a zip cut at its end": (lambda: _saved(STATE)[:-30], "broken or truncated zip"),
    "a zip cut in the middle": (lambda: _saved(STATE)[:400], "broken or truncated zip"),
    "a zip of nothing": (lambda: _entries(dict.clear), "no weights file of torch"),
    "a zip without a pickle": (lambda: _entries(lambda entries: entries.pop("archive/data.pkl")), "without torch's"),
    "TorchScript": (lambda: _entries(lambda entries: entries.update({"archive/constants.pkl": b""})), "TorchScript"),
    "compressed entries": (lambda: _entries(lambda entries: None, compression=zipfile.ZIP_DEFLATED), "compressed"),
    "an encrypted entry": (_encrypted, "compressed or encrypted"),
    "two entries of one name": (_twice, "two entries of one name"),
    "entries that overlap": (_overlapping, "overlap"),
    "a local header of another name": (_renamed_in_place, "contradicts the directory"),
    "a storage that is missing": (lambda: _entries(lambda entries: entries.pop("archive/data/1")), "archive/data/1"),
    "a storage that is too short": (
        lambda: _entries(lambda entries: entries.update({"archive/data/1": b"1234"})),
        "its storage takes 4 bytes, the pickle says 16",
    ),
    "a storage that is too long": (
        lambda: _entries(lambda entries: entries.update({"archive/data/1": bytes(99)})),
        "its storage takes 99 bytes",
    ),
    "big-endian data": (
        lambda: _entries(lambda entries: entries.update({"archive/byteorder": b"big"})),
        "big-endian",
    ),
    "a storage that claims more": (lambda: _storage(lambda raw: _replaced(raw, _SIZE_6, _SIZE_9)), "says 36"),
    "a shape beyond its storage": (lambda: _storage(lambda raw: _replaced(raw, _SHAPE_23, _SHAPE_73)), "beyond its"),
    "a stride beyond its storage": (lambda: _storage(lambda raw: _replaced(raw, _STRIDE_31, _STRIDE_41)), "gaps"),
    "a pickle that is cut": (lambda: _storage(lambda raw: raw[:-9]), "broken or truncated"),
    "an empty pickle": (lambda: _pickle(b""), "broken or truncated"),
    "no state dict": (lambda: _pickle(b"\x80\x02K\x01."), "no state dict"),
    "an empty state dict": (lambda: _saved({}), "no state dict"),
    "a dictionary of something else": (lambda: _saved({**STATE, "epoch": 3}), "'epoch', which is no tensor"),
    "a nested dictionary": (lambda: _saved({"model": STATE}), "'model', which is no tensor"),
    "a key that is a number": (lambda: _saved({7: torch.ones(1)}), "cannot be a tensor's name"),
    "a key that safetensors keeps": (lambda: _saved({"__metadata__": torch.ones(1)}), "cannot be a tensor's name"),
    "a key with half a surrogate pair": (lambda: _saved({"\ud800": torch.ones(1)}), "cannot be a tensor's name"),
    "a text of 4 GB": (lambda: _pickle(b"\x80\x02X\xff\xff\xff\xff."), "broken or truncated"),
    "a newer protocol": (lambda: _pickle(b"\x80\x04\x95\x03\0\0\0\0\0\0\0}\x94."), "FRAME"),
    "an object": (lambda: _pickle(b"\x80\x02ccollections\nOrderedDict\n)\x81."), "NEWOBJ"),
    "a stack that is empty": (lambda: _pickle(b"\x80\x02R."), "broken or truncated"),
    "a memo that is empty": (lambda: _pickle(b"\x80\x02h\x05."), "broken or truncated"),
    "a call of a tuple": (lambda: _pickle(b"\x80\x02))R."), "no function"),
    "attributes of a tuple": (lambda: _pickle(b"\x80\x02)}b."), "no dict"),
    "a persistent id that is a number": (lambda: _pickle(b"\x80\x02K\x01Q."), "names a storage"),
    "a sparse tensor": (lambda: _saved({"s": torch.eye(2).to_sparse()}), "holds a sparse tensor"),
    "a quantized tensor": (lambda: _saved({"q": _quantized()}), "holds a tensor of QInt8 elements"),
    "complex numbers of 128 bits": (lambda: _saved({"c": torch.ones(2, dtype=torch.complex128)}), "ComplexDouble"),
    "a conjugated view": (lambda: _saved({"c": torch.ones(2, dtype=torch.complex64).conj()}), "conjugated"),
    "columns of a larger tensor": (lambda: _saved({"c": torch.ones(4, 6)[:, :3]}), "gaps or repeats"),
    "a repeated row": (lambda: _saved({"c": torch.ones(1, 6).expand(4, 6)}), "beyond its storage"),
    "a whole module": (lambda: _saved(torch.nn.Linear(2, 2)), "torch.nn.modules.linear.Linear"),
    "the old format, cut in its head": (lambda: _saved(STATE, old=True)[:20], "truncated"),
    "the old format, cut in its data": (lambda: _saved(STATE, old=True)[:-3], "truncated in storage"),
    "the old format, cut before its data": (lambda: OLD_START + b"\x80\x02M\xe9\x03.", "truncated"),
    "the old format, of another version": (
        lambda: _replaced(_saved(STATE, old=True), b"\x80\x02M\xe9\x03.", b"\x80\x02M\xea\x03."),
        "header that torch does not write",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_bad_file_is_one_line(name: str, tmp_path: Path) -> None:
    make, said = FILES[name]
    (tmp_path / NAME).write_bytes(make())
    with pytest.raises(HeaderError, match=said) as raised:
        read_pickled(tmp_path / NAME, NAME)
    assert "\n" not in str(raised.value) and str(raised.value).startswith(NAME)


def test_a_pickle_of_endless_instructions_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.checkpoint.pickled.machine.MAX_INSTRUCTIONS", 1000)
    (tmp_path / NAME).write_bytes(_pickle(b"\x80\x02" + b"]" * 5000 + b"."))
    with pytest.raises(HeaderError, match="more instructions"):
        read_pickled(tmp_path / NAME, NAME)


def test_a_pickle_beyond_a_header_s_size_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vocabsurgeon.checkpoint.pickled.places.MAX_HEADER_BYTES", 100)
    (tmp_path / NAME).write_bytes(_pickle(bytes(101)))
    with pytest.raises(HeaderError, match="101 bytes, more than any"):
        read_pickled(tmp_path / NAME, NAME)


def test_the_old_format_reads_no_more_than_a_header_s_size(tmp_path: Path) -> None:
    """A text that claims the rest of a large file (here with a hole in it) is not taken in."""
    path = tmp_path / NAME
    path.write_bytes(OLD_START + b"\x80\x02M\xe9\x03." + b"\x80\x02X" + struct.pack("<I", 2**31))
    os.truncate(path, 2**31)
    with pytest.raises(HeaderError, match="longer than any state dict needs"):
        read_pickled(path, NAME)


def test_something_that_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / NAME)
    with pytest.raises(HeaderError, match="not a regular file"):
        read_pickled(tmp_path / NAME, NAME)


@pytest.mark.parametrize(
    ("weight_map", "said"),
    [
        ({"a": "missing.bin"}, r"missing\.bin: is missing, though pytorch_model\.bin\.index\.json names it"),
        ({"a": "../one.bin"}, "not a plain file name"),
        ({"a": "/etc/passwd"}, "not a plain file name"),
        ({"a": "one.bin"}, r"b: is in one\.bin, but pytorch_model\.bin\.index\.json does not list it"),
        ({"a": "one.bin", "b": "one.bin", "c": "one.bin"}, r"c: is not in one\.bin"),
        ({}, "empty weight_map"),
        ([], "no weight_map"),
    ],
)
def test_index_that_does_not_fit_is_refused(tmp_path: Path, weight_map: object, said: str) -> None:
    save(STATE, tmp_path / "one.bin")
    (tmp_path / f"{NAME}.index.json").write_text(json.dumps({"weight_map": weight_map}))
    with pytest.raises(CheckpointError, match=said):
        read_shards(tmp_path)


ZIP, OLD = _saved(STATE), _saved(STATE, old=True)


@given(st.booleans(), st.integers(0, len(ZIP)), st.binary(min_size=1, max_size=4))
def test_changed_bytes_give_the_truth_or_an_expected_error(old: bool, at: int, new: bytes) -> None:
    """Whatever is changed, the reader raises its own error, or what it reports lies inside the file."""
    import tempfile

    raw = OLD if old else ZIP
    at %= len(raw)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        path.write_bytes((raw[:at] + new + raw[at + len(new) :])[: len(raw)])
        try:
            header = read_pickled(path, NAME)
        except HeaderError:
            return
        assert all(0 <= info.start <= info.end <= len(raw) for info in header.tensors)
