"""What a result must keep, one class a promise: `check(before, after)` re-reads both and gives a verdict."""

from vocabsurgeon.surgery.promises.base import Promise, Verdict
from vocabsurgeon.surgery.promises.files import FilesCarried, IndexExact
from vocabsurgeon.surgery.promises.kept_files import MeaningKept
from vocabsurgeon.surgery.promises.merged import KeptIdentical, MeanAsPlanned, ValuesAsPlanned
from vocabsurgeon.surgery.promises.record import RecordIntact
from vocabsurgeon.surgery.promises.scaled import CopyScaled
from vocabsurgeon.surgery.promises.states import ConfigAsIntended, TieStateAsIntended
from vocabsurgeon.surgery.promises.tensors import (
    CopyIdentical,
    DropLossless,
    NewRowsAsPlanned,
    OldRowsIdentical,
    UntouchedTensorsIdentical,
)
from vocabsurgeon.surgery.promises.tokens import TokenizerKept
from vocabsurgeon.surgery.promises.written_files import EditedFileAsPlanned, WrittenFileAsPlanned

PROMISES: dict[str, type[Promise]] = {
    promise.__name__: promise
    for promise in (
        OldRowsIdentical,
        NewRowsAsPlanned,
        UntouchedTensorsIdentical,
        CopyIdentical,
        CopyScaled,
        DropLossless,
        KeptIdentical,
        MeanAsPlanned,
        ValuesAsPlanned,
        ConfigAsIntended,
        TieStateAsIntended,
        TokenizerKept,
        EditedFileAsPlanned,
        WrittenFileAsPlanned,
        MeaningKept,
        FilesCarried,
        IndexExact,
        RecordIntact,
    )
}
"""Every promise by class name: what a record may name, and what the tests enumerate."""

__all__ = [
    "PROMISES",
    "ConfigAsIntended",
    "CopyIdentical",
    "CopyScaled",
    "DropLossless",
    "EditedFileAsPlanned",
    "FilesCarried",
    "IndexExact",
    "KeptIdentical",
    "MeanAsPlanned",
    "MeaningKept",
    "NewRowsAsPlanned",
    "OldRowsIdentical",
    "Promise",
    "RecordIntact",
    "TieStateAsIntended",
    "TokenizerKept",
    "UntouchedTensorsIdentical",
    "ValuesAsPlanned",
    "Verdict",
    "WrittenFileAsPlanned",
]
