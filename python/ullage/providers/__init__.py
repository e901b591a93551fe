"""What each provider wants and says: shapes of messages both ways, and the meaning of its errors.

Each module of a shape has `to_provider` and `from_provider`. Plain dicts in and out; no SDK is imported.
"""

from __future__ import annotations

from ullage.providers import (
    anthropic,
    bedrock,
    gemini,
    mistral,
    openai_chat,
    openai_responses,
)
from ullage.providers._common import Internal, Loss, Shaped, normal_form
from ullage.providers.errors import Classified, classify

__all__ = [
    "Classified",
    "Internal",
    "Loss",
    "Shaped",
    "anthropic",
    "bedrock",
    "classify",
    "gemini",
    "mistral",
    "normal_form",
    "openai_chat",
    "openai_responses",
]
