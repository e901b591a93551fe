"""An estimate in place of `client.messages.count_tokens`: `from ullage.dropin import anthropic as counting`.

Claude's vocabulary is not public, so this is Ullage's calibrated estimate, made offline. It is not the API's figure; if
that matters, ask the API (`ullage.requests.RemoteCounter`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ullage.dropin import stands_in_for
from ullage.requests import count_request


@dataclass(frozen=True, slots=True)
class MessageTokensCount:
    """What `count_tokens` returns.

    Attributes:
        input_tokens: Estimated tokens of messages, system prompt and tools.
    """

    input_tokens: int


def count_tokens(
    *,
    messages: Iterable[Mapping[str, Any]],
    model: str,
    system: str | Iterable[Mapping[str, Any]] | None = None,
    tools: Iterable[Mapping[str, Any]] | None = None,
    thinking: object = None,
    tool_choice: object = None,
    cache_control: object = None,
    output_config: object = None,
    output_format: object = None,
    extra_headers: object = None,
    extra_query: object = None,
    extra_body: object = None,
    timeout: object = None,
) -> MessageTokensCount:
    """Estimate the input tokens of a request to Anthropic's API, with the arguments of the client's method.

    Args:
        messages: In the API's form; blocks of a response may be the client's objects.
        model: A model's name.
        system: A string or text blocks; `None`: none.
        tools: Tool definitions; `None`: none.
        thinking: Accepted, not counted, as are the arguments after it.
        tool_choice: Not counted.
        cache_control: Not counted.
        output_config: Not counted.
        output_format: Not counted.
        extra_headers: Nothing is sent.
        extra_query: Nothing is sent.
        extra_body: Nothing is sent.
        timeout: Nothing is sent.

    Raises:
        InvalidMessage: The API would not accept a message; names its index and field.

    Example:
        >>> count = count_tokens(model="claude-opus-4-5", messages=[{"role": "user", "content": "Hello, Claude"}])
        >>> 5 < count.input_tokens < 20
        True
    """
    count = count_request(
        [_plain(message) for message in messages],
        model=model,
        system=system if system is None or isinstance(system, str) else [*map(_plain, system)],
        tools=[_plain(message) for message in tools or ()],
    )
    return MessageTokensCount(count.tokens)


def _plain(value: Any) -> Any:
    """The client's objects as the dicts that it would send."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


stands_in_for(__name__, "anthropic")
