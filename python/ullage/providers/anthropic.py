"""Anthropic Messages: the internal view itself, less what only other providers can read.

A conversation that came from Anthropic passes as the same objects. One that came from elsewhere loses
what the API would refuse: foreign data, thinking without a signature, keys of an envelope; ids outside
its alphabet are mapped, calls and results alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, Final, TypeAlias

from ullage._engine.digests import BlockKind, Role
from ullage._start import pattern
from ullage.exceptions import InvalidPolicy
from ullage.facts.sections import readable
from ullage.messages import THINKING, Block, Item, same_items
from ullage.providers._common import (
    FOREIGN,
    Internal,
    Loss,
    Losses,
    Shaped,
    bare,
    blocks_of,
    call_ids,
    map_ids,
    note_foreign,
    placed,
    reverse,
    with_id,
)
from ullage.providers.registry import AnyProvider, provider_of

# The pattern of the API's own error: "String should match pattern '^[a-zA-Z0-9_-]+$'" (A08).
_ID = pattern(r"[a-zA-Z0-9_-]+")
# Raw blocks of other providers' answers: thoughts, which nobody else can use, and the rest.
_THOUGHTS = frozenset("reasoning reasoning_text reasoning_content summary_text thought".split())
_OTHERS = _THOUGHTS | frozenset(
    "refusal audio input_audio output_audio function_call function_call_output custom_tool_call "
    "custom_tool_call_output".split()
)
_MESSAGE_KEYS = frozenset({"role", "content", "output_config", "clear_at"})


@placed
def to_provider(
    messages: Sequence[Item],
    *,
    system: str | Sequence[Block] | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> Shaped:
    """Prepares a conversation for the Messages API; messages that need no change are the same objects.

    Leading system messages, which the API refuses, are added to the system prompt; definitions that only another provider has
    are left out.
    """
    losses = Losses()
    ids = map_ids(call_ids(messages), takes_id, length=24, prefix="toolu_")
    numbered = list(bare(messages))
    heads = takewhile(lambda one: one[1]["role"] in ("system", "developer"), numbered)
    head = [message for _, message in heads]
    written = [_message(message, index, ids, losses) for index, message in numbered[len(head) :]]
    parts: dict[str, Any] = {"messages": [message for message in written if message is not None]}
    prompt = _system(system, head, losses)
    if prompt is not None:
        parts["system"] = prompt
    if tools is not None:
        parts["tools"] = _tools(tools, losses)
    return Shaped(parts, tuple(losses), reverse(ids))


class AnthropicWriter:
    """`to_provider` for the messages of one growing conversation: what is new is looked at, once.

    A list that needs no change is handed back as it is; of any other each message is written once.
    """

    def __init__(self) -> None:
        self._ledger: Any = None
        self._version = 0
        self._items: list[Item] = []  # what was written last
        self._dirty: list[int] = []  # messages that cannot go as they are, in order
        self._ids: dict[str, str] = {}
        # By id() and place of a message: the message itself, what it became, and what was left out.
        self._writings: dict[tuple[int, int], tuple[Item, Item | None, tuple[Loss, ...]]] = {}

    def write(
        self,
        messages: Sequence[Item],
        ledger: Any,
        sources: Sequence[Any],
        plain: set[Any],
    ) -> tuple[Sequence[Item], list[Loss]]:
        """All messages of the conversation as the API takes them, the same list if it needs no change; what was left out.

        Args:
            messages: Bare messages.
            ledger: A ledger of exactly this list; it tells what has changed since the last call.
            sources: Where each message comes from.
            plain: The sources of messages that surely go as they are.
        """
        start = 0
        if ledger is self._ledger:
            start = min(ledger.changed_since(self._version), len(self._items))
        self._ledger, self._version = ledger, ledger.version
        new = messages[start:]
        if self._dirty or not plain.issuperset(sources[start:]):
            # Most of what follows a change is the same messages again.
            fitting = set[int]() if self._dirty else set(map(id, self._items[start:]))
            while self._dirty and self._dirty[-1] >= start:
                self._dirty.pop()
            self._dirty += [
                at
                for at, message in enumerate(new, start)
                if sources[at] not in plain and id(message) not in fitting and not _fits(message)
            ]
        self._items[start:] = new
        return self.whole(messages) if self._dirty else (messages, [])

    def whole(self, messages: Sequence[Item]) -> tuple[list[Item], list[Loss]]:
        """The same of a list that is none of the conversation's own."""
        ids = map_ids(call_ids(messages), takes_id, length=24, prefix="toolu_")
        writings = self._writings if ids == self._ids else {}
        self._ids, self._writings = ids, {}
        messages_out: list[Item] = []
        lost: list[Loss] = []
        for index, message in enumerate(messages):
            key = (id(message), index)
            writing = writings.get(key)
            if writing is None:
                losses = Losses()
                writing = (message, _message(message, index, ids, losses), tuple(losses))
            self._writings[key] = writing
            if writing[1] is not None:
                messages_out.append(writing[1])
            lost += writing[2]
        return messages_out, lost


_PLAIN_KEYS = frozenset({"role", "content"})
_PLAIN_TYPES = ("text", "image", *THINKING)


def _fits(message: Item) -> bool:
    """Whether a message can go as it is."""
    if _is_plain(message):
        return True
    ids = map_ids(call_ids([message]), takes_id, length=24)
    return not ids and _message(message, 0, {}, Losses()) is message


def _is_plain(message: Any) -> bool:
    """Whether nothing in a message has to be looked at closely; so are nearly all."""
    if type(message) is not dict or not message.keys() <= _PLAIN_KEYS:
        return False
    content = message.get("content")
    if message.get("role") not in ("user", "assistant") or type(content) is not list:
        return message.get("role") in ("user", "assistant") and type(content) is str
    for block in content:
        if type(block) is not dict or FOREIGN in block:
            return False
        kind, inner = block.get("type"), block.get("content")
        if kind != "tool_use" and kind != "tool_result":
            if kind not in _PLAIN_TYPES:
                return False
            continue
        name = block.get("id" if kind == "tool_use" else "tool_use_id")
        if type(name) is not str or not _ID.fullmatch(name):
            return False
        for part in inner if type(inner) is list else ():
            if type(part) is not dict or part.get("type") not in ("text", "image"):
                return False
            if FOREIGN in part:
                return False
    return True


def from_provider(request: Mapping[str, Any] | Sequence[Item]) -> Internal:
    """Takes a Messages request, or its messages, as the internal view; nothing is copied."""
    body: Mapping[str, Any] = request if isinstance(request, Mapping) else {"messages": request}
    messages: list[Any] = [message for _, message in bare(body.get("messages") or ())]
    return Internal(messages, tools=body.get("tools"))


def clean_entries(entries: Sequence[Item]) -> tuple[list[Item], tuple[Loss, ...]]:
    """Entries of a log, in file order, as Claude Code can read them: each message as `to_provider` would send it; what was left out.

    Those that need no change are the same objects, lines without a message are passed through, and an entry whose message held nothing
    but foreign data is left out.
    """
    losses = Losses()
    ids = map_ids(call_ids(entries), takes_id, length=24, prefix="toolu_")
    cleaned: list[Item] = []
    for index, entry in enumerate(entries):
        message = entry.get("message")
        if not isinstance(message, Mapping) or "role" not in message:
            cleaned.append(entry)
            continue
        sent = _message(message, index, ids, losses, fallback=True)
        if sent is None:
            continue
        if sent.get("content") is not message.get("content") or FOREIGN in message:
            # With the log's own fields, such as `id`, `model` and `usage`.
            fields = {key: value for key, value in message.items() if key != FOREIGN}
            entry = {**entry, "message": {**fields, "content": sent["content"]}}
        cleaned.append(entry)
    return cleaned, tuple(losses)


def takes_id(one: str) -> bool:
    """Whether the API takes it for the id of a call."""
    return bool(_ID.fullmatch(one))


def _system(
    system: str | Sequence[Block] | None, head: Sequence[Mapping[str, Any]], losses: Losses
) -> str | Sequence[Block] | None:
    listed = isinstance(system, list | tuple)
    if not head and not (listed and any(FOREIGN in block for block in blocks_of(system))):
        return system
    blocks = blocks_of(system)
    for message in head:
        blocks.extend(blocks_of(message.get("content")))
    return _blocks(blocks, "system", {}, losses) or None


def _message(
    message: Mapping[str, Any],
    index: int,
    ids: Mapping[str, str],
    losses: Losses,
    *,
    fallback: bool = False,
) -> Mapping[str, Any] | None:
    """The message as the API takes it; `fallback`: blocks of a fallback stay, as in a log."""
    where = f"messages[{index}]"
    if FOREIGN in message:
        note_foreign(message, "anthropic", where, losses)
    content = message.get("content")
    blocks = content
    if isinstance(content, list):
        spoken = message["role"] == "assistant"
        blocks = _blocks(
            content, where, ids, losses, spoken=spoken, fallback=fallback or not spoken
        )
        if content and not blocks:
            return None
    role = "system" if message["role"] == "developer" else message["role"]
    if blocks is content and message.keys() <= _MESSAGE_KEYS and role == message["role"]:
        return message
    slim = {key: value for key, value in message.items() if key in _MESSAGE_KEYS}
    return {**slim, "role": role, "content": blocks}


def _blocks(
    content: list[Any],
    where: str,
    ids: Mapping[str, str],
    losses: Losses,
    *,
    spoken: bool = False,
    fallback: bool = True,
) -> list[Block]:
    """The blocks that the API takes; the same list if it takes them all. `spoken`: they are the assistant's."""
    written = []
    # Only a beta accepts the mark of a fallback, and no API what it ended.
    kinds = [block.get("type") if isinstance(block, Mapping) else None for block in content]
    last_fallback = max((at for at, kind in enumerate(kinds) if kind == "fallback"), default=-1)
    for position, (block, kind) in enumerate(zip(content, kinds, strict=True)):
        place = f"{where}.content[{position}]"
        if (
            not fallback
            and position <= last_fallback
            and kind in ("fallback", "tool_use", *THINKING)
        ):
            losses.add(block["type"], place, "belongs to a fallback")
            continue
        spoken_block = _as_spoken(block, place, losses) if spoken else block
        one = None if spoken_block is None else _block(spoken_block, place, ids, losses)
        if one is not None:
            written.append(one)
    return content if same_items(written, content) else written


def _block(block: Any, where: str, ids: Mapping[str, str], losses: Losses) -> Any:
    if not isinstance(block, Mapping):
        return block
    kind = block.get("type")
    if kind == FOREIGN:
        note_foreign(block, "anthropic", where, losses)
        text = readable(block)
        return {"type": "text", "text": text} if text else None
    if kind in THINKING and FOREIGN in block and not (block.get("signature") or block.get("data")):
        losses.add("thinking", where, "no signature of this provider")
        return None
    clean = block
    if FOREIGN in block:
        note_foreign(block, "anthropic", where, losses)
        clean = {key: value for key, value in block.items() if key != FOREIGN}
    clean = with_id(clean, ids) if ids else clean
    content = clean.get("content")
    if kind != "tool_result" or not isinstance(content, list):
        return clean
    inner = _blocks(content, where, {}, losses)
    return clean if inner is content else {**clean, "content": inner}


def _as_spoken(block: Any, where: str, losses: Losses) -> Any:
    """The block; of one that is raw data of another provider the text, or `None` if it has none."""
    kind = block.get("type") if isinstance(block, Mapping) else None
    if not isinstance(kind, str) or kind not in _OTHERS:
        return block
    values = (block.get(key) for key in ("text", "refusal", "transcript"))
    texts = [text for text in values if isinstance(text, str) and text.strip()]
    has = bool(texts) and kind not in _THOUGHTS
    losses.add(kind, where, "sent as text" if has else "left out")
    return {"type": "text", "text": texts[0]} if has else None


def _tools(tools: Sequence[Mapping[str, Any]], losses: Losses) -> list[Mapping[str, Any]]:
    definitions: list[Mapping[str, Any]] = []
    for index, tool in enumerate(tools):
        if FOREIGN not in tool:
            definitions.append(tool)
            continue
        note_foreign(tool, "anthropic", f"tools[{index}]", losses)
        if "input_schema" in tool:
            definitions.append({key: value for key, value in tool.items() if key != FOREIGN})
    return definitions


# The request's `thinking` parameter, and what manual thinking asks of a conversation: an open turn begins with thinking (A14).


Thinking: TypeAlias = Mapping[str, object]
"""As the provider takes it: `{"type": "enabled", "budget_tokens": 4000}`, `{"type": "adaptive"}`, ..."""

TYPES: Final = ("enabled", "adaptive", "disabled", "between_tools")
_THOUGHT_KINDS: Final = (BlockKind.THINKING, BlockKind.REDACTED_THINKING)


def read_thinking(
    setting: object, *, provider: AnyProvider | None = "anthropic"
) -> Thinking | None:
    """A `thinking` argument as the host gave it, for a request in this form (`None`: one whose types are unknown); `None`: not in use.

    Raises:
        InvalidPolicy: It is no mapping, or, for Anthropic's models, of no known type.
    """
    if setting is None:
        return None
    if not isinstance(setting, Mapping):
        raise InvalidPolicy("thinking", setting, "must be a mapping, such as {'type': 'adaptive'}")
    kind = setting.get("type")
    typed = provider is not None and provider_of(provider).claude_thinking
    if typed and kind not in TYPES:
        raise InvalidPolicy("thinking.type", kind, f"must be one of {', '.join(TYPES)}")
    return dict(setting)


def is_manual(thinking: Thinking | None, *, provider: AnyProvider = "anthropic") -> bool:
    """Whether the request thinks by a budget (`enabled`): then an open turn has to begin with its thinking."""
    claude = provider_of(provider).claude_thinking
    return claude and thinking is not None and thinking.get("type") == "enabled"


def first_of_turn(ledger: Any, start: int = 0) -> int | None:
    """The first message of the model's in the turn that is still open, of those from `start` on; `None`: no turn is open.

    Something of the user's stands before `start`, or nothing.
    """
    first: int | None = None
    after: int | None = None
    newest: int | None = None
    answered = False
    for at in range(len(ledger) - 1, start - 1, -1):
        role = ledger.message(at).role
        if role == Role.USER:
            answered = (after == Role.USER and answered) or any(
                block.kind == BlockKind.TOOL_RESULT for block in ledger.blocks(at)
            )
        elif role == Role.ASSISTANT:
            if after == Role.USER and not answered:
                break
            first = at if ledger.blocks(at) else first
        else:
            continue
        after, newest = role, role if newest is None else newest
    is_open = newest == Role.USER or bool(ledger.open_calls())
    return first if is_open else None


def is_torn(ledger: Any, start: int = 0) -> bool:
    """Whether the open turn, cut before `start`, does not begin with thinking."""
    first = first_of_turn(ledger, start)
    return first is not None and ledger.blocks(first)[0].kind not in _THOUGHT_KINDS


def whole_start(ledger: Any, start: int, *, floor: int, last: int, most: int | None) -> int | None:
    """A cut near `start` after which the open turn begins with thinking; `None`: there is none. An earlier one is preferred, which keeps more.

    `floor` is the first message that may be kept, `last` the last place of a cut, `most` the tokens that may be kept (`None`: any).
    """
    if not is_torn(ledger, start):
        return start
    length = len(ledger)
    for at in range(start - 1, floor - 1, -1):
        if most is not None and ledger.tokens(at, length) > most:
            break
        if _is_cut(ledger, at) and not is_torn(ledger, at):
            return at
    later = range(start + 1, min(last, length - 1) + 1)
    return next((at for at in later if _is_cut(ledger, at) and not is_torn(ledger, at)), None)


def _is_cut(ledger: Any, at: int) -> bool:
    """Whether a cut before a message separates no call from its result and splits no response."""
    window = ledger.keep_window(at, floor=0, min_tokens=0, max_tokens=1, min_text_messages=0)
    return int(window.start) == at
