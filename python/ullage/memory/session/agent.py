"""The editing loop: a model that is shown the conversation and the notes, and may do one thing, edit them (SM-3).

It uses the summarizer protocol, in text, so that every summarizer can do it, and the prefix that it shares with the
main loop needs no additional tool.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ullage._engine import core
from ullage.compaction.input import CompactionInput
from ullage.counting.media_stripping import strip_media
from ullage.effects import Cancelled, Flow, Summarize
from ullage.memory.session.notes_edits import NotesEdit, Refusal, apply_edit, read_answer
from ullage.messages import role_of
from ullage.providers.errors import classify
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

__all__ = ["PLAIN_SYSTEM", "SOURCE", "ModelConversation", "NotesDraft", "talk_flow"]

SOURCE = "session_memory"
"""Who asks, in requests."""

MAX_TURNS = 4
"""Responses of one update: the edits, and corrections of failed ones."""

OUTPUT_TOKENS = 16_000
"""Tokens for a response: it may rewrite all notes."""

PLAIN_SYSTEM = (
    "You keep the notes of a working session: exact, dense, only what the conversation says."
)
"""System prompt where the main loop's is not shared."""

_BEFORE = "[What came before this is in the notes.]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConversation:
    """Everything needed to call the model.

    Attributes:
        source: The conversation.
        start: First message that the notes have not absorbed.
        end: Position after the last that may be.
        summarizer: The summarizer that is called.
        prompt: The prompt.
        notes: As they are.
        path: As shown to the model.
        max_chars: The longest that notes may become.
        deadline_seconds: Of one call.
        redact: Applied to all text that is sent; `None`: nothing.
    """

    source: CompactionInput = field(repr=False)
    start: int
    end: int
    summarizer: Any
    prompt: str = field(repr=False)
    notes: str = field(repr=False)
    path: str
    max_chars: int
    deadline_seconds: float
    redact: Callable[[str], str] | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class NotesDraft:
    """The edits that the model requested.

    Attributes:
        edits: Those that fit, in order.
        refusals: Everything else that it tried.
        end: Position after the last message that it was shown.
        calls: Calls that were made.
        problem: Why nothing may be written; empty: there is no problem.
    """

    edits: tuple[NotesEdit, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    end: int = 0
    calls: int = 0
    problem: str = ""


def talk_flow(talk: ModelConversation) -> Flow[NotesDraft]:
    """Asks for edits, in the first of the summarizer's call modes that works.

    A conversation too long for the model is absorbed in part: the newest rounds are left to the next update, so that
    what the notes cover stays without a gap.
    """
    calls = 0
    draft = NotesDraft(problem="the summarizer has no call mode")
    for mode in getattr(talk.summarizer, "modes", ("plain",)):
        end: int | None = talk.end
        while end is not None:
            attempt = _Attempt(talk, mode, end)
            draft = yield from attempt.run()
            calls += attempt.calls
            if not attempt.too_long:
                break
            end = _half(talk, end) if mode == "plain" else None
        if not draft.problem:
            break
    return NotesDraft(draft.edits, draft.refusals, draft.end, calls, draft.problem)


def _half(talk: ModelConversation, end: int) -> int | None:
    """Where the first half of the rounds ends; `None` if there is only one."""
    ledger = core.Ledger(None, talk.source.context)
    starts = [int(at) for at in ledger.rounds(talk.start, end)]
    return starts[len(starts) // 2] if len(starts) > 1 else None


class _Attempt:
    """One conversation with the model about `[start, end)`."""

    def __init__(self, talk: ModelConversation, mode: str, end: int) -> None:
        self.calls = 0
        self.too_long = False
        self._talk, self._mode, self._end = talk, mode, end
        self._notes = talk.notes
        self._edits: list[NotesEdit] = []
        self._refusals: list[Refusal] = []
        self._messages = self._shown()
        self._prompt = self._redacted(talk.prompt)

    def run(self) -> Flow[NotesDraft]:
        """The edits."""
        for _ in range(MAX_TURNS):
            try:
                reply = yield from self._asked()
            except Cancelled:
                raise
            except Exception as exc:
                self.too_long = classify(exc).is_overflow
                return self._draft(f"the call failed: {type(exc).__name__}: {exc}"[:300])
            if reply.is_refusal:
                return self._draft("the model refused")
            ended = self._read(reply)
            if ended:
                return self._draft("")
        return self._draft("" if self._edits else "no edit that could be done")

    def _draft(self, problem: str) -> NotesDraft:
        edits = () if problem else tuple(self._edits)
        return NotesDraft(edits, tuple(self._refusals), self._end, self.calls, problem)

    def _asked(self) -> Flow[SummaryReply]:
        self.calls += 1
        shared = self._mode == "shared"
        reply = yield Summarize(
            SummaryRequest(
                messages=tuple(self._messages),
                prompt=self._prompt,
                mode="shared" if shared else "plain",
                system=None if shared else PLAIN_SYSTEM,
                max_output_tokens=OUTPUT_TOKENS,
                deadline_seconds=self._talk.deadline_seconds,
                attempt=self.calls,
                source=SOURCE,
            ),
            self._talk.summarizer,
        )
        answer: SummaryReply = SummaryReply(text=reply) if isinstance(reply, str) else reply
        return answer

    def _read(self, reply: SummaryReply) -> bool:
        """Process a response; true if it was the last."""
        answer = read_answer(reply, self._talk.path)
        refused = [*answer.refusals, *filter(None, map(self._done, answer.edits))]
        self._refusals.extend(refused)
        cut = reply.is_cut_off
        if not refused and not cut and (answer.done or answer.edits):
            return True
        self._messages.append({"role": "user", "content": self._prompt})
        self._messages.append({"role": "assistant", "content": reply.text.strip() or "(no text)"})
        self._prompt = _feedback(len(answer.edits), refused, cut=cut)
        return False

    def _done(self, edit: NotesEdit) -> Refusal | None:
        changed = apply_edit(self._notes, edit, max_chars=self._talk.max_chars)
        if isinstance(changed, Refusal):
            return changed
        self._notes = changed
        self._edits.append(edit)
        return None

    def _shown(self) -> list[Mapping[str, Any]]:
        source, start = self._talk.source, self._talk.start
        if self._mode == "shared":
            return [self._map(message) for message in source.bare(0, self._end)]
        part = strip_media(source.bare(start, self._end, plain=True))
        if not part or role_of(part[0]) != "user":
            part = [{"role": "user", "content": _BEFORE}, *part]
        return [self._map(message) for message in part]

    def _map(self, message: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._talk.redact is None:
            return message
        from ullage.compaction.summary_call import _map_text

        mapped: Mapping[str, Any] = _map_text(message, self._talk.redact)
        return mapped

    def _redacted(self, text: str) -> str:
        return self._talk.redact(text) if self._talk.redact is not None else text


def _feedback(given: int, refused: list[Refusal], *, cut: bool) -> str:
    rows = [f"- {refusal.told()}" for refusal in refused[:20]]
    done = given - sum(refusal.kind in _UNDONE for refusal in refused)
    lead = f"{max(done, 0)} edits were done."
    if cut:
        lead += " Your answer was cut off at its length limit; what was complete counts."
    ask = "Give the edits that are still needed in the form that was shown, then `<done/>`; only `<done/>` if none are."
    return "\n".join([lead, *rows, ask])


_UNDONE = frozenset({"not_found", "ambiguous", "structure", "size"})
