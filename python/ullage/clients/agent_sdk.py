"""Claude Agent SDK: `ClaudeAgentOptions(hooks=ullage_hooks())`; the plugin's hooks, inside the program.

```python
from claude_agent_sdk import ClaudeAgentOptions
from ullage.clients.agent_sdk import ullage_hooks

options = ClaudeAgentOptions(hooks=ullage_hooks())
```
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from ullage.clients.hook import LIMIT_SECONDS, archive, bounded
from ullage.clients.lost_facts import restored
from ullage.integrations.conversations import framework

with framework("claude-agent-sdk"):
    from claude_agent_sdk import HookMatcher

Hook = Callable[[Any, str | None, Any], Awaitable[Any]]

_log = logging.getLogger(__name__)


def ullage_hooks(
    others: Mapping[str, Sequence[HookMatcher]] | None = None,
) -> dict[Any, list[HookMatcher]]:
    """Hooks that keep a copy of a transcript before it is compacted, shorten outsized tool output, and say what a summary lost.

    Copies and full outputs are kept in Ullage's own folder. A hook that fails changes nothing and logs a warning. The SDK has no event after
    a compaction, so its facts come with the next tool result or prompt.

    Args:
        others: Your own hooks, by event; they run before these.
    """
    hooks = _Hooks()
    matchers_by_event = {event: list(matchers) for event, matchers in (others or {}).items()}
    for event in ("PreCompact", "PostToolUse", "UserPromptSubmit"):
        matcher = HookMatcher(hooks=[hooks.answer], timeout=LIMIT_SECONDS)
        matchers_by_event.setdefault(event, []).append(matcher)
    return matchers_by_event


class _Hooks:
    def __init__(self) -> None:
        self._compacted: OrderedDict[str, int] = OrderedDict()  # tries left, by session

    async def answer(self, event: Any, tool_use_id: str | None, context: Any) -> dict[str, Any]:
        """The answer to the client; empty: nothing changes."""
        try:
            return await asyncio.to_thread(self._answer, event)
        except Exception:  # as in the plugin: a session must go on whatever happens here
            _log.warning("a hook of Ullage failed", exc_info=True)
            return {}

    def _answer(self, payload: Mapping[str, Any]) -> dict[str, Any]:
        event = str(payload.get("hook_event_name"))
        session = str(payload.get("session_id") or "")
        if event == "PreCompact":
            # A subagent's context is not the one in this transcript.
            if not payload.get("agent_id"):
                # The client writes the boundary some time after the compaction: the transcript is read up to three times.
                self._compacted[session] = 3
                while len(self._compacted) > 64:
                    self._compacted.popitem(last=False)
            archive(str(payload["transcript_path"]), session, str(payload.get("trigger") or ""))
            return {}
        fields: dict[str, Any] = {}
        output = bounded(payload) if event == "PostToolUse" else None
        if output is not None:
            fields["updatedToolOutput"] = output
        if session in self._compacted and not payload.get("agent_id"):
            # Facts that the newest compaction's summary does not name, once.
            lost = restored(str(payload["transcript_path"]))
            self._compacted[session] -= 1
            if lost:
                fields["additionalContext"] = lost
            if lost or not self._compacted[session]:
                del self._compacted[session]
        return {"hookSpecificOutput": {"hookEventName": event, **fields}} if fields else {}
