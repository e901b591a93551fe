"""Reads `golden/vectors.json` and runs a vector through `validate`, `compare_requests` or `check_rewrite`."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from tests.kit.compare import compare_requests
from tests.kit.rewrites import check_operation, check_rewrite
from ullage.legality import Report, validate

PATH = Path(__file__).parent.parent / "golden" / "vectors.json"
# Where each provider's request keeps its messages.
KEYS = {"openai_responses": "input", "gemini": "contents"}


def vectors() -> list[dict[str, Any]]:
    """All vectors of requests; those about answers are the classifier's."""
    return [made for made in json.loads(PATH.read_text("utf-8")) if "error" not in made]


def expanded(vector: dict[str, Any]) -> dict[str, Any]:
    """The request, with what is to be repeated repeated."""
    request = copy.deepcopy(vector["request"])
    for path, count in vector.get("repeat", ()):
        *way, last = path
        holder: Any = request
        for step in way:
            holder = holder[step]
        holder[last] = holder[last] * count
    return request


def run(vector: dict[str, Any], skip: Collection[str] = ()) -> Report:
    if "compare" in vector:
        return compared(vector, skip)
    if "after" in vector:
        return rewritten(vector, skip)
    request = expanded(vector)
    messages = request.pop(KEYS.get(vector["provider"], "messages"))
    if "version" in vector:
        request["anthropic_version"] = vector["version"]
        request["betas"] = vector["betas"]
        request.setdefault("tools", [])
    facts = {name: vector[name] for name in ("window", "strict") if name in vector}
    if vector["rule"] in ("A21", "A22"):  # an estimate without weights takes media for larger
        facts["window"] = 0
    return validate(
        messages,
        provider=vector["provider"],
        original=vector.get("original"),
        resume=vector.get("resume", ""),
        skip=skip,
        facts=facts,
        wire=vector.get("wire", True),
        **request,
    )


def compared(vector: dict[str, Any], skip: Collection[str]) -> Report:
    previous, following = copy.deepcopy(vector["compare"])
    how = dict(vector["how"])
    if "render" in how:
        how["render"] = TEMPLATES[how["render"]]
    found = compare_requests(previous, following, skip=skip, **how)
    return Report("anthropic", found.violations)


def rewritten(vector: dict[str, Any], skip: Collection[str]) -> Report:
    before, after = copy.deepcopy(vector["before"]), copy.deepcopy(vector["after"])
    around = {"provider": vector["provider"], **vector["around"]}
    if isinstance(after, str):
        return check_operation(OPERATIONS[after], before, skip=skip, **around)
    return check_rewrite(before, after, skip=skip, **around)


def _lines(request: Any) -> list[str]:
    return [f"<{m['role']}>{json.dumps(m['content'])}" for m in request["messages"]]


def _stripped(request: Any) -> str:
    last = max(at for at, m in enumerate(request["messages"]) if m["role"] == "user")
    lines = enumerate(_lines(request))
    return "".join(
        line[:12] if "assistant" in line and at < last - 1 else line for at, line in lines
    )


TEMPLATES = {
    "plain": lambda request: "".join(_lines(request)),
    "counted": lambda request: "".join([f"{len(request['messages'])} messages", *_lines(request)]),
    "stripped": _stripped,
}


def _first(items: list[Any], text: str) -> list[Any]:
    return [{**items[0], "content": text}, *items[1:]]


def _cleared(item: Any) -> Any:
    content = item["content"]
    if isinstance(content, str):
        return item
    blocks = [
        {**block, "content": "[cleared]"} if block["type"] == "tool_result" else block
        for block in content
    ]
    return {**item, "content": blocks}


def _clear_in_place(items: list[Any]) -> list[Any]:
    items[:] = [_cleared(item) for item in items]
    return items


def _append(items: list[Any]) -> list[Any]:
    made = [*items]
    items.append({"role": "user", "content": "x"})
    return made


def _pop(items: list[Any]) -> list[Any]:
    made = [*items]
    items.pop()
    return made


OPERATIONS = {
    "nothing": lambda items: items,
    "drop_first": lambda items: items[1:],
    "halve_first": lambda items: _first(
        items, items[0]["content"][: len(items[0]["content"]) // 2 or 1]
    ),
    "counted_marker": lambda items: _first(items, f"[{len(items[0]['content'])} characters]"),
    "clear_results": lambda items: [_cleared(item) for item in items],
    "clear_in_place": _clear_in_place,
    "append_to_input": _append,
    "pop_from_input": _pop,
}
