"""The test kit: conversations, scripted summarizers and servers that enforce rules.

- `conversation`, `scenario`: seeded coding sessions, with the truth about them;
- `session_file`: the same as a transcript of Claude Code's form;
- `assert_legal`: would the provider take this request?
- `ScriptedSummarizer`, `ScriptedServer`: good answers and every misbehaviour, from a script;
- `ullage.testing.stores`, `ullage.testing.laws`: what a store for conversations must do, and any compactor (for pytest, and imported by name).

Nothing optional is imported until it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ullage.legality import validate
from ullage.messages import SystemPrompt
from ullage.testing.generator import (
    STYLES as STYLES,
    MadeCommand as MadeCommand,
    Scenario as Scenario,
    SessionFile as SessionFile,
    Style as Style,
    Truth as Truth,
    conversation,
    scenario,
    session_file,
)
from ullage.testing.script import Script as Script, ScriptedSummarizer, Step

if TYPE_CHECKING:
    from ullage.testing.server import ScriptedServer

__all__ = [
    "ScriptedServer",
    "ScriptedSummarizer",
    "Step",
    "assert_legal",
    "conversation",
    "scenario",
    "session_file",
]


def __getattr__(name: str) -> Any:
    if name == "ScriptedServer":  # http.server and what it needs cost some 40 ms
        from ullage.testing.server import ScriptedServer

        return ScriptedServer
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def assert_legal(
    provider: str,
    messages: Sequence[Mapping[str, object]],
    *,
    model: str | None = None,
    system: SystemPrompt | None = None,
    tools: Sequence[Mapping[str, object]] | None = None,
    params: Mapping[str, object] | None = None,
) -> None:
    """Fails with a list of what the provider would refuse; warnings do not count.

    Args:
        provider: One of `ullage.legality.PROVIDERS`, or a usual name for it.
        messages: In the provider's own form (`input` items, `contents`).
        model: Its name decides which rules hold; `None`: those of the newest models, and no window.
        system: System prompt, where it is not a message.
        tools: Tool definitions; `None`: unknown.
        params: Other parameters of the request, such as `thinking`; `None`: none.

    Raises:
        AssertionError: The request would be refused.

    Example:
        >>> assert_legal("anthropic", [{"role": "user", "content": "hello"}])
        >>> assert_legal("anthropic", [{"role": "user", "content": ""}])
        Traceback (most recent call last):
        AssertionError: anthropic would refuse this request, 1 error:
          A02 at message 0: content is empty
    """
    report = validate(
        messages, provider=provider, model=model, system=system, tools=tools, params=params
    )
    if report.ok:
        return
    count = f"{len(report.errors)} error" + ("s" if len(report.errors) > 1 else "")
    lines = [f"{provider} would refuse this request, {count}:"]
    for error in report.errors:
        block = "" if error.block < 0 else f", block {error.block}"
        place = "the request" if error.message < 0 else f"message {error.message}{block}"
        lines.append(f"  {error.rule} at {place}: {error.detail}")
    raise AssertionError("\n".join(lines))
