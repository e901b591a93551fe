"""Writers of summaries: the extractive one without a model, any function, clients of model APIs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ullage.summarizers.callable import CallableSummarizer
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.named import summarizer_of
from ullage.summarizers.protocol import Summarizer, SummaryReply, SummaryRequest

if TYPE_CHECKING:
    from ullage.summarizers.anthropic import AnthropicSummarizer
    from ullage.summarizers.native import AnthropicCompaction, OpenAICompaction
    from ullage.summarizers.openai import OpenAISummarizer
    from ullage.summarizers.pydantic_ai import AnySummarizer

__all__ = [
    "AnthropicCompaction",
    "AnthropicSummarizer",
    "AnySummarizer",
    "CallableSummarizer",
    "ExtractiveSummarizer",
    "OpenAICompaction",
    "OpenAISummarizer",
    "Summarizer",
    "SummaryReply",
    "SummaryRequest",
    "summarizer_of",
]

# Loaded on first use: what they need of ours (shapes, repairs, rules) costs as much as all the rest.
_HOMES = {
    "AnthropicCompaction": "native",
    "AnthropicSummarizer": "anthropic",
    "AnySummarizer": "pydantic_ai",
    "OpenAICompaction": "native",
    "OpenAISummarizer": "openai",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
