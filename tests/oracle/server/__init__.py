"""The scripted server with everything that the library's own tests need of a provider.

It refuses by the second checker, in the provider's own words, seals thinking to its prefix, keeps a prompt
cache, applies context edits, compacts, and stores responses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from tests.oracle.checker.models import facts
from tests.oracle.server import anthropic, openai_chat, openai_responses
from tests.oracle.server.cache import PromptCache
from ullage.testing import ScriptedServer, Step
from ullage.testing.server import Recorded, Reply, Route

__all__ = ["OracleServer", "Recorded"]


class OracleServer(ScriptedServer):
    """A scripted server that knows more than the one in the wheel.

    Args:
        *steps: See `ScriptedServer`, like `after`, `enforce`, `window` and `dialect`.
        sealed: Refuse thinking and compaction blocks that neither the test kit nor this server made.
        strict: Chat requests are checked as a strict OpenAI-compatible server would.
        cache_minimum: Prefixes below so many tokens are not cached.
        user_first: Refuse a list of Anthropic's that begins with an assistant message, as Bedrock does
            (anthropics/anthropic-sdk-typescript#622); Anthropic's own endpoint takes it.
        lone_reasoning: Let reasoning of Responses stand without the item that followed it: Codex 0.163 sends it so
            after a broken stream, with `store: false`. What OpenAI answers to that is not known.
    """

    _routes: ClassVar[Mapping[str, Route]] = {
        "/v1/messages": anthropic.create,
        "/v1/messages/count_tokens": anthropic.count,
        "/v1/chat/completions": openai_chat.create,
        "/v1/responses": openai_responses.create,
        "/v1/responses/compact": openai_responses.compact,
        "/v1/responses/input_tokens": openai_responses.count,
    }

    def __init__(
        self,
        *steps: Step | str,
        after: Step | str = "good",
        enforce: bool = True,
        sealed: bool = True,
        window: int | None = None,
        dialect: str = "openai_chat",
        strict: bool = False,
        cache_minimum: int = 1024,
        user_first: bool = False,
        lone_reasoning: bool = False,
    ) -> None:
        super().__init__(*steps, after=after, enforce=enforce, window=window, dialect=dialect)
        self.sealed, self.strict = sealed, strict
        self.user_first, self.lone_reasoning = user_first, lone_reasoning
        self.cache = PromptCache(cache_minimum)
        self.produced: list[dict[str, Any]] = []  # items of Responses, as they were given out
        self._histories: dict[str, list[dict[str, Any]]] = {}

    def remember(
        self, name: str, history: list[dict[str, Any]], made: list[dict[str, Any]]
    ) -> None:
        """Keep a response's items, for `previous_response_id` and for the order of reasoning."""
        with self._lock:
            self._histories[name] = history
            self.produced += made

    def recall(self, name: Any) -> list[dict[str, Any]]:
        """The items up to and with a response; empty if it is unknown."""
        with self._lock:
            return self._histories.get(name, []) if isinstance(name, str) else []

    def model(self, name: str) -> Reply:
        """`GET /v1/models/NAME`."""
        known = facts(name)
        limits = {"max_input_tokens": known.window or None, "max_tokens": known.max_output or None}
        return Reply(body={"type": "model", "id": name, "display_name": name, **limits})
