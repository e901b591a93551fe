"""Ullage keeps room in an LLM agent's context window.

It watches how full the window is and makes space in steps, the cheapest and least lossy first, without ever producing
a request that the model's API would refuse, and without losing what it took out.

Public names load on first use: `import ullage` alone costs a few milliseconds and pulls in nothing optional.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

from ullage._version import VERSION

# Type checkers read it as true; importing `typing` for it would be most of what the import costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ullage import exact
    from ullage._core import Ledger
    from ullage.cache_monitor import CacheMonitor, CacheVerdict
    from ullage.compaction import CompactionReport, CompactionResult, Outcome, acompact, compact
    from ullage.context import ContextManager, Decided, Recovery, Request, Usage
    from ullage.counting import RemoteCounter, RequestCount, count_request
    from ullage.estimates import weights_for
    from ullage.exact import count_tokens_exact, count_tokens_exact_up_to, encode_exact
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
    from ullage.hooks import Hooks
    from ullage.inspection import Inspection, inspect_messages
    from ullage.lists import (
        KeptWindow,
        TruncatedHead,
        estimate_each,
        estimate_text,
        estimate_tokens,
        group_rounds,
        keep_window,
        truncate_head,
    )
    from ullage.media import strip_media
    from ullage.memory.session import SessionMemory
    from ullage.models import Model, ModelTable, UnknownModelWarning
    from ullage.offload import FileStore, MemoryStore
    from ullage.outgoing import Outgoing, outgoing
    from ullage.policy import Policy
    from ullage.providers.overflow import classify
    from ullage.recall import Recall
    from ullage.redact import Redactor
    from ullage.sessions import CompactedSession, Session, compact_session, open_session
    from ullage.stages.context_edits import apply_context_management
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
    from ullage.telemetry import Telemetry
    from ullage.transcript import Conversation, Transcript, TranscriptLog
    from ullage.transcript.resume import messages_after_boundary, resume
    from ullage.validate import validate
    from ullage.window import WarningState, Window, WindowSettings, warning_state

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
    "ullage.cache_monitor": (
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
    "ullage.context": (
        "ContextManager",
        "Decided",
        "Recovery",
        "Request",
        "Usage",
    ),
    "ullage.counting": (
        "RemoteCounter",
        "RequestCount",
        "count_request",
    ),
    "ullage.estimates": ("weights_for",),
    "ullage.exact": (
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
    "ullage.hooks": ("Hooks",),
    "ullage.inspection": (
        "Inspection",
        "inspect_messages",
    ),
    "ullage.lists": (
        "KeptWindow",
        "TruncatedHead",
        "estimate_each",
        "estimate_text",
        "estimate_tokens",
        "group_rounds",
        "keep_window",
        "truncate_head",
    ),
    "ullage.media": ("strip_media",),
    "ullage.memory.session": ("SessionMemory",),
    "ullage.models": (
        "Model",
        "ModelTable",
        "UnknownModelWarning",
    ),
    "ullage.offload": (
        "FileStore",
        "MemoryStore",
    ),
    "ullage.outgoing": (
        "Outgoing",
        "outgoing",
    ),
    "ullage.policy": ("Policy",),
    "ullage.providers.overflow": ("classify",),
    "ullage.recall": ("Recall",),
    "ullage.redact": ("Redactor",),
    "ullage.sessions": (
        "CompactedSession",
        "Session",
        "compact_session",
        "open_session",
    ),
    "ullage.stages.context_edits": ("apply_context_management",),
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
    "ullage.telemetry": ("Telemetry",),
    "ullage.transcript": (
        "Conversation",
        "Transcript",
        "TranscriptLog",
        "messages_after_boundary",
        "resume",
    ),
    "ullage.validate": ("validate",),
    "ullage.window": (
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
        return import_module("ullage.exact")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ullage' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


class _Package(ModuleType):
    """Importing a module binds its name in its package: `ullage.validate` must stay the function all the same."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _HOME_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
