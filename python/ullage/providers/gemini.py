"""Gemini `generateContent`, both ways.

| internal | contents |
|---|---|
| roles `user`, `assistant` | `user`, `model`, strictly in turn |
| `tool_use` | `functionCall`; its `thoughtSignature` stays on the very part that had it |
| `tool_result` | `functionResponse` with the name of its call, in the order of the calls |
| a result's media | `functionResponse.parts`, each named where it stood |
| thought parts | `thinking` that remembers where it came from |
| `system` | `systemInstruction` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from ullage.facts.sections import readable
from ullage.messages import Block, Item
from ullage.providers._common import (
    FOREIGN,
    NOTHING,
    USER_FILLER,
    Internal,
    Losses,
    Shaped,
    as_text,
    attached,
    bare,
    bare_texts,
    base64_image,
    blocks_of,
    carrier,
    carrying,
    carrying_rest,
    definable,
    dumps,
    foreign,
    from_url,
    id_by,
    in_turns,
    is_json,
    is_text,
    later_system,
    note_foreign,
    note_keys,
    own_data,
    placed,
    plain_json,
    take_first,
    with_places,
)
from ullage.providers.registry import Provider

# Reads Gemini contents into the internal view.


SHAPE: Final = "gemini"

SKIP_SIGNATURE = "skip_thought_signature_validator"
"""Documented stand-in for the signature of a call that this model did not make."""

_CALL: Final = {"id", "name", "args"}
_ANSWER: Final = {"id", "name", "response", "parts"}
_DECLARED = ("functionDeclarations", "function_declarations")
_FILLER: Final = {"role": "user", "parts": [{"text": USER_FILLER}]}


class _GeminiReader:
    """Builds messages; calls without an id get one from what they are."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        # Calls that wait for an answer: ids by name, the oldest first, and names by id.
        self._waiting: dict[str, dict[str, None]] = {}
        self._named: dict[str, list[str]] = {}
        self._alike: dict[str, int] = {}

    def take(self, content: Mapping[str, Any]) -> None:
        model = content.get("role") == "model"
        if model:
            self._waiting, self._named = {}, {}
        blocks = [
            self.block(part)
            if isinstance(part, Mapping)
            else carrier(SHAPE, "opaque", {"text": str(part)})
            for part in content.get("parts") or ()
        ]
        message = {"role": "assistant" if model else "user", "content": blocks}
        self.messages.append(carrying_rest(message, SHAPE, "content", content, "role", "parts"))

    def block(self, part: Mapping[str, Any]) -> Block:
        if "functionCall" in part and isinstance(part["functionCall"], Mapping):
            return self.call(part)
        if "functionResponse" in part and isinstance(part["functionResponse"], Mapping):
            return self.answer(part)
        if isinstance(part.get("text"), str):
            return _spoken(part)
        return _media(part) or carrier(SHAPE, "opaque", dict(part))

    # -- calls and answers

    def call(self, part: Mapping[str, Any]) -> Block:
        call = part["functionCall"]
        name, value = str(call.get("name", "")), call.get("args")
        data = {key: item for key, item in part.items() if key != "functionCall"}
        if data.get("thoughtSignature") == SKIP_SIGNATURE:
            del data["thoughtSignature"]
        original = {
            "part": data,
            "call": {key: item for key, item in call.items() if key not in _CALL},
            "no_args": "args" not in call,
            "no_id": "id" not in call,
        }
        one = call.get("id")
        if not one:  # an id that is the same whenever the same history is read
            seed = f"{name}:{dumps(value)}"
            count = self._alike[seed] = self._alike.get(seed, 0) + 1
            one = id_by(count, seed)
        self._waiting.setdefault(name, {})[one] = None
        self._named.setdefault(one, []).append(name)
        block = {"type": "tool_use", "id": one, "name": name, "input": value or {}}
        return carrying(block, SHAPE, {key: item for key, item in original.items() if item})

    def answer(self, part: Mapping[str, Any]) -> Block:
        answer = part["functionResponse"]
        name = str(answer.get("name", ""))
        one = answer.get("id")
        if not one:  # without ids, an answer belongs to the first open call of its name
            one = next(iter(self._waiting.get(name, ())), f"unknown_{name}")
        for called in self._named.pop(one, ()):
            self._waiting[called].pop(one, None)
        content, failed, exact = _answer_in(answer)
        original = {
            "part": {key: item for key, item in part.items() if key != "functionResponse"},
            "answer": {key: item for key, item in answer.items() if key not in _ANSWER},
            "response": {}
            if exact
            else {key: answer[key] for key in ("response", "parts") if key in answer},
        }
        block: Block = {"type": "tool_result", "tool_use_id": one, "content": content}
        if failed:
            block["is_error"] = True
        return carrying(block, SHAPE, {key: item for key, item in original.items() if item})


def _answer_in(answer: Mapping[str, Any]) -> tuple[Any, bool, bool]:
    """A response as content; whether it is an error; whether writing gives the same again."""
    response, parts = answer.get("response"), answer.get("parts") or ()
    names = set(response) if isinstance(response, Mapping) else set()
    if isinstance(response, Mapping) and names in ({"output"}, {"error"}):
        failed = names == {"error"}
        output = response["error" if failed else "output"]
        if isinstance(output, str) and "parts" not in answer:
            return output, failed, True
        blocks = _named(output, parts) if isinstance(output, list) else None
        if blocks is not None:
            return blocks, failed, True
    media = [_media(part) or carrier(SHAPE, "opaque", dict(part)) for part in parts]
    text = dumps(response) if response is not None else ""
    return ([{"type": "text", "text": text}, *media] if media else text), False, False


def _named(listed: list[Any], parts: Sequence[Any]) -> list[Block] | None:
    """Texts and references in a row, each reference to one part; `None` if it is not of that form."""
    media = {}
    for part in parts:
        block = _media(part, named=True)
        if block is None:
            return None
        media[(part.get("inlineData") or part["fileData"])["displayName"]] = block
    blocks: list[Block] = []
    for one in listed:
        name = one.get("$ref") if isinstance(one, Mapping) and set(one) == {"$ref"} else None
        if isinstance(one, str):
            blocks.append({"type": "text", "text": one})
        elif name in media:
            blocks.append(media.pop(name))
        else:
            return None
    return None if media else blocks


# ---- parts ---------------------------------------------------------------------------------------


def _spoken(part: Mapping[str, Any]) -> Block:
    """Thought and empty signed texts are thinking: no other provider may take them for speech."""
    text, extra = part["text"], {key: value for key, value in part.items() if key != "text"}
    if extra.get("thought") or not text:
        data = {"part": extra, "text": True}
        return carrying({"type": "thinking", "thinking": text}, SHAPE, data)
    return carrying({"type": "text", "text": text}, SHAPE, {"part": extra} if extra else {})


def _media(part: Mapping[str, Any], *, named: bool = False) -> Block | None:
    """Inline or linked media. `named`: with a name that is only a reference."""
    extra = {key: value for key, value in part.items() if key not in ("inlineData", "fileData")}
    data, link = part.get("inlineData"), part.get("fileData")
    title = None
    if isinstance(data, Mapping) and isinstance(data.get("data"), str):
        title, kind = data.get("displayName"), str(data.get("mimeType", ""))
        image = kind.startswith("image/")
        # A name is needed to be referred to; else only documents have one.
        fits = title is not None if named else title is None or not image
        if not data.keys() <= {"mimeType", "data", "displayName"} or not fits:
            return None
        if not (image or kind == "application/pdf"):
            return None
        source = {"type": "base64", "media_type": kind, "data": data["data"]}
    else:
        expected = {"mimeType", "fileUri", "displayName"} if named else {"mimeType", "fileUri"}
        if not isinstance(link, Mapping) or set(link) != expected:
            return None
        kind, url = str(link["mimeType"]), str(link["fileUri"])
        image = kind.startswith("image/")
        if not image:
            return None
        if kind != _guess(url):
            extra["mimeType"] = kind
        source = from_url(url)
    block: Block = {"type": "image" if image else "document", "source": source}
    if title is not None and not named:
        block["title"] = title
    return carrying(block, SHAPE, {"part": extra} if extra else {})


def _guess(url: str) -> str:
    """The media type of a linked image, by the ending of its path."""
    ending = url.partition("?")[0].rpartition(".")[2].lower()
    return f"image/{ending}" if ending in ("png", "gif", "webp", "heic", "heif") else "image/jpeg"


# ---- tools ----------------------------------------------------------------------------


def _tools_in(tools: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Function declarations one by one; other tools whole."""
    definitions: list[dict[str, Any]] = []
    for tool in tools:
        fields = {key: value for key, value in tool.items() if key not in _DECLARED}
        for name in _DECLARED:
            definitions.extend(_declared(function) for function in tool.get(name) or ())
        if fields:
            definitions.append({"name": next(iter(fields)), FOREIGN: {SHAPE: {"whole": fields}}})
    return definitions


def _declared(function: Mapping[str, Any]) -> dict[str, Any]:
    read: dict[str, Any] = {"name": function.get("name")}
    if "description" in function:
        read["description"] = function["description"]
    key = "parametersJsonSchema" if "parametersJsonSchema" in function else "parameters"
    read["input_schema"] = function.get(key) or {"type": "object"}
    expected = ("name", "description", key)
    extra = {name: value for name, value in function.items() if name not in expected}
    data: dict[str, Any] = {"declaration": extra} if extra else {}
    if key == "parameters" and key in function:
        data["key"] = key
    if key not in function:
        data["key"] = ""
    return carrying(read, SHAPE, data)


# Writes Gemini contents from the internal view.


class _GeminiWriter:
    """Writes one conversation; holds what all its messages share."""

    def __init__(self, messages: Sequence[Item], *, signatures: bool) -> None:
        self.losses = Losses()
        self._signatures = signatures
        self._calls = {
            str(block.get("id")): block
            for _, message in bare(messages)
            for block in blocks_of(message.get("content"))
            if block.get("type") == "tool_use"
        }

    def contents(self, messages: Sequence[Item]) -> list[dict[str, Any]]:
        """Contents in turn, a user's first; the answers of a turn in the order of its calls."""
        written = in_turns(
            messages, SHAPE, model="model", key="parts", extra="content", parts_of=self.parts
        )
        # Gemini 3 refuses a call of the current turn without a signature, and documents this dummy for calls that others made (G04).
        if self._signatures:
            written = [{**content, "parts": _signed(content["parts"])} for content in written]
        return _in_order_of_calls(written, self.losses)

    def system(self, system: str | Sequence[Block]) -> list[dict[str, Any]]:
        blocks = enumerate(blocks_of(system))
        parts = [self.part(block, f"system[{index}]") for index, block in blocks]
        return [part for part in parts if part is not None]

    def parts(self, message: Mapping[str, Any], index: int) -> list[dict[str, Any]]:
        where = f"messages[{index}]"
        note_foreign(message, SHAPE, where, self.losses)
        if message["role"] == "system":
            return later_system(message, where, self.losses)
        placed = with_places(message.get("content"), where)
        return [part for at, block in placed if (part := self.part(block, at)) is not None]

    def part(self, block: Block, where: str) -> dict[str, Any] | None:
        kind = block.get("type")
        data = attached(block, SHAPE, where, self.losses)
        if kind == "tool_use":
            return self.call(block, data, where)
        if kind == "tool_result":
            return self.answer(block, data, where)
        if kind == FOREIGN:
            text = readable(block)
            return dict(data["opaque"]) if "opaque" in data else {"text": text} if text else None
        if kind == "thinking" and data.get("text"):
            return {"text": block.get("thinking", ""), **data.get("part", {})}
        if is_text(block):
            note_keys(block, where, self.losses, "text")
            return {"text": block["text"], **data.get("part", {})}
        media = _media_out(block, data)
        if media is not None:
            note_keys(block, where, self.losses, "source", "title")
            return media
        if "type" not in block:  # already in this shape
            return dict(block)
        words = as_text(block, where, self.losses)
        return None if words is None else {"text": words}

    def call(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "id", "name", "input")
        call: dict[str, Any] = {} if data.get("no_id") else {"id": block.get("id")}
        call |= {**data.get("call", {}), "name": block.get("name")}
        if not (data.get("no_args") and not block.get("input")):
            call["args"] = block.get("input")
        return {**data.get("part", {}), "functionCall": call}

    def answer(self, block: Block, data: Mapping[str, Any], where: str) -> dict[str, Any]:
        note_keys(block, where, self.losses, "tool_use_id", "content", "is_error")
        call = self._calls.get(str(block.get("tool_use_id")), {})
        answer: dict[str, Any] = {}
        if not foreign(call, SHAPE).get("no_id"):
            answer["id"] = block.get("tool_use_id")
        answer |= {**data.get("answer", {}), "name": call.get("name", "unknown")}
        original = data.get("response")
        if original and _answer_in(original)[0] == block.get("content"):
            answer |= original
        else:
            answer |= self.response(block, where)
        return {**data.get("part", {}), "functionResponse": answer}

    def response(self, block: Block, where: str) -> dict[str, Any]:
        key = "error" if block.get("is_error") else "output"
        content = block.get("content")
        if content is None or isinstance(content, str):
            return {"response": {key: content or ""}}
        outputs: list[Any] = []
        media: list[dict[str, Any]] = []
        for place, one in with_places(content, where):
            part = self.part(one, place)
            if part is None:
                continue
            held = next((key for key in ("inlineData", "fileData") if key in part), None)
            if held:
                name = f"item_{len(media) + 1}"
                if "displayName" in part[held]:
                    self.losses.add("title", place, "the name is its place")
                media.append({**part, held: {**part[held], "displayName": name}})
                outputs.append({"$ref": name})
            elif "text" in part:
                outputs.append(part["text"])
            else:
                self.losses.add(str(one.get("type")), place, "sent as data")
                outputs.append(part)
        return {"response": {key: outputs}, **({"parts": media} if media else {})}


def _signed(parts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The first call of a step must have a signature, even one that skips the check."""
    at = next((at for at, part in enumerate(parts) if "functionCall" in part), None)
    if at is None or "thoughtSignature" in parts[at]:
        return parts
    return [*parts[:at], {**parts[at], "thoughtSignature": SKIP_SIGNATURE}, *parts[at + 1 :]]


def _in_order_of_calls(contents: list[dict[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """Answers come in the order of their calls, before what else the user says."""
    for index in range(1, len(contents)):
        calls = [
            part["functionCall"] for part in contents[index - 1]["parts"] if "functionCall" in part
        ]
        parts = contents[index]["parts"]
        answers = [part for part in parts if "functionResponse" in part]
        # Without ids the API pairs answers by their order alone, and there is no order to restore.
        if len(answers) < 2 or not calls or "id" not in calls[0]:
            continue
        order = {call.get("id"): at for at, call in enumerate(calls)}
        others = [part for part in parts if "functionResponse" not in part]
        answers.sort(key=lambda part: order.get(part["functionResponse"].get("id"), len(order)))
        if answers + others != parts:
            losses.add("order", f"contents[{index}]", "answers stand in the order of their calls")
            contents[index] = {**contents[index], "parts": answers + others}
    return contents


def _media_out(block: Block, data: Mapping[str, Any]) -> dict[str, Any] | None:
    source = block.get("source")
    if block.get("type") not in ("image", "document") or not isinstance(source, Mapping):
        return None
    extra = {key: value for key, value in data.get("part", {}).items() if key != "mimeType"}
    if source.get("type") == "base64":
        name = {"displayName": block["title"]} if block.get("title") else {}
        inline = {"mimeType": source.get("media_type"), "data": source.get("data"), **name}
        return {"inlineData": inline, **extra}
    if source.get("type") == "url" and block.get("type") == "image":
        kind = data.get("part", {}).get("mimeType", _guess(str(source["url"])))
        return {"fileData": {"mimeType": kind, "fileUri": source["url"]}, **extra}
    return None


def _tools_out(tools: Sequence[Mapping[str, Any]], losses: Losses) -> list[dict[str, Any]]:
    """All functions in one declaration list, as the API documents it; other tools whole."""
    declared: list[dict[str, Any]] = []
    whole: list[dict[str, Any]] = []
    for tool, data in definable(tools, SHAPE, losses):
        if tool is None:
            whole.append(dict(data["whole"]))
            continue
        written: dict[str, Any] = {"name": tool.get("name")}
        if "description" in tool:
            written["description"] = tool["description"]
        key = data.get("key", "parametersJsonSchema")
        if key:
            written[key] = tool["input_schema"]
        declared.append({**written, **data.get("declaration", {})})
    return [*([{"functionDeclarations": declared}] if declared else []), *whole]


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    signatures: bool = True,
) -> Shaped:
    """Translates a conversation to contents.

    `signatures`: whether the first call of a step without a signature, one that another model made, gets the documented word
    that skips the check. Models before Gemini 3 need none.
    """
    writer = _GeminiWriter(messages, signatures=signatures)
    parts: dict[str, Any] = {"contents": writer.contents(messages)}
    if system:
        parts["systemInstruction"] = {"parts": writer.system(system)}
    if tools is not None:
        parts["tools"] = _tools_out(tools, writer.losses)
    return Shaped(parts, tuple(writer.losses))


def from_provider(request: Item | Sequence[Item]) -> Internal:
    """Translates a request, or its contents, to the internal view."""
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"contents": request}
    reader = _GeminiReader()
    for index, content in enumerate(body.get("contents") or ()):
        if index or content != _FILLER:
            reader.take(content)
    tools = body.get("tools")
    return Internal(reader.messages, tools=None if tools is None else _tools_in(tools))


# The quick way for plain messages; see `PlainForm`.


_RESPONSE: Final = {"id", "name", "response"}
_OF_CALL: Final = {"part", "no_id"}
_OF_TEXT: Final = {"part"}

_OpenCalls = Callable[[], Sequence[tuple[str, str]]]


def read_plain(item: Item, position: int = 0, open_calls: _OpenCalls = tuple) -> Item | None:
    """One content in the internal view; `None`: it takes the longer way."""
    if type(item) is not dict or len(item) != 2:
        return None
    role, parts = item.get("role"), item.get("parts")
    if type(parts) is not list or not parts or (role != "user" and role != "model"):
        return None
    blocks: list[Block] = []
    waiting: list[tuple[str, str]] | None = None
    for at, part in enumerate(parts):
        if type(part) is not dict:
            return None
        if "functionCall" in part:
            block = _call_in(part, position, at)
        elif "functionResponse" in part:
            answer, block = part["functionResponse"], None
            if len(part) != 1 or type(answer) is not dict or not _RESPONSE.issuperset(answer):
                return None
            one = answer.get("id")
            if "id" not in answer:
                waiting = list(open_calls()) if waiting is None else waiting
                one = take_first(waiting, answer.get("name"))
            if type(one) is str and one and not one.startswith("unknown_"):
                block = _result_in(answer, one)
        else:
            block = _words_in(part)
        if block is None:
            return None
        blocks.append(block)
    return {"role": "user" if role == "user" else "assistant", "content": blocks}


def _words_in(part: dict[str, Any]) -> Block | None:
    """A text, a thought or an image."""
    text = part.get("text")
    if type(text) is not str:
        shown = "inlineData" in part and len(part) == 1 and is_json(part)
        return _media(part) if shown else None
    if len(part) > 1:
        return _spoken(part) if _is_signed(part, "text") else None
    return {"type": "text", "text": text} if text and text != USER_FILLER else None


def _is_signed(part: Any, kind: str = "") -> bool:
    """Whether a part says of itself, besides this key, no more than that it is a thought, and its signature."""
    if type(part) is not dict:
        return False
    for key, value in part.items():
        if key == "thoughtSignature":
            fits = type(value) is str and value != SKIP_SIGNATURE
        else:
            fits = key == kind or (key == "thought" and value is True)
        if not fits:
            return False
    return True


def _call_in(part: dict[str, Any], position: int, at: int) -> Block | None:
    call = part["functionCall"]
    if type(call) is not dict or not _CALL.issuperset(call) or type(call.get("args")) is not dict:
        return None
    name = call.get("name")
    own: dict[str, Any] = {}
    if type(name) is not str or not name:
        return None
    if len(part) > 1:
        if "thought" in part or not _is_signed(part, "functionCall"):
            return None
        own["part"] = extra = {**part}
        del extra["functionCall"]
    if "id" in call:
        one = call["id"]
        if type(one) is not str or not one:
            return None
    else:
        one, own["no_id"] = id_by(position, at, name), True
    block: Block = {"type": "tool_use", "id": one, "name": name, "input": call["args"]}
    if own:
        block[FOREIGN] = {SHAPE: own}
    return block


def _is_exact(response: dict[str, Any]) -> bool:
    """Whether it says the same as a result of the internal view with this output or error."""
    return len(response) == 1 and ("output" in response or "error" in response)


def _result_in(answer: dict[str, Any], one: str) -> Block | None:
    response, name = answer.get("response"), answer.get("name")
    if type(response) is not dict or type(name) is not str:
        return None
    block: Block = {"type": "tool_result", "tool_use_id": one}
    if _is_exact(response):
        ((key, output),) = response.items()
        if type(output) is str:
            block["content"] = output
            if key == "error":
                block["is_error"] = True
            return block
        if isinstance(output, list):
            return None
    block["content"] = plain_json(response)
    block[FOREIGN] = {SHAPE: {"response": {"response": response}}}
    return None if block["content"] is None else block


def write_plain(messages: Sequence[Item], provider: Provider) -> list[Item] | None:
    """What `to_provider` writes."""
    del provider
    written: list[Item] = []
    calls: dict[str, dict[str, Any]] = {}
    for message in messages:
        role, content = message["role"], message["content"]
        if FOREIGN in message:
            return None
        parts: list[Any] = [{"text": content}]
        if type(content) is not str:
            parts = [_plain_out(block, calls) for block in content]
            if None in parts:
                return None
        if role == "assistant":
            role, parts = "model", _signed(parts)
        written.append({"role": role, "parts": parts})
    return written


def _plain_out(block: Block, calls: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    kind = block.get("type")
    if kind == "tool_result":
        return _result_out(block, calls)
    if kind == "image":
        media, held = base64_image(block) or ("", "")
        data = {"mimeType": media, "data": held}
        return {"inlineData": data} if media.startswith("image/") else None
    own, part, size = NOTHING, NOTHING, len(block)
    if FOREIGN in block:
        own, size = own_data(block, SHAPE), size - 1
        if own is None:
            return None
        if "part" in own:
            part = own["part"]
            if not _is_signed(part):
                return None
    if kind == "tool_use":
        if size != 4 or "input" not in block or not _OF_CALL.issuperset(own):
            return None
        if type(block["input"]) is not dict or "thought" in part:
            return None
        call = (
            {"name": block["name"]}
            if "no_id" in own
            else {"id": block["id"], "name": block["name"]}
        )
        calls[block["id"]] = call
        return {**part, "functionCall": {**call, "args": block["input"]}}
    if kind == "text" and size == 2 and _OF_TEXT.issuperset(own) and "text" in block:
        return {"text": block["text"], **part}
    if kind == "thinking" and size == 2 and "thinking" in block and len(own) == 2:
        return {"text": block["thinking"], **part} if "part" in own and own.get("text") else None
    return None


_RESULT: Final = {"type", "tool_use_id", "content", "is_error", FOREIGN}


def _result_out(block: Block, calls: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    content, call = block.get("content"), calls.get(block["tool_use_id"])
    if call is None or not _RESULT.issuperset(block):
        return None
    if FOREIGN in block:
        original = own_data(block, SHAPE, "response")
        if type(original) is not dict or len(original) != 1:
            return None
        response = original.get("response")
        if type(response) is not dict or _is_exact(response):
            return None
        text = plain_json(response)
        if text is None:
            return None
        if text == content:
            return {"functionResponse": {**call, "response": response}}
    output: Any = content
    if type(content) is not str:
        texts = bare_texts(content, "text", "text")
        if not texts:
            return None
        output = [part["text"] for part in texts]
    key = "error" if block.get("is_error") else "output"
    return {"functionResponse": {**call, "response": {key: output}}}
