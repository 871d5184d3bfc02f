"""One test an attack on a weights file: each gives one `HeaderError` line, quickly, whatever the bytes say."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults.checkpoints import raw_file
from vocabsurgeon.checkpoint.header import read_header
from vocabsurgeon.errors import HeaderError

NAME = "model.safetensors"


def _entry(dtype: Any = "U8", shape: Any = (4,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def _length(claimed: int) -> bytes:
    return claimed.to_bytes(8, "little") + b'{"a":1}'


_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"
ATTACKS: dict[str, tuple[bytes, str]] = {
    "empty file": (b"", "only 0 bytes"),
    "seven bytes": (b"\0" * 7, "only 7 bytes"),
    "git lfs pointer": (_POINTER, "Git LFS pointer"),
    "header longer than the file": (_length(1000), "claims 1000 bytes"),
    "header length of all ones": (_length(2**64 - 1), "claims"),
    "header shorter than its JSON": (_length(6), "not valid JSON"),
    "header of no bytes": (_length(0), "no JSON header"),
    "header that is not text": (raw_file(b"{\xff\xfe}"), "not valid JSON"),
    "header with a byte order mark": (raw_file(b"\xef\xbb\xbf{}"), "no JSON header"),
    "header that is a list": (raw_file(b"[]"), "no JSON header"),
    "header that is not JSON": (raw_file(b"{a:1}"), "not valid JSON"),
    "two JSON documents": (raw_file(b"{}{}"), "not valid JSON"),
    "nested a hundred thousand deep": (raw_file(b'{"a":' * 100_000), "not valid JSON"),
    "number of ten thousand digits": (raw_file(b'{"a":' + b"9" * 10_000 + b"}"), "not valid JSON"),
    "a key twice": (raw_file(b'{"a":%b,"a":%b}' % ((json.dumps(_entry()).encode(),) * 2), b"abcd"), "named twice"),
    "metadata twice": (raw_file(b'{"__metadata__":{},"__metadata__":{}}'), "named twice"),
    "metadata that is a list": (raw_file({"__metadata__": []}), "not a map of strings"),
    "metadata with a number": (raw_file({"__metadata__": {"a": 1}}), "not a map of strings"),
    "metadata with null": (raw_file({"__metadata__": {"a": None}}), "not a map of strings"),
    "metadata with NaN": (raw_file({"__metadata__": {"a": float("nan")}}), "not a map of strings"),
    "metadata with an object": (raw_file({"__metadata__": {"a": {}}}), "not a map of strings"),
    "metadata with half a surrogate pair": (raw_file(rb'{"__metadata__":{"a":"\ud800"}}'), "half a surrogate"),
    "name with half a surrogate pair": (raw_file(rb'{"\udfff":1}'), "half a surrogate"),
    "entry that is a number": (raw_file({"a": 1}), "needs exactly"),
    "entry that is NaN": (raw_file({"a": float("nan")}), "needs exactly"),
    "entry that is a list": (raw_file({"a": ["dtype", "shape", "data_offsets"]}), "needs exactly"),
    "entry without a shape": (raw_file({"a": {"dtype": "U8", "data_offsets": [0, 4]}}, b"abcd"), "needs exactly"),
    "entry with a key too many": (raw_file({"a": _entry() | {"x": 1}}, b"abcd"), "needs exactly"),
    "entry with dtype twice": (
        raw_file(b'{"a":{"dtype":"U8","dtype":"I8","shape":[4],"data_offsets":[0,4]}}', b"abcd"),
        "needs exactly",
    ),
    "unknown dtype": (raw_file({"a": _entry("F31")}, b"abcd"), "unknown dtype 'F31'"),
    "dtype in lower case": (raw_file({"a": _entry("u8")}, b"abcd"), "unknown dtype"),
    "dtype of a megabyte": (raw_file({"a": _entry("F" * 1_000_000)}, b"abcd"), "unknown dtype"),
    "dtype nested deep": (
        raw_file(b'{"a":{"dtype":%b,"shape":[],"data_offsets":[]}}' % (b"[" * 900 + b"]" * 900)),
        "dtype",
    ),
    "dtype that is an object": (raw_file({"a": _entry({"x": 1})}, b"abcd"), "unknown dtype"),
    "dtype with a line break": (raw_file({"a": _entry("U8\n\x1b[31m")}, b"abcd"), "unknown dtype"),
    "negative length": (raw_file({"a": _entry(shape=[-4])}, b"abcd"), "not lists of whole numbers"),
    "two negative lengths": (raw_file({"a": _entry(shape=[-2, -2])}, b"abcd"), "not lists of whole numbers"),
    "length that is a float": (raw_file({"a": _entry(shape=[4.0])}, b"abcd"), "not lists of whole numbers"),
    "length that is true": (raw_file({"a": _entry(shape=[True, 4])}, b"abcd"), "not lists of whole numbers"),
    "length beyond 64 bits": (raw_file({"a": _entry(shape=[2**64])}, b"abcd"), "not lists of whole numbers"),
    "shape that is a number": (raw_file({"a": _entry(shape=4)}, b"abcd"), "not lists of whole numbers"),
    "shape that is a text": (raw_file({"a": _entry(shape="4")}, b"abcd"), "not lists of whole numbers"),
    "product that overflows to zero": (raw_file({"a": _entry(shape=[2**32, 2**32], offsets=[0, 0])}), "product"),
    "product that overflows to the size": (raw_file({"a": _entry(shape=[2**62 + 1, 4])}, b"abcd"), "product"),
    "product hidden by a zero": (raw_file({"a": _entry(shape=[2**62, 2**62, 0], offsets=[0, 0])}), "product"),
    "product of thousands of digits": (raw_file({"a": _entry(shape=[2**62] * 100_000)}, b"abcd"), "product"),
    "bits that overflow": (raw_file({"a": _entry("F64", [2**62])}, b"abcd"), "takes 4 bytes"),
    "packed type with half a byte": (raw_file({"a": _entry("F4", [3], [0, 2])}, b"ab"), "whole byte"),
    "offsets in reverse": (raw_file({"a": _entry(offsets=[4, 0])}, b"abcd"), "does not begin"),
    "negative offset": (raw_file({"a": _entry(offsets=[-4, 0])}, b"abcd"), "not lists of whole numbers"),
    "three offsets": (raw_file({"a": _entry(offsets=[0, 4, 8])}, b"abcd"), "not lists of whole numbers"),
    "offsets beyond 64 bits": (raw_file({"a": _entry(offsets=[2**64, 2**64 + 4])}, b"abcd"), "not lists"),
    "offsets that are NaN": (raw_file({"a": _entry(offsets=[float("nan"), 4])}, b"abcd"), "not lists"),
    "size that the shape does not need": (
        raw_file({"a": _entry(shape=[3])}, b"abcd"),
        "takes 4 bytes, its shape needs 3",
    ),
    "tensors that overlap": (raw_file({"a": _entry(), "b": _entry(offsets=[2, 6])}, b"abcdef"), "does not begin"),
    "tensors in one place": (raw_file({"a": _entry(), "b": _entry()}, b"abcd"), "does not begin"),
    "a hole before the first": (raw_file({"a": _entry(offsets=[1, 5])}, b"abcde"), "does not begin"),
    "a hole between two": (raw_file({"a": _entry(), "b": _entry(offsets=[5, 9])}, b"abcdefghi"), "does not begin"),
    "an empty tensor in the middle of another": (
        raw_file({"a": _entry(), "b": _entry(shape=[0], offsets=[2, 2])}, b"abcd"),
        "does not begin",
    ),
    "data cut short": (raw_file({"a": _entry()}, b"abc"), "is truncated"),
    "no data at all": (raw_file({"a": _entry()}), "is truncated"),
    "bytes behind the last tensor": (raw_file({"a": _entry()}, b"abcde"), "no tensor owns"),
    "bytes and no tensor": (raw_file({}, b"a"), "no tensor owns"),
}


@pytest.mark.parametrize(("content", "reason"), ATTACKS.values(), ids=list(ATTACKS))
def test_attack_gives_one_line(tmp_path: Path, content: bytes, reason: str) -> None:
    path = tmp_path / NAME
    path.write_bytes(content)
    with pytest.raises(HeaderError) as caught:
        read_header(path, NAME)
    line = str(caught.value)
    assert reason in line and NAME in line
    assert line.isprintable() and len(line) < 400


def test_header_that_claims_more_than_the_limit_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / NAME
    path.write_bytes((100_000_001).to_bytes(8, "little") + b"{")
    os.truncate(path, 100_000_100)
    with pytest.raises(HeaderError, match="claims 100000001 bytes"):
        read_header(path, NAME)


def test_many_names_and_one_twice_is_found_quickly(tmp_path: Path) -> None:
    names = ",".join(f'"{number}":1' for number in range(200_000))
    path = tmp_path / NAME
    path.write_bytes(raw_file(f'{{{names},"199999":1}}'.encode()))
    with pytest.raises(HeaderError, match=r"199999.*named twice"):
        read_header(path, NAME)


NOT_FILES: dict[str, Callable[[Path], Any]] = {
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to nowhere": lambda path: path.symlink_to("nowhere"),
    "a link to itself": lambda path: path.symlink_to(path),
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("make", NOT_FILES.values(), ids=list(NOT_FILES))
def test_what_is_no_file_is_neither_read_nor_waited_for(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    make(tmp_path / NAME)
    with pytest.raises(HeaderError):
        read_header(tmp_path / NAME, NAME)
