"""What a checkpoint can be exported for: one row a task, and the choice by the architecture that its config names."""

from __future__ import annotations

from dataclasses import dataclass

from vocabsurgeon.checkpoint.source import Checkpoint
from vocabsurgeon.errors import OnnxError, UsageError
from vocabsurgeon.onnx.signature import HIDDEN, LOGITS

AUTO = "auto"


@dataclass(frozen=True)
class Task:
    """`auto_class` of transformers loads it, `mappings` there name its model classes. `output`: what is compared."""

    name: str
    auto_class: str
    mappings: tuple[str, ...]
    output: str = LOGITS


TEXT_GENERATION = Task("text-generation", "AutoModelForCausalLM", ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",))
FILL_MASK = Task("fill-mask", "AutoModelForMaskedLM", ("MODEL_FOR_MASKED_LM_MAPPING_NAMES",))
TEXT_TO_TEXT = Task("text2text-generation", "AutoModelForSeq2SeqLM", ("MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",))
SPEECH = Task(
    "automatic-speech-recognition", "AutoModelForSpeechSeq2Seq", ("MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",)
)
FEATURES = Task(
    "feature-extraction", "AutoModel", ("MODEL_MAPPING_NAMES", "MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES"), HIDDEN
)
TASKS = {task.name: task for task in (TEXT_TO_TEXT, SPEECH, TEXT_GENERATION, FILL_MASK, FEATURES)}
"""In the order of choice: a BART class is for masked words too, but an encoder–decoder first."""
CROSSED = (TEXT_TO_TEXT, SPEECH)
"""Those of encoder–decoder models."""


def choose_task(source: Checkpoint, requested: str) -> Task:
    """The task to export for: the one asked for, or (`auto`) the first that has the checkpoint's class.

    Raises `UsageError` for an unknown name, `OnnxError` where the class belongs to no task.
    """
    if requested != AUTO:
        if requested not in TASKS:
            raise UsageError(f"unknown task {requested!r}", hint=f"use one of: {', '.join([AUTO, *TASKS])}")
        return TASKS[requested]
    task = task_of_class(source)
    if task is not None:
        return task
    if "auto_map" in source.config.data:
        return TEXT_GENERATION
    raise OnnxError(
        f"{source.config.architecture or source.config.model_type or 'a model without an architecture'} has no task to "
        "export for",
        where=source.root,
        hint=f"name one with --task: {', '.join(TASKS)}",
    )


def task_of_class(source: Checkpoint) -> Task | None:
    """The first task whose mappings hold the class that config.json names (its type where it names none)."""
    named, model_type = source.config.architecture, source.config.model_type
    for task in TASKS.values():
        classes, types = classes_of(task)
        if named in classes or (named is None and model_type in types):
            return TEXT_GENERATION if task in CROSSED and not _crosses(model_type or "") else task
    return None


def _crosses(model_type: str) -> bool:
    """Whether the type is an encoder–decoder: transformers maps decoders that listen among them."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    return model_type not in CONFIG_MAPPING or bool(CONFIG_MAPPING[model_type].is_encoder_decoder)


def classes_of(task: Task) -> tuple[frozenset[str], frozenset[str]]:
    """The model classes of a task in the installed transformers, and the model types that have one."""
    from transformers.models.auto import modeling_auto

    classes: set[str] = set()
    types: set[str] = set()
    for mapping in task.mappings:
        for model_type, names in getattr(modeling_auto, mapping).items():
            classes.update([names] if isinstance(names, str) else names)
            types.add(model_type)
    return frozenset(classes), frozenset(types)
