"""What the generator covers and what some types need to be built at all. Data only."""

from __future__ import annotations

from typing import Any

AUTO_CLASSES = (
    "MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES",
    "MODEL_FOR_CAUSAL_LM_MAPPING_NAMES",
    "MODEL_FOR_MASKED_LM_MAPPING_NAMES",
    "MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES",
    "MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES",
    "MODEL_FOR_PRETRAINING_MAPPING_NAMES",
    "MODEL_MAPPING_NAMES",
)
"""Mappings of transformers' auto classes, the most telling class of a type first."""

RECIPES: dict[str, dict[str, Any]] = {}
"""Model type → what its config.json must state for the class to be built: defaults that are incomplete or contradict each other."""
