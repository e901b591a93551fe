"""Members put into a JSON file and taken out again while every other byte stays.

A parser and a writer would change the layout of the whole file. This finds where values begin and end, and changes the text between them.
Taking out what was put in last gives the bytes that were there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

__all__ = ["JsonText", "Step"]

Step = str | int
"""A key of an object, or a position in a list."""

_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN = re.compile(r"-?[0-9][0-9.eE+-]*|true|false|null")
_DEEPEST = 200


@dataclass(slots=True)
class _Node:
    """A value in the text, from `start` to `end`.

    Attributes:
        inner: Of an object or list: where each member begins (its key) and what follows.
    """

    start: int
    end: int = 0
    kind: str = "plain"
    keys: list[str] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    values: list[_Node] = field(default_factory=list)


class JsonText:
    """A JSON document as text.

    Args:
        text: The document.

    Raises:
        ValueError: It is not JSON, or nested too deeply.
    """

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def value(self) -> Any:
        """The document, parsed."""
        return json.loads(self.text)

    def added(self, path: Sequence[str], item: Any, *, into_list: bool) -> JsonText:
        """The document with a value more; objects and lists on the way are made where they are missing.

        Args:
            path: Keys from the top.
            item: What is added.
            into_list: Whether it becomes the last element of the list at `path`, or the value of the key there, which must be missing.

        Raises:
            ValueError: On the way stands something else, or the key is there already.
        """
        root = self._parsed()
        node, left = root, list(path)
        while left and node.kind == "object" and left[0] in node.keys:
            node = node.values[node.keys.index(left.pop(0))]
        if not left and (not into_list or node.kind != "list"):
            raise ValueError(f"{'.'.join(path)} is there already, and is no list")
        if left and node.kind != "object":
            raise ValueError(f"{'.'.join(path[: len(path) - len(left)])} must be a mapping")
        if left and into_list:
            item = [item]
        for key in reversed(left[1:]):
            item = {key: item}
        return JsonText(self._with_member(node, left[0] if left else None, item))

    def removed(self, path: Sequence[Step]) -> JsonText:
        """The document without the value at a path; the text before it, from the value before that one on, goes with it.

        Raises:
            LookupError: There is none.
        """
        node = self._parsed()
        for step in path[:-1]:
            node = node.values[node.keys.index(step) if isinstance(step, str) else step]
        last = path[-1]
        at = node.keys.index(last) if isinstance(last, str) else last
        if at > 0:
            start, stop = node.values[at - 1].end, node.values[at].end
        elif len(node.values) > 1:
            start, stop = node.begins[0], node.begins[1]
        else:
            start, stop = node.start + 1, node.end - 1
        return JsonText(self.text[:start] + self.text[stop:])

    # ---- text ---------------------------------------------------------------------------------

    def _with_member(self, node: _Node, key: str | None, item: Any) -> str:
        line_end = "\r\n" if "\r\n" in self.text else "\n"
        unit = self._unit()
        outer = self._indent(node.start)
        one_line = bool(node.values) and "\n" not in self.text[node.start : node.begins[0]]
        if one_line:
            body = json.dumps(item, ensure_ascii=False)
        else:
            body = json.dumps(item, ensure_ascii=False, indent=unit)
            body = body.replace("\n", line_end + outer + unit)
        member = body if key is None else f"{json.dumps(key, ensure_ascii=False)}: {body}"
        if node.values:
            place = node.values[-1].end
            gap = " " if one_line else line_end + outer + unit
            return f"{self.text[:place]},{gap}{member}{self.text[place:]}"
        inner = line_end + outer + unit + member + line_end + outer
        return self.text[: node.start + 1] + inner + self.text[node.end - 1 :]

    def _unit(self) -> str:
        found = re.search(r"[{\[]\r?\n([ \t]+)\S", self.text)
        return found[1] if found else "  "

    def _indent(self, place: int) -> str:
        start = self.text.rfind("\n", 0, place) + 1
        found = re.match(r"[ \t]*", self.text[start:])
        return found[0] if found else ""

    # ---- parsing ------------------------------------------------------------------------------

    def _parsed(self) -> _Node:
        json.loads(self.text)  # says what is wrong with it, and where
        return self._node(self._past_space(0), 0)

    def _past_space(self, at: int) -> int:
        found = _SPACE.match(self.text, at)
        return found.end() if found else at

    def _past_string(self, at: int) -> int:
        found = _STRING.match(self.text, at)
        if found is None:
            raise ValueError(f"no string at character {at}")
        return found.end()

    def _node(self, at: int, depth: int) -> _Node:
        if depth > _DEEPEST:
            raise ValueError("nested too deeply")
        opening = self.text[at]
        if opening == '"':
            return _Node(at, self._past_string(at))
        if opening in "{[":
            return self._container(at, depth)
        found = _PLAIN.match(self.text, at)
        if found is None:
            raise ValueError(f"no JSON at character {at}")
        return _Node(at, found.end())

    def _container(self, at: int, depth: int) -> _Node:
        node = _Node(at, kind="object" if self.text[at] == "{" else "list")
        closing = "}" if node.kind == "object" else "]"
        at = self._past_space(at + 1)
        while self.text[at] != closing:
            node.begins.append(at)
            if node.kind == "object":
                begin, at = at, self._past_string(at)
                node.keys.append(json.loads(self.text[begin:at]))
                at = self._past_space(self._past_space(at) + 1)  # the colon
            value = self._node(at, depth + 1)
            node.values.append(value)
            at = self._past_space(value.end)
            if self.text[at] == ",":
                at = self._past_space(at + 1)
        node.end = at + 1
        return node


def paths_to(value: Any, wanted: Any, path: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Paths of all values for which a function answers yes; what is below them is not looked at.

    Args:
        value: A parsed document.
        wanted: Asked for each value.
        path: Of `value`.
    """
    if wanted(value):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from paths_to(each, wanted, (*path, key))
    elif isinstance(value, list):
        for at, each in enumerate(value):
            yield from paths_to(each, wanted, (*path, at))
