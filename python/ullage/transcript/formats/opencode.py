"""Sessions of OpenCode: what `opencode export` writes, and a session's file in the folder where older versions keep theirs.

A response holds its tool calls with their results. A compaction is a response marked `summary`, after which the
model is shown that summary in place of what came before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import orjson

from ullage.messages import CLEARED, Block
from ullage.providers._common import carrying
from ullage.transcript.formats import OpenedFile, ReadSession, ReadTranscript, usage_of
from ullage.transcript.records import as_mapping

_INTERRUPTED = "[Tool execution was interrupted]"
"""What OpenCode sends in place of a result that never came; one that it pruned is `CLEARED`."""


def sniff(source: OpenedFile) -> bool:
    """Whether a file is an export, or the head of a stored session."""
    return bool(_exported(source)) or _is_head(source.keyed("id", "projectID", "time"))


def _is_head(document: Mapping[str, Any]) -> bool:
    return str(document.get("id", "")).startswith("ses_")


def _exported(source: OpenedFile) -> Mapping[str, Any]:
    export = source.keyed("info", "messages")
    return export if _is_head(as_mapping(export.get("info"))) else {}


def read(source: OpenedFile) -> ReadTranscript:
    """Reads one session."""
    document = _exported(source)
    info = document.get("info") or source.document
    messages = document.get("messages") if document else _stored(Path(source.path), source)
    session = ReadSession(str(info["id"]), source.warn)
    session.metadata = {"cwd": info.get("directory"), "title": info.get("title")}
    for number, entry in enumerate(messages or (), start=1):
        if isinstance(entry, Mapping) and isinstance(entry.get("info"), Mapping):
            _add(session, number, entry["info"], entry.get("parts") or ())
        else:
            source.warn(number, "no message, left out")
    return ReadTranscript("opencode", [session])


def _stored(path: Path, source: OpenedFile) -> Iterator[dict[str, Any]]:
    """Messages and their parts from the folders next to the one that holds the session's head."""
    root = path.absolute().parents[2]
    for info in _documents(root / "message" / path.stem, source):
        parts = root / "part" / str(info.get("id"))
        yield {"info": info, "parts": list(_documents(parts, source))}


def _documents(folder: Path, source: OpenedFile) -> Iterator[dict[str, Any]]:
    """Ids grow with time, and files are named by them."""
    for path in sorted(folder.glob("*.json")):
        try:
            document = orjson.loads(path.read_bytes())
        except (OSError, orjson.JSONDecodeError):
            source.warn(0, f"{path.name} cannot be read, left out")
            continue
        if isinstance(document, dict):
            yield document


def _add(session: ReadSession, number: int, info: Mapping[str, Any], parts: Any) -> None:
    stamp = as_mapping(info.get("time")).get("created")
    shown_parts = [
        part for part in parts if isinstance(part, Mapping) and part.get("ignored") is not True
    ]
    texts = [part for part in shown_parts if part.get("type") == "text"]
    if info.get("role") == "user":
        blocks = [block for part in shown_parts if (block := _user_block(part))]
        if blocks:
            metadata = [as_mapping(part.get("metadata")) for part in texts]
            flags = {
                "isMeta": bool(texts) and all(part.get("synthetic") is True for part in texts),
                # Of a session that was handed over.
                "isCompactSummary": any(one.get("ullage") == "summary" for one in metadata),
            }
            alone = len(blocks) == 1 and blocks[0]["type"] == "text"
            content = str(blocks[0]["text"]) if alone else blocks
            message = {"role": "user", "content": content}
            session.add(message, line=number, timestamp=stamp, **flags)
    elif info.get("summary") is True:
        text = "\n\n".join(str(part.get("text", "")) for part in texts)
        if text:
            session.boundary(line=number, timestamp=stamp)
            summary = {"role": "user", "content": text}
            session.add(summary, line=number, timestamp=stamp, isCompactSummary=True)
    else:
        session.metadata["model"] = info.get("modelID") or session.metadata.get("model")
        _response(session, number, stamp, info, shown_parts)


def _user_block(part: Mapping[str, Any]) -> Block | None:
    if part.get("type") == "text" and part.get("text"):
        return {"type": "text", "text": str(part["text"])}
    if part.get("type") != "file":
        return None
    mime, url = str(part.get("mime")), str(part.get("url"))
    head, _, data = url.partition(";base64,")
    if mime.startswith("image/") and head == f"data:{mime}":
        source = {"type": "base64", "media_type": mime, "data": data}
        return {"type": "image", "source": source}
    return {"type": "text", "text": f"[file {part.get('filename') or url[:200]}]"}


def _response(
    session: ReadSession, number: int, stamp: Any, info: Mapping[str, Any], parts: list[Any]
) -> None:
    """One response for each step: results stand between them."""
    steps: list[list[Mapping[str, Any]]] = [[]]
    for part in parts:
        if part.get("type") == "step-start" and steps[-1]:
            steps.append([])
        elif part.get("type") in ("text", "reasoning", "tool"):
            steps[-1].append(part)
    for at, step in enumerate(filter(None, steps)):
        message: dict[str, Any] = {
            "role": "assistant",
            "content": [block for block in map(_block, step) if block],
            "id": f"{info.get('id')}{f'-{at}' if at else ''}",
            "model": info.get("modelID"),
        }
        if at == len(steps) - 1 and (usage := _usage(info.get("tokens"))):
            message["usage"] = usage
        if message["content"]:
            session.add(message, line=number, timestamp=stamp)
        for part in step:
            if part.get("type") == "tool":
                session.add_result(_result(part), line=number, timestamp=stamp)


def _usage(tokens: Any) -> dict[str, int] | None:
    if not isinstance(tokens, Mapping) or not tokens.get("output"):
        return None
    figures = {**tokens, **as_mapping(tokens.get("cache"))}
    figures["output"] = tokens["output"] + (tokens.get("reasoning") or 0)
    return usage_of(figures, "input", "output", "read", "write")


def _block(part: Mapping[str, Any]) -> Block | None:
    if part["type"] == "text":
        return {"type": "text", "text": str(part["text"])} if part.get("text") else None
    if part["type"] == "tool":
        call_input = dict(as_mapping(as_mapping(part.get("state")).get("input")))
        use = {"type": "tool_use", "id": part.get("callID"), "name": part.get("tool")}
        return {**use, "input": call_input}
    thought: Block = {"type": "thinking", "thinking": str(part.get("text", ""))}
    metadata = part.get("metadata")
    signature = as_mapping(as_mapping(metadata).get("anthropic")).get("signature")
    if signature:
        return {**thought, "signature": signature}
    return carrying(thought, "opencode", {"metadata": metadata})


def _result(part: Mapping[str, Any]) -> Block:
    state = as_mapping(part.get("state"))
    block: Block = {"type": "tool_result", "tool_use_id": part.get("callID")}
    if state.get("status") == "completed":
        pruned = as_mapping(state.get("time")).get("compacted")
        return {**block, "content": CLEARED if pruned else str(state.get("output", ""))}
    failed = state.get("error") if state.get("status") == "error" else _INTERRUPTED
    return {**block, "content": str(failed), "is_error": True}
