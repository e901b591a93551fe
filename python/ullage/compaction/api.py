"""`compact` and `acompact`: one compaction of a list, from arguments to result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import replace
from typing import Any, Literal

from ullage.compaction.compaction_result import CompactionResult, Direction
from ullage.compaction.context_providers import Providers
from ullage.compaction.effects_runner import arun_flow, run_flow
from ullage.compaction.flow import compaction_flow
from ullage.compaction.install import log_store
from ullage.compaction.job import DEFAULT_WINDOW, Job, ResultStore
from ullage.compaction.recollection import Memory
from ullage.counting.estimate import Weights, weights_for
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.effects import CancelToken
from ullage.exceptions import InvalidPolicy
from ullage.levels.pins import Pin
from ullage.messages import Item
from ullage.observe.events import Listener
from ullage.observe.hooks import Hooks
from ullage.policy import KeepPolicy, Policy
from ullage.policy.arguments import known_arguments, refuse_unknown
from ullage.policy.given import policy_given
from ullage.providers.manual_thinking import Thinking, read_thinking
from ullage.providers.native_lists import FormList, read_form
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.named import writer_of
from ullage.summarizers.protocol import WriterLike
from ullage.transcript.log import TranscriptLog

__all__ = ["acompact", "compact", "job_of"]


@known_arguments
def compact(
    items: Sequence[Item],
    *,
    model: str | None = None,
    instructions: str = "",
    keep: KeepPolicy | int | None = None,
    target_tokens: int | None = None,
    thinking: Thinking | None = None,
    summarizer: WriterLike | None = None,
    cancel: CancelToken | None = None,
    listeners: Iterable[Listener] = (),
    provider: str | None = None,
    trigger: Literal["manual", "auto"] = "manual",
    direction: Direction = "full",
    at: int | str | None = None,
    policy: Policy | str | None = None,
    fallback: WriterLike | None = None,
    hooks: Hooks | Mapping[str, Any] | None = None,
    providers: Providers | None = None,
    pins: Iterable[Pin] = (),
    template: str = "",
    redact: Callable[[str], str] | None = None,
    transcript_path: str = "",
    session_id: str = "",
    cwd: str = "",
    store: ResultStore | None = None,
    memory: Memory | None = None,
    log: TranscriptLog | None = None,
    window_tokens: int | None = None,
    trigger_tokens: int | None = None,
    overhead_tokens: int | None = None,
    weights: Weights | None = None,
) -> CompactionResult:
    """Replace the older part of a conversation with a summary, and keep the newest part unchanged.

    Without a summarizer no model is asked: the summary consists of copies from the conversation. The
    list is not changed; kept messages are the same objects.

    Args:
        items: Bare messages or transcript entries, oldest first.
        model: The model that continues: its window decides how much is kept. `None`: a window of
            200 000 tokens.
        instructions: What the summary should focus on, in the user's words.
        keep: Newest part that stays verbatim: tokens, a `KeepPolicy`, or `None` for the
            policy's. 0: only what must stay (an unanswered message, calls still open).
        target_tokens: Most tokens of the new context's messages; system prompt and tools are not counted
            (`CompactionReport.overhead_tokens`). Half is for the kept messages: large results there are cut in the middle first (in
            bare messages; the lines of a transcript stay whole), then less is kept, then the summary is shorter. A target that is too
            small for what must stay (an unanswered message, the newest message, rules, pins) is refused. `None`: no limit.
        thinking: The `thinking` parameter of later requests; `None`: not in use. With `{"type": "enabled", ...}`
            an open turn never begins without its thinking (A14): the cut moves, or the turn is ended.
        summarizer: A summarizer, a function that takes a `SummaryRequest` and returns text, or a line
            such as `anthropic:claude-haiku-4-5`; `None`: the extractive one.
        cancel: Anything with `is_set()`; checked between steps.
        listeners: Called with every event.
        provider: Whose form the items have: `openai_responses`, `gemini` or `bedrock`, and the result has it
            too; the others are read as they are. `None`: items of the Responses API and Gemini's contents are
            recognised.
        trigger: `manual`: failures are raised. `auto`: they are outcomes, and the summary tells the model to continue.
        direction: `full`, or `from` the message `at` to the end, or `up_to` that message.
        at: For the latter two: a position in `items`, or a uuid.
        policy: Thresholds, or the name of a preset; `None`: the default.
        fallback: Writes the summary if the summarizer fails; `None`: for an automatic compaction the extractive one, else none.
        hooks: `Hooks`, or their fields as a mapping.
        providers: What to restore afterwards.
        pins: `Pin`s to carry verbatim.
        template: Replaces the prompt; empty: the built-in one.
        redact: Applied to all text that is sent to a model or becomes the summary; `None`: not applied.
        transcript_path: Passed to the model and to hooks; empty: that of `log`, if it is given.
        session_id: Passed to hooks; empty: that of `log`.
        cwd: Passed to hooks.
        store: Installs the result; `None`: that is up to the caller.
        memory: Notes of the session, tried before a summary is written; `None`: there are none.
        log: An open log that the items came from: the result is installed there.
        window_tokens: Context window; `None`: the model's.
        trigger_tokens: Where the next automatic compaction would start; `None`: the model's.
        overhead_tokens: System prompt and tools; `None`: taken from the usage figures, if any.
        weights: For the calibrated estimate; `None`: the model's.

    Returns:
        The result; see `CompactionResult.outcome`. A no-op returns the items.

    Raises:
        CompactionError: It failed and `trigger` is `manual`; nothing has changed.
        ContextTooLarge: What must stay is more than `target_tokens` and `trigger` is `manual`; names the smallest target that can be met.
        InvalidMessage: An item is not a mapping; names its place.
        InvalidPolicy: An argument is out of range; names it.

    Example:
        >>> result = compact([{"role": "user", "content": "hello"}])
        >>> result.outcome.value, result.reason
        ('no_op', 'nothing_to_compact')
    """
    apart = ("cancel", "listeners", "items", "provider")
    given = {name: each for name, each in locals().items() if name not in (*apart, "apart")}
    form = read_form(items, provider)
    job = job_of(items if form is None else form.messages, **given)
    result = run_flow(compaction_flow(job), job, listeners, cancel=cancel)
    return result if form is None else in_form(result, form)


@known_arguments
async def acompact(
    items: Sequence[Item],
    *,
    model: str | None = None,
    instructions: str = "",
    keep: KeepPolicy | int | None = None,
    target_tokens: int | None = None,
    thinking: Thinking | None = None,
    summarizer: WriterLike | None = None,
    cancel: CancelToken | None = None,
    listeners: Iterable[Listener] = (),
    provider: str | None = None,
    trigger: Literal["manual", "auto"] = "manual",
    direction: Direction = "full",
    at: int | str | None = None,
    policy: Policy | str | None = None,
    fallback: WriterLike | None = None,
    hooks: Hooks | Mapping[str, Any] | None = None,
    providers: Providers | None = None,
    pins: Iterable[Pin] = (),
    template: str = "",
    redact: Callable[[str], str] | None = None,
    transcript_path: str = "",
    session_id: str = "",
    cwd: str = "",
    store: ResultStore | None = None,
    memory: Memory | None = None,
    log: TranscriptLog | None = None,
    window_tokens: int | None = None,
    trigger_tokens: int | None = None,
    overhead_tokens: int | None = None,
    weights: Weights | None = None,
) -> CompactionResult:
    """`compact`, without blocking the event loop: summarizers, hooks and providers may be asynchronous.

    Args:
        items: See `compact`.
        model: See `compact`.
        instructions: See `compact`.
        keep: See `compact`.
        target_tokens: See `compact`.
        thinking: See `compact`.
        summarizer: See `compact`; a coroutine function too.
        cancel: See `compact`. Cancelling the task works too: nothing has changed then.
        listeners: See `compact`.
        provider: See `compact`.
        trigger: See `compact`; so are all that follow.
        direction: See `compact`.
        at: See `compact`.
        policy: See `compact`.
        fallback: See `compact`.
        hooks: See `compact`.
        providers: See `compact`.
        pins: See `compact`.
        template: See `compact`.
        redact: See `compact`.
        transcript_path: See `compact`.
        session_id: See `compact`.
        cwd: See `compact`.
        store: See `compact`.
        memory: See `compact`.
        log: See `compact`.
        window_tokens: See `compact`.
        trigger_tokens: See `compact`.
        overhead_tokens: See `compact`.
        weights: See `compact`.

    Returns:
        As `compact`.

    Raises:
        CompactionError: See `compact`.
        ContextTooLarge: See `compact`.
        InvalidMessage: See `compact`.
        InvalidPolicy: See `compact`.
    """
    apart = ("cancel", "listeners", "items", "provider")
    given = {name: each for name, each in locals().items() if name not in (*apart, "apart")}
    form = read_form(items, provider)
    job = job_of(items if form is None else form.messages, **given)
    result = await arun_flow(compaction_flow(job), job, listeners, cancel=cancel)
    return result if form is None else in_form(result, form)


def in_form(result: CompactionResult, form: FormList) -> CompactionResult:
    """A result whose messages have the form of the list that was given; what stays is the given items."""
    lists = ("messages", "summary_messages", "kept", "attachments", "hook_results", "head")
    told: dict[str, Any] = {name: tuple(form.back(getattr(result, name))) for name in lists}
    kept, removed = (
        dict.fromkeys(form.owner(one) if isinstance(one, int) else one for one in ids)
        for ids in (result.report.kept, result.report.removed)
    )
    removed = {one: None for one in removed if one not in kept}
    report = replace(result.report, kept=tuple(kept), removed=tuple(removed))
    return replace(result, report=report, **told)


def job_of(
    items: Sequence[Item],
    *,
    model: str | None = None,
    summarizer: WriterLike | None = None,
    fallback: WriterLike | None = None,
    trigger: Literal["manual", "auto"] = "manual",
    direction: Direction = "full",
    hooks: Hooks | Mapping[str, Any] | None = None,
    providers: Providers | None = None,
    pins: Iterable[Pin] = (),
    policy: Policy | str | None = None,
    redact: Callable[[str], str] | None = None,
    log: TranscriptLog | None = None,
    **options: Any,
) -> Job:
    """A `Job` from what a caller has at hand; see `compact`.

    Args:
        items: Messages or entries.
        model: Looked up for the window and the weights; `None`: the defaults.
        summarizer: `None`: extractive; a line such as `anthropic:claude-haiku-4-5`: see `summarizer_of`.
        fallback: `None`: for an automatic compaction the extractive one, else none.
        trigger: Who asked.
        direction: Which part is summarised.
        hooks: `Hooks`, or their fields as a mapping.
        providers: What to put back.
        pins: Texts to carry.
        policy: `None`: the default.
        redact: See `Job`.
        log: An open log that the items came from: the result is installed there.
        **options: Further fields of `Job`; `None` instead of a model's figure: the model's.
    """
    refuse_unknown(options, _FIELDS)
    options = {
        name: each for name, each in options.items() if each is not None or name not in _OF_MODEL
    }
    writer = writer_of(summarizer)
    if fallback is None and trigger == "auto" and not isinstance(writer, ExtractiveSummarizer):
        fallback = ExtractiveSummarizer()
    if log is not None:
        of_log = {
            "store": log_store(log),
            "transcript_path": log.path,
            "session_id": log.session_id,
        }
        options = {**options, **{k: each for k, each in of_log.items() if not options.get(k)}}
    off = WindowSettings.from_env().disable_compact
    fields = {"disabled": off, **_of_model(model), **options}
    fields["thinking"] = _thinking_of(model, options.get("thinking"))
    return Job(
        items=items,
        summarizer=writer,
        fallback=writer_of(fallback) if fallback is not None else None,
        trigger=trigger,
        direction=direction,
        hooks=_hooks(hooks),
        providers=providers or Providers(),
        pins=_pins(pins),
        policy=policy_given(policy, Policy()).fitted(_window_in(fields)),
        redact=redact,
        **fields,
    )


_FIELDS = tuple(each.name for each in dataclass_fields(Job))
_OF_MODEL = ("window_tokens", "trigger_tokens", "weights")


def _hooks(given: Hooks | Mapping[str, Any] | None) -> Hooks:
    if isinstance(given, Hooks):
        return given
    if given is not None and not isinstance(given, Mapping):
        raise InvalidPolicy(
            "hooks", type(given).__name__, "must be Hooks, or their fields as a mapping"
        )
    refuse_unknown(given or {}, [each.name for each in dataclass_fields(Hooks)], "hooks.")
    return Hooks(**(given or {}))


def _pins(given: Iterable[Pin]) -> tuple[Pin, ...]:
    told: Any = given  # callers may not use a type checker
    pins = (told,) if isinstance(told, str) else tuple(told)
    for pin in pins:
        if not isinstance(pin, Pin):
            raise InvalidPolicy(
                "pins",
                type(pin).__name__,
                "must hold Pins",
                hint='Pin("name", "text"), of ullage.levels.pins',
            )
    return pins


def _window_in(fields: Mapping[str, Any]) -> int:
    """The window that a policy is fitted to; the job refuses an invalid one."""
    given = fields.get("window_tokens", DEFAULT_WINDOW)
    return given if isinstance(given, int) and given > 0 else DEFAULT_WINDOW


def _thinking_of(model: str | None, given: object) -> Thinking | None:
    """The setting, where its rules are those of Anthropic's models; `None`: not in use, or another's."""
    row = None if model is None else ModelTable.builtin().find(model)
    claude = row is None or row.provider == "anthropic"
    found = read_thinking(given, provider="anthropic" if claude else None)
    return found if claude else None


def _of_model(model: str | None) -> dict[str, Any]:
    if model is None:
        return {"weights": weights_for()}
    marks = window_for(model, settings=WindowSettings.from_env())
    row = ModelTable.builtin().find(model)
    return {
        "window_tokens": marks.context,
        "trigger_tokens": marks.threshold,
        "weights": weights_for(model),
        "bound_thinking": row is not None and row.bound_thinking,
    }
