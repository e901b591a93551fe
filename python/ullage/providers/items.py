"""Messages and items of other providers as the internal view, one by one, and lists of them for the functions on lists."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Final

from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.messages import Item
from ullage.providers import bedrock, gemini, mistral, openai_chat, openai_responses
from ullage.providers._common import FOREIGN, is_anthropic_only

__all__ = ["FormList", "read_form", "read_item"]

_MODULES: Final[Mapping[str, ModuleType]] = {
    "openai_chat": openai_chat,
    "openai_responses": openai_responses,
    "gemini": gemini,
    "bedrock": bedrock,
    "mistral": mistral,
}
_INTERNAL: Final = ("tool_use", "tool_result", FOREIGN)
# Their content has other names, and blocks without a type.
_UNTYPED: Final = ("gemini", "bedrock")
_SYSTEM_HINT: Final = "give it as ContextManager(system=...): it is never changed"
_FILLER: Final[Mapping[str, Any]] = {"role": "user", "content": "."}


def read_item(
    item: Any, provider: str, *, position: int, open_calls: Callable[[], Sequence[tuple[str, str]]]
) -> list[Item]:
    """One message or item of the provider's form as internal messages.

    Args:
        item: Of the provider's form; one that is in the internal view already stays as it is.
        provider: A name of `SHAPES`.
        position: Where it will stand in the history; makes ids where the provider has none.
        open_calls: Id and name of calls that wait for a result, oldest first.

    Raises:
        InvalidMessage: The first item is a system prompt: that is an argument of the manager.
    """
    if provider == "anthropic" or not isinstance(item, Mapping) or _is_internal(item, provider):
        return [item]
    system = item.get("role") in ("system", "developer")
    if system and position == 0:
        raise InvalidMessage("is the system prompt", index=0, field="role", hint=_SYSTEM_HINT)
    given = [_FILLER, item] if system else [item]
    messages = _MODULES[provider].from_provider(given).messages[len(given) - 1 :]
    return [_named(message, position, open_calls) for message in messages]


def _is_internal(item: Item, provider: str) -> bool:
    if FOREIGN in item or ("role" not in item and isinstance(item.get("message"), Mapping)):
        return True
    content = item.get("content")
    blocks = content if isinstance(content, list) else ()
    if provider in _UNTYPED and (isinstance(content, str) or _is_typed(blocks)):
        return True
    return any(
        isinstance(block, Mapping) and (_is_ours(block.get("type")) or FOREIGN in block)
        for block in blocks
    )


def _is_ours(kind: Any) -> bool:
    """Whether only the internal view has blocks of this type."""
    return kind in _INTERNAL or (isinstance(kind, str) and is_anthropic_only(kind))


def _is_typed(blocks: Sequence[Any]) -> bool:
    return any(isinstance(block, Mapping) and "type" in block for block in blocks)


def _named(
    message: Mapping[str, Any],
    position: int,
    open_calls: Callable[[], Sequence[tuple[str, str]]],
) -> Item:
    """Where the provider gives no ids, calls get one and results that of the first open call of their name."""
    content = message.get("content")
    if not isinstance(content, list) or not any(_nameless(block) for block in content):
        return message
    waiting = list(open_calls())
    blocks = []
    for at, block in enumerate(content):
        if not _nameless(block):
            blocks.append(block)
        elif block["type"] == "tool_use":
            seed = f"{position}:{at}:{block.get('name')}".encode("utf-8", "surrogatepass")
            blocks.append({**block, "id": f"call_{hashlib.sha256(seed).hexdigest()[:20]}"})
        else:
            name = str(block["tool_use_id"]).removeprefix(_UNKNOWN)
            found = next((pair for pair in waiting if pair[1] == name), None)
            if found is not None:
                waiting.remove(found)
            blocks.append(block if found is None else {**block, "tool_use_id": found[0]})
    return {**message, "content": blocks}


_UNKNOWN: Final = "unknown_"


def _nameless(block: Any) -> bool:
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "tool_result":
        return str(block.get("tool_use_id", "")).startswith(_UNKNOWN)
    foreign = block.get("foreign")
    told = foreign.get("gemini") if isinstance(foreign, Mapping) else None
    return block.get("type") == "tool_use" and isinstance(told, Mapping) and "no_id" in told


# ---- whole lists -----------------------------------------------------------------------------

# These have forms of their own; the engine reads the others as they are.
_TRANSLATED: Final = {"openai_responses": "input", "gemini": "contents", "bedrock": "messages"}
_READ: Final = ("anthropic", "openai_chat", "mistral", "deepseek", "local")
_ITEMS: Final = frozenset({"reasoning", "compaction", "item_reference", "mcp_list_tools"})
_ITEM_ENDS: Final = ("_call", "_call_output", "_approval_request", "_approval_response")


@dataclass(frozen=True, slots=True)
class FormList:
    """A list in a provider's form, read.

    Attributes:
        provider: Whose form.
        items: As given.
        messages: The same in the internal view.
        owners: For each message the index of the item that it came from; they never fall.
    """

    provider: str
    items: Sequence[Any]
    messages: list[Item]
    owners: list[int]

    def first(self, item: int) -> int:
        """The first message of an item, or of the next one that has any."""
        found = (at for at, owner in enumerate(self.owners) if owner >= item)
        return next(found, len(self.messages))

    def owner(self, message: int) -> int:
        """The item of a message; the number of items for the end."""
        return self.owners[message] if message < len(self.owners) else len(self.items)

    def back(self, messages: Iterable[Item]) -> list[Any]:
        """Messages in the provider's form again; those that came from an item, as that very item."""
        owners = {id(each): at for each, at in zip(self.messages, self.owners, strict=True)}
        made: list[Any] = []
        last: int | None = None
        for message in messages:
            owner = owners.get(id(message))
            if owner is None:
                made += _MODULES[self.provider].to_provider([message]).parts[self._key]
            elif owner != last:
                made.append(self.items[owner])
            last = owner
        return made

    @property
    def _key(self) -> str:
        return _TRANSLATED[self.provider]


def read_form(items: Sequence[Any], provider: str | None = None) -> FormList | None:
    """A list in a form that the engine does not read, translated.

    Args:
        items: Messages, entries or items; not changed.
        provider: Whose form they have; `None`: items of the Responses API and Gemini's contents are told
            by their keys.

    Returns:
        `None` for bare messages, of Anthropic or the chat form, and for entries: they are read as they are.

    Raises:
        InvalidPolicy: There is no such provider.
    """
    name = _recognised(items) if provider is None else provider
    if name is not None and name not in _TRANSLATED and name not in _READ:
        known = ", ".join((*_READ, *_TRANSLATED))
        raise InvalidPolicy("provider", name, f"must be one of {known}")
    if name not in _TRANSLATED:
        return None
    messages: list[Item] = []
    owners: list[int] = []
    waiting: dict[str, str] = {}
    for at, item in enumerate(items):
        if isinstance(item, Mapping) and item.get("role") in ("system", "developer"):
            made = [item]
        else:
            made = read_item(item, name, position=at, open_calls=lambda: list(waiting.items()))
        for message in made:
            messages.append(message)
            owners.append(at)
            _note_calls(message, waiting)
    return FormList(name, items, messages, owners)


def _recognised(items: Sequence[Any]) -> str | None:
    for item in items:
        if not isinstance(item, Mapping) or "message" in item:
            continue
        if "parts" in item and "content" not in item:
            return "gemini"
        if "role" not in item and _is_item(item.get("type")):
            return "openai_responses"
    return None


def _is_item(kind: Any) -> bool:
    return isinstance(kind, str) and (kind in _ITEMS or kind.endswith(_ITEM_ENDS))


def _note_calls(message: Item, waiting: dict[str, str]) -> None:
    for block in _blocks(message):
        if block.get("type") == "tool_use":
            waiting[str(block.get("id"))] = str(block.get("name"))
        elif block.get("type") == "tool_result":
            waiting.pop(str(block.get("tool_use_id")), None)


def _blocks(message: Any) -> Iterator[Mapping[str, Any]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping):
            yield block
