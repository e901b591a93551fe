"""Opens a transcript of any known format."""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ullage._engine import core
from ullage._start import Frozen
from ullage.exceptions import InvalidPolicy, InvalidTranscript, StoreError, UllageError
from ullage.facts.words import blocks_of
from ullage.messages import (
    BOUNDARY,
    COPY_OF,
    BlockView,
    Item,
    SystemPrompt,
    message_of,
    whole_count,
)
from ullage.transcript import Conversation, Transcript, resume
from ullage.transcript.conversation import FilePin, open_regular
from ullage.transcript.formats import CLAUDE_CODE, OpenedFile, read_recognised, recognised
from ullage.transcript.log import entry_in
from ullage.transcript.records import STATE, as_mapping, as_string

if TYPE_CHECKING:
    from ullage.counting.calibration import Weights
    from ullage.legality import Originals, Report
    from ullage.providers._common import Loss
    from ullage.providers.registry import AnyProvider
    from ullage.requests.to_request import Outgoing


_ROLES = ("user", "assistant", "system", "developer", "tool")


class Session(Frozen):
    """One conversation of a file, as its model saw it last.

    Attributes:
        path: The file.
        format: Name of its format, such as `claude_code` or `codex`.
        items: Entries in the order of the context; for Claude Code files without large copies of results (see `Transcript.open`).
        messages: The context in the internal view; what can be sent of it is `request()`.
        history: What `entries()` gives, of a file that was read as a whole; empty for Claude Code files, which keep their own.
        model: The newest model named; empty if none is.
        size: Bytes of the file that were read.
        warnings: What was skipped, repaired or set aside.
        boundaries: Earlier compactions, as their entries.
        transcript: The indexed file; Claude Code only.
        conversation: What resuming found; Claude Code only.
        system: The system prompt; `None` if the file does not hold it.
        tools: Anthropic-shaped tool definitions; `None` if the file does not hold them.
        window_tokens: The context window that the client went by; 0 if the file does not say.
        pin: Which file was read, and how much of it: a compaction is written only while that holds.
        id: By which its tool resumes it; empty if the file does not say.
        cwd: The folder in which it ran; empty if the file does not say.
        title: As its tool names it; empty for files without one, and for Claude Code files, which keep theirs in lines.
    """

    path: Path
    format: str
    items: Sequence[Item]
    messages: list[dict[str, Any]]
    model: str
    size: int
    history: Sequence[Item] = ()
    warnings: tuple[str, ...] = ()
    boundaries: tuple[Item, ...] = ()
    transcript: Transcript | None = None
    conversation: Conversation | None = None
    system: SystemPrompt | None = None
    tools: Sequence[Mapping[str, Any]] | None = None
    window_tokens: int = 0
    pin: FilePin | None = None
    id: str = ""
    cwd: str = ""
    title: str = ""

    def request(self, *, provider: AnyProvider = "anthropic", model: str | None = None) -> Outgoing:
        """What can be sent to go on: the context in a provider's form, repaired where the log is damaged.

        Args:
            provider: One of `ullage.providers.SHAPES`.
            model: The model that goes on; `None`: the one in the file.

        Raises:
            InvalidPolicy: An unknown provider.
        """
        from ullage.requests.to_request import outgoing

        messages, losses, around = self._asked(provider, model)
        done = outgoing(messages, **around)
        return replace(done, losses=(*losses, *done.losses)) if losses else done

    def check(self, *, provider: AnyProvider = "anthropic", model: str | None = None) -> Report:
        """What a provider would refuse of the context as it stands in the log, before `request` repairs it.

        Args:
            provider: One of `ullage.providers.SHAPES`.
            model: The model that goes on; `None`: the one in the file.

        Raises:
            InvalidPolicy: An unknown provider.
        """
        from ullage.requests.to_request import report_of

        messages, _, around = self._asked(provider, model)
        return report_of(messages, **around)

    def _asked(
        self, provider: AnyProvider, model: str | None
    ) -> tuple[list[dict[str, Any]], Sequence[Loss], dict[str, Any]]:
        """The messages without what only Codex' own agents can read, what that is, and what goes with them."""
        from ullage.counting.models import ModelTable

        messages = self.messages
        losses: Sequence[Loss] = ()
        if self.format == "codex":
            from ullage.transcript.formats.codex import without_agent_messages

            messages, losses = without_agent_messages(messages)
        name = model or self.model or None
        row = ModelTable.builtin().find(name) if name else None
        # Where the model asks what thinking is bound to: before a compaction another prefix stood there.
        bound = row is not None and row.bound_thinking and self.boundaries
        originals = _originals(self.entries(), self.system, self.tools) if bound else None
        around = {"provider": provider, "model": name, "system": self.system, "tools": self.tools}
        return messages, losses, {**around, "original": originals}

    def overhead_tokens(self, weights: Weights | None = None) -> int:
        """System prompt and tools, as the usage figures tell; 0 if the session has none.

        The oldest figure of the context tells it best: later ones hold thinking and reminders too. After a compaction no figure is
        of the context any more: those before it still tell what was sent in addition to the messages.

        Args:
            weights: For the calibrated estimate of the messages, see `weights_for`; `None`: characters / 4.
        """
        overhead = core.Ledger(weights, self.items).overhead
        if overhead is None and self.boundaries:
            lines = self.entries()
            for cut in reversed(cuts_in(lines)):
                overhead = core.Ledger(weights, resume(lines[:cut]).entries).overhead
                if overhead is not None:
                    break
        return overhead or 0

    def reported_tokens(self, weights: Weights | None = None) -> int | None:
        """The context's size by the newest usage figure, with the estimate of what follows; `None`: it has no figure.

        Args:
            weights: For the calibrated estimate of what follows, see `weights_for`; `None`: characters / 4.
        """
        count = core.Ledger(weights, self.items).anchored()
        return None if count.anchor is None else int(count.total)

    def entries(self) -> list[Item]:
        """All of the conversation in any format, from its first message on, boundaries included: also what its context no longer holds."""
        return [*self.transcript.entries()] if self.transcript else [*(self.history or self.items)]

    def __repr__(self) -> str:
        return f"Session({self.path.name}, {self.format}, {len(self.messages)} messages)"


def cuts_in(lines: Sequence[Item]) -> list[int]:
    """Places of boundaries, oldest first."""
    return [at for at, line in enumerate(lines) if line.get("subtype") == BOUNDARY]


def blocks_in(items: Iterable[Item], kind: str) -> Iterator[BlockView]:
    """The blocks of this type, such as `tool_result`, in messages of every form."""
    return (block for item in items for block in blocks_of(item) if block.get("type") == kind)


def open_session(path: str | os.PathLike[str], *, number: int = 0) -> Session:
    """Open a transcript of any known format.

    Args:
        path: A file.
        number: Which conversation, from 0, where a file holds several.

    Raises:
        InvalidTranscript: It is a directory or no regular file, has no known format, or holds no message.
        TranscriptChanged: It was cut off or written over while it was read.
        StoreError: It is missing or cannot be read.
        InvalidPolicy: There is no conversation with this number.
    """
    if not isinstance(path, str | os.PathLike):
        raise InvalidPolicy("path", path, "must be the path of a file")
    path = Path(path)
    return open_recognised(path, *recognised(path), number)


def open_recognised(path: Path, source: OpenedFile, kind: str, number: int) -> Session:
    """Opens a file whose format is known; raises as `open_session` does."""
    if kind != CLAUDE_CODE:
        return _other(path, source, kind, number)
    if number:
        raise InvalidPolicy("conversation", number, "must be 0: the file holds 1")
    return _claude_code(path)


def begun_by_manager(path: Path) -> tuple[str, int]:
    """The model and the window with which a `ContextManager` began its log; "" and 0: none did, or it does not say."""
    with open_regular(str(path)) as file:
        start = file.read(64)
        start += file.read(_FIRST_BYTES) if STATE.encode() in start else b""
    settings = as_mapping(as_mapping(entry_in(start.partition(b"\n")[0]).get("state")).get("keys"))
    model, window = (
        as_mapping(settings.get(name)).get("is") for name in ("model", "stated_window")
    )
    return as_string(model), whole_count(as_mapping(window).get("context_window"))


_FIRST_BYTES = 1 << 20  # of a file: its first line has all settings of the manager that began it


def _claude_code(path: Path) -> Session:
    transcript = Transcript.open(path, lean=True)
    model, window_tokens = begun_by_manager(path)
    conversation, report = transcript.conversation, transcript.conversation.report
    if not conversation.messages:
        line, reason = next(iter(report.bad), (None, ""))
        words = "holds no message" + (f"; this line is {reason}" if reason else "")
        raise InvalidTranscript(words, path=str(path), line=line)
    roles = [(message_of(item) or item).get("role") for item in conversation.entries]
    others = [role for role in roles if role not in _ROLES]
    strange = Counter(role if isinstance(role, str) else repr(role)[:40] for role in others)
    cwds = (as_string(entry.get("cwd")) for entry in conversation.entries)
    return Session(
        path=path,
        format=CLAUDE_CODE,
        items=conversation.entries,
        messages=conversation.messages,
        model=transcript.model or model,
        window_tokens=window_tokens,
        size=transcript.index.size,
        pin=transcript.pin,
        warnings=(
            *index_warnings(report.bad, report.unfinished, len(report.missing)),
            *(f"role {role!r}, read as user ({count:,}×)" for role, count in strange.items()),
        ),
        boundaries=tuple(transcript.load(at) for at in transcript.boundaries),
        transcript=transcript,
        conversation=conversation,
        id=transcript.session_id,
        cwd=next(filter(None, cwds), ""),
    )


def index_warnings(
    bad: Iterable[tuple[int, str]], incomplete: tuple[int, int] | None, missing: int
) -> tuple[str, ...]:
    """What the index of a file says that was skipped, repaired or set aside.

    From line numbers and reasons, offset and length of an unfinished last line, and how many kept messages the file lacks.
    """
    warnings = [f"line {line}: {reason}" for line, reason in bad]
    if incomplete is not None:
        warnings.append(f"the last line is unfinished ({incomplete[1]:,} bytes) and was set aside")
    if missing:
        warnings.append(
            f"an earlier compaction names {missing} messages that were not in the file then or since; "
            "everything that the file holds was read"
        )
    return tuple(warnings)


def _other(path: Path, source: OpenedFile, kind: str, number: int) -> Session:
    name, sessions = read_recognised(source, kind)
    count = len(sessions)
    if not 0 <= number < count:
        limit = f"must be between 0 and {count - 1}: the file holds {count}"
        raise InvalidPolicy("conversation", number, limit)
    session = sessions[number]
    conversation = resume(session.entries)
    return Session(
        path=path,
        format=name,
        items=conversation.entries,
        messages=conversation.messages,
        model=str(session.metadata.get("model") or ""),
        size=source.pin.size if source.pin else 0,
        pin=source.pin,
        history=session.entries,
        warnings=tuple(f"line {line}: {reason}" for line, reason in source.warnings),
        boundaries=tuple(entry for entry in session.entries if entry.get("subtype") == BOUNDARY),
        system=session.system,
        tools=session.tools,
        window_tokens=whole_count(session.metadata.get("context_window_tokens")),
        id=session.id,
        cwd=as_string(session.metadata.get("cwd")),
        title=as_string(session.metadata.get("title")),
    )


def _originals(lines: Sequence[Item], system: Any, tools: Any) -> Originals:
    """Thinking with what stood before it when it was made: after each boundary that is something else."""
    from ullage.legality import Originals

    copies = {line.get("uuid"): line.get(COPY_OF) for line in lines if COPY_OF in line}
    originals, seen = Originals(), set[str]()
    for cut in [*cuts_in(lines), len(lines)]:
        view = resume(lines[:cut])
        sources = [{str(copies.get(name, name)) for name in ids} for ids in view.sources]
        fresh = {at for at, ids in enumerate(sources) if not seen.issuperset(ids)}
        originals.follow(view.messages, fresh, system=system, tools=tools)
        seen.update(*sources)
    return originals


# Files for their owner's eyes, whole or not at all: a draft next to each is put in its place, or removed later if its process was killed.

# No write takes an hour: a draft that old is of a process that was killed.
_STALE_SECONDS = 3_600
_NEW = os.O_RDWR | os.O_CREAT | os.O_EXCL  # never through a link that somebody put there


def private_folder(path: Path) -> Path:
    """The folder, made with those above it if it is missing; `StoreError`: it cannot be made."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as exc:
        raise StoreError(f"cannot be made: {exc.strerror or exc}", path=str(path)) from exc
    return path


def refuse_to_replace(target: Path, *, overwrite: bool) -> None:
    """Raise `StoreError` where a file cannot be written: it is a folder, or exists and may not be replaced."""
    if target.is_dir():
        raise StoreError("is a directory", path=str(target), hint="name a file in it")
    if target.exists() and not overwrite:
        hint = "name another file, or allow this one to be overwritten (overwrite=True, --force)"
        raise StoreError("exists already", path=str(target), hint=hint)


def write_private(path: Path, data: bytes, *, mode: int = 0o600, new: bool = False) -> None:
    """Replaces a file's content with one rename; a reader finds the old one or the new one. Its folder is made if it is missing.

    `StoreError`: the disk is full or another fault, and the file is as it was; or it exists although it must be `new`.
    """
    private_folder(path.parent)
    with draft_of(path, mode) as draft:
        with draft.open("r+b") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if not new:
            draft.replace(path)
            return
        try:
            os.link(draft, path)
        except FileExistsError as exc:
            raise StoreError("exists already", path=str(path)) from exc


@contextmanager
def draft_of(target: Path, mode: int = 0o600) -> Iterator[Path]:
    """A private empty file in the target's folder, removed at the end unless it was put in place.

    `StoreError`: it cannot be made or written.
    """
    lead = f".{target.name[:100]}."
    _sweep(target.parent, lead)
    path = target.with_name(f"{lead}{os.getpid()}-{os.urandom(4).hex()}.part")
    try:
        os.close(os.open(path, _NEW, mode))
        yield path
    except UllageError:  # some are OSErrors too
        raise
    except OSError as exc:
        hint = "" if target.parent.is_dir() else f"there is no folder {target.parent}"
        reason = f"cannot be written: {exc.strerror or exc}"
        raise StoreError(reason, path=str(target), hint=hint) from exc
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def _sweep(folder: Path, lead: str) -> None:
    """Remove drafts whose names begin so and whose process has ended."""
    name = re.compile(re.escape(lead) + r"([0-9]+)(-.*)?\.part.*")
    with suppress(OSError):
        for path in folder.iterdir():
            if (fits := name.fullmatch(path.name)) and not _in_work(path, int(fits[1])):
                path.unlink(missing_ok=True)


def _in_work(draft: Path, process: int) -> bool:
    """Whether a process may still write a draft. Age decides for one elsewhere, on a shared disk, and for one that reuses the number of an ended one."""
    if time.time() - draft.lstat().st_mtime > _STALE_SECONDS:
        return False
    if sys.platform == "win32" or process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # another user's
        pass
    return True
