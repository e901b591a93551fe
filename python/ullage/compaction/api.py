"""`compact` and `acompact`: one compaction of a list, from arguments to result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields as dataclass_fields, replace
from functools import partial
from typing import Any, Unpack

from ullage.compaction.assemble import stable_uuid
from ullage.compaction.effects_runner import Providers, arun_flow, run_flow
from ullage.compaction.flow import compaction_flow
from ullage.compaction.job import DEFAULT_WINDOW, CompactionResult, Job, ListOptions
from ullage.counting.calibration import weights_for
from ullage.counting.models import ModelTable
from ullage.counting.window import WindowSettings, window_for
from ullage.exceptions import InvalidPolicy, LogConflict
from ullage.levels.pins import Pin
from ullage.messages import COPY_OF, Item
from ullage.observe.hooks import Hooks
from ullage.policy import policy_given, refuse_unknown
from ullage.providers.anthropic import read_thinking
from ullage.providers.native_lists import FormList, read_form
from ullage.summarizers.extractive import ExtractiveSummarizer
from ullage.summarizers.lines import writer_of
from ullage.transcript import Transcript
from ullage.transcript.log import TranscriptLog
from ullage.transcript.records import RecordLine
from ullage.transcript.write import (
    KeptEntries,
    boundary_metadata,
    compaction_lines,
    session_lines,
    without_ids,
)


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
    result = run_flow(compaction_flow(job), **around)
    return result if form is None else in_form(result, form)


async def acompact(items: Sequence[Item], **options: Unpack[ListOptions]) -> CompactionResult:
    """`compact`, without blocking the event loop: summarizers, hooks and providers may be asynchronous.

    Cancelling the task works too: nothing has changed then.

    Args:
        items: See `compact`, also for what is returned and raised.
        **options: See `ullage.compaction.ListOptions`.
    """
    job, form, around = _read(items, options)
    result = await arun_flow(compaction_flow(job), **around)
    return result if form is None else in_form(result, form)


def _read(
    items: Sequence[Item], options: ListOptions
) -> tuple[Job, FormList | None, dict[str, Any]]:
    """The job, the form of a list that is not in the internal one, and who listens and cancels."""
    refuse_unknown(options, ListOptions.__annotations__)
    of_job: dict[str, Any] = {**options}
    around = {"listeners": of_job.pop("listeners", ()), "cancel": of_job.pop("cancel", None)}
    form = read_form(items, of_job.pop("provider", None))
    return job_of(items if form is None else form.messages, **of_job), form, around


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
    """A `Job` from what a caller has at hand: options of `ListOptions`; `None` instead of a model's figure: the model's."""
    refuse_unknown(options, [job_field.name for job_field in dataclass_fields(Job)])
    if not isinstance(model, str | None):
        raise InvalidPolicy("model", model, "must be the name of a model")
    of_model = ("window_tokens", "trigger_tokens", "weights")
    options = {name: v for name, v in options.items() if v is not None or name not in of_model}
    if log is not None:
        store = partial(install_in, log)
        of_log = {"store": store, "transcript_path": log.path, "session_id": log.session_id}
        options |= {name: value for name, value in of_log.items() if not options.get(name)}
    writer, fallback = writer_of(options.get("summarizer")), options.get("fallback")
    automatic = options.get("trigger") == "auto"
    if fallback is None and automatic and not isinstance(writer, ExtractiveSummarizer):
        fallback = ExtractiveSummarizer()
    settings = WindowSettings.from_env()
    row = None if model is None else ModelTable.builtin().find(model)
    fields: dict[str, Any] = {"disabled": settings.disable_compact, "weights": weights_for(model)}
    if model is not None:
        marks = window_for(model, settings=settings)
        fields |= {"window_tokens": marks.context, "trigger_tokens": marks.threshold}
        fields["bound_thinking"] = row is not None and row.bound_thinking
    fields |= options
    fallback = None if fallback is None else writer_of(fallback)
    # The setting has a meaning only where its rules are those of Anthropic's models.
    claude = row is None or row.provider == "anthropic"
    thinking = read_thinking(options.get("thinking"), provider="anthropic" if claude else None)
    # The job refuses an invalid window.
    window = fields.get("window_tokens", DEFAULT_WINDOW)
    window = window if isinstance(window, int) and window > 0 else DEFAULT_WINDOW
    fields |= {
        "summarizer": writer,
        "fallback": fallback,
        "thinking": thinking if claude else None,
        "hooks": _hooks(options.get("hooks")),
        "providers": options.get("providers") or Providers(),
        "pins": _pins(options.get("pins", ())),
        "policy": policy_given(options.get("policy")).fitted(window),
    }
    return Job(items=items, **fields)


def _hooks(hooks: Hooks | Mapping[str, Any] | None) -> Hooks:
    if isinstance(hooks, Hooks):
        return hooks
    if hooks is not None and not isinstance(hooks, Mapping):
        limit = "must be Hooks, or their fields as a mapping"
        raise InvalidPolicy("hooks", type(hooks).__name__, limit)
    names = [hook_field.name for hook_field in dataclass_fields(Hooks)]
    refuse_unknown(hooks or {}, names, "hooks.")
    return Hooks(**(hooks or {}))


def _pins(pins_given: Iterable[Pin]) -> tuple[Pin, ...]:
    unchecked: Any = pins_given  # callers may not use a type checker
    pins = (unchecked,) if isinstance(unchecked, str) else tuple(unchecked)
    for pin in pins:
        if not isinstance(pin, Pin):
            hint = 'Pin("name", "text"), of ullage.levels.pins'
            raise InvalidPolicy("pins", type(pin).__name__, "must hold Pins", hint=hint)
    return pins


# Kept entries on one chain of parents, for readers that walk a Claude Code file from its newest entry to the oldest.
#
# Results of parallel calls branch off that chain. Where the kept part has such branches, it is written again after the
# summary, each entry the child of the one before; both ways of reading then find the same.


def on_one_chain(result: CompactionResult, transcript: Transcript) -> CompactionResult:
    """The result, with copies of what is kept if a walk along the parents in the file would miss some of it.

    `result`: of entries that stand in the file, with its own lines as they will be written; `transcript`: the file before the compaction.
    """
    places = {row.uuid: row for row in transcript.rows() if row.uuid}
    uuids = [str(name) for name in result.report.kept]
    in_file = result.kept and all(name in places for name in uuids)
    # No other program finds a message that stands in the queue only.
    reachable = in_file and not any(transcript.is_queued(places[name].at) for name in uuids)
    if result.boundary is None or not in_file or (reachable and _linked(uuids, places)):
        return result
    # As the file holds them: what may not be sent of them is left out of each request, not of the log.
    whole = [transcript.load(places[name].at) for name in uuids]
    return _copied(result, result.boundary, whole)


def entries_to_write(result: CompactionResult) -> Sequence[Item]:
    """What is appended to the file: kept entries stay where they are, unless they were copied."""
    links = (result.boundary or {}).get("compactMetadata", {})
    copied = result.kept and "preservedMessages" not in links
    return result.messages if copied else result.new_entries


def _linked(uuids: Sequence[str], places: Mapping[str, RecordLine]) -> bool:
    """Whether the walk from the last to the first passes all of them."""
    at, passed = uuids[-1], set[str]()
    while at in places and at not in passed:
        passed.add(at)
        if at == uuids[0]:
            break
        at = places[at].parent
    return passed.issuperset(uuids)


def _copied(result: CompactionResult, boundary: Item, whole: Sequence[Item]) -> CompactionResult:
    parent = str(boundary["uuid"])
    copies = Copies(parent)
    kept_objects = {id(item) for item in result.kept}
    order = list(result.messages[1:])
    place = next(at for at, item in enumerate(order) if id(item) in kept_objects)
    others = [item for item in order if id(item) not in kept_objects]
    entries: dict[int, dict[str, Any]] = {}
    for item in [*others[:place], *whole, *others[place:]]:
        entry = {**item, "parentUuid": parent}
        if place <= len(entries) < place + len(whole):
            entry = copies.of(item, parent)
        entries[id(item)] = entry
        parent = str(entry["uuid"])
    metadata = {
        key: value
        for key, value in boundary["compactMetadata"].items()
        if key not in ("preservedSegment", "preservedMessages")
    }
    metadata["groupUuids"] = [entry["uuid"] for entry in entries.values()]
    cut = {**boundary, "compactMetadata": metadata}
    copied = tuple(entries[id(item)] for item in whole)
    written = _exchanged(result, entries)
    return replace(written, messages=(cut, *entries.values()), boundary=cut, kept=copied)


def _exchanged(result: CompactionResult, entries: Mapping[int, dict[str, Any]]) -> CompactionResult:
    """The result with other entries for those that it made, by the `id` of each."""
    lists = ("summary_messages", "attachments", "hook_results")
    exchanged: dict[str, Any] = {
        name: tuple(entries[id(item)] for item in getattr(result, name)) for name in lists
    }
    return replace(result, **exchanged)


class Copies:
    """Copies of entries under ids of their own: Claude Code merges entries that share an id with their originals.

    `mark`: uuid of the boundary that they follow.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._uuids: dict[str, str] = {}

    def of(self, item: Item, parent: str) -> dict[str, Any]:
        """A copy of an entry, child of `parent`, without usage, which would be counted twice and is of the context before."""
        named = isinstance(item.get("uuid"), str)
        old = str(item["uuid"]) if named else f"without a uuid, after {parent}"
        own = self._uuids[old] = stable_uuid("kept", self._mark, old)
        entry = {**item, "parentUuid": parent, "uuid": own}
        if named or COPY_OF in item:
            entry[COPY_OF] = item.get(COPY_OF) or old
        message = item.get("message")
        if isinstance(message, Mapping):
            entry["message"] = {key: part for key, part in message.items() if key != "usage"}
            if isinstance(message.get("id"), str):
                new = stable_uuid("response", self._mark, message["id"])
                entry["message"]["id"] = "msg_" + new.replace("-", "")
        caller = item.get("sourceToolAssistantUUID")
        if caller in self._uuids:
            entry["sourceToolAssistantUUID"] = self._uuids[caller]
        return entry


def install_in(
    log: TranscriptLog, draft: CompactionResult, ids: tuple[Any, ...]
) -> CompactionResult:
    """Write a compaction to the open log that the items came from, with one write that is on the disk when this returns.

    What was appended to the log since the compaction began is kept after the kept messages; that is a conflict if the kept part is the
    beginning of the conversation. `ids`: of the context that was compacted, oldest first.

    Returns:
        The result with the entries as they were written.

    Raises:
        LogConflict: The log's context no longer begins with what was compacted; nothing was written.
        StoreError: The disk is full, or another fault; the log is as it was.
    """
    with log.one_writer:  # the compaction is appended to exactly the state that was read
        return _install(log, draft, ids)


def _install(log: TranscriptLog, draft: CompactionResult, ids: tuple[Any, ...]) -> CompactionResult:
    context = log.resume().entries
    here = [item.get("uuid") for item in context]
    later, hint = tuple(context[len(ids) :]), "compact again: nothing was written"
    if tuple(here[: len(ids)]) != tuple(ids):
        raise LogConflict("the conversation changed while it was compacted", hint=hint)
    # Whether the beginning is kept, before the summary.
    order = [id(item) for item in draft.messages]
    before = bool(draft.kept) and (
        order.index(id(draft.kept[0])) < order.index(id(draft.summary_messages[0]))
    )
    if later and before:
        raise LogConflict("messages were appended after the part that was summarised", hint=hint)
    kept_ids: tuple[Any, ...] = (*draft.report.kept, *here[len(ids) :])
    drafted = (draft.boundary or {}).get("compactMetadata", {})
    metadata = boundary_metadata(
        trigger=drafted.get("trigger", "manual"),
        pre_tokens=drafted.get("preTokens", 0),
        post_tokens=draft.report.tokens_after,
        messages_summarized=len(draft.report.removed),
        discovered_tools=drafted.get("preCompactDiscoveredTools", ()),
    )
    written = compaction_lines(
        log,
        metadata,
        [*map(without_ids, draft.summary_messages)],
        parent=log.leaf,
        kept_entries=KeptEntries(tuple(map(str, kept_ids)), before_summary=before),
        attachments=[*map(without_ids, (*draft.attachments, *draft.hook_results))],
    )
    transcript = log.transcript()
    new = {id(before): after for before, after in zip(draft.new_entries, written, strict=True)}
    installed = replace(
        _exchanged(draft, new),
        boundary=written[0],
        kept=(*draft.kept, *later),
        messages=(*(new.get(id(item), item) for item in draft.messages), *later),
        report=replace(draft.report, kept=kept_ids),
    )
    done = on_one_chain(installed, transcript)
    lines = entries_to_write(done)
    log.write([*lines, *session_lines(transcript, lines)])
    log.sync()
    return done
