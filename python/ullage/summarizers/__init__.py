"""Writers of summaries: the extractive one without a model, any function, clients of model APIs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ullage._start import on_first_use

if TYPE_CHECKING:
    from ullage.summarizers.anthropic import AnthropicSummarizer
    from ullage.summarizers.extractive import ExtractiveSummarizer
    from ullage.summarizers.lines import summarizer_of as summarizer_of
    from ullage.summarizers.native import AnthropicCompaction, CallableSummarizer, OpenAICompaction
    from ullage.summarizers.openai import OpenAISummarizer
    from ullage.summarizers.protocol import (
        Summarizer,
        SummaryReply as SummaryReply,
        SummaryRequest as SummaryRequest,
    )
    from ullage.summarizers.pydantic_ai import AnySummarizer as AnySummarizer

__all__ = [
    "AnthropicCompaction",
    "AnthropicSummarizer",
    "CallableSummarizer",
    "ExtractiveSummarizer",
    "OpenAICompaction",
    "OpenAISummarizer",
    "Summarizer",
]

_HOMES = {
    "anthropic": "AnthropicSummarizer",
    "extractive": "ExtractiveSummarizer",
    "lines": "summarizer_of",
    "native": "AnthropicCompaction CallableSummarizer OpenAICompaction",
    "openai": "OpenAISummarizer",
    "protocol": "Summarizer SummaryReply SummaryRequest",
    "pydantic_ai": "AnySummarizer",
}
if not TYPE_CHECKING:  # a misspelt name is an error of the type checker
    __getattr__, __dir__ = on_first_use(__name__, _HOMES)
