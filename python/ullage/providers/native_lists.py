"""Messages and items of other providers as the internal view, one by one, and lists of them for the functions on lists."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ullage.exceptions import InvalidMessage, UllageError
from ullage.messages import Item, check_list
from ullage.providers._common import (
    BROKEN,
    FOREIGN,
    id_by,
    is_anthropic_only,
    refused,
    take_first,
)
from ullage.providers.registry import AnyProvider, Provider, provider_of, recognised

_INTERNAL: Final = ("tool_use", "tool_result", FOREIGN)
_SYSTEM_HINT: Final = "give it as ContextManager(system=...): it is never changed"


def read_item(
    item: Any,
    provider: Provider,
    *,
    position: int,
    open_calls: Callable[[], Sequence[tuple[str, str]]],
) -> list[Item]:
    """One message or item of the provider's form as internal messages; one in the internal view already stays as it is.

    `position` and `open_calls` are those of `PlainForm.read_plain`.

    Raises:
        InvalidMessage: It cannot be read, or the first item is a system prompt: that is an argument of the manager.
    """
    form = provider.plain_form
    quick = None if form is None else form.read_plain(item, position, open_calls)
    if quick is not None:
        return [quick]
    if provider.internal or not isinstance(item, Mapping) or _is_internal(item, provider):
        return [item]
    system = item.get("role") in ("system", "developer")
    if system and position == 0:
        raise InvalidMessage("is the system prompt", index=0, field="role", hint=_SYSTEM_HINT)
    items = [provider.user_message("."), item] if system else [item]
    read = provider.shape.from_provider
    try:
        messages = read(items).messages[len(items) - 1 :]
    except UllageError:
        raise
    except BROKEN as exc:
        error = refused(read, items, exc)
        raise InvalidMessage(error.reason, field=error.field) from exc
    return [_named(message, position, open_calls) for message in messages]


def _is_internal(item: Item, provider: Provider) -> bool:
    if FOREIGN in item or ("role" not in item and isinstance(item.get("message"), Mapping)):
        return True
    content = item.get("content")
    if provider.untyped and isinstance(content, str):
        return True
    blocks = _blocks(item)
    if provider.untyped:
        return any("type" in block or FOREIGN in block for block in blocks)
    return any(_is_ours(block.get("type")) or FOREIGN in block for block in blocks)


def _is_ours(kind: Any) -> bool:
    """Whether only the internal view has blocks of this type."""
    return kind in _INTERNAL or (isinstance(kind, str) and is_anthropic_only(kind))


def _named(
    message: Mapping[str, Any],
    position: int,
    open_calls: Callable[[], Sequence[tuple[str, str]]],
) -> Item:
    """Where the provider gives no ids, calls get one and results that of the first open call of their name."""
    content = message.get("content")
    if not isinstance(content, list) or not any(map(_nameless, content)):
        return message
    waiting = list(open_calls())
    blocks = []
    for at, block in enumerate(content):
        if _nameless(block) and block["type"] == "tool_use":
            block = {**block, "id": id_by(position, at, block.get("name"))}
        elif _nameless(block):
            one = take_first(waiting, str(block["tool_use_id"]).removeprefix(_UNKNOWN))
            block = block if one is None else {**block, "tool_use_id": one}
        blocks.append(block)
    return {**message, "content": blocks}


_UNKNOWN: Final = "unknown_"


def _nameless(block: Any) -> bool:
    if not isinstance(block, Mapping):
        return False
    if block.get("type") == "tool_result":
        return str(block.get("tool_use_id", "")).startswith(_UNKNOWN)
    own = block.get(FOREIGN)
    data = own.values() if isinstance(own, Mapping) else ()
    return block.get("type") == "tool_use" and any(
        isinstance(part, Mapping) and "no_id" in part for part in data
    )


# ---- whole lists -----------------------------------------------------------------------------


class FormList(NamedTuple):
    """A list in a provider's form, read."""

    provider: Provider
    items: Sequence[Any]  # as given
    messages: list[Item]  # the same in the internal view
    owners: list[int]  # for each message the index of the item that it came from; they never fall

    def first(self, item: int) -> int:
        """The first message of an item, or of the next one that has any."""
        return bisect_left(self.owners, item)

    def owner(self, message: int) -> int:
        """The item of a message; the number of items for the end."""
        return self.owners[message] if message < len(self.owners) else len(self.items)

    def back(self, messages: Iterable[Item]) -> list[Any]:
        """Messages in the provider's form again; those that came from an item, as that very item."""
        owners = {
            id(translated): at for translated, at in zip(self.messages, self.owners, strict=True)
        }
        items_out: list[Any] = []
        last: int | None = None
        for message in messages:
            owner = owners.get(id(message))
            if owner is None:
                written = self.provider.shape.to_provider([message])
                items_out += written.parts[self.provider.list_key]
            elif owner != last:
                items_out.append(self.items[owner])
            last = owner
        return items_out


def read_form(
    items: Sequence[Any],
    provider: AnyProvider | None = None,
    *,
    unread: list[int] | None = None,
) -> FormList | None:
    """A list in a form that the engine does not read, translated; `None` for bare messages, of Anthropic or the chat form, and entries.

    Args:
        items: Not changed.
        provider: `None`: items of the Responses API and Gemini's contents are recognised by their keys.
        unread: Filled with the indices of items that cannot be read, which are left out; `None`: they raise.

    Raises:
        InvalidMessage: It is no list, or an item cannot be read.
        InvalidPolicy: There is no such provider.
    """
    check_list(items)
    row = recognised(items) if provider is None else provider_of(provider)
    if row is None or row.read_as_is:
        return None
    messages: list[Item] = []
    owners: list[int] = []
    waiting: dict[str, str] = {}
    for at, item in enumerate(items):
        translated = [item]
        if not isinstance(item, Mapping) or item.get("role") not in ("system", "developer"):
            try:
                translated = read_item(
                    item, row, position=at, open_calls=lambda: list(waiting.items())
                )
            except BROKEN:
                if unread is None:
                    raise
                translated = []
            if unread is not None and not translated:
                unread.append(at)
        for message in translated:
            messages.append(message)
            owners.append(at)
            for block in _blocks(message):
                if block.get("type") == "tool_use":
                    waiting[str(block.get("id"))] = str(block.get("name"))
                elif block.get("type") == "tool_result":
                    waiting.pop(str(block.get("tool_use_id")), None)
    return FormList(row, items, messages, owners)


def _blocks(message: Any) -> Iterator[Mapping[str, Any]]:
    content = message.get("content") if isinstance(message, Mapping) else None
    for block in content if isinstance(content, list) else ():
        if isinstance(block, Mapping):
            yield block
