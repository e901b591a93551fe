"""What a host calls: one object per conversation, synchronous and asynchronous."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, TypeVar

from ullage.compaction import CompactionResult
from ullage.compaction.ahead import Ahead
from ullage.compaction.attachments import Providers
from ullage.compaction.perform import AsyncPerformer, Performer
from ullage.context import flows, tools
from ullage.context.ahead import look_ahead
from ullage.context.alone import Alone
from ullage.context.beside import Beside
from ullage.context.flows import Host
from ullage.context.machine import Machine, names_of, overhead_of
from ullage.context.outgoing import Outgoing
from ullage.context.questions import Questions
from ullage.context.recover import recover
from ullage.context.saved import dump, load, policy_of
from ullage.context.shapes import shape_of
from ullage.context.values import Recovery, Request
from ullage.effects import CancelToken, Flow, adrive, drive
from ullage.events import Listener
from ullage.exceptions import InvalidPolicy
from ullage.models import ModelTable
from ullage.offload import OffloadStore
from ullage.pins import pin_of, unpin
from ullage.policy import Policy
from ullage.providers.overflow import classify
from ullage.recall import Recall
from ullage.stages import context_edits
from ullage.stages.report import StageReport
from ullage.summarizers.named import writer_of
from ullage.thinking import Thinking, read_thinking
from ullage.tools import ToolAnswer
from ullage.window import WindowSettings, warn_without_trigger

__all__ = ["ContextManager"]

Item = Mapping[str, Any]
T = TypeVar("T")


class ContextManager(Questions):
    """Keeps one conversation within its window: `add` what comes, `prepare` what to send, `observe` the answer.

    Everything that was added stays in `history`; a request is a view of it. There is no state outside of the object, so a
    process may hold thousands.

    Args:
        model: Name of the model that goes on; decides window and weights.
        provider: Whose form messages come in and requests go out: `anthropic`, `openai_chat`, `openai_responses`, `gemini`,
            `bedrock` or `mistral`. The history is kept in the internal view.
        policy: Every threshold; `None`: `Policy.buffered()`.
        system: The system prompt, to be counted; never changed.
        tools: Tool definitions, to be counted; never changed.
        summarizer: For automatic and manual compactions; `None`: extractive, without a model.
        line_summarizer: With a small model, for the lines that stand for single tool results; `None`: put together by code.
        fallback: Who writes when the summarizer fails; `None`: the extractive one, for automatic compactions.
        store: For large tool results; `None`: they stay, and are snipped.
        settings: Settings of the window; `None`: those of the environment.
        table: Where to look the model up; `None`: the built-in table.
        source: Who asks: `main`, or `subagent`, `compact`, `session_memory`, `collapse`.
        memory: Notes of the session (`SessionMemory`): kept up to date by `observe`, tried before a summary is written.
            `None`: there are none.
        hooks: PreCompact, PostCompact, SessionStart; `Hooks` or its fields.
        providers: What is put back after a compaction.
        listeners: Told of every event, in order.
        options: Further options of `ullage.compact`, such as `session_id` or `redact`.
        context_management: Anthropic's parameter of that name, as a form of policy: sent on where the provider knows it, else done
            here and told in `Request.applied_edits`. `None`: none.
        context_window: The model's window in tokens, in place of what the table says; `None`: as the table says.
        max_output_tokens: The model's largest answer in tokens, likewise.
        thinking: The requests' `thinking` parameter, as the provider takes it; `None`: not in use. In Anthropic's manual mode
            (`enabled`) no request begins an open turn without its thinking (A14). It is saved.

    Example:
        >>> manager = ContextManager(model="claude-opus-4-5")
        >>> manager.add({"role": "user", "content": "hello"})
        >>> manager.prepare().messages
        [{'role': 'user', 'content': 'hello'}]
    """

    def __init__(
        self,
        *,
        model: str,
        provider: str = "anthropic",
        policy: Policy | None = None,
        system: Any = None,
        tools: Sequence[Mapping[str, Any]] = (),
        summarizer: Any = None,
        line_summarizer: Any = None,
        fallback: Any = None,
        store: OffloadStore | None = None,
        settings: WindowSettings | None = None,
        table: ModelTable | None = None,
        source: str = "main",
        memory: Any = None,
        hooks: Any = None,
        providers: Providers | None = None,
        listeners: Iterable[Listener] = (),
        options: Mapping[str, Any] | None = None,
        context_management: Mapping[str, Any] | None = None,
        context_window: int | None = None,
        max_output_tokens: int | None = None,
        thinking: Thinking | None = None,
    ) -> None:
        stated = {"context_window": context_window, "max_output_tokens": max_output_tokens}
        row = (table or ModelTable.builtin()).stated(model, **stated)
        rules = policy or Policy.buffered()
        if memory is None and rules.session_memory.enabled:
            raise _no_memory()
        if context_management is not None:
            rules = context_edits.policy_for(rules, context_management, row, shape_of(provider))
        self.machine = Machine(
            model=row,
            policy=rules,
            settings=settings or WindowSettings.from_env(),
            overhead=overhead_of(system, tools, row),
            source=source,
            provider=shape_of(provider),
            tools=names_of(tools),
            thinking=read_thinking(thinking, provider=shape_of(provider)),
            stated_window={name: given for name, given in stated.items() if given is not None},
        )
        warn_without_trigger(self.machine.window, self.machine.overhead_tokens)
        self.host = Host(
            summarizer=_writer(summarizer),
            line_summarizer=_writer(line_summarizer),
            fallback=_writer(fallback),
            offload=store,
            memory=memory,
            hooks=hooks,
            providers=providers or Providers(),
            listeners=tuple(listeners),
            options=dict(options or {}),
            ahead=Ahead(tuple(listeners)),
            beside=Beside(),
        )
        self._alone = Alone()
        if context_management is not None:
            self.machine.states[context_edits.STAGE].config = dict(context_management)
        self._outgoing = Outgoing(
            model=row.name,
            provider=self.machine.provider,
            system=system,
            tools=tools,
            thinking=self.machine.thinking,
        )

    # ---- what comes in -----------------------------------------------------------------------

    def add(self, message: Item) -> None:
        """Append a message: the user's, the model's, or results of tools; an item in the form of Responses.

        Raises:
            InvalidMessage: No provider could take it; nothing has changed.
        """
        self.machine.take(message)
        self._outgoing.note_answer(self.machine)

    def observe(self, response: Any) -> None:
        """Append the model's answer, with its usage if it has one: the next count is anchored on it.

        Args:
            response: The response's body or an SDK's object of it, or just the message in it.
        """
        newest = self.machine.observe(response)
        self._outgoing.note_answer(self.machine)
        flows.answered(self.machine, self.host, newest)

    # ---- pins --------------------------------------------------------------------------------

    def pin(self, name: str, given: str | Item, *, by: str = "host") -> None:
        """Keep a text, or the text of a message or block, word for word through every level (CTX-3).

        Args:
            name: To unpin it by; another text under the same name takes its place.
            given: A string, a message or entry, or a text block.
            by: `host`, `user` or `tool`.
        """
        self.machine.pins[name] = pin_of(name, given, by=by)

    def unpin(self, name: str) -> None:
        """Let a pinned text go.

        Raises:
            InvalidPolicy: There is no pin of this name.
        """
        kept = unpin(self.machine.pins.values(), name)
        self.machine.pins = {pin.name: pin for pin in kept}

    # ---- saving ------------------------------------------------------------------------------

    def save(self, *, history: bool = False) -> dict[str, Any]:
        """The state as plain JSON: decisions, what levels hold, learned limits, counters, corrections.

        Args:
            history: Put the messages in. Without them, give them back to `restore`.
        """
        found = dump(self.machine, history=history)
        return {**found, "outgoing": self._outgoing.dump(self.machine)}

    @classmethod
    def restore(
        cls,
        saved: Mapping[str, Any],
        history: Sequence[Item] | None = None,
        *,
        policy: Policy | None = None,
        **outside: Any,
    ) -> Self:
        """A manager that goes on where the saved one stood.

        Args:
            saved: What `save` gave.
            history: The messages that had been added, in order, from the host's own log; `None`: those in `saved`. Messages
                beyond them count as added since.
            policy: `None`: the saved one.
            **outside: What is not saved, as for the constructor: `system`, `tools`, `summarizer`, `store`, ...

        Raises:
            InvalidPolicy: It is no saved state, or the history is another; names the field.
        """
        if not isinstance(saved.get("policy"), Mapping) or "model" not in saved:
            raise InvalidPolicy("saved", type(saved).__name__, "must be what save() gave")
        rules = policy or policy_of(saved["policy"])
        known = {name: saved[name] for name in ("model", "source", "provider")}
        known.update(saved.get("stated_window") or {})
        known["thinking"] = saved.get("thinking")
        made = cls(policy=rules, **{**known, **outside})
        load(made.machine, saved, history)
        made._outgoing.load(made.machine, saved.get("outgoing") or {})
        return made

    # ---- what goes out -----------------------------------------------------------------------

    def prepare(self, *, now_ms: int | None = None, cancel: CancelToken | None = None) -> Request:
        """Run the levels and give what to send.

        Args:
            now_ms: The clock, for what happens by time; `None`: nothing does.
            cancel: Looked at between steps; what a level has done by then stays done.

        Raises:
            ContextTooLarge: What must stay does not fit; names the floor.
            ManagerBusy: Another call prepares a request of this conversation, or recovers from a refusal.
        """
        with self._alone("prepare"):
            self.host.beside.stop_task()
            request = self._run(self._prepare(now_ms), cancel)
            self._look_ahead(asynchronous=False)
        return request

    async def aprepare(
        self, *, now_ms: int | None = None, cancel: CancelToken | None = None
    ) -> Request:
        """`prepare`, without blocking the event loop; messages added meanwhile are kept."""
        with self._alone("aprepare"):
            request = await self._arun(self._prepare(now_ms), cancel)
            self._look_ahead(asynchronous=True)
        return request

    def compact(
        self,
        instructions: str = "",
        *,
        target_tokens: int | None = None,
        cancel: CancelToken | None = None,
    ) -> CompactionResult:
        """Compact now; where compaction is turned off altogether the outcome is `blocked`.

        Args:
            instructions: What the summary should mind; empty: nothing special.
            target_tokens: As for `ullage.compact`; `None`: no limit beyond the policy's.
            cancel: Anything with `is_set()`.

        Raises:
            CompactionError: It failed; nothing has changed.
        """
        return self._run(
            flows.compact(
                self._seen(self.window.compaction), self.host, instructions, target_tokens
            ),
            cancel,
        )

    async def acompact(
        self,
        instructions: str = "",
        *,
        target_tokens: int | None = None,
        cancel: CancelToken | None = None,
    ) -> CompactionResult:
        """`compact`, without blocking the event loop."""
        return await self._arun(
            flows.compact(
                self._seen(self.window.compaction), self.host, instructions, target_tokens
            ),
            cancel,
        )

    def on_overflow(self, error: Any) -> Recovery:
        """Make room after the provider refused a request.

        Args:
            error: The exception or response.

        Returns:
            True (as a truth value) if it was an overflow and room was made: prepare again and retry.

        Raises:
            ContextTooLarge: All last resorts were tried for this request.
            ManagerBusy: As for `prepare`.
        """
        with self._alone("on_overflow"):
            return self._run(self._recover(error))

    async def aon_overflow(self, error: Any) -> Recovery:
        """`on_overflow`, without blocking the event loop."""
        with self._alone("aon_overflow"):
            return await self._arun(self._recover(error))

    def stage_ahead(self) -> int:
        """Write the summaries that a context collapse will need, and wait for them; `prepare` has them written beside anyway.

        Returns:
            How many spans are ready that were not before; 0 where collapse is off or the window is not full enough.
        """
        return self._run(flows.stage_ahead(self.machine, self.host))

    async def astage_ahead(self) -> int:
        """`stage_ahead`, beside the conversation: what is added or changed meanwhile is looked at when it ends."""
        return await self._arun(flows.stage_ahead(self.machine, self.host))

    def expand(self, collapse_id: str) -> StageReport:
        """Put a collapsed span back in its place; it is not collapsed again.

        Raises:
            UnknownHandle: No placeholder with that id is in the context.
        """
        return self._run(flows.expand(self._seen(True), collapse_id))

    # ---- tools for the model -----------------------------------------------------------------

    @property
    def recall(self) -> Recall:
        """Brings back what left: `recall.get(handle)` for the host, `recall.call(input)` for the model."""
        return tools.recall_of(self.machine, self.host)

    def answer(self, name: str, given: Any) -> ToolAnswer:
        """The answer to a model's call of one of the library's tools, for a tool result: `recall`, `Snip`, `compact_context`, `context_usage`.

        Args:
            name: The tool that was called.
            given: The call's input, whatever it is.

        Raises:
            InvalidPolicy: The library has no such tool.
        """
        return tools.answer(self.machine, self.host, name, given)

    # ---- inside ------------------------------------------------------------------------------

    def _seen(self, rewrites: bool) -> Machine:
        """The machine, before something rewrites its view: what the model thought until now was after this view."""
        if rewrites:
            self._outgoing.note_imported(self.machine)
        return self.machine

    def _recover(self, error: Any) -> Flow[Recovery]:
        return recover(self._seen(classify(error).is_overflow), self.host, error)

    def _look_ahead(self, *, asynchronous: bool) -> None:
        """Have written beside the conversation what will be needed soon: a summary of the whole, or of spans."""
        machine, host = self.machine, self.host
        look_ahead(machine, host, flows.job_for, asynchronous=asynchronous)
        if flows.stages_beside(machine, host):
            start = host.beside.start_task if asynchronous else host.beside.start
            start(flows.stage_ahead(machine, host), host)

    def _prepare(self, now_ms: int | None) -> Flow[Request]:
        return flows.prepare(self.machine, self.host, self._outgoing, now_ms)

    def _run(self, flow: Flow[T], cancel: CancelToken | None = None) -> T:
        perform = Performer(self.host, self.host.listeners, cancel=cancel)
        return drive(flow, perform, cancel=cancel)

    async def _arun(self, flow: Flow[T], cancel: CancelToken | None = None) -> T:
        perform = AsyncPerformer(self.host, self.host.listeners, cancel=cancel)
        return await adrive(flow, perform, cancel=cancel)

    def __repr__(self) -> str:
        machine = self.machine
        size = f"{len(machine.view)} of {len(machine.history)} messages"
        return f"ContextManager({machine.model.name!r}, {size}, ≈{machine.tokens:_} tokens)"


def _no_memory() -> InvalidPolicy:
    hint = "pass memory=SessionMemory(folder, policy=policy.session_memory)"
    limit = "needs notes to keep: memory= is not given"
    return InvalidPolicy("session_memory.enabled", True, limit, hint=hint)


def _writer(given: Any) -> Any:
    return None if given is None else writer_of(given)
