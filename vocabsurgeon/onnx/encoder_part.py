"""An encoder (or a decoder's body) as one graph: logits of a masked-language head, or the last hidden state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vocabsurgeon.errors import OnnxError
from vocabsurgeon.onnx.model_calls import tells_segments, uses_cache
from vocabsurgeon.onnx.parts import MODEL, Feed, Part, Parts
from vocabsurgeon.onnx.probe import answer
from vocabsurgeon.onnx.signature import IDS, MASK, encoder

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def encoder_parts(model: PreTrainedModel, output: str) -> Parts:
    """The one graph of an encoder that gives `output`. Raises `OnnxError` where the model gives none a token."""
    import torch

    ids = torch.zeros(1, 6, dtype=torch.int64)
    told = uses_cache(model, False)
    found = answer(model, input_ids=ids, attention_mask=torch.ones_like(ids), **told).get(output)
    if found is None or found.ndim != 3 or found.shape[1] < ids.shape[1]:
        raise OnnxError(f"the model gives no {output} for each token")
    longer = found.shape[1] > ids.shape[1]  # Perceiver answers for every position it has
    signature = encoder(output, found.shape[-1], tells_segments(model))

    def call(feed: Feed) -> Sequence[torch.Tensor]:
        given = {name: feed[name] for name in signature.inputs if name not in (IDS, MASK)}
        found = model(input_ids=feed[IDS], attention_mask=feed[MASK], **given, **told)[output]
        return [found[:, : feed[IDS].shape[1]] if longer else found]

    return Parts((Part(MODEL, signature, call),))
