"""Ways to damage a list of Anthropic messages, by name. Each is pure and total.

A mutation takes any list of messages, also one that is damaged already, and a number that chooses
the place; it returns a new list, equal to the old one where it finds nothing to damage.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

from ullage.messages import THINKING

__all__ = ["MUTATIONS", "mutate"]

Messages = list[Any]
Place = tuple[int, int]

_BLANKS = ("", " ", "\n\t", "\u00a0")
_WRONG: tuple[Any, ...] = (None, 3, True, [], {}, "x", 1.5, [[]])


def _blocks(message: Any) -> list[Any]:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, list) else []


def _places(messages: Messages, *kinds: str) -> list[Place]:
    return [
        (index, at)
        for index, message in enumerate(messages)
        for at, block in enumerate(_blocks(message))
        if isinstance(block, dict) and (not kinds or block.get("type") in kinds)
    ]


def _wrong(at: int, count: int = len(_WRONG)) -> Any:
    """One of the first `count` wrong values; a copy, since later mutations may change it."""
    return copy.deepcopy(_WRONG[at % count])


def _pick(items: list[Any], at: int) -> Any:
    return items[at % len(items)] if items else None


def _of_role(messages: Messages, role: str) -> list[dict[str, Any]]:
    return [m for m in messages if isinstance(m, dict) and m.get("role") == role]


def _edit(messages: Messages, at: int, kinds: tuple[str, ...], **keys: Any) -> None:
    """Set keys of one block of these kinds."""
    if place := _pick(_places(messages, *kinds), at):
        messages[place[0]]["content"][place[1]].update(keys)


def _spread(message: dict[str, Any]) -> list[Any]:
    """The content as a list that can be changed in place."""
    content = message.get("content")
    if isinstance(content, str):
        message["content"] = [{"type": "text", "text": content}] if content else []
    elif not isinstance(content, list):
        message["content"] = []
    blocks: list[Any] = message["content"]
    return blocks


def _orphan_result(messages: Messages, at: int) -> None:
    if user := _pick(_of_role(messages, "user"), at):
        _spread(user).insert(
            0, {"type": "tool_result", "tool_use_id": "toolu_none", "content": "x"}
        )


def _drop(kinds: tuple[str, ...]) -> Callable[[Messages, int], None]:
    def act(messages: Messages, at: int) -> None:
        if place := _pick(_places(messages, *kinds), at):
            blocks = messages[place[0]]["content"]
            del blocks[place[1]]
            if not blocks:
                blocks.append({"type": "text", "text": "(removed)"})

    return act


def _repeat(kinds: tuple[str, ...]) -> Callable[[Messages, int], None]:
    def act(messages: Messages, at: int) -> None:
        if place := _pick(_places(messages, *kinds), at):
            blocks = messages[place[0]]["content"]
            blocks.insert(place[1], copy.deepcopy(blocks[place[1]]))

    return act


def _late_result(messages: Messages, at: int) -> None:
    if place := _pick(_places(messages, "tool_result"), at):
        messages[place[0]]["content"].insert(place[1], {"type": "text", "text": "wait"})


def _rename(messages: Messages, at: int, new: Any) -> None:
    """Give a call and its results another id, consistently."""
    place = _pick(_places(messages, "tool_use"), at)
    if place is None:
        return
    old = messages[place[0]]["content"][place[1]].get("id")
    for index, block_at in _places(messages, "tool_use", "tool_result"):
        block = messages[index]["content"][block_at]
        for key in ("id", "tool_use_id"):
            if key in block and block[key] == old:
                block[key] = new


def _foreign_id(messages: Messages, at: int) -> None:
    _rename(messages, at, ("functions.Read:3", "Bash:12", "call id", "é" * 9)[at % 4])


def _same_id(messages: Messages, at: int) -> None:
    places = _places(messages, "tool_use")
    if len(places) > 1:
        first = messages[places[0][0]]["content"][places[0][1]].get("id")
        _rename(messages, 1 + at % (len(places) - 1), first)


def _text(change: Callable[[str, int], Any]) -> Callable[[Messages, int], None]:
    """Change one text, wherever it stands."""

    def act(messages: Messages, at: int) -> None:
        found = [m for m in messages if isinstance(m, dict) and isinstance(m.get("content"), str)]
        places = _places(messages, "text")
        if not found and not places:
            return
        number = at % (len(found) + len(places))
        if number < len(found):
            found[number]["content"] = change(found[number]["content"], at)
        else:
            index, block_at = places[number - len(found)]
            block = messages[index]["content"][block_at]
            block["text"] = change(str(block.get("text")), at)

    return act


def _message(change: Callable[[dict[str, Any], int], None]) -> Callable[[Messages, int], None]:
    """Change one message."""

    def act(messages: Messages, at: int) -> None:
        if message := _pick([m for m in messages if isinstance(m, dict)], at):
            change(message, at)

    return act


def _wrong_role(message: dict[str, Any], at: int) -> None:
    message["role"] = ("tool", "model", "developer", None, 3, ["user"], "")[at % 7]


def _wrong_content(message: dict[str, Any], at: int) -> None:
    message["content"] = (None, 3, {"type": "text", "text": "x"}, [], "", True)[at % 6]


def _add_block(block: Any) -> Callable[[Messages, int], None]:
    def act(messages: Messages, at: int) -> None:
        if message := _pick([m for m in messages if isinstance(m, dict)], at):
            blocks = _spread(message)
            blocks.insert(
                at % (len(blocks) + 1), copy.deepcopy(block(at) if callable(block) else block)
            )

    return act


def _nested(depth: int) -> Any:
    value: Any = "bottom"
    for level in range(depth):
        value = [value] if level % 2 else {"deeper": value}
    return value


def _deep_input(messages: Messages, at: int) -> None:
    _edit(messages, at, ("tool_use",), input={"deep": _nested(300)})


def _odd_input(messages: Messages, at: int) -> None:
    odd = (
        {1: "a number as key"},
        {"n": 10**40},
        {"n": float("nan")},
        {"s": "\ud83d"},
        {"s": "\x00"},
    )
    _edit(messages, at, ("tool_use",), input=odd[at % len(odd)])


def _markers(ttls: tuple[str, ...]) -> Callable[[Messages, int], None]:
    def act(messages: Messages, at: int) -> None:
        users = _of_role(messages, "user")
        blocks = [block for user in users for block in _spread(user) if isinstance(block, dict)]
        if not blocks:
            return
        while len(blocks) < len(ttls):
            blocks.append({"type": "text", "text": "more"})
            users[-1]["content"].append(blocks[-1])
        for block, ttl in zip(blocks, ttls, strict=False):
            block["cache_control"] = {"type": "ephemeral", "ttl": ttl}

    return act


def _whole(change: Callable[[Messages, int], None]) -> Callable[[Messages, int], None]:
    return lambda messages, at: change(messages, at % len(messages)) if messages else None


def _swap(messages: Messages, at: int) -> None:
    other = (at + 1) % len(messages)
    messages[at], messages[other] = messages[other], messages[at]


def _cut_head(messages: Messages, at: int) -> None:
    del messages[:at]


def _cut_tail(messages: Messages, at: int) -> None:
    del messages[at + 1 :]


def _delete(messages: Messages, at: int) -> None:
    del messages[at]


def _double(messages: Messages, at: int) -> None:
    messages.insert(at, copy.deepcopy(messages[at]))


def _not_a_message(messages: Messages, at: int) -> None:
    messages.insert(at, _wrong(at))


def _system_inside(messages: Messages, at: int) -> None:
    messages.insert(at, {"role": "system", "content": "Be brief."})


def _ends_with_assistant(messages: Messages, at: int) -> None:
    messages.append({"role": "assistant", "content": "Sure, "})


def _thinking_unsigned(messages: Messages, at: int) -> None:
    if message := _pick(_of_role(messages, "assistant"), at):
        _spread(message).insert(0, {"type": "thinking", "thinking": "hm"})


def _thinking_altered(messages: Messages, at: int) -> None:
    _edit(messages, at, ("thinking",), thinking="something else")


_SERVER_CALL = {"type": "server_tool_use", "id": "srvtoolu_x", "name": "web_search", "input": {}}
_SERVER_RESULT = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_y", "content": []}


def _in_assistant(block: dict[str, Any]) -> Callable[[Messages, int], None]:
    def act(messages: Messages, at: int) -> None:
        if message := _pick(_of_role(messages, "assistant"), at):
            _spread(message).append(copy.deepcopy(block))

    return act


MUTATIONS: Mapping[str, Callable[[Messages, int], None]] = {
    "orphan_result": _orphan_result,
    "drop_result": _drop(("tool_result",)),
    "drop_call": _drop(("tool_use",)),
    "drop_thinking": _drop(THINKING),
    "drop_server_call": _drop(("server_tool_use",)),
    "drop_server_result": _drop(("web_search_tool_result",)),
    "duplicate_result": _repeat(("tool_result",)),
    "duplicate_call": _repeat(("tool_use",)),
    "text_before_result": _late_result,
    "foreign_id": _foreign_id,
    "same_id": _same_id,
    "unhashable_id": lambda m, at: _edit(m, at, ("tool_use",), id=[{}]),
    "missing_id": lambda m, at: _edit(m, at, ("tool_result",), tool_use_id=None),
    "wrong_input": lambda m, at: _edit(m, at, ("tool_use",), input=_wrong(at, 4)),
    "deep_input": _deep_input,
    "odd_input": _odd_input,
    "wrong_result": lambda m, at: _edit(m, at, ("tool_result",), content=({}, 3, [None])[at % 3]),
    "nested_call": lambda m, at: _edit(m, at, ("tool_result",), content=[dict(_SERVER_CALL)]),
    "stray_key": lambda m, at: _edit(m, at, (), _ullage={"note": at}),
    "stray_message_key": _message(lambda message, at: message.update(id="m1", timestamp=at)),
    "blank_text": _text(lambda text, at: _BLANKS[at % 4]),
    "huge_text": _text(lambda text, at: text + "x" * 200_000),
    "lone_surrogate": _text(lambda text, at: text + "\ud83d"),
    "control_characters": _text(lambda text, at: text + "\x00\x1b[0m\u202e\ufeff"),
    "text_not_a_string": lambda m, at: _edit(m, at, ("text",), text=_wrong(at, 4)),
    "empty_content": _message(lambda message, at: message.update(content=("", [], None)[at % 3])),
    "wrong_content": _message(_wrong_content),
    "wrong_role": _message(_wrong_role),
    "no_role": _message(lambda message, at: message.pop("role", None) and None),
    "not_a_block": _add_block(lambda at: _wrong(at)),
    "unknown_block": _add_block({"type": "hologram", "data": "x"}),
    "call_in_place": _add_block(
        {"type": "tool_use", "id": "toolu_new", "name": "Read", "input": {}}
    ),
    "bad_image": _add_block({"type": "image", "source": {"type": "base64", "data": "%%%"}}),
    "five_markers": _markers(("5m",) * 5),
    "markers_out_of_order": _markers(("5m", "1h")),
    "thinking_unsigned": _thinking_unsigned,
    "thinking_altered": _thinking_altered,
    "server_call": _in_assistant(_SERVER_CALL),
    "server_result": _in_assistant(_SERVER_RESULT),
    "system_inside": _whole(_system_inside),
    "ends_with_assistant": _ends_with_assistant,
    "not_a_message": _whole(_not_a_message),
    "delete_message": _whole(_delete),
    "double_message": _whole(_double),
    "swap_messages": _whole(_swap),
    "cut_head": _whole(_cut_head),
    "cut_tail": _whole(_cut_tail),
}
"""All mutations by name."""


def mutate(messages: Messages, *steps: tuple[str, int]) -> Messages:
    """Apply mutations one after the other; the input stays as it is.

    Args:
        messages: Any list.
        *steps: Names in `MUTATIONS`, each with a number that chooses the place.
    """
    damaged = copy.deepcopy(messages)
    for name, at in steps:
        MUTATIONS[name](damaged, at)
    return damaged
