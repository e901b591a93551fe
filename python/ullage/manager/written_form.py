"""A conversation in another provider's form, of which each part is written and repaired once.

A part begins with an answer of the model, and ends where the next answer follows the user's words or results; only the first may
begin otherwise. Forms join neighbours of one side and pair calls with results: neither reaches over such a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from ullage._start import loaded, pattern
from ullage.legality.originals import json_of
from ullage.messages import Item, same_items
from ullage.providers.registry import Provider
from ullage.requests.to_request import Continued, Outgoing, outgoing

_ANSWERS: Final = ("assistant", "model")
_NAME: Final = pattern(r"[A-Za-z0-9_-]{1,64}")


class _Part(NamedTuple):
    """Neighbours in the view, and what they are written as."""

    messages: Sequence[Item]
    items: Sequence[Any]
    keys: Sequence[str | None]  # see `shared` of the rules
    lossy: bool

    @property
    def closed(self) -> bool:
        """Whether the user has the last word, so that the next answer begins a part."""
        last = self.items[-1] if self.items else {}
        return self.messages[-1].get("role") == "user" and _side(last) == "user"


class WrittenForm:
    """The view in a provider's form; a request costs what is new in it, or has changed.

    Attributes:
        items: Of the newest request. A list that was handed out only grows.
        parts: Of its body, besides the items.
        same: How many of the items are those of the request before.
    """

    def __init__(self, provider: Provider, model: str, system: Any) -> None:
        self._provider, self._system = provider, system
        self._model = model
        self._shared = getattr(loaded(provider.check), "shared", lambda messages, items: ("",))
        self._form = provider.plain_form
        self._shared_plain = getattr(self._form, "shared", lambda items: ())
        self._writer = Continued(provider, model, {})
        self._tools: Sequence[Any] = ()
        self._ledger: Any = None
        self._version = self._end = self._count = self._lossy = self.same = 0
        self._written_parts: list[_Part] = []
        self._keys: set[str | None] = set()
        self.items: list[Any] = []
        self.parts: Mapping[str, Any] = {}

    @property
    def noted(self) -> bool:
        """Whether something was repaired, or lost."""
        return self._lossy > 0 or None in self._keys

    def write(self, messages: Sequence[Item], ledger: Any, tools: Sequence[Any]) -> None:
        """Write what is new, or is not as it was; the ledger, which is of exactly this list, tells what has changed since the last call."""
        grown = ledger is self._ledger and tools == self._tools and None not in self._keys
        start = int(ledger.changed_since(self._version)) if grown else 0
        self._ledger, self._version, self._tools = ledger, ledger.version, tools
        self.same = len(self.items)
        spare = self._back_to(start) if start < self._end else {}
        while self._end < len(messages):
            if not self._goes_on(messages, spare if grown else {}):
                self._begin(messages)

    def _back_to(self, start: int) -> dict[int, _Part]:
        """Take back the parts from the one that holds a message on; by their first message, as they may fit again."""
        spare = {}
        while self._written_parts and self._end > start:
            part = self._pop()
            if self._written_parts:  # the first holds the system prompt of some forms
                spare[id(part.messages[0])] = part
        return spare

    def _pop(self) -> _Part:
        part = self._written_parts.pop()
        self._end -= len(part.messages)
        self._count -= len(part.items)
        self._lossy -= part.lossy
        self._keys.difference_update(part.keys)
        self._keys.add("")
        self.same = min(self.same, self._count)
        return part

    def _goes_on(self, messages: Sequence[Item], spare: dict[int, _Part]) -> bool:
        """Write the next part; False: it takes writing all."""
        if self._written_parts and not (
            self._written_parts[-1].closed and messages[self._end].get("role") == "assistant"
        ):
            # It is written again with what follows it: as it was it would be taken back without end.
            spare.pop(id(self._pop().messages[0]), None)
        if not self._written_parts:
            return False
        at = self._end
        part = spare.get(id(messages[at]))
        if part is None or not _stands(part, messages, at):
            part = self._new(messages[at : _until(messages, at, spare) if spare else None])
        if part is None or None in part.keys or not self._keys.isdisjoint(part.keys):
            return False
        if len(self.items) > self._count:
            self.items = self.items[: self._count]
        self.items += part.items
        self._take(part)
        return True

    def _new(self, messages: Sequence[Item]) -> _Part | None:
        form, provider = self._form, self._provider
        # Without definitions Converse needs stand-ins, which the longer way makes.
        quickly = form is not None and (self._tools or len(provider.tools_at) == 1)
        calls = rounds(messages, provider) if quickly else None
        if form is not None and calls is not None:
            quick = form.write_plain(messages, provider)
            # Surrogates that no JSON holds take the longer way.
            if quick is not None and json_of(quick):
                keys = [*calls, *self._shared_plain(quick)]
                return _Part(messages, quick, keys, lossy=False)
        done = self._writer.write(messages)
        if done is None or self._lacks(done.parts):
            return None
        items = done.messages
        answers = bool(items) and _side(items[0]) == "model"
        return self._part(messages, items, done) if answers else None

    def _lacks(self, parts: Mapping[str, Any]) -> bool:
        """Whether what is new needs stand-ins for definitions that the body has not, as Converse does with the first call."""
        if self._tools:
            return False
        present, new = (_at(part, self._provider.tools_at) for part in (self.parts, parts))
        return any(part not in present for part in new)

    def _begin(self, messages: Sequence[Item]) -> None:
        """Write all as one part."""
        self._written_parts, self._end, self._count, self._lossy, self.same = [], 0, 0, 0, 0
        self._keys = {""}
        done = self.whole(messages, self._tools)
        self.items = list(done.messages)
        self.parts = {name: part for name, part in done.parts.items() if part is not done.messages}
        self._writer = Continued(self._provider, self._model, self.parts)
        self._take(self._part(messages, done.messages, done))

    def whole(self, messages: Sequence[Item], tools: Sequence[Any]) -> Outgoing:
        """What `outgoing` makes of all of them."""
        head: Any = {"provider": self._provider, "model": self._model, "system": self._system}
        return outgoing(messages, **head, tools=tools or None)

    def _part(self, messages: Sequence[Item], items: Sequence[Any], done: Outgoing) -> _Part:
        # What a step of the repairs does to one message may depend on any other.
        whole = (None,) if done.repairs else ()
        keys = [*calls_of(messages), *self._shared(messages, items), *whole]
        return _Part(messages, items, keys, bool(done.losses))

    def _take(self, part: _Part) -> None:
        self._written_parts.append(part)
        self._end += len(part.messages)
        self._count += len(part.items)
        self._lossy += part.lossy
        self._keys.update(part.keys)


def _side(item: Mapping[str, Any]) -> str:
    """Whose an item is; empty: neither the user's nor the model's."""
    role = item.get("role")
    if role is None:
        return "user" if str(item.get("type")).endswith("_output") else "model"
    return "user" if role in ("user", "tool") else "model" if role in _ANSWERS else ""


def calls_of(messages: Iterable[Item]) -> Iterator[str]:
    """Ids of calls; empty: there is a result of another part's call."""
    names = set()
    for message in messages:
        content = message.get("content")
        for block in content if type(content) is list else ():
            kind = block.get("type") if isinstance(block, Mapping) else None
            if kind == "tool_use":
                names.add(str(block.get("id")))
                yield str(block.get("id"))
            elif kind == "tool_result" and str(block.get("tool_use_id")) not in names:
                yield ""


def _stands(part: _Part, messages: Sequence[Item], at: int) -> bool:
    """Whether the messages from there on are those of the part."""
    return same_items(messages[at : at + len(part.messages)], part.messages)


def _until(messages: Sequence[Item], at: int, spare: Mapping[int, _Part]) -> int:
    """Where the next part that may fit again begins; the end, if none does."""
    places = (
        item
        for item in range(at + 1, len(messages))
        if (part := spare.get(id(messages[item]))) and _stands(part, messages, item)
    )
    return next(places, len(messages))


def _at(parts: Any, way: Iterable[str]) -> Sequence[Any]:
    for step in way:
        parts = parts.get(step) or {}
    return parts or ()


# ---- rounds of plain messages ----------------------------------------------------------------


def rounds(messages: Sequence[Item], provider: Provider) -> list[str] | None:
    """Ids of the calls, if these are whole rounds of plain messages, the first an answer: each call is answered in its turn.

    In the form of Responses each piece of an answer is an item of its own; where blocks have no type an answer's results are one
    message, which may end in other blocks.
    """
    calls: list[str] = []  # of all, the first `done` of them are answered
    done, spoken, joined = 0, "user", provider.untyped  # who spoke last
    for message in messages:
        role, content = message.get("role"), message.get("content")
        if role is None or content is None or len(message) - ("foreign" in message) != 2:
            return None
        if role == "assistant":
            new = _called(content)
            if new is None or (spoken == role and provider.name != "openai_responses"):
                return None
            if spoken != role and done < len(calls):
                return None
            calls += new
        elif role != "user" or (joined and spoken != "assistant"):
            return None
        else:
            answered = _answered(content, calls[done:], spoken, joined)
            if answered is None:
                return None
            done += answered
            role = "tool" if answered else role
        spoken = role
    return calls if spoken != "assistant" and done == len(calls) else None


def _called(content: Any) -> list[str] | None:
    """Ids of the calls of an answer; `None`: it may not go as it is."""
    if type(content) is not list or not content:
        return [] if type(content) is str and content.strip() else None
    names: list[str] = []
    for block in content:
        if type(block) is not dict:
            return None
        kind = block.get("type")
        if kind == "thinking":  # the form's own, or its writer takes the longer way
            continue
        if kind == "tool_use":
            call, name = block.get("id"), block.get("name")
            if type(call) is not str or type(name) is not str or not _NAME.fullmatch(name):
                return None
            names.append(call)
        elif names or type(block.get("text")) is not str or not block["text"].strip():
            return None
    return names


def _answered(content: Any, calls: list[str], spoken: str, joined: bool) -> int | None:
    """How many of the open calls it answers, in their turn; 0: it says something else, after an answer without calls or all results.

    `joined`: other blocks may follow the results of all; `None`: neither.
    """
    says_only = not calls and spoken != "user"
    if type(content) is str:
        return 0 if says_only and content.strip() else None
    if type(content) is not list or not content:
        return None
    count = 0
    for block in content:
        if type(block) is not dict:
            return None
        if block.get("type") != "tool_result":
            break
        if count == len(calls) or block.get("tool_use_id") != calls[count]:
            return None
        count += 1
    else:
        return count
    shown = says_only or (joined and count)
    return count if shown and count == len(calls) and all(map(_is_shown, content[count:])) else None


def _is_shown(block: Any) -> bool:
    """Words, or an image, which the form's writer looks at."""
    if type(block) is not dict or block.get("type") != "text":
        return type(block) is dict and block.get("type") == "image"
    text = block.get("text")
    return type(text) is str and bool(text.strip())
