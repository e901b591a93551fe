"""Runs the flows of memory, which ask for models and wait, and for nothing of a conversation."""

from __future__ import annotations

from typing import Any, TypeVar

from ullage.compaction.attachments import Providers
from ullage.compaction.effects_runner import AsyncPerformer, Performer
from ullage.effects import CancelToken, Flow, adrive, drive
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.named import writer_of

__all__ = ["arun", "asked_model", "run"]

T = TypeVar("T")


class _Nowhere:
    """No files and no log to reach from here."""

    providers: Any = Providers()
    store: Any = None


def asked_model(given: Any) -> Any:
    """Who is asked, from a summarizer, a function or a line of text; `None`: nobody, also for the extractive one.

    Raises:
        InvalidPolicy: It is none of these.
        MissingExtra: Its package is not installed.
    """
    writer = None if given is None else writer_of(given)
    return None if isinstance(writer, ExtractiveSummarizer) else writer


def run(flow: Flow[T], *, cancel: CancelToken | None = None) -> T:
    """Run a flow in place."""
    return drive(flow, Performer(_Nowhere()), cancel=cancel)


async def arun(flow: Flow[T], *, cancel: CancelToken | None = None) -> T:
    """Run a flow without blocking the event loop."""
    return await adrive(flow, AsyncPerformer(_Nowhere()), cancel=cancel)
