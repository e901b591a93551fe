"""Ullage keeps room in an LLM agent's context window.

It watches how full the window is and makes space in steps, the cheapest and least lossy first, without ever producing
a request that the model's API would refuse, and without losing what it took out.

Public names load on first use: `import ullage` alone costs a few milliseconds and pulls in nothing optional.
"""

from __future__ import annotations

from importlib import import_module

from ullage._version import VERSION

# Type checkers read it as true; importing `typing` for it would be most of what the import costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ullage._core import Ledger
    from ullage.compaction import CompactionReport, CompactionResult, Outcome, acompact, compact
    from ullage.counting import exact
    from ullage.counting.estimate import weights_for
    from ullage.counting.exact import count_tokens_exact, count_tokens_exact_up_to, encode_exact
    from ullage.counting.media import strip_media
    from ullage.counting.models import Model, ModelTable, UnknownModelWarning
    from ullage.counting.window import WarningState, Window, WindowSettings, warning_state
    from ullage.exceptions import (
        CompactionError,
        ContextTooLarge,
        EngineError,
        InvalidMessage,
        InvalidPolicy,
        InvalidTranscript,
        LogConflict,
        ManagerBusy,
        MissingExtra,
        StoreError,
        TranscriptChanged,
        UllageError,
        UnknownHandle,
        UnknownModel,
    )
    from ullage.legality import validate
    from ullage.levels.breakdown import Inspection, inspect_messages
    from ullage.levels.context_edits import apply_context_management
    from ullage.manager import ContextManager, Decided, Recovery, Request, Usage
    from ullage.memory.session import SessionMemory
    from ullage.observe.cache_monitor import CacheMonitor, CacheVerdict
    from ullage.observe.hooks import Hooks
    from ullage.observe.redact import Redactor
    from ullage.observe.telemetry import Telemetry
    from ullage.policy import Policy
    from ullage.providers.errors import classify
    from ullage.recall import Recall
    from ullage.recall.store import FileStore, MemoryStore
    from ullage.requests import RemoteCounter, RequestCount, count_request
    from ullage.requests.lists import (
        KeptWindow,
        TruncatedHead,
        estimate_each,
        estimate_text,
        estimate_tokens,
        group_rounds,
        keep_window,
        truncate_head,
    )
    from ullage.requests.to_request import Outgoing, outgoing
    from ullage.sessions import CompactedSession, Session, compact_session, open_session
    from ullage.summarizers import (
        AnthropicCompaction,
        AnthropicSummarizer,
        AnySummarizer,
        CallableSummarizer,
        ExtractiveSummarizer,
        OpenAICompaction,
        OpenAISummarizer,
        summarizer_of,
    )
    from ullage.transcript import Conversation, Transcript, TranscriptLog
    from ullage.transcript.resume import messages_after_boundary, resume

__all__ = [
    "AnthropicCompaction",
    "AnthropicSummarizer",
    "AnySummarizer",
    "CacheMonitor",
    "CacheVerdict",
    "CallableSummarizer",
    "CompactedSession",
    "CompactionError",
    "CompactionReport",
    "CompactionResult",
    "ContextManager",
    "ContextTooLarge",
    "Conversation",
    "Decided",
    "EngineError",
    "ExtractiveSummarizer",
    "FileStore",
    "Hooks",
    "Inspection",
    "InvalidMessage",
    "InvalidPolicy",
    "InvalidTranscript",
    "KeptWindow",
    "Ledger",
    "LogConflict",
    "ManagerBusy",
    "MemoryStore",
    "MissingExtra",
    "Model",
    "ModelTable",
    "OpenAICompaction",
    "OpenAISummarizer",
    "Outcome",
    "Outgoing",
    "Policy",
    "Recall",
    "Recovery",
    "Redactor",
    "RemoteCounter",
    "Request",
    "RequestCount",
    "Session",
    "SessionMemory",
    "StoreError",
    "Telemetry",
    "Transcript",
    "TranscriptChanged",
    "TranscriptLog",
    "TruncatedHead",
    "UllageError",
    "UnknownHandle",
    "UnknownModel",
    "UnknownModelWarning",
    "Usage",
    "WarningState",
    "Window",
    "WindowSettings",
    "acompact",
    "apply_context_management",
    "classify",
    "compact",
    "compact_session",
    "count_request",
    "count_tokens_exact",
    "count_tokens_exact_up_to",
    "encode_exact",
    "estimate_each",
    "estimate_text",
    "estimate_tokens",
    "exact",
    "group_rounds",
    "inspect_messages",
    "keep_window",
    "messages_after_boundary",
    "open_session",
    "outgoing",
    "resume",
    "strip_media",
    "summarizer_of",
    "truncate_head",
    "validate",
    "warning_state",
    "weights_for",
]

# Where each public name lives.
_HOMES = {
    "ullage.observe.cache_monitor": (
        "CacheMonitor",
        "CacheVerdict",
    ),
    "ullage.compaction": (
        "CompactionReport",
        "CompactionResult",
        "Outcome",
        "acompact",
        "compact",
    ),
    "ullage.manager": (
        "ContextManager",
        "Decided",
        "Recovery",
        "Request",
        "Usage",
    ),
    "ullage.requests": (
        "RemoteCounter",
        "RequestCount",
        "count_request",
    ),
    "ullage.counting.estimate": ("weights_for",),
    "ullage.counting.exact": (
        "count_tokens_exact",
        "count_tokens_exact_up_to",
        "encode_exact",
    ),
    "ullage.exceptions": (
        "CompactionError",
        "ContextTooLarge",
        "EngineError",
        "InvalidMessage",
        "InvalidPolicy",
        "InvalidTranscript",
        "LogConflict",
        "ManagerBusy",
        "MissingExtra",
        "StoreError",
        "TranscriptChanged",
        "UllageError",
        "UnknownHandle",
        "UnknownModel",
    ),
    "ullage.observe.hooks": ("Hooks",),
    "ullage.levels.breakdown": (
        "Inspection",
        "inspect_messages",
    ),
    "ullage.requests.lists": (
        "KeptWindow",
        "TruncatedHead",
        "estimate_each",
        "estimate_text",
        "estimate_tokens",
        "group_rounds",
        "keep_window",
        "truncate_head",
    ),
    "ullage.counting.media": ("strip_media",),
    "ullage.memory.session": ("SessionMemory",),
    "ullage.counting.models": (
        "Model",
        "ModelTable",
        "UnknownModelWarning",
    ),
    "ullage.recall.store": (
        "FileStore",
        "MemoryStore",
    ),
    "ullage.requests.to_request": (
        "Outgoing",
        "outgoing",
    ),
    "ullage.policy": ("Policy",),
    "ullage.providers.errors": ("classify",),
    "ullage.recall": ("Recall",),
    "ullage.observe.redact": ("Redactor",),
    "ullage.sessions": (
        "CompactedSession",
        "Session",
        "compact_session",
        "open_session",
    ),
    "ullage.levels.context_edits": ("apply_context_management",),
    "ullage.summarizers": (
        "AnthropicCompaction",
        "AnthropicSummarizer",
        "AnySummarizer",
        "CallableSummarizer",
        "ExtractiveSummarizer",
        "OpenAICompaction",
        "OpenAISummarizer",
        "summarizer_of",
    ),
    "ullage.observe.telemetry": ("Telemetry",),
    "ullage.transcript": (
        "Conversation",
        "Transcript",
        "TranscriptLog",
        "messages_after_boundary",
        "resume",
    ),
    "ullage.legality": ("validate",),
    "ullage.counting.window": (
        "WarningState",
        "Window",
        "WindowSettings",
        "warning_state",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name == "Ledger":
        value = import_module("ullage._engine").core.Ledger
        globals()[name] = value
        return value
    if name == "exact":
        return import_module("ullage.counting.exact")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ullage' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
