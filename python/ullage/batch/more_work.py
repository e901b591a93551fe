"""Further tasks of a batch for one file: what a provider would refuse, how long it is, how large its requests would be under a policy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ullage.batch.search import TranscriptFile
from ullage.counting.estimate import Ledger, weights_for
from ullage.policy import Policy
from ullage.replay import replay_session, script_of
from ullage.sessions import inspect_session, open_session

__all__ = ["count_file", "replay_file", "validate_file"]


def validate_file(
    found: TranscriptFile, *, provider: str = "anthropic", model: str | None = None
) -> Mapping[str, Any]:
    """What a provider would refuse of a session.

    Returns:
        Outcome `legal` or `refused`, and the rules that are broken, with how often.

    Raises:
        InvalidTranscript, InvalidMessage, InvalidPolicy: See `open_session` and `Session.check`.
    """
    session = open_session(found.path)
    checked = session.check(provider=provider, model=model)
    rules: dict[str, int] = {}
    for each in checked.errors:
        rules[each.rule] = rules.get(each.rule, 0) + 1
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": len(session.messages),
        "tokens": _tokens(session.items, model or session.model),
        "outcome": "legal" if checked.ok else "refused",
        "rules": rules,
        "warnings": len(checked.warnings),
    }


def count_file(found: TranscriptFile, *, model: str | None = None) -> Mapping[str, Any]:
    """How long a session's context is, and nothing else.

    Raises:
        InvalidTranscript, InvalidMessage: See `open_session`.
    """
    session = inspect_session(found.path, model=model)
    held = session.inspection
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": session.messages,
        # Without a figure, what was sent besides the messages is not counted.
        "tokens": held.anchored_tokens if held.anchored else held.tokens,
    }


def replay_file(
    found: TranscriptFile, *, model: str | None = None, policy: Policy | None = None
) -> Mapping[str, Any]:
    """The requests that a session would have made under a policy.

    Raises:
        InvalidTranscript, InvalidMessage: See `open_session`.
    """
    session = open_session(found.path)
    run = replay_session(script_of(session), policy or Policy.buffered(), model=model or "")
    return {
        "format": session.format,
        "bytes": session.size,
        "messages": len(session.messages),
        "requests": len(run.turns),
        "over_window": run.refused,
        "rewrites": run.rewrites,
        "tokens_before": max((turn.unmanaged_tokens for turn in run.turns), default=0),
        "tokens_after": max((turn.tokens for turn in run.turns), default=0),
        "cache_read_tokens": run.total("read_tokens"),
        "cache_write_tokens": run.total("written_tokens"),
        "prompt_nanousd": run.nanousd,
        "ended": run.error,
    }


def _tokens(items: Any, model: str) -> int:
    ledger = Ledger(weights_for(model or None), items)
    return int(ledger.anchored().total)
