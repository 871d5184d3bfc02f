"""A pickle as data: a stack machine over the few instructions that torch's `weights_only` loader knows.

It cannot execute anything: `pickletools.genops` splits the bytes into instructions without acting on them, globals are
names looked up in a closed table of our own records, and no object of torch or of the file's choosing is ever made.
torch's own loader under FakeTensorMode tells offsets too, but costs seconds of import and builds real objects.
"""

from __future__ import annotations

import pickletools
from collections.abc import Callable
from typing import IO, Any, Protocol, cast

from vocabsurgeon.checkpoint.pickled.records import Callee, Malformed, Unsupported, allowed, storage_of

MAX_INSTRUCTIONS = 4_000_000
"""About sixty a tensor: far beyond any real file, and what such a stack can take is bounded."""


class Readable(Protocol):
    """What `pickletools` needs of a file."""

    def read(self, size: int, /) -> bytes:
        """`size` bytes, fewer at the end."""

    def readline(self) -> bytes:
        """The bytes up to the next line end, that included."""

    def tell(self) -> int:
        """The position."""


def read_pickle(file: Readable) -> Any:
    """The one value that the pickle at the file's position makes: records, dicts, lists, tuples, numbers and texts.

    The file is left behind the pickle's end. Raises `Malformed` for anything that a state dict does not need.
    """
    machine = _Machine()
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(cast(IO[bytes], file))):
            if count > MAX_INSTRUCTIONS:
                raise Malformed("has more instructions than any state dict")
            if opcode.name == "STOP":
                return machine.pop()
            instruction = _INSTRUCTIONS.get(opcode.name)
            if instruction is None:
                raise Malformed(f"uses the instruction {opcode.name}, which weights do not need")
            instruction(machine, argument)
    except (IndexError, KeyError, ValueError, OverflowError, MemoryError) as error:
        raise Malformed("is broken or truncated") from error
    raise Malformed("is truncated")


class _Machine:
    """The stack, the stacks set aside by marks, and the memo."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.marks: list[list[Any]] = []
        self.memo: dict[int, Any] = {}

    def pop(self) -> Any:
        return self.stack.pop()

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def mark(self) -> None:
        self.marks.append(self.stack)
        self.stack = []

    def above_mark(self) -> list[Any]:
        above, self.stack = self.stack, self.marks.pop()
        return above

    def top(self, kind: type) -> Any:
        """The value on top, which has to be a `kind`."""
        if type(self.stack[-1]) is not kind:
            raise Malformed(f"changes something that is no {kind.__name__}")
        return self.stack[-1]


def _push(value: Any) -> _Instruction:
    return lambda machine, argument: machine.push(value)


def _push_argument(machine: _Machine, argument: Any) -> None:
    machine.push(argument)


def _push_new(kind: Callable[[], Any]) -> _Instruction:
    return lambda machine, argument: machine.push(kind())


def _global(machine: _Machine, argument: str) -> None:
    name = argument.replace(" ", ".", 1)
    found = allowed().get(name)
    if found is None:
        raise Malformed(f"names {name[:80]}, which is no part of weights; nothing from a checkpoint is executed")
    machine.push(found)


def _reduce(machine: _Machine, argument: None) -> None:
    arguments, callee = machine.pop(), machine.pop()
    if isinstance(callee, Unsupported):
        raise Malformed(f"holds {callee.what}, which safetensors cannot hold as it is")
    if not isinstance(callee, Callee) or not isinstance(arguments, tuple):
        raise Malformed("calls something that is no function")
    machine.push(callee.call(arguments))


def _build(machine: _Machine, argument: None) -> None:
    """Attributes of a dictionary (`_metadata`, versions of modules) are dropped; nothing else may get any."""
    machine.pop()
    machine.top(dict)


def _persistent(machine: _Machine, argument: None) -> None:
    machine.push(storage_of(machine.pop()))


def _tuple_of(count: int) -> _Instruction:
    def take(machine: _Machine, argument: None) -> None:
        items = [machine.pop() for _ in range(count)]
        machine.push(tuple(reversed(items)))

    return take


def _tuple(machine: _Machine, argument: None) -> None:
    items = machine.above_mark()
    machine.push(tuple(items))


def _append(machine: _Machine, argument: None) -> None:
    item = machine.pop()
    machine.top(list).append(item)


def _appends(machine: _Machine, argument: None) -> None:
    items = machine.above_mark()
    machine.top(list).extend(items)


def _set_item(machine: _Machine, argument: None) -> None:
    value, key = machine.pop(), machine.pop()
    _set(machine.top(dict), key, value)


def _set_items(machine: _Machine, argument: None) -> None:
    items = machine.above_mark()
    target = machine.top(dict)
    for key, value in zip(items[::2], items[1::2], strict=True):
        _set(target, key, value)


def _set(target: dict[Any, Any], key: Any, value: Any) -> None:
    if type(key) not in (str, int):
        raise Malformed("has a dictionary with a key that is neither text nor number")
    target[key] = value


def _remember(machine: _Machine, argument: int) -> None:
    machine.memo[argument] = machine.stack[-1]


def _recall(machine: _Machine, argument: int) -> None:
    machine.push(machine.memo[argument])


_Instruction = Callable[[_Machine, Any], None]
_INSTRUCTIONS: dict[str, _Instruction] = {
    "PROTO": lambda machine, argument: None,
    "MARK": lambda machine, argument: machine.mark(),
    "NONE": _push(None),
    "NEWTRUE": _push(True),
    "NEWFALSE": _push(False),
    **dict.fromkeys(("BININT", "BININT1", "BININT2", "LONG1", "BINFLOAT"), _push_argument),
    **dict.fromkeys(("BINUNICODE", "SHORT_BINSTRING"), _push_argument),
    "EMPTY_TUPLE": _push(()),
    "EMPTY_LIST": _push_new(list),
    "EMPTY_DICT": _push_new(dict),
    "TUPLE": _tuple,
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "APPEND": _append,
    "APPENDS": _appends,
    "SETITEM": _set_item,
    "SETITEMS": _set_items,
    "GLOBAL": _global,
    "REDUCE": _reduce,
    "BUILD": _build,
    "BINPERSID": _persistent,
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _remember),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _recall),
}
"""What `torch._weights_only_unpickler` knows, less the making of objects (NEWOBJ) and sets."""
