"""The interface for hosts: one object per conversation, synchronous and asynchronous."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self, TypeVar, Unpack

from ullage.compaction.effects_runner import arun_flow, run_flow
from ullage.counting.calibration import measure_of
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import Window, WindowSettings, warn_without_trigger
from ullage.effects import CancelToken, Flow
from ullage.exceptions import InvalidPolicy
from ullage.levels import context_edits, pipeline
from ullage.levels.pins import Pin, pin_of
from ullage.levels.view import StageReport
from ullage.manager import prepare
from ullage.manager.keeping import ExclusiveGuard, Keeper
from ullage.manager.known import (
    Host,
    first_form,
    form_is_open,
    known_arguments,
    names_of,
    overhead_of,
    read_arguments,
    shown_form,
)
from ullage.manager.machine import Machine, decided, opened_log
from ullage.manager.prepare import Marks
from ullage.manager.request_writer import RequestWriter
from ullage.manager.values import Decided, Recovery, Request, Usage
from ullage.manager.whole_list import Followed, WholeLists
from ullage.messages import Item, SDKObject, SystemPrompt, Tools, now_in_ms
from ullage.policy import KeepPolicy, Policy, policy_given
from ullage.providers.anthropic import read_thinking
from ullage.providers.incoming import CountedTools
from ullage.providers.registry import provider_of

if TYPE_CHECKING:
    from ullage.compaction import CompactionResult
    from ullage.compaction.job import Direction
    from ullage.levels.cost import SessionCosts
    from ullage.manager.options import Log, ManagerOptions, Outside
    from ullage.manager.questions import Explanation
    from ullage.manager.whole_list import ListView
    from ullage.recall import Recall
    from ullage.recall.text import ToolAnswer
    from ullage.summarizers.streams import StreamingSummarizer
    from ullage.transcript.log import TranscriptLog

T = TypeVar("T")

_REPEATED = frozenset(("thinking",))
"""Parameters of a request that the call for its summary repeats."""

_WRITERS = ("summarizer", "line_summarizer", "fallback")
"""Arguments that may be a line such as `anthropic:claude-haiku-4-5`."""

_OF_JOBS = ("keep", "providers", "redact", "template", "session_id", "transcript_path", "cwd")
"""Arguments that go on to every compaction."""


class ContextManager:
    """Keeps one conversation within its window: `add` new messages, `prepare` requests, `observe` responses.

    Everything that was added stays in `history`; a request is a view of it. There is no state outside of the object, so a
    process may hold thousands of them.

    Args:
        model: Name of the model in use; decides window and weights.
        policy: Every threshold, or the name of a preset: `buffered`, `ladder`; `None`: `buffered`.
        table: The model table; `None`: the built-in one.
        log: Where the conversation is kept: the path of a new file, or an open and empty `TranscriptLog`. Everything added,
            observed and decided is in it when a call returns; `ContextManager.resume` continues from it. Only the manager
            appends to it. `None`: the host saves the state with `save`.
        **options: See `ullage.manager.ManagerOptions`; those that are used most: `provider`, `system`, `tools`, `summarizer`, `store`,
            `memory`, `hooks`, `listeners`, `context_window`.

    Raises:
        InvalidPolicy: An argument is of the wrong type or out of range, or a tool cannot be sent to this provider; names it.

    Example:
        >>> manager = ContextManager(model="claude-opus-4-5")
        >>> manager.add({"role": "user", "content": "hello"})
        >>> manager.prepare().messages
        [{'role': 'user', 'content': 'hello'}]
    """

    @known_arguments
    def __init__(
        self,
        *,
        model: str,
        policy: Policy | str | None = None,
        table: ModelTable | None = None,
        log: Log | None = None,
        **options: Unpack[ManagerOptions],
    ) -> None:
        arguments = read_arguments(model=model, policy=policy, table=table, log=log, **options)
        del arguments["log"]  # a fork has a log of its own, or none
        system, tools, memory = (arguments[name] for name in ("system", "tools", "memory"))
        stated = {name: arguments[name] for name in ("context_window", "max_output_tokens")}
        row = (table or ModelTable.builtin()).stated(model, **stated)
        rules = policy_given(policy)
        if memory is None and rules.session_memory.enabled:
            hint = "pass memory=SessionMemory(folder, policy=policy.session_memory)"
            limit = "needs notes to keep: memory= is not given"
            raise InvalidPolicy("session_memory.enabled", True, limit, hint=hint)
        form = provider_of(arguments["provider"] or first_form(arguments, row), writable=True)
        self._form_is_open = arguments["provider"] is None and form_is_open(arguments)
        edits = arguments["context_management"]
        if edits is not None:
            rules = context_edits.policy_for(rules, edits, row, form)
        thinking = read_thinking(arguments["thinking"], provider=form)
        self._writer = RequestWriter(
            model=row.name,
            provider=form,
            system=system,
            tools=tools,
            thinking=thinking,
            cache=arguments["cache"],
        )
        self.machine = Machine(
            model=row,
            policy=rules,
            settings=arguments["settings"] or WindowSettings.from_env(),
            overhead=overhead_of(system, tools, row),
            source=arguments["source"],
            provider=form,
            tools=names_of(self._writer.definitions),
            thinking=thinking,
            levels=pipeline.checked(arguments["levels"]),
            stated_window={name: value for name, value in stated.items() if value is not None},
            context_management=edits,
        )
        warn_without_trigger(self.machine.window, self.machine.overhead_tokens)
        listeners = tuple(arguments["listeners"])
        writers: dict[str, Any] = {}
        ahead: Ahead | None = None
        for name in _WRITERS:
            if arguments[name] is not None:
                from ullage.summarizers.lines import writer_of

                writers[name] = writer_of(arguments[name])
        if "summarizer" in writers:
            from ullage.compaction.prefetch import Ahead

            ahead = Ahead(listeners)
        if hasattr(writers.get("summarizer"), "following"):
            writers["summarizer"] = self._followed_by(writers["summarizer"])
        self.host = Host(
            **writers,
            offload=arguments["store"],
            memory=memory,
            hooks=arguments["hooks"],
            listeners=listeners,
            options={name: arguments[name] for name in _OF_JOBS},
            ahead=ahead,
        )
        self._conversation = self.machine, self.host, self._writer
        if memory is not None and hasattr(memory, "listen"):
            memory.listen(listeners)
        self._arguments, self._clock = arguments, arguments["clock"] or now_in_ms
        self._exclusive, self._marks = ExclusiveGuard(), Marks(self.machine.levels)
        self._keeper = Keeper(
            *self._conversation, Followed(), clock=self._clock, record=arguments["record"]
        )
        self._lists = WholeLists(self._keeper, self._marks)
        if log is not None:
            self._keeper.begin(log)

    # ---- input -------------------------------------------------------------------------------

    def add(self, message: Item | SDKObject) -> None:
        """Append a message: of the user, of the model, or tool results; an item for the Responses API.

        Args:
            message: In the provider's form, as JSON or as its SDK's object; or in the internal view.

        Raises:
            InvalidMessage: The message is malformed, or in another provider's form; state is unchanged.
            StoreError: It could not be written to the log; state is unchanged.
        """
        if self._form_is_open:
            self._look_at_form([message])
        machine, keeper = self.machine, self._keeper
        with keeper.lock:
            count = len(machine.history)
            try:
                machine.take(message, at_ms=self._clock())
                # First the line: where that fails, no thinking has been bound to a message that is taken back.
                written = keeper.added()
                self._writer.note_answer(machine)
                if not written:
                    keeper.commit("add")
            except BaseException:
                machine.take_back(count)
                raise

    def observe(self, response: object) -> None:
        """Append the model's response; if it has usage figures, the next count is anchored on them.

        Args:
            response: The response's body, an SDK's response object, or only the message in it.

        Raises:
            InvalidMessage: It is none of these, malformed, or in another provider's form; state is unchanged.
            StoreError: It could not be written to the log; state is unchanged.
        """
        if self._form_is_open:
            self._look_at_form([response])
        machine, keeper = self.machine, self._keeper
        with keeper.lock:
            count, seen, turns = len(machine.history), machine.looks, machine.tracking.turns
            figure, correction = machine.figure, machine.correction
            try:
                newest = machine.observe(response, at_ms=self._clock())
                self._writer.note_answer(machine)
                memory = self.host.memory
                if memory is not None:  # works in the background; may refuse: then it is taken back
                    context = {"tokens": machine.tokens, "source": machine.source}
                    memory.answered(
                        newest, machine.view.messages, history=machine.history, **context
                    )
                # What no level has seen is made again of the message: its line says all.
                says_all = memory is None and seen == machine.looks
                if not (says_all and keeper.added(answer=True)):
                    keeper.commit("observe")
            except BaseException:
                machine.tracking.turns, machine.figure = turns, figure
                machine.correction = correction
                machine.take_back(count)
                raise

    # ---- pins --------------------------------------------------------------------------------

    def pin(self, name: str, given: str | Item, *, by: str = "host") -> None:
        """Keep a text, or the text of a message or block, verbatim through every level (CTX-3).

        One that the context does not hold when it is pinned is put into it with the next change of what was sent, such as a
        clearing or a compaction; until then nothing is added. To show it at once, `add` it as a message.

        Args:
            name: The name to unpin it by; another text under the same name replaces it.
            given: A string, a message or entry, or a text block.
            by: `host`, `user` or `tool`.
        """
        self.machine.pins[name] = pin_of(name, given, by=by)
        self._keeper.commit("pin")

    def unpin(self, name: str) -> None:
        """Remove a pin.

        Raises:
            InvalidPolicy: There is no pin of this name.
        """
        pins = self.machine.pins
        if name not in pins:
            raise InvalidPolicy("pin.name", name, "must be the name of a pin")
        self.machine.pins = {key: pin for key, pin in pins.items() if key != name}
        self._keeper.commit("unpin")

    # ---- output ------------------------------------------------------------------------------

    def prepare(self, *, now_ms: int | None = None, cancel: CancelToken | None = None) -> Request:
        """Run the levels and return the request to send.

        Args:
            now_ms: The time, in milliseconds since the epoch, for levels that depend on it; `None`: the manager's clock.
            cancel: Checked between steps; the state is then as before the call, plus messages added meanwhile.

        Raises:
            ContextTooLarge: What has to stay does not fit; names the smallest possible size.
            ManagerBusy: Another call prepares a request of this conversation, or recovers from a refusal.
            StoreError: The decisions could not be written to the log; state is unchanged.
        """
        self._exclusive.begin("prepare")
        try:
            self.host.background.stop_task()
            request = self._at_rest(now_ms)
            if request is None:
                # Only a token ends a call halfway that never waits: without one a copy of the state would be made for nothing.
                with self._keeper.whole("prepare", careful=cancel is not None):
                    self._keeper.sent = request = self._run(self._prepare(now_ms), cancel)
            self._marks.edits = self.machine.view.edits
            prepare.write_ahead(self.machine, self.host, asynchronous=False)
        finally:
            self._exclusive.end()
        return request

    async def aprepare(
        self, *, now_ms: int | None = None, cancel: CancelToken | None = None
    ) -> Request:
        """`prepare`, without blocking the event loop; messages added meanwhile are kept."""
        with self._exclusive("aprepare"):
            request = self._at_rest(now_ms)
            if request is None:
                with self._keeper.whole("prepare"):
                    self._keeper.sent = request = await self._arun(self._prepare(now_ms), cancel)
            self._marks.edits = self.machine.view.edits
            prepare.write_ahead(self.machine, self.host, asynchronous=True)
        return request

    def compact(
        self,
        instructions: str = "",
        *,
        keep: KeepPolicy | int | None = None,
        direction: Direction = "full",
        at: int | str | None = None,
        target_tokens: int | None = None,
        cancel: CancelToken | None = None,
    ) -> CompactionResult:
        """Compact now; if compaction is turned off altogether, the outcome is `blocked`.

        Old tool results that can be fetched again are shortened first (microcompact), so that the summary covers what matters.

        Args:
            instructions: What the summary should focus on, in the user's words.
            keep: Newest part that stays verbatim: tokens, a `KeepPolicy`, or `None` for the manager's. 0: only what must stay.
            direction: `full`, or `from` the message `at` to the end, or `up_to` that message.
            at: For the latter two: a position in `messages`, or the uuid of a message.
            target_tokens: See `ullage.compact`; `None`: no limit beyond the policy's.
            cancel: Checked between steps.

        Raises:
            CompactionError: It failed; state is unchanged.
            ContextTooLarge: What must stay is more than `target_tokens`; names the smallest that can be met; state is unchanged.
            InvalidPolicy: An argument is out of range; names it.
            StoreError: It could not be written to the log; state is unchanged.
        """
        flow = prepare.compact(
            *self._conversation, instructions, keep, direction, at, target_tokens
        )
        with self._keeper.whole("compact"):
            return self._run(flow, cancel)

    async def acompact(
        self,
        instructions: str = "",
        *,
        keep: KeepPolicy | int | None = None,
        direction: Direction = "full",
        at: int | str | None = None,
        target_tokens: int | None = None,
        cancel: CancelToken | None = None,
    ) -> CompactionResult:
        """`compact`, without blocking the event loop."""
        flow = prepare.compact(
            *self._conversation, instructions, keep, direction, at, target_tokens
        )
        with self._keeper.whole("compact"):
            return await self._arun(flow, cancel)

    def idle_at(self) -> int | None:
        """From when on a compaction pays if nobody works on the conversation, in milliseconds since the epoch.

        The provider's cache runs out some minutes after its last use (`cost.cache_seconds`); then the next request is written to it
        whole, and a shorter one costs less at once. Where a model writes summaries it is a little before, so that its call still
        reads the conversation from the cache.

        Returns:
            `None`: it would not pay, the context is below `auto.idle_percent` of the trigger (0: half of it), nothing was sent
            yet, or the cache of this model never runs out.
        """
        return prepare.idle_from(self.machine, self.host)

    def compact_idle(self, *, now_ms: int | None = None) -> StageReport | None:
        """Compact if `idle_at` has come; a host calls it while it waits for its user.

        Args:
            now_ms: The time, in milliseconds since the epoch; `None`: the manager's clock.

        Returns:
            What was done; `None`: nothing.

        Raises:
            StoreError: It could not be written to the log; state is unchanged.
        """
        now = self._clock() if now_ms is None else now_ms
        with self._keeper.whole("compact_idle"):
            return self._run(prepare.compact_idle(self.machine, self.host, now))

    async def acompact_idle(
        self, *, sleep: Callable[[float], Awaitable[object]] | None = None
    ) -> StageReport | None:
        """Wait until `idle_at`, then `compact_idle`: for a background task that is started after each answer.

        A request that is prepared meanwhile ends it without effect; to cancel the task is safe at any moment.

        Args:
            sleep: Waits some seconds; `None`: `asyncio.sleep`.
        """
        import asyncio

        at_ms, number, now = self.idle_at(), self.machine.requests, self._clock()
        if at_ms is None or now is None:
            return None
        await (sleep or asyncio.sleep)(max(0, at_ms - now) / 1000)
        # A request was made meanwhile, which used the cache: it runs out later.
        if self.machine.requests != number:
            return None
        with self._keeper.whole("compact_idle"):
            now = self._clock()
            return await self._arun(prepare.compact_idle(self.machine, self.host, now))

    def on_overflow(self, error: object) -> Recovery:
        """Make room after the provider refused a request.

        Args:
            error: The exception or response.

        Returns:
            A true value if a retry is worthwhile: room was made, or a smaller output will fit (`max_tokens`). Prepare
            again and retry.

        Raises:
            ContextTooLarge: All last resorts were tried for this request.
            ManagerBusy: See `prepare`.
        """
        with self._exclusive("on_overflow"), self._keeper.whole("on_overflow", careful=False):
            return self._run(prepare.recover(*self._conversation, error))

    async def aon_overflow(self, error: object) -> Recovery:
        """`on_overflow`, without blocking the event loop."""
        with self._exclusive("aon_overflow"), self._keeper.whole("on_overflow"):
            return await self._arun(prepare.recover(*self._conversation, error))

    def stage_ahead(self) -> int:
        """Write the summaries that a context collapse will need, and wait for them; `prepare` has them written in the background anyway.

        Returns:
            How many spans are ready that were not before; 0 where collapse is off or the window is not full enough.
        """
        with self._keeper.whole("stage_ahead", careful=False):
            return self._run(prepare.stage_ahead(self.machine, self.host))

    async def astage_ahead(self) -> int:
        """`stage_ahead` in the background: what is added or changed in the meantime is checked when it ends."""
        with self._keeper.whole("stage_ahead", careful=False):
            return await self._arun(prepare.stage_ahead(self.machine, self.host))

    def expand(self, collapse_id: str) -> StageReport:
        """Restore a collapsed span; it is not collapsed again.

        Raises:
            UnknownHandle: No placeholder with that id is in the context.
        """
        # What comes back is named in the log's lines, also where it has left memory.
        self._keeper.name(range(len(self.machine.history)))
        with self._keeper.whole("expand", careful=False):
            return self._run(prepare.expand(self.machine, self._writer, collapse_id))

    # ---- saved, restored, resumed, forked -------------------------------------------------------------

    def save(
        self, *, history: bool = False, since: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """The state as plain JSON: decisions, state of the levels, learned limits, counters, corrections.

        Args:
            history: Include the messages. Otherwise pass them to `restore`.
            since: The state that was saved last: only what has changed since is returned. `restore` takes the state with the
                changes after it as a list; `ullage.manager.with_changes` makes one state of them. `None`: the whole state.
        """
        from ullage.manager.journal import change_of

        state = self._keeper.saved(history=history)
        return state if since is None else change_of(since, state)

    @classmethod
    def restore(
        cls,
        saved: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        history: Sequence[Item] | None = None,
        *,
        policy: Policy | str | None = None,
        **outside: Unpack[Outside],
    ) -> Self:
        """A manager that continues where the saved one left off.

        If the history is shorter or was edited, the state is rolled back to it: messages are compared one by one, and from the first
        that differs on they count as added since; decisions about the others are dropped.

        Args:
            saved: The result of `save`, or a list of one and of the changes that followed.
            history: The messages that had been added, in order, from the host's own log; `None`: those in `saved`. Messages
                beyond them count as added since.
            policy: `None`: the saved one.
            **outside: What is not saved, with the constructor's names: `system`, `tools`, `summarizer`, `store`, ...

        Raises:
            InvalidPolicy: It is not a saved state, or the history differs from its first message on; names the field.
        """
        from ullage.manager.journal import with_changes

        state = with_changes(saved)
        manager = cls._of_state(state, policy, outside)
        manager._keeper.load(state, history)
        manager._keeper.commit("restore")
        return manager

    @classmethod
    def resume(
        cls, path: Log, *, policy: Policy | str | None = None, **outside: Unpack[Outside]
    ) -> Self:
        """A manager that continues from a log: the next request is the one that its writer would have sent.

        From a transcript that no manager wrote it starts with what a resume shows as the history. Then `model` is required.

        Args:
            path: The log's file, or an open log of it.
            policy: `None`: that of the manager that wrote it.
            **outside: What is not in the log, with the constructor's names: `system`, `tools`, `summarizer`, `store`, ...

        Raises:
            InvalidPolicy: No manager wrote to it, and no `model` is named.
            InvalidTranscript: What the manager wrote cannot be read; names the line.
            LogConflict: Another writer holds the file.
            StoreError: There is no such file, or it cannot be read.
        """
        from ullage.manager.journal import ReadJournal

        with opened_log(path, outside.get("clock") or now_in_ms, create=False) as (log, owned):
            read = ReadJournal(log)
            if read.state:
                manager = cls._of_state(read.state, policy, outside)
                manager._keeper.resume(log, read, owned=owned)
                return manager
            if "model" not in outside:
                limit = "is needed: no manager has written to this log"
                raise InvalidPolicy("model", None, limit, hint="resume(path, model=...)")
            manager = cls(policy=policy, **outside)
            manager._keeper.adopt(log, owned=owned)
        return manager

    @classmethod
    def _of_state(
        cls, saved: Mapping[str, Any], policy: Policy | str | None, outside: Mapping[str, Any]
    ) -> Self:
        from ullage.manager.journal import arguments_of, state_read

        with state_read():
            arguments = arguments_of(saved, policy)
        return cls(**{**arguments, **outside})

    def fork(
        self,
        *,
        policy: Policy | str | None = None,
        log: Log | None = None,
        **outside: Unpack[Outside],
    ) -> Self:
        """Another manager of the same conversation in its current state; the two are independent from then on.

        Args:
            policy: `None`: this one's.
            log: The fork's own log: a path, or an open and empty log. `None`: it has none.
            **outside: What should differ from this manager, with the constructor's names.
        """
        saved = self._keeper.saved(history=True)
        saved.pop("memory", None)  # the fork's notes are the object that it is given
        arguments = {**self._arguments, **outside}
        own = arguments.pop("policy", None)
        fork = self._of_state(saved, own if policy is None else policy, arguments)
        fork._keeper.load(saved, None)
        fork._lists.share_points(self._lists)
        if log is not None:
            fork._keeper.begin(log)
        return fork

    def rewind(self, count: int) -> None:
        """Go back to the first `count` messages of the history: the others are removed, as if they had never been added.

        Messages that a level had removed or summed up come back whole if its text may cover some that are removed.

        Args:
            count: Messages of `history` that stay.

        Raises:
            InvalidPolicy: There are fewer.
        """
        self._keeper.rewind(count)

    @property
    def log(self) -> TranscriptLog | None:
        """The log that this conversation is kept in; `None`: there is none. Read it, but append nothing."""
        return self._keeper.log

    def close(self) -> None:
        """Close the log's file, if it was given as a path; `resume` continues the conversation."""
        self._keeper.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def entries(self, start: int = 0) -> list[dict[str, Any]]:
        """Messages of the history as entries with uuids and times, for the host's own log.

        From then on lines in `Request.records` name them by these uuids. Items that are not messages are left out.

        Args:
            start: Position in the history of the first; negative: counted from its end.
        """
        return self._keeper.entries(start)

    def __deepcopy__(self, memo: Any) -> Self:
        del memo
        return self.fork()

    def __copy__(self) -> NoReturn:
        limit = "two managers cannot share one conversation"
        raise InvalidPolicy("copy", type(self).__name__, limit, hint="manager.fork()")

    def __reduce__(self) -> NoReturn:
        limit = "holds what is outside of it: clients, files, callables"
        hint = "save() returns the state as JSON, ContextManager.restore reads it"
        raise InvalidPolicy("pickle", type(self).__name__, limit, hint=hint)

    # ---- a list that a framework keeps -------------------------------------------------------

    def view(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        model: str | None = None,
    ) -> ListView:
        """The list to send in place of a framework's whole list of messages.

        Messages are compared by content with those of the call before; without a log, those of dicts and lists that hold the very
        same strings and numbers are not read again. New ones are taken; where the list was cut, edited or
        continued in another way, the conversation goes back to the last message that is the same. Before each response in the list
        that no request was prepared for, the levels run as they would have: a new manager makes the same view of a list as
        one that followed it from the start (with equal arguments, the same time of day, and no summarizer that asks a model).

        Args:
            messages: All of the conversation, oldest first, in the manager's form; never changed.
            system: The system prompt, to be counted; `None`: as before.
            tools: Tool definitions, to be counted; `None`: as before.
            model: Name of the model for this and later calls; `None`: as before.

        Raises:
            ContextTooLarge: What has to stay does not fit; names the smallest possible size.
            InvalidMessage: A message is malformed; those before it have been taken.
            ManagerBusy: Another call prepares a request of this conversation.

        Example:
            >>> from ullage import ContextManager
            >>> given = [{"role": "user", "content": "hello"}]
            >>> view = ContextManager(model="claude-opus-4-5").view(given)
            >>> view.messages[0] is given[0], view.origin, view.plan[0].action
            (True, [0], 'kept')
        """
        with self._exclusive("view"):
            self.host.background.stop_task()
            self._meet(system, tools, model, messages)
            with self._keeper.whole("prepare", careful=False):
                list_view = self._run(self._lists.follow(messages, self))
            prepare.write_ahead(self.machine, self.host, asynchronous=False)
        return list_view

    def changed_view(
        self,
        messages: Sequence[Item],
        *,
        unchanged: int = 0,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        model: str | None = None,
    ) -> ListView | None:
        """`view`; `None` as long as nothing that levels did is in it: the list is then to be sent as it is.

        For a gateway, which repairs nothing that it has not changed, and sends the bytes that came.

        Args:
            messages: The same as of `view`, like what follows.
            unchanged: So many messages at the beginning are known to be those of the call before, and are not compared.
            system: `None`: the one before.
            tools: `None`: those before.
            model: `None`: the one before.

        Raises:
            ContextTooLarge, InvalidMessage, ManagerBusy: See `view`.
        """
        with self._exclusive("changed_view"):
            self.host.background.stop_task()
            # Before anything is taken: estimates and marks go by the window of this model.
            self._meet(system, tools, model, messages)
            with self._keeper.whole("prepare", careful=False):
                list_view = self._run(self._lists.follow_changed(messages, self, unchanged))
            prepare.write_ahead(self.machine, self.host, asynchronous=False)
        return list_view

    async def aview(
        self,
        messages: Sequence[Item],
        *,
        system: SystemPrompt | None = None,
        tools: Tools | None = None,
        model: str | None = None,
    ) -> ListView:
        """`view`, without blocking the event loop."""
        with self._exclusive("aview"):
            self._meet(system, tools, model, messages)
            with self._keeper.whole("prepare"):
                list_view = await self._arun(self._lists.follow(messages, self))
            prepare.write_ahead(self.machine, self.host, asynchronous=True)
        return list_view

    def view_kept(self, view: ListView) -> None:
        """The framework has put the newest view in place of its own list, which the next call hands over."""
        # Else the next call would take what the levels changed for edits of the framework's, and go back to before them.
        self._lists.replaced_by(view)
        self._keeper.commit("view")

    def view_state(self) -> dict[str, Any]:
        """What the next `view` goes on from, as small plain JSON: decisions and fingerprints, no messages, no account of the past.

        It may be lost: `view` then starts from the list alone.
        """
        return self._lists.state()

    def load_view_state(self, stored: Mapping[str, Any], messages: Sequence[Item]) -> bool:
        """Put a state of `view_state` into this manager, which is still empty.

        Args:
            stored: Also one that another process or version wrote; one that cannot be read is an error.
            messages: The framework's list, from which the history is taken; it may have grown since.

        Returns:
            Whether it was of use: false where the list has been changed since, so that `view` starts from the list alone.

        Raises:
            InvalidPolicy: It is no such state, or the manager is not empty; names the field.
        """
        from ullage.manager.journal import state_read

        with state_read():
            return self._lists.load(stored, messages)

    # ---- what may be asked at any moment -----------------------------------------------------

    @property
    def policy(self) -> Policy:
        """Every threshold."""
        return self.machine.policy

    @property
    def model(self) -> Model:
        """The model's row; its window is what was learned of it."""
        return self.machine.model

    @property
    def window(self) -> Window:
        """All marks of the window."""
        return self.machine.window

    @property
    def history(self) -> MutableSequence[Item]:
        """All that was added, as it was added; with a log, what no request shows any more is read from there."""
        return self.machine.history

    @property
    def messages(self) -> list[Item]:
        """The request as it stands, before the levels look at it again."""
        return list(self.machine.view.messages)

    def usage(self) -> Usage:
        """How full the window is now."""
        return self.machine.usage()

    def decide(self) -> Decided:
        """Whether an automatic compaction is due; a pure look that may be taken at any moment."""
        return decided(self.machine)

    def costs(self) -> SessionCosts:
        """What the remembered requests' prompts have cost, what they would have without any level, and which level saved what.

        By estimate, from the model's prices: each prompt is read from the provider's cache as far as it begins as the last one did,
        unless its shortest life has passed in between. Answers and summaries by a model are not in it.
        """
        from ullage.manager.questions import costs_of

        return costs_of(self.machine)

    def explain(self, request: int | None = None) -> Explanation:
        """What is in a request by category, and what left until then: when, by which level, why.

        The newest 256 requests and reports are remembered, at times up to 511; a log holds all of them.

        Args:
            request: Its number; `None`: the next one, as things stand.

        Raises:
            InvalidPolicy: There was no such request, or it is remembered no more.
        """
        from ullage.manager.questions import explain

        return explain(self.machine, request)

    def pins(self) -> dict[str, tuple[Pin, int]]:
        """All pins by name, each with what it costs in tokens."""
        measure = measure_of(self.machine.view.weights)
        return {name: (pin, measure(pin.text)) for name, pin in self.machine.pins.items()}

    # ---- tools for the model -----------------------------------------------------------------

    @property
    def recall(self) -> Recall:
        """Returns removed content: `recall.get(handle)` for the host, `recall.call(input)` for the model."""
        from ullage.manager.questions import recall_of

        return recall_of(self.machine, self.host)

    def answer(self, name: str, given: object) -> ToolAnswer:
        """The answer to a model's call of one of the library's tools, for a tool result: `recall`, `Snip`, `compact_context`, `context_usage`.

        Args:
            name: The tool that was called.
            given: The call's input, whatever it is.

        Raises:
            InvalidPolicy: The library has no such tool.
        """
        from ullage.manager.questions import answer

        tool_answer = answer(self.machine, self.host, name, given)
        self._keeper.commit("answer")
        return tool_answer

    # ---- inside ------------------------------------------------------------------------------

    def _followed_by(self, writer: StreamingSummarizer) -> StreamingSummarizer:
        """The summarizer, which repeats this conversation's last request, so that the provider's cache holds nearly all of it (FULL-2)."""

        def last() -> Mapping[str, Any] | None:
            sent, model = self._keeper.sent, self.machine.model.name
            # Parameters and headers other than thinking need an endpoint that only the host knows.
            if sent is None or writer.model != model or sent.headers:
                return None
            return None if sent.params.keys() - _REPEATED else {"model": model, **sent.body}

        return writer.following(self.machine.provider.name, last)

    # ---- what differs from call to call -----------------------------------------------------

    def _look_at_form(self, items: Sequence[Any]) -> None:
        """Go on in the form that the first of these messages shows which shows one; nothing, if none does."""
        form = shown_form(items, self.machine.provider)
        if form is None:
            return
        self._form_is_open = False  # from here on a message in another form is an error
        if form is self.machine.provider or shown_form(self.machine.history, form) is not None:
            return  # earlier messages have shown it
        before = self.machine.provider
        self.machine.change_form(form)
        try:
            self._writer.change(self.machine)
        except InvalidPolicy:
            self.machine.change_form(before)
            self._form_is_open = True
            raise
        self._arguments["provider"], self.machine.resting_until = form, None
        self._marks.forget()

    def _meet(self, system: Any, tools: Any, model: str | None, items: Sequence[Item]) -> None:
        """Count with this system prompt, these tools and this model from now on."""
        machine, writer = self.machine, self._writer
        if model is not None and model != machine.model.name:
            table = self._arguments["table"] or ModelTable.builtin()
            machine.change_model(table.stated(model, **machine.stated_window))
            self._arguments["model"] = model
        arguments = {"system": system, "tools": None if tools is None else CountedTools(tools)}
        changed = {name: value for name, value in arguments.items() if value is not None}
        # Mostly all is as it was: frameworks hand over the same prompt and tools each time.
        if model is not None or any(
            getattr(writer, name) != wanted for name, wanted in changed.items()
        ):
            self._arguments.update(changed)
            writer.change(machine, **changed)
            machine.change_overhead(writer.system, writer.tools, writer.definitions)
        if self._form_is_open:
            self._look_at_form(items)

    # ---- driving --------------------------------------------------------------------------------

    def _at_rest(self, now_ms: int | None) -> Request | None:
        """The next request, if no level has anything to do for it, and none has to be asked."""
        machine, keeper = self.machine, self._keeper
        # A turn of an agent mostly ends here: no flow, no copy of the state, whatever the length of the conversation.
        if not self._marks.suffice:
            return None
        now = self._clock() if now_ms is None else now_ms
        count = len(machine.history)
        if not self._marks.hold(machine, self.host, now):
            return None
        return keeper.at_rest(count, self._marks.tokens, now)

    def _prepare(self, now_ms: int | None) -> Flow[Request]:
        now = self._clock() if now_ms is None else now_ms
        return prepare.prepare(*self._conversation, self._marks, now)

    def _run(self, flow: Flow[T], cancel: CancelToken | None = None) -> T:
        return run_flow(flow, self.host.listeners, cancel=cancel)

    async def _arun(self, flow: Flow[T], cancel: CancelToken | None = None) -> T:
        return await arun_flow(flow, self.host.listeners, cancel=cancel)

    def __repr__(self) -> str:
        machine = self.machine
        size = f"{len(machine.view)} of {len(machine.history)} messages"
        return f"ContextManager({machine.model.name!r}, {size}, ≈{machine.tokens:_} tokens)"
