"""Every exception of Ullage, as a tree.

```text
UllageError                     .code (stable), .hint (advice, not part of the message)
├── InvalidMessage (ValueError)      a message or entry that no provider would accept; .index .field .got
├── InvalidTranscript (ValueError)   a transcript line or file that cannot be read; .path .line .offset
│   └── TranscriptChanged            a file that was truncated or overwritten after it was read
├── InvalidPolicy (ValueError)       a policy, setting or argument out of range; .field .value .limit
├── UnknownModel (LookupError)       a model name that is not in the table, where one is required
├── UnknownHandle (LookupError)      nothing that was removed has this handle; .handle
├── ContextTooLarge                  what has to stay does not fit; .floor_tokens .limit_tokens
├── CompactionError                  .code is one of the names that the class lists
├── InvalidNote (ValueError)         a note whose front matter cannot be read; .field .value .limit .path
├── PathRefused (PermissionError)    a path that could leave its folder; .path .reason
├── StoreError (OSError)             the log, the offload store or the memory folder failed; .path
├── LogConflict                      the log changed under a writer, or another writer holds it
│   ├── LeaseHeld                    another worker holds the conversation; .conversation .owner
│   └── LeaseExpired                 a lease was lost to another worker before the write; .conversation .owner
├── ManagerBusy                      a context manager was called during another call; .asked .running
├── EngineError (ImportError)        the Rust engine was required but is missing or has another version
└── MissingExtra (ImportError)       an optional package is missing; .extra names what to install
```

The Rust core raises the same classes.
"""

from __future__ import annotations


class UllageError(Exception):
    """Base of all errors that Ullage raises on purpose.

    Attributes:
        code: A stable name for programs, such as `invalid_message`.
        hint: Advice for a user; empty if there is none. Not part of `str(error)`; a traceback shows it below.
    """

    code: str = "ullage_error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint
        if hint:
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        # Subclasses take other arguments than the text: a copy, as from another process, is not made of them again.
        return _as_raised, (type(self), self.args, self.__dict__)


def _as_raised(
    kind: type[UllageError], args: tuple[object, ...], fields: dict[str, object]
) -> UllageError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(fields)
    return error


class InvalidMessage(UllageError, ValueError):
    """A message or entry has a form that no provider accepts.

    Attributes:
        index: Position in the list that was passed, or `None` for a single message.
        field: Path inside the message, such as `content[2].tool_use_id`; empty for the whole.
        got: Short description of that value.
    """

    code = "invalid_message"

    def __init__(
        self,
        reason: str,
        *,
        index: int | None = None,
        field: str = "",
        got: str = "",
        hint: str = "",
    ) -> None:
        place = "message" if index is None else f"message {index}"
        where = f"{place}, {field}" if field else place
        super().__init__(f"{where}: {reason}" + (f" (got {got})" if got else ""), hint=hint)
        self.reason, self.index, self.field, self.got = reason, index, field, got


class InvalidTranscript(UllageError, ValueError):
    """A transcript file, or one line of it, cannot be read as any known format.

    Attributes:
        path: The file, as given.
        line: 1-based line number, or `None` for the whole file.
        offset: Byte offset in the file, or `None`.
    """

    code = "invalid_transcript"

    def __init__(
        self,
        reason: str,
        *,
        path: str = "",
        line: int | None = None,
        offset: int | None = None,
        hint: str = "",
    ) -> None:
        where = path or "transcript"
        if line is not None:
            where += f", line {line}"
        super().__init__(f"{where}: {reason}", hint=hint)
        self.reason, self.path, self.line, self.offset = reason, path, line, offset


class TranscriptChanged(InvalidTranscript):
    """A file no longer holds what was read: another program truncated or overwrote it.

    Appending lines is not such a change.
    """

    code = "transcript_changed"


class InvalidPolicy(UllageError, ValueError):
    """A policy, setting or argument is out of range.

    Attributes:
        field: Name of the field or argument.
        value: The value that was passed; `None`: none was.
        limit: Description of the accepted values.
    """

    code = "invalid_policy"

    def __init__(self, field: str, value: object, limit: str, *, hint: str = "") -> None:
        got = "" if value is None else f" (got {value!r})"
        super().__init__(f"{field}: {limit}{got}", hint=hint)
        self.field, self.value, self.limit = field, value, limit


class UnknownModel(UllageError, LookupError):
    """The model table has no row for a name where one is required."""

    code = "unknown_model"


class UnknownHandle(UllageError, LookupError):
    """Nothing in the conversation has the requested handle.

    Attributes:
        handle: The requested handle.
    """

    code = "unknown_handle"

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"nothing has the handle {handle[:80]!r}",
            hint="the recall tool without a handle lists what was removed from the context",
        )
        self.handle = handle


class ContextTooLarge(UllageError):
    """What must stay is larger than the window, or than a target: no compaction can help.

    Attributes:
        floor_tokens: System prompt + tool definitions + protected messages, in tokens; for a target the messages alone.
        limit_tokens: What the window leaves for them, or the target.
        parts: Tokens by category (`system`, `tools`, `protected`).
    """

    code = "context_too_large"

    def __init__(
        self,
        floor_tokens: int,
        limit_tokens: int,
        *,
        parts: dict[str, int] | None = None,
        limit: str = "the window leaves",
        hint: str = "",
    ) -> None:
        listed = ", ".join(f"{name} {count:,}" for name, count in (parts or {}).items())
        detail = f" ({listed})" if listed else ""
        super().__init__(
            f"what has to stay needs {floor_tokens:,} tokens{detail}, but {limit} {limit_tokens:,}",
            hint=hint,
        )
        self.floor_tokens, self.limit_tokens = floor_tokens, limit_tokens
        self.parts = dict(parts or {})


class CompactionError(UllageError):
    """A full compaction failed; the conversation is unchanged.

    Attributes:
        code: `not_enough_messages`, `prompt_too_long`, `no_summary`, `api_error`, `aborted`,
            `incomplete_summary`, or `provider_compaction` (the provider's own item could not be kept).
    """

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.code = code


class StoreError(UllageError, OSError):
    """The log, the offload store or the memory folder failed; its earlier contents are intact.

    Attributes:
        path: The file or folder.
    """

    code = "store_error"

    def __init__(self, reason: str, *, path: str = "", hint: str = "") -> None:
        super().__init__(f"{path}: {reason}" if path else reason, hint=hint)
        self.reason, self.path = reason, path


class InvalidNote(UllageError, ValueError):
    """A note of the memory folder cannot be read; it is skipped, never changed.

    Attributes:
        field: The key of its front matter.
        value: The value found, shortened.
        limit: What it must be.
        path: The note's file; "" if it has none yet.
    """

    code = "invalid_note"

    def __init__(self, field: str, value: str, limit: str, *, path: str = "") -> None:
        place = f"{path}: " if path else ""
        super().__init__(
            f"{place}{field} {limit}, not {value!r}" if value else f"{place}{field} {limit}"
        )
        self.field, self.value, self.limit, self.path = field, value, limit, path


class PathRefused(UllageError, PermissionError):
    """A path could lead out of its folder; nothing was read or written.

    Attributes:
        path: The path that was refused.
        reason: What is wrong with it.
    """

    code = "path_refused"

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"path {path[:200]!r} {reason}")
        self.path, self.reason = path, reason


class LogConflict(UllageError):
    """Another writer holds the log, or it changed since it was read."""

    code = "log_conflict"


class LeaseHeld(LogConflict):
    """Another worker holds the conversation; nothing was read or written.

    Attributes:
        conversation: Its name.
        owner: The worker that holds it.
    """

    code = "lease_held"

    def __init__(self, conversation: str, owner: str) -> None:
        super().__init__(
            f"conversation {conversation!r} is held by worker {owner!r}",
            hint="wait for it with wait_seconds=, or return the message to the queue",
        )
        self.conversation, self.owner = conversation, owner


class LeaseExpired(LogConflict):
    """A lease expired and another worker took over the conversation; nothing was written.

    Attributes:
        conversation: Its name.
        owner: The worker that had the lease.
    """

    code = "lease_expired"

    def __init__(self, conversation: str, owner: str) -> None:
        super().__init__(
            f"the lease of worker {owner!r} on conversation {conversation!r} has expired",
            hint="check the conversation out again: it has everything written before",
        )
        self.conversation, self.owner = conversation, owner


class ManagerBusy(UllageError):
    """A call was made while another one prepared a request of the same conversation; state is unchanged.

    Attributes:
        asked: The call that was refused, such as `prepare`.
        running: The call in progress.
    """

    code = "manager_busy"

    def __init__(self, asked: str, running: str) -> None:
        super().__init__(
            f"{asked} was called while {running} is running on the same conversation",
            hint="await the first call before the second; other conversations are not affected",
        )
        self.asked, self.running = asked, running


class EngineError(UllageError, ImportError):
    """`ULLAGE_ENGINE=rust` was demanded but the extension is missing, or its version differs."""

    code = "engine"


class MissingExtra(UllageError, ImportError):
    """A required optional package is missing or too old.

    Attributes:
        package: Its name.
        extra: The extra to install, as in `pip install 'ullage[cli]'`.
        found: The installed release; empty: none, or unknown.
        needed: The oldest supported release; empty: any.
    """

    code = "missing_extra"

    def __init__(self, package: str, extra: str, *, found: str = "", needed: str = "") -> None:
        least = f" {needed} or newer" if found and needed else ""
        here = f"; {found} is installed" if found else ""
        super().__init__(
            f"this needs the package {package!r}{least}{here}",
            hint=f"pip install 'ullage[{extra}]'",
        )
        self.package, self.extra, self.found, self.needed = package, extra, found, needed
