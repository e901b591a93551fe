"""Ullage shrinks an LLM agent's conversation so that it fits the context window.

It tracks how full the window is and makes room in steps, the cheapest and least lossy first. Every request that it
prepares is valid for the model's API, and everything that it removes can be recalled.

For an agent's loop:
    ContextManager, with what it hands out: Request, Usage, Decided, Recovery
    Policy, WindowSettings, ModelTable    thresholds and models
    summarizer_of                         who writes summaries, by name
    SessionMemory, FileStore, MemoryStore notes of the session; where large results go
    Hooks, Telemetry                      what a host may say, and what it hears
For lists of messages:
    compact, acompact → CompactionResult
    validate, repair, outgoing            would the provider take it; make it legal; write its request
    estimate_tokens, warning_state        how large, how full
    keep_window, truncate_head            cuts that separate no call from its result
For sessions of Claude Code, Codex and others:
    open_session → Session, compact_session → CompactedSession
    resume, TranscriptLog                 what the model would see of a log; a log of your own
Errors: UllageError, and all that derive from it
    InvalidMessage, InvalidPolicy, InvalidTranscript, UnknownModel, ContextTooLarge, CompactionError,
    StoreError, ManagerBusy, MissingExtra

All else has a room of its own, each with its list (`__all__`):
    ullage.counting     weights, ledger, exact counts, window, rows of models
    ullage.requests     whole requests counted; more functions on lists
    ullage.legality     rules, reports, rewrites checked
    ullage.transcript   logs, their index, conversations
    ullage.levels       what is in a context; edits of the provider; reports
    ullage.observe      events, hooks, cache monitor, redaction
    ullage.summarizers  one class for each API, and the protocol of your own
    ullage.dropin       functions of tiktoken, LangChain, litellm under their own names
    ullage.recall, ullage.memory.notes, ullage.providers, ullage.batch, ullage.replay, ullage.testing

Public names load on first use: `import ullage` alone costs a few milliseconds and pulls in nothing optional.
"""

from __future__ import annotations

from importlib import import_module

from ullage._version import VERSION

# Type checkers read it as true; importing `typing` for it would be most of what the import costs.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from ullage.compaction import CompactionResult, acompact, compact
    from ullage.counting.models import ModelTable
    from ullage.counting.window import warning_state
    from ullage.counting.window_settings import WindowSettings
    from ullage.exceptions import (
        CompactionError,
        ContextTooLarge,
        InvalidMessage,
        InvalidPolicy,
        InvalidTranscript,
        ManagerBusy,
        MissingExtra,
        StoreError,
        UllageError,
        UnknownModel,
    )
    from ullage.legality import validate
    from ullage.legality.repairs import repair
    from ullage.manager import ContextManager, Decided, Recovery, Request, Usage
    from ullage.memory.session import SessionMemory
    from ullage.observe.hooks import Hooks
    from ullage.observe.telemetry import Telemetry
    from ullage.policy import Policy
    from ullage.recall.store import FileStore, MemoryStore
    from ullage.requests.lists import estimate_tokens, keep_window, truncate_head
    from ullage.requests.to_request import outgoing
    from ullage.sessions import CompactedSession, Session, compact_session, open_session
    from ullage.summarizers import summarizer_of
    from ullage.transcript import TranscriptLog, resume

__all__ = [
    "CompactedSession",
    "CompactionError",
    "CompactionResult",
    "ContextManager",
    "ContextTooLarge",
    "Decided",
    "FileStore",
    "Hooks",
    "InvalidMessage",
    "InvalidPolicy",
    "InvalidTranscript",
    "ManagerBusy",
    "MemoryStore",
    "MissingExtra",
    "ModelTable",
    "Policy",
    "Recovery",
    "Request",
    "Session",
    "SessionMemory",
    "StoreError",
    "Telemetry",
    "TranscriptLog",
    "UllageError",
    "UnknownModel",
    "Usage",
    "WindowSettings",
    "acompact",
    "compact",
    "compact_session",
    "estimate_tokens",
    "keep_window",
    "open_session",
    "outgoing",
    "repair",
    "resume",
    "summarizer_of",
    "truncate_head",
    "validate",
    "warning_state",
]

# Where each public name lives.
_HOMES = {
    "ullage.compaction": (
        "CompactionResult",
        "acompact",
        "compact",
    ),
    "ullage.counting.models": ("ModelTable",),
    "ullage.counting.window": ("warning_state",),
    "ullage.counting.window_settings": ("WindowSettings",),
    "ullage.exceptions": (
        "CompactionError",
        "ContextTooLarge",
        "InvalidMessage",
        "InvalidPolicy",
        "InvalidTranscript",
        "ManagerBusy",
        "MissingExtra",
        "StoreError",
        "UllageError",
        "UnknownModel",
    ),
    "ullage.legality": ("validate",),
    "ullage.legality.repairs": ("repair",),
    "ullage.manager": (
        "ContextManager",
        "Decided",
        "Recovery",
        "Request",
        "Usage",
    ),
    "ullage.memory.session": ("SessionMemory",),
    "ullage.observe.hooks": ("Hooks",),
    "ullage.observe.telemetry": ("Telemetry",),
    "ullage.policy": ("Policy",),
    "ullage.recall.store": (
        "FileStore",
        "MemoryStore",
    ),
    "ullage.requests.lists": (
        "estimate_tokens",
        "keep_window",
        "truncate_head",
    ),
    "ullage.requests.to_request": ("outgoing",),
    "ullage.sessions": (
        "CompactedSession",
        "Session",
        "compact_session",
        "open_session",
    ),
    "ullage.summarizers": ("summarizer_of",),
    "ullage.transcript": (
        "TranscriptLog",
        "resume",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__version__ = VERSION


if not TYPE_CHECKING:  # a misspelt name is an error of the type checker

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'ullage' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"]
