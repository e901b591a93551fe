"""Who writes a summary: the extractive one without a model, any function, clients of model APIs."""

from __future__ import annotations

from ullage.summarizers.callable import CallableSummarizer
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.protocol import Summarizer, SummaryReply, SummaryRequest

__all__ = [
    "CallableSummarizer",
    "ExtractiveSummarizer",
    "Summarizer",
    "SummaryReply",
    "SummaryRequest",
]
