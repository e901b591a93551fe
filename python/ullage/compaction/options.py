"""What may be said about a compaction: each option once, for `compact`, `acompact`, `compact_session` and the manager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from ullage.compaction.context_providers import Providers
from ullage.compaction.job import Direction, Memory, ResultStore
from ullage.counting.calibration import Weights
from ullage.effects import CancelToken
from ullage.levels.pins import Pin
from ullage.observe.events import Listener
from ullage.observe.hooks import Hooks
from ullage.policy import KeepPolicy, Policy
from ullage.providers.anthropic import Thinking
from ullage.summarizers.protocol import WriterLike
from ullage.transcript.log import TranscriptLog


class SummaryOptions(TypedDict, total=False):
    """How summaries are written, for one compaction and for all of a manager; what is left out has the default that is named.

    Attributes:
        keep: Newest part that stays verbatim: tokens, a `KeepPolicy`, or `None` for the
            policy's. 0: only what must stay (an unanswered message, calls still open).
        thinking: The `thinking` parameter of later requests; `None`: not in use. With `{"type": "enabled", ...}`
            an open turn never begins without its thinking (A14): the cut moves, or the turn is ended.
        summarizer: A summarizer, a function that takes a `SummaryRequest` and returns text (for `acompact` a coroutine function
            too), or a line such as `anthropic:claude-haiku-4-5`; `None`: the extractive one.
        fallback: Writes the summary if the summarizer fails; `None`: for an automatic compaction the extractive one, else none.
        listeners: Called with every event.
        hooks: `Hooks`, or their fields as a mapping.
        providers: What to restore afterwards.
        template: Replaces the prompt; empty: the built-in one.
        redact: Applied to all text that is sent to a model or becomes the summary; `None`: not applied.
        session_id: Passed to hooks; empty: that of the log.
        cwd: Passed to hooks.
    """

    keep: KeepPolicy | int | None
    thinking: Thinking | None
    summarizer: WriterLike | None
    fallback: WriterLike | None
    listeners: Iterable[Listener]
    hooks: Hooks | Mapping[str, Any] | None
    providers: Providers | None
    template: str
    redact: Callable[[str], str] | None
    session_id: str
    cwd: str


class CompactionOptions(SummaryOptions, total=False):
    """The options of every compaction, by name.

    Attributes:
        model: The model that continues: its window decides how much is kept. `None`: that of the session, or else a window
            of 200 000 tokens.
        instructions: What the summary should focus on, in the user's words; empty: nothing.
        target_tokens: Most tokens of the new context's messages; system prompt and tools are not counted
            (`CompactionReport.overhead_tokens`). Half is for the kept messages: large results there are cut in the middle first (in
            bare messages; the lines of a transcript stay whole), then less is kept, then the summary is shorter. A target that is too
            small for what must stay (an unanswered message, the newest message, rules, pins) is refused. `None`: no limit.
        cancel: Anything with `is_set()`; checked between steps.
        trigger: `manual`: failures are raised. `auto`: they are outcomes, and the summary tells the model to continue.
        direction: `full`, or `from` the message `at` to the end, or `up_to` that message.
        at: For the latter two: a position among the items, or a uuid.
        policy: Thresholds, or the name of a preset; `None`: the default.
        pins: `Pin`s to carry verbatim.
        memory: Notes of the session, tried before a summary is written; `None`: there are none.
        window_tokens: Context window; `None`: the model's.
        trigger_tokens: Where the next automatic compaction would start; `None`: the model's.
        overhead_tokens: System prompt and tools; `None`: taken from the usage figures, if any.
        weights: For the calibrated estimate; `None`: the model's.
    """

    model: str | None
    instructions: str
    target_tokens: int | None
    cancel: CancelToken | None
    trigger: Literal["manual", "auto"]
    direction: Direction
    at: int | str | None
    policy: Policy | str | None
    pins: Iterable[Pin]
    memory: Memory | None
    window_tokens: int | None
    trigger_tokens: int | None
    overhead_tokens: int | None
    weights: Weights | None


class ListOptions(CompactionOptions, total=False):
    """The same for a list, whose form and origin the caller knows.

    Attributes:
        provider: Whose form the items have: `openai_responses`, `gemini` or `bedrock`, and the result has it
            too; the others are read as they are. `None`: items of the Responses API and Gemini's contents are
            recognised.
        log: An open log that the items came from: the result is installed there.
        store: Installs the result; `None`: that is up to the caller.
        transcript_path: Passed to the model and to hooks; empty: that of `log`, if it is given.
    """

    provider: str | None
    log: TranscriptLog | None
    store: ResultStore | None
    transcript_path: str
