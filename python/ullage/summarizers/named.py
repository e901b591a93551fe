"""A summarizer from a string, as used on a command line or in a settings file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

from ullage.exceptions import InvalidPolicy
from ullage.summarizers.callable import CallableSummarizer
from ullage.summarizers.protocol import Summarizer, Writer, WriterLike

if TYPE_CHECKING:
    from ullage.summarizers.extractive import ExtractiveSummarizer

__all__ = ["KINDS", "model_writer_of", "summarizer_of", "writer_of"]

KINDS = (
    "extractive",
    "anthropic:MODEL",
    "openai:MODEL",
    "openai-responses:MODEL",
    "any:PROVIDER:MODEL",
)
"""What `summarizer_of` understands."""


def summarizer_of(text: str, *, base_url: str = "", api_key: str | None = None) -> Summarizer:
    """The summarizer that a string names.

    Args:
        text: One of `KINDS`, such as `anthropic:claude-haiku-4-5`.
        base_url: Of a compatible server, for `anthropic` and `openai`; empty: the provider's own.
        api_key: `None`: from the environment.

    Raises:
        InvalidPolicy: It names no summarizer, or there is no key for it.
        MissingExtra: Its package is not installed; names the extra.

    Example:
        >>> summarizer_of("extractive").name
        'extractive'
    """
    kind, _, model = text.strip().partition(":")
    if kind == "extractive" and not model:
        return _alone(text, base_url)
    if kind not in ("anthropic", "openai", "openai-responses", "any") or not model.strip():
        raise InvalidPolicy("summarizer", text, f"must be one of {', '.join(KINDS)}")
    if kind == "any":
        from ullage.summarizers.pydantic_ai import AnySummarizer

        _alone(text, base_url)
        return AnySummarizer(model)
    if kind == "anthropic":
        from ullage.summarizers.anthropic import AnthropicSummarizer

        return AnthropicSummarizer(model, base_url=base_url, api_key=api_key)
    from ullage.summarizers.openai import OpenAISummarizer

    api: Any = "responses" if kind == "openai-responses" else "chat"
    return OpenAISummarizer(model, api=api, base_url=base_url, api_key=api_key)


def writer_of(given: WriterLike | None) -> Writer:
    """A summarizer from what a caller passes: a summarizer, a function, a string; `None`: the extractive one.

    Raises:
        InvalidPolicy: It is none of these, or the line names none.
    """
    if given is None:
        return _extractive()
    if isinstance(given, str):
        return summarizer_of(given)
    if _writes(given):
        return given
    function: Any = given  # checked by what wraps it
    return CallableSummarizer(function)


def model_writer_of(given: WriterLike | None) -> Writer | None:
    """`writer_of`, or `None` where no model would be asked: for `None` and for the extractive summarizer.

    Raises:
        InvalidPolicy: See `writer_of`.
        MissingExtra: The package of a named one is not installed.
    """
    if given is None:
        return None
    from ullage.summarizers.extractive import ExtractiveSummarizer

    writer = writer_of(given)
    return None if isinstance(writer, ExtractiveSummarizer) else writer


def _writes(given: object) -> TypeGuard[Writer]:
    """Also one without a name."""
    return hasattr(given, "summarize") or hasattr(given, "asummarize")


def _alone(text: str, base_url: str) -> ExtractiveSummarizer:
    if base_url:
        raise InvalidPolicy("base_url", base_url, f"means nothing for summarizer {text}")
    return _extractive()


def _extractive() -> ExtractiveSummarizer:
    # It needs all that collects facts: too much to load before the first summary.
    from ullage.summarizers.extractive import ExtractiveSummarizer

    return ExtractiveSummarizer()
