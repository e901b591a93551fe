"""Writes Chat Completions messages from the internal view."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ullage.facts.compaction_items import readable
from ullage.messages import THINKING, Block, Item
from ullage.providers._chat_dialect import Dialect
from ullage.providers._chat_media import collect
from ullage.providers._common import (
    FOREIGN,
    Losses,
    as_text,
    bare,
    blocks_of,
    foreign,
    is_text,
    note_foreign,
    note_keys,
    to_url,
)
from ullage.providers._ids import call_ids, map_ids, map_names, name_out
from ullage.providers._json import arguments_out

__all__ = ["ChatWriter", "tools_out"]

SHAPE = "openai_chat"

_OWN_PARTS = frozenset("image_url input_audio file refusal document_url reference".split())
_TEXT_KEYS = frozenset({"type", "text", FOREIGN})
_IMAGE_KEYS = frozenset({"type", "source", FOREIGN})
_DOCUMENT_KEYS = frozenset({"type", "source", "title", FOREIGN})
_CALL_KEYS = frozenset({"type", "id", "name", "input", FOREIGN})
_RESULT_KEYS = frozenset({"type", "tool_use_id", "content", FOREIGN})
_TOOL_KEYS = frozenset({"type", "name", "description", "input_schema", "strict", FOREIGN})


class ChatWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(
        self,
        dialect: Dialect,
        messages: Sequence[Item],
        tools: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        self.dialect = dialect
        self.names = map_names(messages, tools)
        self.losses = Losses()
        self.ids = map_ids(
            call_ids(messages),
            lambda one: 0 < len(one) <= dialect.max_id_chars,
            length=24,
            prefix="call_",
        )

    def system(self, system: str | Sequence[Block] | None) -> list[dict[str, Any]]:
        """The leading system message."""
        if not system:
            return []
        role = self.dialect.system_role
        if isinstance(system, str):
            return [{"role": role, "content": system}]
        data = foreign(system[0], SHAPE)
        parts = [self.part(block, f"system[{index}]") for index, block in enumerate(system)]
        content: Any = [part for part in parts if part is not None]
        if data.get("string") and len(content) == 1:
            content = content[0]["text"]
        return [{**data.get("message", {}), "role": data.get("role", role), "content": content}]

    def turns(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """All messages; user messages in a row are one turn, so that its results stay together."""
        chat: list[dict[str, Any]] = []
        run: list[tuple[int, Mapping[str, Any]]] = []
        for index, message in _whole_answers(bare(messages)):
            if message["role"] == "user":
                run.append((index, message))
                continue
            chat.extend(self.user_turn(run))
            run = []
            chat.extend(self.other(index, message))
        return [*chat, *self.user_turn(run)]

    def other(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        if message["role"] == "assistant" and "tool_calls" not in message:
            return self.assistant(index, message)
        if message["role"] == "system":
            return self.inner_system(index, message)
        return [dict(message)]  # already in this shape

    def inner_system(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        data = foreign(message, SHAPE)
        head = {**data.get("message", {}), "role": data.get("role", self.dialect.system_role)}
        for key in ("output_config", "clear_at"):
            if key in message:
                self.losses.add(key, f"messages[{index}]", "the target has no such field")
        if isinstance(message.get("content"), str):
            return [{**head, "content": message["content"]}]
        content = self.parts(message, index)
        return [{**head, "content": content}] if content else []

    # -- user turns

    def user_turn(self, run: list[tuple[int, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
        """All results first, then their media, then what the messages say besides."""
        said: list[dict[str, Any]] = []
        moved: list[dict[str, Any]] = []
        for index, message in run:
            content = message.get("content")
            whole = _whole_message(content)
            if whole is not None:
                said.append(whole)
                continue
            if not isinstance(content, str):
                yield from self.results(content, index, moved)
                content = self.parts(message, index)
            if content:
                said.append(self.user_message(message, content))
        yield from _with_media(moved, said)

    def results(
        self, content: Any, index: int, moved: list[dict[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        for position, block in enumerate(blocks_of(content)):
            if block.get("type") == "tool_result":
                yield self.result(block, f"messages[{index}].content[{position}]", moved)

    def user_message(self, message: Mapping[str, Any], content: Any) -> dict[str, Any]:
        return {**foreign(message, SHAPE).get("message", {}), "role": "user", "content": content}

    def result(self, block: Block, where: str, moved: list[dict[str, Any]]) -> dict[str, Any]:
        note_keys(block, _RESULT_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        old = str(block.get("tool_use_id"))
        new = self.ids.get(old, old)
        return {
            **foreign(block, SHAPE).get("message", {}),
            "role": "tool",
            "tool_call_id": new,
            "content": self.result_content(block.get("content"), new, where, moved),
        }

    def result_content(
        self, content: Any, call: str, where: str, moved: list[dict[str, Any]]
    ) -> Any:
        if content is None or isinstance(content, str):
            return content or ""
        told: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(content)):
            part = self.part(block, f"{where}.content[{position}]")
            if part is not None:
                told.append(part)
        return collect(told, call, moved)

    # -- assistant messages

    def assistant(self, index: int, message: Mapping[str, Any]) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        data = foreign(message, SHAPE)
        note_foreign(message, SHAPE, where, self.losses)
        content = message.get("content")
        if isinstance(content, str):
            return [
                self.finished({**data.get("message", {}), "role": "assistant", "content": content})
            ]
        whole = _whole_message(content)
        if whole is not None:
            return [whole]
        parts = self.parts(message, index)
        calls = self.calls(message, index)
        thought = self.thought(message, index)
        if thought and self.dialect.reasoning and not (parts or calls or data):
            self.losses.add("thinking", where, "a message of nothing else is refused")
            return []
        if not (parts or calls or data or thought):
            return []  # what it held has been noted as a loss
        written: dict[str, Any] = {**data.get("message", {}), "role": "assistant"}
        written["content"] = _assistant_content(parts)
        if thought is not None:
            written[thought[0]] = thought[1]
        if calls:
            written["tool_calls"] = calls
        return [self.finished(written)]

    def finished(self, written: dict[str, Any]) -> dict[str, Any]:
        field = self.dialect.reasoning
        if field and "tool_calls" in written:
            written.setdefault(field, "")
        return written

    def calls(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        written: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") == "tool_use":
                written.append(self.call(block, f"messages[{index}].content[{position}]"))
            elif written and is_text(block):
                self.losses.add(
                    "order", f"messages[{index}].content[{position}]", "text stands before calls"
                )
        return written

    def call(self, block: Block, where: str) -> dict[str, Any]:
        note_keys(block, _CALL_KEYS, where, self.losses)
        note_foreign(block, SHAPE, where, self.losses)
        data = foreign(block, SHAPE)
        head = {"id": self.ids.get(block["id"], block["id"]), "type": data.get("type", "function")}
        if head["type"] == "custom":
            body = {"name": name_out(block, self.names), "input": _raw_input(block)}
        else:
            body = {"name": name_out(block, self.names), "arguments": arguments_out(block, data)}
        return {**data.get("call", {}), **head, head["type"]: {**data.get("function", {}), **body}}

    def thought(self, message: Mapping[str, Any], index: int) -> tuple[str, str] | None:
        """The reasoning field and its text; blocks that do not fit there are noted."""
        field, texts = "", []
        for position, block in enumerate(blocks_of(message.get("content"))):
            if not _is_thought(block):
                continue
            name = foreign(block, SHAPE).get("field") or self.dialect.reasoning
            if block.get("type") == "thinking" and name:
                field = field or name
                texts.append(str(block.get("thinking", "")))
            if not name or block.get("type") != "thinking" or block.get("signature"):
                where = f"messages[{index}].content[{position}]"
                self.losses.add(str(block["type"]), where, "only its own provider takes it back")
        return (field, "\n\n".join(texts)) if field else None

    # -- parts

    def parts(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        """Everything but calls, results and thinking, as parts."""
        found: list[dict[str, Any]] = []
        for position, block in enumerate(blocks_of(message.get("content"))):
            if block.get("type") in ("tool_use", "tool_result") or _is_thought(block):
                continue
            part = self.part(block, f"messages[{index}].content[{position}]")
            if part is not None:
                found.append(part)
        return found

    def part(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = foreign(block, SHAPE)
        note_foreign(block, SHAPE, where, self.losses)
        if kind in (FOREIGN, "thinking"):
            text = readable(block) if kind == FOREIGN else ""
            said = {"type": "text", "text": text} if text else None
            return dict(data["part"]) if "part" in data else said
        if is_text(block):
            note_keys(block, _TEXT_KEYS, where, self.losses)
            return {**data.get("part", {}), "type": "text", "text": block["text"]}
        if kind == "image" and (url := to_url(block.get("source"))) is not None:
            note_keys(block, _IMAGE_KEYS, where, self.losses)
            return {"type": "image_url", "image_url": {**data.get("part", {}), "url": url}}
        if kind == "document" and (url := _pdf_url(block)) is not None:
            note_keys(block, _DOCUMENT_KEYS, where, self.losses)
            name = {"filename": block["title"]} if block.get("title") else {}
            return {"type": "file", "file": {**data.get("part", {}), **name, "file_data": url}}
        return self.told(block, where)

    def told(self, block: Block, where: str) -> dict[str, Any] | None:
        """A block without a word in this shape, as text; one of its own stays as it is."""
        kind = str(block.get("type"))
        if kind in _OWN_PARTS:
            return dict(block)
        text = as_text(block)
        self.losses.add(kind, where, "left out" if text is None else "sent as text")
        return None if text is None else {"type": "text", "text": text}


Numbered = tuple[int, Mapping[str, Any]]


def _whole_answers(messages: Iterable[Numbered]) -> Iterator[Numbered]:
    """Answers stored in pieces, in one where a piece calls tools: results must follow the calls at once."""
    waiting: Numbered | None = None
    for index, message in messages:
        goes_on = waiting is not None and message["role"] == "assistant"
        if waiting is not None and not goes_on:
            yield waiting
            waiting = None
        if waiting is not None:
            first, held = waiting
            content = [*blocks_of(held.get("content")), *blocks_of(message.get("content"))]
            waiting = first, {**message, **held, "content": content}
        elif message["role"] == "assistant" and _calls_tools(message):
            waiting = index, message
        else:
            yield index, message
    if waiting is not None:
        yield waiting


def _calls_tools(message: Mapping[str, Any]) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(
        block.get("type") == "tool_use" for block in blocks_of(content)
    )


def _with_media(moved: list[dict[str, Any]], said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Media join the message after the results if it has parts, else they get one of their own."""
    if not moved:
        return said
    if said and isinstance(said[0]["content"], list) and set(said[0]) == {"role", "content"}:
        return [{"role": "user", "content": moved + said[0]["content"]}, *said[1:]]
    return [{"role": "user", "content": moved}, *said]


def _assistant_content(parts: list[dict[str, Any]]) -> Any:
    """`null` only with calls; one text as a string, which every server accepts."""
    if not parts:
        return None
    if len(parts) == 1 and set(parts[0]) == {"type", "text"} and parts[0]["type"] == "text":
        return parts[0]["text"]
    return parts


def _is_thought(block: Mapping[str, Any]) -> bool:
    """Thinking that is no part of the content: it goes to a field of its own, or nowhere."""
    in_content = block.get("type") == "thinking" and "part" in foreign(block, SHAPE)
    return block.get("type") in THINKING and not in_content


def _whole_message(content: Any) -> dict[str, Any] | None:
    """A message that was carried whole, because the internal view has no word for it."""
    blocks = blocks_of(content) if isinstance(content, list) else []
    whole = foreign(blocks[0], SHAPE).get("whole") if len(blocks) == 1 else None
    return dict(whole) if isinstance(whole, Mapping) else None


def _raw_input(block: Block) -> Any:
    value = block.get("input")
    return value.get("input", "") if isinstance(value, Mapping) else value


def _pdf_url(block: Block) -> str | None:
    source = block.get("source")
    known = isinstance(source, Mapping) and source.get("type") == "base64"
    return to_url(source) if known else None


def tools_out(
    tools: Sequence[Mapping[str, Any]], losses: Losses, names: Mapping[str, str]
) -> list[dict[str, Any]]:
    written: list[dict[str, Any]] = []
    for index, tool in enumerate(tools):
        data = foreign(tool, SHAPE)
        if "whole" in data:
            written.append(dict(data["whole"]))
        elif "input_schema" not in tool:
            losses.add("tool", f"tools[{index}]", "a server tool of another provider")
        else:
            note_keys(tool, _TOOL_KEYS, f"tools[{index}]", losses)
            written.append(_function_tool(tool, data, names))
    return written


def _function_tool(
    tool: Mapping[str, Any], data: Mapping[str, Any], names: Mapping[str, str]
) -> dict[str, Any]:
    function: dict[str, Any] = {"name": name_out(tool, names)}
    if "description" in tool:
        function["description"] = tool["description"]
    function["parameters"] = tool["input_schema"]
    if "strict" in tool:
        function["strict"] = tool["strict"]
    return {**data.get("tool", {}), "type": "function", "function": function}
