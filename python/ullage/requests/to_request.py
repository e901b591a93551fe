"""Turns the contents of a log into a provider's request: translates, then repairs, and reports both."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, Unpack

from ullage.counting.models import ModelTable
from ullage.exceptions import InvalidMessage
from ullage.legality import Report, Violation, validate
from ullage.legality.draft import Repair
from ullage.legality.originals import Original
from ullage.legality.params import RequestParameters, parameters
from ullage.legality.repairs import repair
from ullage.messages import Item, SystemPrompt, listed, message_of
from ullage.providers._common import BROKEN, Loss, Shaped, blocks_of, refused
from ullage.providers.registry import AnyProvider, Provider, provider_of

T = TypeVar("T")


@dataclass(frozen=True, slots=True, repr=False)
class Outgoing:
    """A conversation ready to be sent.

    Attributes:
        provider: The provider whose format it has.
        parts: Keys of the request's body: `messages` (`input`, `contents`), `system`, `tools`.
        list_key: The key that holds the conversation.
        repairs: What was repaired, in order; the log is not changed.
        losses: What the provider's format cannot express.
        left: Errors that no repair can fix, such as too many tokens.
        awaits_user: The model spoke last: the user's next message has to follow before it is sent.
        names: The name sent → the original, for each tool whose name the provider refuses: a call comes back
            under the name sent.
        ids: The id sent → the original, for each call whose id the provider refuses.
    """

    provider: str
    parts: Mapping[str, Any]
    list_key: str = "messages"
    repairs: tuple[Repair, ...] = ()
    losses: tuple[Loss, ...] = ()
    left: tuple[Violation, ...] = ()
    awaits_user: bool = False
    names: Mapping[str, str] = field(default_factory=dict)
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation itself, whatever the provider calls it."""
        written: list[Any] = self.parts[self.list_key]
        return written

    def __repr__(self) -> str:
        counts = f"repairs={len(self.repairs)}, losses={len(self.losses)}, left={len(self.left)}"
        return f"Outgoing({self.provider}, {len(self.messages)} messages, {counts})"


def outgoing(
    messages: Sequence[Item],
    *,
    provider: AnyProvider = "anthropic",
    model: str | None = None,
    system: SystemPrompt | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    original: Original | None = None,
    params: Mapping[str, Any] | None = None,
    **named: Unpack[RequestParameters],
) -> Outgoing:
    """The conversation in a provider's format, ready to send, legal as far as the rules know.

    A conversation that ends with the model's words keeps that end: the user's next message follows it.

    Args:
        messages: The internal view (Anthropic-shaped messages or entries); not changed.
        provider: One of `ullage.providers.registry.SHAPES`, or a row.
        model: Name of the model in use; one of another vendor is ignored. `None`: the rules
            of the newest models.
        system: The system prompt.
        tools: Anthropic-shaped definitions.
        original: The conversation as the model saw it, for thinking that is bound to its prefix; see
            `ullage.legality.validate`. Only for `anthropic`.
        params: Further parameters of the request, as they are; `None`: none.
        **named: The request's other parameters by name, such as `max_tokens` or `thinking`.

    Raises:
        InvalidMessage: An item is not a mapping, its content neither text nor a list, or a block cannot be read or is nested
            too deeply; names its position.
        InvalidPolicy: An unknown provider.

    Example:
        >>> outgoing([{"role": "user", "content": "hi"}], provider="gemini").parts
        {'contents': [{'role': 'user', 'parts': [{'text': 'hi'}]}]}
    """
    named_params = parameters(outgoing, params, named)
    row, shape, asked, waits, arguments = _asked(
        messages, provider, model, system, tools, original, named_params
    )
    done = _on_each(lambda part: repair(part, **arguments), asked)
    sent = list(done.messages[:-1] if waits else done.messages)
    parts = shape.parts if done.messages is asked else {**shape.parts, row.list_key: sent}
    return Outgoing(
        row.name,
        parts,
        row.list_key,
        done.repairs,
        shape.losses,
        done.left,
        waits,
        shape.names,
        shape.ids,
    )


_BEFORE: Final = {"role": "user", "content": "."}
"""Stands for all that came before: what follows is never the beginning of a conversation."""


class Continued:
    """Writes what is added at the end of a conversation, as `outgoing` would, without what stands before it; `parts`: of the body around it."""

    def __init__(self, provider: Provider, model: str, parts: Mapping[str, Any]) -> None:
        self._provider, self._stands = provider, provider.user_message(str(_BEFORE["content"]))
        self._options: dict[str, Any] = {
            "provider": provider,
            "model": rules_model(model, provider),
            "params": _nested_tools(provider, parts),
        }

    def write(self, messages: Sequence[Item]) -> Outgoing | None:
        """Messages of the internal view, of which the first is an answer; `None`: it is joined to what stands before it."""
        provider = self._provider
        shape = provider.shape.to_provider([_BEFORE, *messages])
        written = shape.parts[provider.list_key]
        if written[0] != self._stands:
            return None
        waits = messages[-1].get("role") != "user" and _waits(written, provider)
        asked = [*written, self._stands] if waits else written
        done = _on_each(lambda part: repair(part, **self._options), asked)
        sent = list(done.messages[1:-1] if waits else done.messages[1:])
        parts = {**shape.parts, provider.list_key: sent}
        return Outgoing(provider.name, parts, provider.list_key, done.repairs, shape.losses)


def report_of(
    messages: Sequence[Item],
    *,
    provider: AnyProvider = "anthropic",
    model: str | None = None,
    system: SystemPrompt | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    original: Original | None = None,
    params: Mapping[str, Any] | None = None,
    **named: Unpack[RequestParameters],
) -> Report:
    """What the provider would refuse in the conversation, translated but not repaired; the arguments are those of `outgoing`."""
    named_params = parameters(report_of, params, named)
    *_, asked, _, arguments = _asked(
        messages, provider, model, system, tools, original, named_params
    )
    return _on_each(lambda part: validate(part, **arguments), asked)


def rules_model(name: str | None, provider: AnyProvider) -> str | None:
    """The model's name if it is of the provider's vendor; else `None`: the rules of its newest models."""
    row = ModelTable.builtin().find(name) if name else None
    return name if row is not None and row.provider == provider_of(provider).vendor else None


def _asked(
    messages: Sequence[Item],
    provider: AnyProvider,
    model: str | None,
    system: Any,
    tools: Any,
    original: Any,
    params: Mapping[str, Any],
) -> tuple[Provider, Shaped, Sequence[Any], bool, dict[str, Any]]:
    """The provider's row, the conversation in its format, its items, whether a user's message was put after them, what the rules are asked with."""
    row = provider_of(provider, writable=True)
    shape = row.shape.to_provider(_read(messages), system=system, tools=tools)
    parts = shape.parts
    items = parts[row.list_key]
    # The user's next message will follow: ending with the model's words is not an error.
    waits = _waits(items, row)
    arguments = {
        "provider": row,
        "model": rules_model(model, row),
        "system": parts.get(row.system_key),
        "tools": parts.get("tools"),
        "original": original if row.internal else None,
        "params": {**_nested_tools(row, parts), **params},
    }
    return row, shape, [*items, row.user_message(".")] if waits else items, waits, arguments


def _nested_tools(provider: Provider, parts: Mapping[str, Any]) -> dict[str, Any]:
    """The part of a body that holds the definitions, where they do not stand in the body itself."""
    first, *nested = provider.tools_at
    return {first: parts[first]} if nested and first in parts else {}


def _on_each(work: Callable[[Sequence[Any]], T], items: Sequence[Any]) -> T:
    try:
        return work(items)
    except RecursionError as exc:
        raise refused(work, items, exc) from exc


def _read(messages: Sequence[Item]) -> list[Item]:
    items = listed(messages)
    for index, item in enumerate(items):
        inner = message_of(item) or item.get("message", item)
        content = inner.get("content") if isinstance(inner, Mapping) else inner
        if not isinstance(content, str | list | None):
            reason = "must be text or a list of blocks"
            got = type(content).__name__
            raise InvalidMessage(reason, index=index, field="content", got=got)
    return items


def _waits(items: Sequence[Any], provider: Provider) -> bool:
    """Whether the model spoke last and no call is open: only words of the user can follow."""
    last = items[-1] if items else None
    if not isinstance(last, Mapping):
        return False
    try:
        read = provider.shape.from_provider([last]).messages
    except BROKEN:  # the repair names the place
        return False
    blocks = (block for message in read for block in blocks_of(message.get("content")))
    if any(block.get("type") == "tool_use" for block in blocks):
        return False
    if "role" in last:
        return last["role"] in ("assistant", "model")
    if "type" in last:
        return last["type"] in ("reasoning", "message")
    return bool(read) and read[-1]["role"] == "assistant"
