"""From entries in context to the messages of a request.

A response that was stored in pieces becomes one assistant message again; the results of its calls
become the user message right after it, results first, whatever order the lines were written in.
Blocks, and messages that need no change, are the stored objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from ullage._start import NamedTuple
from ullage.messages import Block, Content, Item, message_of
from ullage.transcript.records import as_mapping, as_string, as_strings

# Renders attachments of a transcript as the user text that the model sees.
#
# A transcript stores what was attached (a file, a listing, a reminder) as data, not the words that
# were sent; the texts here are Ullage's, the same for every call. Kinds that only inform the user
# or the host, and unknown kinds, are not shown to the model.

Attachment = Mapping[str, Any]

_CLOSING = "</system-reminder>"
_TEXTS = {
    "auto_mode": ("Auto mode is on.",),
    "auto_mode_exit": ("Auto mode is off.",),
    "plan_mode": ("Plan mode is on: make a plan, change nothing yet.",),
    "plan_mode_reentry": ("Plan mode is on again: make a plan, change nothing yet.",),
    "plan_mode_exit": ("Plan mode is off: the plan may be carried out.",),
    "ultra_effort_enter": ("Work with the greatest effort from here on.",),
    "ultra_effort_exit": ("Work with the usual effort from here on.",),
    "compact_file_reference": (
        "File {name} was read before the conversation was compacted. It is too large to repeat here; read it again if it is needed.",
    ),
    "date_change": ("The date is now {}.", "newDate"),
    "edited_text_file": (
        "File {name} was changed outside of this conversation. What changed:\n{}",
        "snippet",
    ),
    "plan_file_reference": ("The plan, from {}:\n{}", "planFilePath", "planContent"),
}
"""Texts of kinds that say no more than some of their fields, and which."""

# Of hooks that succeed, only these events hand their output to the model.
_TALKING_HOOKS = ("SessionStart", "UserPromptSubmit")


def render(attachment: Attachment) -> Content | None:
    """What the model is shown of the `attachment` of an entry, as content of a user message; `None`: nothing."""
    kind = attachment.get("type")
    if kind == "queued_command":  # typed while the model worked: verbatim, as the user's own
        prompt = attachment.get("prompt")
        return prompt if isinstance(prompt, str | list) and prompt else None
    if kind == "file" and (image := _image(attachment)) is not None:
        return [{"type": "text", "text": reminder(f"Image {_name(attachment)}:")}, image]
    kind, text = as_string(kind), ""
    if kind in _WRITERS:
        text = _WRITERS[kind](attachment)
    elif kind in _TEXTS:
        form, *keys = _TEXTS[kind]
        values = [_string(attachment.get(key)) for key in keys]
        text = form.format(*values, name=_name(attachment))
    return reminder(text) if text else None


def reminder(text: str) -> str:
    """Text marked as coming from the host, not from the user.

    A closing tag inside the text is defused, so that data cannot leave its frame.
    """
    inner = text.replace(_CLOSING, "<\\/system-reminder>")
    return f"<system-reminder>\n{inner}\n{_CLOSING}"


# ---- files -----------------------------------------------------------------------------------


def _image(attachment: Attachment) -> Block | None:
    content = as_mapping(attachment.get("content"))
    if content.get("type") != "image":
        return None
    file = as_mapping(content.get("file"))
    data, media_type = file.get("base64"), file.get("type")
    if not (isinstance(data, str) and data and isinstance(media_type, str)):
        return None
    source = {"type": "base64", "media_type": media_type, "data": data}
    return {"type": "image", "source": source}


def _file(attachment: Attachment) -> str:
    content, name = attachment.get("content"), _name(attachment)
    file = as_mapping(content).get("file")
    text = file.get("content") if isinstance(file, Mapping) else content
    if not isinstance(text, str):
        return f"File {name} was attached."
    keys = ("startLine", "numLines", "totalLines")
    start, count, total = (as_mapping(file).get(key) for key in keys)
    lines = ""
    if isinstance(start, int) and isinstance(count, int) and isinstance(total, int):
        if start > 1 or count < total:
            lines = f" (lines {start} to {start + count - 1} of {total})"
    return f"File {name}{lines}:\n{text}"


def _memory(attachment: Attachment) -> str:
    content = attachment.get("content")
    inner = content.get("content") if isinstance(content, Mapping) else content
    return f"Contents of {_name(attachment)}:\n{inner}" if isinstance(inner, str) else ""


# ---- listings and changes --------------------------------------------------------------------


def _listing(attachment: Attachment) -> str:
    what, added, removed = "Tools that can be loaded", "addedNames", "removedNames"
    if attachment["type"] == "agent_listing_delta":
        what, added, removed = "Agents", "addedTypes", "removedTypes"
    lines = as_strings(attachment.get("addedLines")) or as_strings(attachment.get(added))
    names = as_strings(attachment.get(removed))
    parts = [f"{what} now available:\n" + "\n".join(lines)] if lines else []
    parts += [f"{what} no longer available: " + ", ".join(names)] if names else []
    return _join(parts)


def _instructions(attachment: Attachment) -> str:
    parts, removed = (as_strings(attachment.get(key)) for key in ("addedBlocks", "removedNames"))
    parts += ["Servers no longer connected: " + ", ".join(removed)] if removed else []
    return _join(parts)


def _skills(attachment: Attachment) -> str:
    content = attachment.get("content")
    return f"Skills that can be used:\n{content}" if isinstance(content, str) and content else ""


def _invoked(attachment: Attachment) -> str:
    skills = [
        f"## {_string(skill.get('name'))}\n{_string(skill.get('content'))}"
        for skill in _objects(attachment.get("skills"))
    ]
    return _join(["Skills used in this session, still in force:", *skills]) if skills else ""


# ---- state -----------------------------------------------------------------------------------


def _todos(attachment: Attachment) -> str:
    lines = []
    for item in _objects(attachment.get("content")):
        title = item.get("subject") or item.get("content") or item.get("title")
        label = f"#{item['id']} " if isinstance(item.get("id"), str | int) else ""
        lines.append(f"- [{_string(item.get('status'))}] {label}{_string(title)}")
    if not lines:
        return "The list of tasks is empty. Use it if the work has several steps."
    return "The list of tasks at this point:\n" + "\n".join(lines)


def _task(attachment: Attachment) -> str:
    names = ("description", "deltaSummary", "outputFilePath")
    parts = [_string(attachment.get(name)) for name in names if attachment.get(name)]
    name, status = _string(attachment.get("taskId")), _string(attachment.get("status"))
    return "\n".join([f"Background task {name}: {status}", *parts])


def _token_count(attachment: Attachment) -> str:
    counts = [(key, value) for key, value in attachment.items() if isinstance(value, int)]
    return "Tokens: " + ", ".join(f"{key} {value}" for key, value in counts) if counts else ""


def _hook_context(attachment: Attachment) -> str:
    content = attachment.get("content")
    texts = [content] if isinstance(content, str) else as_strings(content)
    return _join([f"From hook {_string(attachment.get('hookName'))}:", *texts]) if texts else ""


def _hook_output(attachment: Attachment) -> str:
    content = _string(attachment.get("content"))
    if attachment.get("hookEvent") not in _TALKING_HOOKS or not content.strip():
        return ""
    return f"From hook {_string(attachment.get('hookName'))}:\n{content}"


def _hook_error(attachment: Attachment) -> str:
    error = attachment.get("blockingError")
    text = error.get("blockingError") if isinstance(error, Mapping) else error
    return f"Hook {_string(attachment.get('hookName'))} blocked this:\n{_string(text)}"


_WRITERS: dict[str, Callable[[Attachment], str]] = {
    "agent_listing_delta": _listing,
    "deferred_tools_delta": _listing,
    "file": _file,
    "hook_additional_context": _hook_context,
    "hook_blocking_error": _hook_error,
    "hook_success": _hook_output,
    "invoked_skills": _invoked,
    "mcp_instructions_delta": _instructions,
    "nested_memory": _memory,
    "skill_listing": _skills,
    "task_reminder": _todos,
    "task_status": _task,
    "todo": _todos,
    "todo_reminder": _todos,
    "total_tokens_reminder": _token_count,
}

SHOWN_KINDS = (*sorted([*_WRITERS, *_TEXTS]), "queued_command")
"""Kinds of attachment that the model is shown, if they hold anything."""


def _name(attachment: Attachment) -> str:
    keys = ("filename", "path", "displayPath")
    return next((value for key in keys if isinstance(value := attachment.get(key), str)), "")


def _string(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _objects(value: Any) -> list[Mapping[str, Any]]:
    return [item for item in value if isinstance(item, Mapping)] if isinstance(value, list) else []


def _join(parts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, parts))


class MessageView(NamedTuple):
    """Messages of a request, and for each the uuids of the entries that it came from."""

    messages: list[dict[str, Any]]
    sources: list[tuple[str, ...]]
    orphans: list[tuple[str, str]]  # (uuid, tool_use_id) of results without a call, left out


# ---- one entry -------------------------------------------------------------------------------


def rendered(item: Item) -> Item | None:
    """An entry in the form that functions on messages accept; `None` if the model is shown nothing of it.

    An attachment becomes a user entry with the text that the model is shown; an entry with a
    message is returned as it is.
    """
    if item.get("type") != "attachment":
        return item if message_of(item) is not None else None
    attachment = as_mapping(item.get("attachment"))
    content = render(attachment)
    if content is None:
        return None
    others = {key: value for key, value in item.items() if key != "attachment"}
    meta = attachment.get("type") != "queued_command"  # which holds a user's own words
    message = {"role": "user", "content": content}
    return {**others, "type": "user", "isMeta": meta, "message": message}


def project(item: Item, texts: Mapping[str, str]) -> Item:
    """The entry, with the texts as content of the tool results that they name by tool use id.

    Returns:
        The same object if none of its results is named, else a copy that shares all other parts.
    """
    message = message_of(item)
    content = message.get("content") if message else None
    if message is None or not isinstance(content, list):
        return item
    blocks = [_replaced(block, texts) for block in content]
    if all(new is old for new, old in zip(blocks, content, strict=True)):
        return item
    changed = {**message, "content": blocks}
    return changed if message is item else {**item, "message": changed}


# Here and below: a type that is asked for by name is recognised at once; `Mapping` alone asks its registry for each dict.
def _replaced(block: Any, texts: Mapping[str, str]) -> Any:
    if not isinstance(block, (dict, Mapping)) or block.get("type") != "tool_result":
        return block
    text = texts.get(as_string(block.get("tool_use_id")))
    return block if text is None else {**block, "content": text}


# ---- many entries ----------------------------------------------------------------------------


_Part: TypeAlias = tuple[int, Block | str]
"""Place of the entry that it came from, and a block; a string content is one part. A plain tuple: one is made for each block."""


@dataclass(slots=True, eq=False, repr=False)
class _Step:
    """One response (none at the very start), the results that answer it, and what else was said."""

    response_id: str = ""
    response: list[_Part] = field(default_factory=list)
    answers: list[_Part] = field(default_factory=list)
    follows: list[_Part] = field(default_factory=list)


def to_messages(items: Iterable[Item]) -> MessageView:
    """The messages of a request, from entries in the order of the context.

    Args:
        items: Entries or bare messages; attachments are rendered, other lines are skipped.

    Returns:
        Messages with `role` and `content` only, and where each came from. A result whose call is
        not among the items, or that answers a call a second time, is left out and named.
    """
    return messages_of([item for item in map(rendered, items) if item is not None])


def messages_of(shown: Sequence[Item]) -> MessageView:
    """As `to_messages`, of entries and messages that the model is shown."""
    stored = [message_of(item) or {} for item in shown]
    steps, orphans = _steps(stored)
    messages: list[dict[str, Any]] = []
    sources: list[tuple[str, ...]] = []
    for step in steps:
        for role, parts in (("assistant", step.response), ("user", step.answers + step.follows)):
            if parts and (message := _message(role, parts, stored[parts[0][0]])):
                messages.append(message)
                uuids = [as_string(shown[owner].get("uuid")) for owner, _ in parts]
                sources.append(tuple(dict.fromkeys(uuids)))
    left_over = [(as_string(shown[at].get("uuid")), call) for at, call in orphans]
    return MessageView(messages, sources, left_over)


def _steps(messages: Sequence[Mapping[str, Any]]) -> tuple[list[_Step], list[tuple[int, str]]]:
    """The steps, and results without a call or for one that has its result: place and call."""
    steps = [_Step()]
    by_call: dict[str, _Step] = {}
    answers: list[tuple[int, Any]] = []
    for owner, message in enumerate(messages):
        content: Any = message.get("content")
        blocks = content if isinstance(content, list) else [content] * isinstance(content, str)
        parts: list[_Part] = [(owner, block) for block in blocks]
        if message.get("role") == "assistant":
            response_id = as_string(message.get("id"))
            if len(steps) == 1 or not response_id or steps[-1].response_id != response_id:
                steps.append(_Step(response_id))
            steps[-1].response += parts
            for block in blocks:
                if isinstance(block, (dict, Mapping)) and block.get("type") == "tool_use":
                    by_call[as_string(block.get("id"))] = steps[-1]
            continue
        follows = steps[-1].follows
        for part in parts:
            block = part[1]
            if isinstance(block, (dict, Mapping)) and block.get("type") == "tool_result":
                # A result can stand before its call in the file, so answers wait for all calls.
                answers.append(part)
            else:
                follows.append(part)
    orphans: list[tuple[int, str]] = []
    answered: set[str] = set()
    for answer in answers:
        owner, call = answer[0], as_string(answer[1].get("tool_use_id"))
        step = by_call.get(call)
        if step is None or call in answered:
            orphans.append((owner, call))
        else:
            answered.add(call)
            step.answers.append(answer)
    return steps, orphans


def _message(role: str, parts: Sequence[_Part], first: Mapping[str, Any]) -> dict[str, Any] | None:
    """A message of these parts: the stored one that the first is of, if they are exactly its content; `None`: they say nothing."""
    if isinstance(first, dict):
        content: Content = first["content"]
        blocks = [content] if isinstance(content, str) else content
        if len(parts) == len(blocks) and all(
            part[1] is block for part, block in zip(parts, blocks, strict=True)
        ):
            plain = first.keys() == {"role", "content"}
            return first if plain else {"role": first["role"], "content": content}
    if len(parts) == 1:
        block = parts[0][1]
        return {"role": role, "content": block if isinstance(block, str) else [block]}
    texts_as_blocks = [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for _, block in parts
        if block != ""
    ]
    return {"role": role, "content": texts_as_blocks} if texts_as_blocks else None
