"""What weight files leave unsaid or empty though they can be read: their format's name, and tensors without numbers."""

from __future__ import annotations

from vocabsurgeon.checkpoint.source import Checkpoint

FORMATS = ("pt", "tf", "flax", "mlx")
"""What transformers 4.x takes for `format` in a header's `__metadata__`; 5.x does not look."""
WITHOUT_METADATA = "transformers up to 4.47 fails on such a file; later ones load it"
WITHOUT_FORMAT = "transformers 4.x refuses such a file; 5.x loads it"
ZERO_3 = (
    "DeepSpeed's ZeRO-3 leaves tensors empty that were not gathered: save again with "
    "stage3_gather_16bit_weights_on_model_save, or run zero_to_fp32.py on its checkpoint"
)


def unnamed_formats(source: Checkpoint) -> dict[str, tuple[str, ...]]:
    """What older readers do → the safetensors files for which they do it, as no `format` of theirs is in the header."""
    found: dict[str, tuple[str, ...]] = {}
    for name, header in source.shards.headers.items():
        if (header.metadata or {}).get("format") in FORMATS:
            continue
        consequence = WITHOUT_METADATA if header.metadata is None else WITHOUT_FORMAT
        found[consequence] = (*found.get(consequence, ()), name)
    return found


def format_notes(source: Checkpoint) -> tuple[str, ...]:
    """What to say where such a file is written anew: its header keeps what it says, and what it does not."""
    return tuple(
        f"{some(names)}: the header still names no format, as in the source: {consequence}"
        for consequence, names in unnamed_formats(source).items()
    )


def empty_weights(source: Checkpoint) -> tuple[str, ...]:
    """The floating-point weights that hold no number."""
    return tuple(
        key
        for key, info in source.tensors.items()
        if 0 in info.shape and info.dtype.floating and key.endswith("weight")
    )


def some(names: tuple[str, ...]) -> str:
    """The first names, and how many more there are."""
    return ", ".join(names[:2]) + (f" and {len(names) - 2} more" if len(names) > 2 else "")
