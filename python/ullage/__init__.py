"""Ullage shrinks an LLM agent's conversation so that it fits the context window.

It tracks how full the window is and makes room in steps, the cheapest and least lossy first. Every request that it
prepares is valid for the model's API, and everything that it removes can be recalled.

For an agent's loop:
    ContextManager, with what it hands out: Request, Usage, Decided, Recovery
    Policy, WindowSettings, ModelTable    thresholds and models
    summarizer_of                         who writes summaries, by name
    SessionMemory, FileStore, MemoryStore notes of the session; where large results go
    Hooks, Telemetry                      what a host may say, and what it hears
    Providers, Skill                      files, plan and skills, restored after a compaction
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

All else has a room of its own; its `__all__` lists what is promised besides these names:
    ullage.counting     weights, ledger, exact counts, window, rows of models
    ullage.requests     whole requests counted; more functions on lists
    ullage.legality     rules, reports, repairs
    ullage.transcript   logs, their index, conversations
    ullage.levels       what is in a context; edits of the provider; reports; tools for the model
    ullage.compaction   attachments, reports, the flow itself
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
    from ullage.compaction import (
        CompactionResult as CompactionResult,
        Providers as Providers,
        Skill as Skill,
        acompact as acompact,
        compact as compact,
    )
    from ullage.counting.models import ModelTable as ModelTable
    from ullage.counting.window import (
        WindowSettings as WindowSettings,
        warning_state as warning_state,
    )
    from ullage.exceptions import (
        CompactionError as CompactionError,
        ContextTooLarge as ContextTooLarge,
        InvalidMessage as InvalidMessage,
        InvalidPolicy as InvalidPolicy,
        InvalidTranscript as InvalidTranscript,
        ManagerBusy as ManagerBusy,
        MissingExtra as MissingExtra,
        StoreError as StoreError,
        UllageError as UllageError,
        UnknownModel as UnknownModel,
    )
    from ullage.legality import validate as validate
    from ullage.legality.repairs import repair as repair
    from ullage.manager import (
        ContextManager as ContextManager,
        Decided as Decided,
        Recovery as Recovery,
        Request as Request,
        Usage as Usage,
    )
    from ullage.memory.session import SessionMemory as SessionMemory
    from ullage.observe.hooks import Hooks as Hooks
    from ullage.observe.telemetry import Telemetry as Telemetry
    from ullage.policy import Policy as Policy
    from ullage.recall.store import FileStore as FileStore, MemoryStore as MemoryStore
    from ullage.requests.lists import (
        estimate_tokens as estimate_tokens,
        keep_window as keep_window,
        truncate_head as truncate_head,
    )
    from ullage.requests.to_request import outgoing as outgoing
    from ullage.sessions import (
        CompactedSession as CompactedSession,
        Session as Session,
        compact_session as compact_session,
        open_session as open_session,
    )
    from ullage.summarizers import summarizer_of as summarizer_of
    from ullage.transcript import TranscriptLog as TranscriptLog, resume as resume

# Where each public name lives.
_HOMES = {
    "ullage.compaction": "CompactionResult Providers Skill acompact compact",
    "ullage.counting.models": "ModelTable",
    "ullage.counting.window": "WindowSettings warning_state",
    "ullage.exceptions": (
        "CompactionError ContextTooLarge InvalidMessage InvalidPolicy InvalidTranscript ManagerBusy MissingExtra StoreError "
        "UllageError UnknownModel"
    ),
    "ullage.legality": "validate",
    "ullage.legality.repairs": "repair",
    "ullage.manager": "ContextManager Decided Recovery Request Usage",
    "ullage.memory.session": "SessionMemory",
    "ullage.observe.hooks": "Hooks",
    "ullage.observe.telemetry": "Telemetry",
    "ullage.policy": "Policy",
    "ullage.recall.store": "FileStore MemoryStore",
    "ullage.requests.lists": "estimate_tokens keep_window truncate_head",
    "ullage.requests.to_request": "outgoing",
    "ullage.sessions": "CompactedSession Session compact_session open_session",
    "ullage.summarizers": "summarizer_of",
    "ullage.transcript": "TranscriptLog resume",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__version__ = VERSION


if not TYPE_CHECKING:  # type checkers read the imports above; a misspelt name is an error there
    __all__ = sorted(_HOME_OF)

    def __getattr__(name: str) -> object:
        if name not in _HOME_OF:
            raise AttributeError(f"module 'ullage' has no attribute {name!r}")
        value = getattr(import_module(_HOME_OF[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return [*sorted(_HOME_OF), "__doc__", "__file__", "__name__", "__path__", "__version__"]
