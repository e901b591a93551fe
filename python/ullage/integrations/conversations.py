"""What every integration shares: a manager for each conversation, and a framework's own messages in and out of it."""

from __future__ import annotations

import threading
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    NamedTuple,
    TypedDict,
    TypeVar,
    Unpack,
)

from ullage import ContextManager, ContextTooLarge, InvalidPolicy, ManagerBusy, Policy
from ullage._engine import core
from ullage._start import installed, oldest_releases, refuse_older
from ullage.exceptions import MissingExtra
from ullage.manager.whole_list import ListView, sent_steps
from ullage.messages import Item, SystemPrompt, Tools
from ullage.observe import Listener
from ullage.providers import AnyProvider, Provider, classify
from ullage.providers._common import blocks_of
from ullage.recall.store import OffloadStore
from ullage.summarizers.protocol import SummaryReply, SummaryRequest, WriterLike

if TYPE_CHECKING:
    from ullage.transcript.record import RecordFile

M = TypeVar("M")
R = TypeVar("R")

FRAMEWORK: Final = Provider(
    name="framework",
    form="ullage.providers.anthropic",
    internal=True,
    read_as_is=True,
    by_place=True,
)
"""The internal view, judged by what holds for every provider: the framework writes the provider's request itself."""

MOST: Final = 64
"""HeldConversations that are held; of an older one the view is made from its list again."""

_ANY: Final = "gpt-5.4"
"""A model with which arguments are tried that are of no model."""

_TOO_LONG: Final = {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long"}}  # fmt: skip


class Translator(NamedTuple, Generic[M]):
    """How a framework's messages become messages of the internal view, one by one, and back."""

    read: Callable[[M], Item]  # never changes the message
    changed: Callable[[M, Item], M]  # a copy of the message that says what its reading says now
    new_message: Callable[[Item], M]  # a message that Ullage wrote
    # All that `read` looks at, as dicts, lists and what never changes; an instance of any other class: it may change unseen.
    read_from: Callable[[M], Any] | None = None
    # Classes of which no instance ever changes, besides strings and numbers.
    constants: tuple[type, ...] = ()


NATIVE: Final = Translator[Any](lambda message: message, lambda _, now: now, lambda item: item)
"""For messages that are in the form of a provider already: a view of them is what is sent."""


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What a framework says of the model in use."""

    name: str  # as its provider calls it
    context_window: int | None = None  # in tokens; `None`: the model table's
    max_output_tokens: int | None = None


class Head(TypedDict, total=False):
    """What stands before a conversation in a request."""

    system: SystemPrompt
    tools: Tools


@dataclass(frozen=True, slots=True)
class Fitted(Generic[M]):
    """A framework's list, made to fit."""

    messages: list[M]  # to send; those that need no change are the framework's own objects
    view: ListView  # what was done, with positions in the given list

    @property
    def changed(self) -> bool:
        """Whether anything is not as it was given."""
        return self.view.changed


class Readings(Generic[M]):
    """Messages of one conversation as they were read; those made of the very same objects are not read again."""

    def __init__(self, translator: Translator[M]) -> None:
        self._read, self._read_from = translator.read, translator.read_from
        self._objects = core.MessageObjects(*translator.constants)
        self._items: list[Item] = []
        self._classes: list[type] = []
        self._lock = threading.Lock()

    def of(self, messages: Iterable[M]) -> list[Item]:
        """The messages in the internal view."""
        # Parallel calls of one conversation.
        if self._read_from is None or not self._lock.acquire(blocking=False):
            return [self._read(message) for message in messages]
        try:
            listed = [*messages]
            return self._of_list(listed, [*map(self._read_from, listed)])
        finally:
            self._lock.release()

    def _of_list(self, messages: list[M], sources: list[Any]) -> list[Item]:
        items, classes = self._items, [*map(type, messages)]
        count = min(len(items), len(messages))
        if self._classes[:count] != classes[:count]:
            count = 0
        # What fails on the way is read again.
        self._items = []
        self._objects.cut(count)
        del items[count:]
        for at in self._objects.differing(sources, 0, count):
            self._objects.note(sources, at)
            items[at] = self._read(messages[at])
        for at in range(count, len(messages)):
            self._objects.note(sources, at)
            items.append(self._read(messages[at]))
        self._items, self._classes = items, classes
        return [*items]


@dataclass(frozen=True, slots=True)
class HeldConversation(Generic[M]):
    """One conversation of a framework."""

    manager: ContextManager
    translator: Translator[M]
    readings: Readings[M]
    fresh: Callable[[], ContextManager]  # where another call of the same conversation is at work
    overflow: type[Exception] | tuple[()]  # the framework's error for a refusal as too long
    records: RecordFile | None = None

    def fit(self, messages: Sequence[M], **head: Unpack[Head]) -> Fitted[M]:
        """The messages to send; see `ContextManager.view`."""
        read = self.read(messages)
        try:
            view = self.manager.view(read, **head)
        # Parallel calls of one conversation: the second gets a view from the list alone, which is the same without a model.
        except ManagerBusy:
            view = self.fresh().view(read, **head)
        return self._fitted(messages, view, read)

    async def afit(self, messages: Sequence[M], **head: Unpack[Head]) -> Fitted[M]:
        """`fit`, without blocking the event loop."""
        read = self.read(messages)
        try:
            view = await self.manager.aview(read, **head)
        except ManagerBusy:
            view = await self.fresh().aview(read, **head)
        return self._fitted(messages, view, read)

    def read(self, messages: Iterable[M]) -> list[Item]:
        """Messages in the internal view."""
        return self.readings.of(messages)

    def note_kept(self, fitted: Fitted[M], messages: Sequence[M]) -> None:
        """The framework goes on with these messages, which are those that fit."""
        self.manager.view_kept(replace(fitted.view, messages=self.read(messages)))

    def _fitted(self, messages: Sequence[M], view: ListView, read: Sequence[Item]) -> Fitted[M]:
        if self.records is not None:
            self.records.add_view(read, view)
        if not view.changed:
            return Fitted([*messages], view)
        back: list[M] = []
        # A plan names what is sent in its order.
        for step, sent in zip(sent_steps(view), view.messages, strict=True):
            if step.given is None:
                back.append(self.translator.new_message(sent))
            elif step.action == "kept":
                back.append(messages[step.given])
            else:
                back.append(self.translator.changed(messages[step.given], sent))
        return Fitted(back, view)

    def send(
        self, messages: Sequence[M], call: Callable[[Fitted[M]], R], **head: Unpack[Head]
    ) -> R:
        """What `call` returns for the messages that fit; after a refusal as too long it is called again with less."""
        while True:
            fitted = self.fit(messages, **head)
            # Ends: a refusal that no step of the ladder can answer is raised by `refused`.
            try:
                return call(fitted)
            except Exception as error:
                self.refused(error)

    async def asend(
        self, messages: Sequence[M], call: Callable[[Fitted[M]], Awaitable[R]], **head: Unpack[Head]
    ) -> R:
        """`send`, without blocking the event loop."""
        while True:
            fitted = await self.afit(messages, **head)
            try:
                return await call(fitted)
            except Exception as error:
                await self.arefused(error)

    async def astream(
        self,
        messages: Sequence[M],
        call: Callable[[Fitted[M]], AsyncIterator[R]],
        **head: Unpack[Head],
    ) -> AsyncIterator[R]:
        """`asend`, of an answer that comes in pieces."""
        begun = False
        while True:
            fitted = await self.afit(messages, **head)
            try:
                # A piece that was passed on cannot be taken back: from then on the error is the caller's.
                async for piece in call(fitted):
                    begun = True
                    yield piece
            except Exception as error:
                if begun:
                    raise
                await self.arefused(error)
            else:
                return

    def refused(self, error: Exception, *, overflow: bool = False) -> None:
        """Make room after an error; the next `fit` of the same list is smaller.

        Args:
            error: Raised again where it is none of a request that is too long, or no room can be made.
            overflow: The framework says that it is one, whatever its class and its text say.
        """
        refusal = self._refusal(error, overflow)
        try:
            # The first answer may be that a smaller output would fit, which a framework has no place for.
            step = self.manager.on_overflow(refusal).step or self.manager.on_overflow(refusal).step
        except ContextTooLarge as exc:
            raise error from exc
        if not step:
            raise error

    async def arefused(self, error: Exception, *, overflow: bool = False) -> None:
        """`refused`, without blocking the event loop."""
        refusal = self._refusal(error, overflow)
        try:
            first = await self.manager.aon_overflow(refusal)
            step = first.step or (await self.manager.aon_overflow(refusal)).step
        except ContextTooLarge as exc:
            raise error from exc
        if not step:
            raise error

    def _refusal(self, error: Exception, overflow: bool) -> Any:
        # The framework's own class stands for the provider's words, which it may have replaced.
        overflow = overflow or isinstance(error, self.overflow)
        return _TOO_LONG if overflow and not classify(error).is_overflow else error


class Options(TypedDict, total=False):
    """What every way in takes, by name.

    Attributes:
        policy: Every threshold, or the name of a preset: `buffered`, `ladder`; `None`: `buffered`.
        summarizer: Who writes summaries: `host`, the model in use, asked through the framework; a summarizer, or its name; `None`: code,
            without a model.
        context_window: The model's window in tokens; `None`: what the framework knows of it, else Ullage's model table.
        max_output_tokens: Its longest response in tokens, likewise.
        store: For large tool results; `None`: they stay, and are snipped.
        listeners: Called with every event.
        record: Folder for records that `ullage-check` reads: a file for each conversation, with its messages as they were read;
            `None`: there are none.
    """

    policy: Policy | str | None
    summarizer: WriterLike | None
    context_window: int | None
    max_output_tokens: int | None
    store: OffloadStore | None
    listeners: Iterable[Listener]
    record: str | PathLike[str] | None


class HeldConversations(Generic[M]):
    """The conversations that an integration has seen, the newest ones held.

    What is not held costs nothing but time: the view of a list is the same when it is made from the list alone, unless a model
    writes the summaries.

    Args:
        translator: Of the framework's messages.
        provider: The form that they are read in.
        overflow: The framework's error for a refusal as too long, if it has one of its own.
        has_host: Whether the model in use can write summaries; if not, `host` is refused.
        **options: See `Options`.

    Attributes:
        host_writes: The model in use is to write summaries.

    Raises:
        InvalidPolicy: No conversation could be begun with these options.
    """

    def __init__(
        self,
        translator: Translator[M],
        provider: AnyProvider = FRAMEWORK,
        *,
        overflow: type[Exception] | tuple[()] = (),
        has_host: bool = True,
        **options: Unpack[Options],
    ) -> None:
        self._translator, self._provider, self._overflow = translator, provider, overflow
        self._record = options.pop("record", None)
        # What is passed on to the manager of each conversation.
        self._options = managed = dict[str, Any](options)
        listeners = managed.get("listeners", ())
        if isinstance(listeners, Iterable):  # once only; anything else is refused below
            managed["listeners"] = tuple(listeners)
        self.host_writes = has_host and managed.get("summarizer") == "host"
        if self.host_writes:
            managed["summarizer"] = None
        # By name and model, the newest last.
        self._held: dict[tuple[str, ModelFacts], HeldConversation[M]] = {}
        self._lock = threading.Lock()
        try:
            # A manager that is thrown away: a typo would else come to light in the middle of an agent's run.
            ContextManager(model=_ANY, provider=provider, **managed)
        except InvalidPolicy as error:
            if error.field != "summarizer":
                raise
            hint = "'host' is the framework's own model"
            raise InvalidPolicy(error.field, error.value, error.limit, hint=hint) from None

    def of(
        self, name: str, model: ModelFacts, host: Callable[[], WriterLike] | None = None
    ) -> HeldConversation[M]:
        """The conversation of that name with a model.

        `name`: such as the id of a thread. `host`: makes the model in use a writer of summaries, where it is to be one.
        """
        with self._lock:
            # Put in again at the end, so that the order of the dict is that of use.
            conversation = self._held.pop((name, model), None)
            conversation = conversation or self._begun(name, model, host)
            self._held[name, model] = conversation
            while len(self._held) > MOST:
                del self._held[next(iter(self._held))]
        return conversation

    def held(self, name: str) -> HeldConversation[M] | None:
        """The newest one of that name, if it is held."""
        with self._lock:
            names = [key for key in self._held if key[0] == name]
            return self._held[names[-1]] if names else None

    def _begun(
        self, name: str, model: ModelFacts, host: Callable[[], WriterLike] | None
    ) -> HeldConversation[M]:
        options = self._options.copy()
        if self.host_writes and host is not None:
            options["summarizer"] = host()
        options["context_window"] = options.get("context_window") or model.context_window
        options["max_output_tokens"] = options.get("max_output_tokens") or model.max_output_tokens
        fresh = partial(ContextManager, model=model.name, provider=self._provider, **options)
        begun, records = fresh(), None
        if self._record is not None:
            from ullage.summarizers.extractive import model_asked
            from ullage.transcript.record import RecordFile

            place = f"{name} {model.name}"
            writer = model_asked(options.get("summarizer"))
            records = RecordFile.of(self._record, place, model=writer)
        translator, readings = self._translator, Readings(self._translator)
        return HeldConversation(begun, translator, readings, fresh, self._overflow, records)


@dataclass(frozen=True, slots=True)
class HostSummarizer:
    """The framework's own model as the writer of summaries, asked with and without blocking the event loop."""

    name: str
    window_tokens: int | None
    summarize: Callable[[SummaryRequest], SummaryReply]
    asummarize: Callable[[SummaryRequest], Awaitable[SummaryReply]]


def result_in(blocks: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The first tool result among blocks; `None`: there is none."""
    return next((block for block in blocks if block.get("type") == "tool_result"), None)


def in_place(
    before: Iterable[Mapping[str, Any]], now: Iterable[Mapping[str, Any]], kind: str
) -> list[Mapping[str, Any] | None]:
    """What each call (`tool_use`) or result (`tool_result`) of a message is now; `None`: it is no longer there.

    By its place, as ids may repeat, or may have been changed. Where some went, the ids tell which.
    """
    key = "id" if kind == "tool_use" else "tool_use_id"
    earlier = [block for block in before if block.get("type") == kind]
    left = [block for block in now if block.get("type") == kind]
    # Equal numbers: by place alone, since frameworks' fake models call everything `call_0`.
    if len(earlier) == len(left):
        return list(left)
    matches: list[Mapping[str, Any] | None] = []
    for block in earlier:
        ids = [candidate.get(key) for candidate in left]
        matches.append(left.pop(ids.index(block.get(key))) if block.get(key) in ids else None)
    return matches


def text_of(content: Any) -> str:
    """The text of a message's content in the internal view, of its tool results too."""
    parts = []
    for block in blocks_of(content):
        if isinstance(block.get("text"), str):
            parts.append(block["text"])
        elif block.get("type") == "tool_result":
            parts.append(text_of(block.get("content")))
        elif block.get("type") == "tool_use":
            parts.append(f"[{block.get('name')} {block.get('input')}]")
    return "\n\n".join(part for part in parts if part)


def transcript_of(request: SummaryRequest) -> str:
    """The messages as one text for a model that writes a summary, with its prompt at the end."""
    # As text: blocks of calls and results would oblige the request to declare the agent's tools.
    roles = ((item.get("role"), text_of(item.get("content"))) for item in request.messages)
    return "\n\n".join([*(f"<{role}>\n{text}\n</{role}>" for role, text in roles), request.prompt])


def tool_definitions(
    tools: Iterable[tuple[str, str | None, Mapping[str, Any]]],
) -> list[dict[str, Any]]:
    """Definitions of tools, as far as they are counted, from the name, description and schema of each."""
    return [
        {"name": name, "description": about or "", "input_schema": schema}
        for name, about, schema in tools
    ]


@contextmanager
def framework(extra: str) -> Iterator[None]:
    """Around the imports of a framework; its extra begins with the oldest release that is tested (`docs/integrations.md`).

    Raises:
        MissingExtra: It is older than that, is not installed, or lacks what is imported; names both versions.
    """
    releases = oldest_releases(extra)
    for package, oldest in releases:
        refuse_older(package, oldest, extra)
    try:
        yield
    except ImportError as exc:
        package, oldest = next(iter(releases), (extra, ""))
        raise MissingExtra(package, extra, found=installed(package), needed=oldest) from exc
