"""`compact` and `acompact`: one compaction of a list, from arguments to result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields, replace
from typing import Any, Unpack

from ullage.compaction.context_providers import Providers
from ullage.compaction.effects_runner import arun_flow, run_flow
from ullage.compaction.flow import compaction_flow
from ullage.compaction.install import log_store
from ullage.compaction.job import DEFAULT_WINDOW, CompactionResult, Job, ListOptions
from ullage.counting.calibration import weights_for
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import InvalidPolicy
from ullage.levels.pins import Pin
from ullage.messages import Item
from ullage.observe.hooks import Hooks
from ullage.policy import Policy
from ullage.policy.whole import policy_given, refuse_unknown
from ullage.providers.anthropic import Thinking, read_thinking
from ullage.providers.native_lists import FormList, read_form
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.lines import writer_of
from ullage.transcript.log import TranscriptLog


def compact(items: Sequence[Item], **options: Unpack[ListOptions]) -> CompactionResult:
    """Replace the older part of a conversation with a summary, and keep the newest part unchanged.

    Without a summarizer no model is asked: the summary consists of copies from the conversation. The
    list is not changed; kept messages are the same objects.

    Args:
        items: Bare messages or transcript entries, oldest first.
        **options: See `ullage.compaction.ListOptions`; those that are used most: `model`, `instructions`, `keep`,
            `target_tokens`, `summarizer`.

    Returns:
        The result; see `CompactionResult.outcome`. A no-op returns the items.

    Raises:
        CompactionError: It failed and `trigger` is `manual`; nothing has changed.
        ContextTooLarge: What must stay is more than `target_tokens` and `trigger` is `manual`; names the smallest target that can be met.
        InvalidMessage: An item is not a mapping; names its place.
        InvalidPolicy: There is no such option, or it is out of range; names it.

    Example:
        >>> result = compact([{"role": "user", "content": "hello"}])
        >>> result.outcome.value, result.reason
        ('no_op', 'nothing_to_compact')
    """
    job, form, around = _read(items, options)
    result = run_flow(compaction_flow(job), job, **around)
    return result if form is None else in_form(result, form)


async def acompact(items: Sequence[Item], **options: Unpack[ListOptions]) -> CompactionResult:
    """`compact`, without blocking the event loop: summarizers, hooks and providers may be asynchronous.

    Cancelling the task works too: nothing has changed then.

    Args:
        items: See `compact`, also for what is returned and raised.
        **options: See `ullage.compaction.ListOptions`.
    """
    job, form, around = _read(items, options)
    result = await arun_flow(compaction_flow(job), job, **around)
    return result if form is None else in_form(result, form)


def _read(
    items: Sequence[Item], options: ListOptions
) -> tuple[Job, FormList | None, dict[str, Any]]:
    """The job, the form of a list that is not in the internal one, and who listens and cancels."""
    refuse_unknown(options, ListOptions.__annotations__)
    job_options: dict[str, Any] = {**options}
    around = {
        "listeners": job_options.pop("listeners", ()),
        "cancel": job_options.pop("cancel", None),
    }
    form = read_form(items, job_options.pop("provider", None))
    return job_of(items if form is None else form.messages, **job_options), form, around


def in_form(result: CompactionResult, form: FormList) -> CompactionResult:
    """A result whose messages have the form of the list that was given; what stays is the given items."""
    lists = ("messages", "summary_messages", "kept", "attachments", "hook_results", "head")
    converted: dict[str, Any] = {name: tuple(form.back(getattr(result, name))) for name in lists}
    kept_ids, removed = (
        dict.fromkeys(form.owner(one) if isinstance(one, int) else one for one in ids)
        for ids in (result.report.kept, result.report.removed)
    )
    removed = {one: None for one in removed if one not in kept_ids}
    report = replace(result.report, kept=tuple(kept_ids), removed=tuple(removed))
    return replace(result, report=report, **converted)


def job_of(
    items: Sequence[Item],
    *,
    model: str | None = None,
    log: TranscriptLog | None = None,
    **options: Any,
) -> Job:
    """A `Job` from what a caller has at hand.

    Args:
        items: Messages or entries.
        model: This and `log` are those of `ListOptions`.
        log: See `model`.
        **options: Fields of `Job` as `ListOptions` has them; `None` instead of a model's figure: the model's.
    """
    refuse_unknown(options, _FIELDS)
    if not isinstance(model, str | None):
        raise InvalidPolicy("model", model, "must be the name of a model")
    options = {
        name: value for name, value in options.items() if value is not None or name not in _OF_MODEL
    }
    if log is not None:
        of_log = {
            "store": log_store(log),
            "transcript_path": log.path,
            "session_id": log.session_id,
        }
        options |= {name: value for name, value in of_log.items() if not options.get(name)}
    writer, fallback = writer_of(options.get("summarizer")), options.get("fallback")
    automatic = options.get("trigger") == "auto"
    if fallback is None and automatic and not isinstance(writer, ExtractiveSummarizer):
        fallback = ExtractiveSummarizer()
    off = WindowSettings.from_env().disable_compact
    fields = {"disabled": off, **_of_model(model), **options}
    fields |= {
        "summarizer": writer,
        "fallback": None if fallback is None else writer_of(fallback),
        "thinking": _thinking_of(model, options.get("thinking")),
        "hooks": _hooks(options.get("hooks")),
        "providers": options.get("providers") or Providers(),
        "pins": _pins(options.get("pins", ())),
        "policy": policy_given(options.get("policy"), Policy()).fitted(_window_in(fields)),
    }
    return Job(items=items, **fields)


_FIELDS = tuple(each.name for each in dataclass_fields(Job))
_OF_MODEL = ("window_tokens", "trigger_tokens", "weights")


def _hooks(hooks: Hooks | Mapping[str, Any] | None) -> Hooks:
    if isinstance(hooks, Hooks):
        return hooks
    if hooks is not None and not isinstance(hooks, Mapping):
        raise InvalidPolicy(
            "hooks", type(hooks).__name__, "must be Hooks, or their fields as a mapping"
        )
    refuse_unknown(
        hooks or {}, [hook_field.name for hook_field in dataclass_fields(Hooks)], "hooks."
    )
    return Hooks(**(hooks or {}))


def _pins(pins_given: Iterable[Pin]) -> tuple[Pin, ...]:
    unchecked: Any = pins_given  # callers may not use a type checker
    pins = (unchecked,) if isinstance(unchecked, str) else tuple(unchecked)
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
    window = fields.get("window_tokens", DEFAULT_WINDOW)
    return window if isinstance(window, int) and window > 0 else DEFAULT_WINDOW


def _thinking_of(model: str | None, value: object) -> Thinking | None:
    """The setting, where its rules are those of Anthropic's models; `None`: not in use, or another's."""
    row = None if model is None else ModelTable.builtin().find(model)
    claude = row is None or row.provider == "anthropic"
    thinking = read_thinking(value, provider="anthropic" if claude else None)
    return thinking if claude else None


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
