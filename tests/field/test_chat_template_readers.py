"""`--chat-template` on a multimodal checkpoint: the processor reads another file than the tokenizer.

Qwen3-VL issue 1488 (2025), transformers pull request 33957 (2024): chat_template.json goes before chat_template.jinja.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer
from transformers.processing_utils import ProcessorMixin

from tests.models.tiny import build, write_tokenizer
from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.surgery.report import OperationReport
from vocabsurgeon.surgery.request import extend_request
from vocabsurgeon.surgery.run import extend
from vocabsurgeon.surgery.verify import verify
from vocabsurgeon.vocabulary.describe import describe
from vocabsurgeon.vocabulary.findings import check

TEMPLATE = "{% for message in messages %}<|tool|>{{ message.content }}{% endfor %}"


@pytest.mark.parametrize("others", [(), ("chat_template.jinja",)], ids=["json alone", "json and jinja"])
def test_processor_and_tokenizer_take_the_new_template(others: tuple[str, ...], tmp_path: Path) -> None:
    source, out = build("llama", tmp_path / "a", vocab_size=64), tmp_path / "b"
    write_tokenizer(source, 60)
    (source / "chat_template.json").write_text(json.dumps({"chat_template": "old {{ messages }}"}))
    (source / "processor_config.json").write_text('{"processor_class": "Qwen2VLProcessor"}')
    for name in others:
        (source / name).write_text("older {{ messages }}")
    different = [finding.message for finding in check(describe(Checkpoint.open(source))).findings]
    assert any("different default chat templates" in message for message in different) == bool(others)
    report = extend(source, out, extend_request(["<|tool|>"], chat_template=TEMPLATE))
    assert isinstance(report, OperationReport), report
    taken, _ = ProcessorMixin.get_processor_dict(str(out))
    assert taken["chat_template"] == AutoTokenizer.from_pretrained(out).chat_template == TEMPLATE
    assert verify(source, out).passed
