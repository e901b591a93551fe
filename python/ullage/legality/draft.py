"""A working copy of a conversation: items are copied only when they change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ullage._engine.digests import Violation
from ullage._start import NamedTuple
from ullage.messages import Item, as_blocks, message_of, same_items


class Repair(NamedTuple):
    """One change that made a request legal.

    Attributes:
        rule: The rule that was broken.
        message: Index in the messages that were given; -1: the request as a whole.
        block: Index of the block there; -1: the message as a whole.
        action: What was done, in words.
        ids: Tool use ids or call ids that it touches.
    """

    rule: str
    message: int
    block: int
    action: str
    ids: tuple[str, ...] = ()


# Not `Frozen`: every request makes one.
@dataclass(frozen=True)
class Repaired:
    """A request's messages as they may be sent.

    Attributes:
        messages: The very list that was given if nothing had to change; else a new list, in which
            untouched messages are the same objects.
        repairs: What was changed, in the order it was done.
        left: Errors that no repair can fix, such as too many tokens.
        params: Request parameters to add, only under the policy `thinking_policy="drop_block"`.
    """

    messages: Sequence[Item]
    repairs: tuple[Repair, ...] = ()
    left: tuple[Violation, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the provider would take it, as far as the rules know."""
        return not self.left

    def __repr__(self) -> str:
        return f"Repaired(repairs={len(self.repairs)}, left={len(self.left)})"


def error_at(rule: str, message: int, block: int, detail: str) -> Violation:
    """What a provider would refuse; see `Violation` for the places."""
    return Violation(rule, "error", message, block, detail)


USER, ASSISTANT, SYSTEM = "user", "assistant", "system"
# Roles that other libraries use for the assistant; any other is read as the user's, which loses no words.
ASSISTANT_NAMES = ("assistant", "model", "ai", "bot")


def kind_of(block: Any) -> str:
    """A block's type, "" if it is none."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    return kind if isinstance(kind, str) else ""


def list_in(value: Any, key: str) -> list[Any]:
    """The list under a key of a mapping, which is only read; empty if there is none."""
    # Dicts and lists, which nearly all are, are recognised at once.
    inner = value.get(key) if type(value) is dict or isinstance(value, Mapping) else None
    if type(inner) is list:
        return inner
    return list(inner) if isinstance(inner, list | tuple) else []


def text_block(text: str) -> dict[str, Any]:
    """A text block."""
    return {"type": "text", "text": text}


class Slot:
    """One item of the conversation while it is being repaired.

    Attributes:
        item: The item as given, `None` for one that a repair adds.
        origin: Its index in the list that was given; that of a neighbour for an added one.
        role: `user`, `assistant` or `system`; "" for an envelope without a message.
        blocks: Content blocks; a string content is one text block. Replaced, never changed in place.
        message: The message as it came or was edited; its content may be an older one.
    """

    __slots__ = ("_blocks", "_string", "changed", "item", "message", "origin", "role")

    def __init__(self, item: Any, origin: int, message: Mapping[str, Any] | None = None) -> None:
        self.item = item
        self.origin = origin
        self.changed = False
        if message is None and (message := message_of(item)) is None:
            inner = item.get("message") if isinstance(item, Mapping) else None
            message = inner if isinstance(inner, Mapping) else {}  # without a role: to be repaired
        self.message: Mapping[str, Any] = message
        self.role = str(self.message.get("role", ""))
        content = self.message.get("content")
        self._string = isinstance(content, str)
        self._blocks: list[Any] = as_blocks(content or ())  # an empty string holds none

    @classmethod
    def added(cls, role: str, content: Any, origin: int) -> Slot:
        """A message that a repair adds."""
        slot = cls(None, origin, {"role": role, "content": content})
        slot.changed = True
        return slot

    @property
    def blocks(self) -> list[Any]:
        """Content blocks; assign a new list to change them."""
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: Sequence[Any]) -> None:
        new = list(blocks)
        if not same_items(new, self._blocks):
            self._blocks, self._string, self.changed = new, False, True

    def edit(self, message: Mapping[str, Any]) -> None:
        """Takes other keys and their role for the message; its blocks stay."""
        self.message, self.changed = message, True
        self.role = str(message.get("role", ""))

    def build(self) -> Any:
        """The item: the same object if nothing changed."""
        if not self.changed:
            return self.item
        content: Any = self._blocks
        if self._string:
            content = self.message.get("content")
        message = {**self.message, "role": self.role, "content": content}
        if isinstance(self.item, Mapping) and isinstance(self.item.get("message"), Mapping):
            if "role" not in self.item:
                return {**self.item, "message": message}
        return message


class _Placed(Protocol):
    origin: int


class WorkingCopy:
    """A list that steps repair, and the repairs so far."""

    def __init__(self) -> None:
        self.repairs: list[Repair] = []

    def note(
        self,
        rule: str,
        part: _Placed | None,
        action: str,
        *,
        block: int = -1,
        ids: Iterable[Any] = (),
    ) -> None:
        """Records a repair of a part of the list; of the request as a whole where it is `None`."""
        origin = -1 if part is None else part.origin
        self.repairs.append(Repair(rule, origin, block, action, tuple(str(name) for name in ids)))

    def build(self) -> list[Any]:
        """The items as they are now."""
        raise NotImplementedError


class Draft(WorkingCopy):
    """Slots in order."""

    def __init__(self, items: Iterable[Any]) -> None:
        super().__init__()
        self.slots = [Slot(item, index) for index, item in enumerate(items)]

    def build(self) -> list[Any]:
        """The items as they are now."""
        return [slot.build() for slot in self.slots]

    def speaking(self) -> Iterator[Slot]:
        """Slots that are messages."""
        return (slot for slot in self.slots if slot.role)

    def keep(
        self,
        rule: str,
        action: str,
        stays: Callable[[Any], bool],
        slots: Iterable[Slot] | None = None,
    ) -> None:
        """Drops the blocks that do not stay, of all messages or of these; one repair for each message."""
        for slot in self.speaking() if slots is None else slots:
            blocks = [block for block in slot.blocks if stays(block)]
            if len(blocks) < len(slot.blocks):
                self.note(rule, slot, action)
                slot.blocks = blocks

    def change(self, rule: str, action: str, change: Callable[[Any], Any]) -> None:
        """Puts other blocks in place of some; one repair for each message."""
        for slot in self.speaking():
            blocks = [change(block) for block in slot.blocks]
            if not same_items(blocks, slot.blocks):
                self.note(rule, slot, action)
                slot.blocks = blocks

    def drop_empty(self, rule: str, action: str = "dropped an empty message") -> None:
        """Removes messages that have no blocks left."""
        for slot in self.slots:
            if slot.role in (USER, ASSISTANT) and not slot.blocks:
                self.note(rule, slot, action)
        self.slots = [
            slot for slot in self.slots if slot.role not in (USER, ASSISTANT) or slot.blocks
        ]
