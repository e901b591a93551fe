"""Ullage keeps room in an LLM agent's context window.

It watches how full the window is and makes space in steps, the cheapest and least lossy first, without ever producing
a request that the model's API would refuse, and without losing what it took out.

Public names load on first use: `import ullage` alone costs a few milliseconds and pulls in nothing optional.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ullage.compaction import (
        CompactionReport,
        CompactionResult,
        Outcome,
        Providers,
        acompact,
        compact,
    )
    from ullage.exceptions import (
        CompactionError,
        ContextTooLarge,
        EngineError,
        InvalidMessage,
        InvalidPolicy,
        InvalidTranscript,
        LogConflict,
        MissingExtra,
        StoreError,
        UllageError,
        UnknownModel,
    )
    from ullage.hooks import Hooks, ShellHook
    from ullage.pins import Pin
    from ullage.summarizers import ExtractiveSummarizer, SummaryReply, SummaryRequest

__all__ = [
    "CompactionError",
    "CompactionReport",
    "CompactionResult",
    "ContextTooLarge",
    "EngineError",
    "ExtractiveSummarizer",
    "Hooks",
    "InvalidMessage",
    "InvalidPolicy",
    "InvalidTranscript",
    "LogConflict",
    "MissingExtra",
    "Outcome",
    "Pin",
    "Providers",
    "ShellHook",
    "StoreError",
    "SummaryReply",
    "SummaryRequest",
    "UllageError",
    "UnknownModel",
    "acompact",
    "compact",
]

# Where each public name lives.
_HOMES = {
    "ullage.compaction": (
        "CompactionReport",
        "CompactionResult",
        "Outcome",
        "Providers",
        "acompact",
        "compact",
    ),
    "ullage.hooks": ("Hooks", "ShellHook"),
    "ullage.pins": ("Pin",),
    "ullage.summarizers": ("ExtractiveSummarizer", "SummaryReply", "SummaryRequest"),
    "ullage.exceptions": (
        "CompactionError",
        "ContextTooLarge",
        "EngineError",
        "InvalidMessage",
        "InvalidPolicy",
        "InvalidTranscript",
        "LogConflict",
        "MissingExtra",
        "StoreError",
        "UllageError",
        "UnknownModel",
    ),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

try:
    __version__ = _version("ullage")
except PackageNotFoundError:  # run from a checkout that nobody installed
    __version__ = "0+unknown"


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'ullage' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
