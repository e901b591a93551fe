"""The view in the provider's form, repaired; and marks where the provider shall write a request's beginning to its prompt cache, and find it at the next request (COST-2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ullage._start import NamedTuple, hashlib
from ullage.counting.models import Model
from ullage.legality.draft import Repair
from ullage.legality.incremental import Repairer
from ullage.levels.level import Extras
from ullage.levels.view import StageReport, View
from ullage.manager.machine import Machine, as_bytes
from ullage.manager.values import Request
from ullage.messages import Item, SystemPrompt, as_sent, common_length
from ullage.providers import Loss, anthropic
from ullage.providers.anthropic import Thinking
from ullage.providers.incoming import read_tools
from ullage.providers.registry import AnyProvider, Provider, provider_of

if TYPE_CHECKING:
    from ullage.compaction import CompactionResult
    from ullage.manager.written_form import WrittenForm
    from ullage.requests.to_request import Outgoing


_NO_EXTRAS: Final = Extras()


def _changed_in(view: View, start: int, end: int) -> int:
    """Position of the last of these messages that is not shown as it was added; -1: there is none.

    Levels go on after what they have changed: up to there the list stays the same for long.
    """
    shown, originals, sources = view.shown, view.originals, view.sources
    for at in range(min(len(sources), end) - 1, start - 1, -1):
        if shown[at] is not originals[at] or sources[at].__class__ is str:
            return at
    return -1


class RequestWriter:
    """Makes requests of a view, legal for their provider; a legal view costs what is new in it.

    Args:
        tools: Tool definitions, in any form that `read_tools` takes; one that cannot be sent to this provider is an `InvalidPolicy`.
        thinking: The request's parameter of that name; `None`: not in use.
        cache: Whether bodies carry cache marks (COST-2).
    """

    def __init__(
        self,
        *,
        model: str,
        provider: AnyProvider = "anthropic",
        system: Any = None,
        tools: Sequence[Any] = (),
        thinking: Thinking | None = None,
        cache: bool = True,
    ) -> None:
        self._cache, self._marks = cache, CacheMarks("")
        # The last message that a level changed; how far was looked for that, and for marks of the host.
        self._stable, self._looked, self._read = -1, 0, 0
        self._provider = provider_of(provider)
        self.system: SystemPrompt | None = system
        self.tools = tools  # as given; `definitions`: in the internal view
        self.definitions = read_tools(tools, self._provider)
        # The manager handles the window itself, which may differ from the table's (A24).
        self._options: dict[str, Any] = {"model": model, "facts": {"skip": ("A24",)}}
        self._options |= {"system": system, "tools": self.definitions or None}
        if thinking is not None:
            self._options["thinking"] = thinking
        self._head: Mapping[str, Any] = {}
        self._head_losses: Sequence[Loss] = ()
        if self._provider.internal:
            head = anthropic.to_provider((), system=system, tools=self.definitions)
            self._head, self._head_losses = self._parts(self.definitions), head.losses
            self._options["system"] = head.parts.get("system")
            self._options["tools"] = head.parts["tools"] or None
        self._repairer = Repairer(**self._options)
        self._writer = anthropic.AnthropicWriter()
        self.light = False  # requests are not translated: somebody else writes the list
        self._own_list = True  # what is repaired is the view's own list
        self._previous: Sequence[Any] = []
        self._count = 0
        self._form: WrittenForm | None = None
        if not self._provider.internal:
            # With the rules, for other forms alone.
            from ullage.manager.written_form import WrittenForm

            self._form = WrittenForm(self._provider, model, system)

    def fresh(self, machine: Machine, **changed: Any) -> RequestWriter:
        """One of the machine's present model and form that has written nothing; `changed`: another system prompt, other tools."""
        return RequestWriter(
            model=machine.model.name,
            provider=machine.provider,
            thinking=self._options.get("thinking"),
            cache=self._cache,
            **{"system": self.system, "tools": self.tools, **changed},
        )

    def change(self, machine: Machine, **changed: Any) -> None:
        """Go on with what `fresh` has; after an error nothing has changed."""
        other = self.fresh(machine, **changed)
        other.load(machine, self.dump(machine))
        vars(self).update(vars(other))  # the parts of the manager hold this object

    def request(
        self,
        machine: Machine,
        reports: Sequence[StageReport] = (),
        compaction: CompactionResult | None = None,
        extras: Extras = _NO_EXTRAS,
        *,
        now_ms: int | None,
        tokens: int,
    ) -> Request:
        """The current request, of this size; from now on it counts as sent."""
        items, count = machine.view.snapshot()
        tools = [*self.definitions, *extras.tools] if extras.tools else self.definitions
        messages: Sequence[Any] = items
        parts: Mapping[str, Any] = {}
        params: Mapping[str, Any] = {}
        outcome: tuple[Sequence[Repair], Sequence[Loss]] | Callable[[], Outgoing] = ((), ())
        form = None if self.light else self._form
        if form is not None:
            form.write(items, machine.view.ledger, tools)
            messages, parts = form.items, form.parts
            outcome = (lambda: form.whole(items[:count], tools)) if form.noted else outcome
        elif not self.light:
            messages, params, repairs, losses = self._repaired(machine)
            outcome = repairs, losses
            parts = self._parts(tools) if extras.tools else self._head
        shown = count if messages is items else len(messages)
        before = self._count
        changed = self._changed(machine.view.mark_sent(), messages, shown)
        same = before if changed is None else changed
        number = machine.request_made(shown, tokens, now_ms)
        marks = self._marked(machine, tokens, changed is not None, same)
        # By place: names cost as much as all that is done with them.
        return Request(
            messages, shown, number, tokens, self._provider, reports, compaction, extras, parts,
            params, outcome, changed, marks,
        )  # fmt: skip

    def _marked(self, machine: Machine, tokens: int, new: bool, same: int) -> CacheMarks | None:
        """Marks for a request that is long enough to be cached; `new`: something in it was changed."""
        model = machine.model
        if not self._cache or self.light:
            return None
        if new:
            # Without marks of the host's so far, those before the change need no second look.
            self._stable, self._looked = -1, 0
            self._read = 0 if self._marks.own else min(self._read, same)
        if tokens < model.cache.min_tokens:
            return None
        if not self._marks.form:
            head = self.system, self.definitions, as_sent(machine.history[0])
            marks = marks_for(self._provider, model, head)
            if marks is None:
                self._cache = False
                return None
            self._marks = marks
        if self._marks.key:
            return self._marks
        view = machine.view
        end = len(view) if new else same
        if self._looked < end:
            self._stable = max(self._stable, _changed_in(view, self._looked, end))
            self._looked = end
        start, self._read = self._read, self._count
        own = (self._marks.own and not new) or has_marks(self._previous[start : self._count])
        edge = (_changed_in(view, 0, same),) if new else ()
        places = (same - 1, *edge, self._stable)
        self._marks = CacheMarks(self._marks.form, places, self._marks.key, own)
        return self._marks

    def _parts(self, tools: Sequence[Any]) -> Mapping[str, Any]:
        prompt: Any = self.system
        parts = anthropic.to_provider((), system=prompt, tools=tools).parts
        return {name: parts[name] for name in ("system", "tools") if parts.get(name)}

    def _repaired(
        self, machine: Machine
    ) -> tuple[Sequence[Item], Mapping[str, Any], Sequence[Repair], Sequence[Loss]]:
        """The view in Anthropic's form, legal; the view's own list if nothing had to change. And parameters, repairs, losses."""
        view = machine.view
        sent, losses = self._shown(view)
        # Another list than the view's has digests of its own.
        self._own_list = sent is view.messages
        if self._own_list and self._repairer.passes(sent, view.ledger):
            return sent, {}, (), self._head_losses
        done = self._repairer.repair(sent, ledger=view.ledger if self._own_list else None)
        return done.messages, done.params, done.repairs, [*self._head_losses, *losses]

    def _shown(self, view: View) -> tuple[Sequence[Item], list[Loss]]:
        """As Anthropic's API takes the view, not yet repaired; and what was left out."""
        return self._writer.write(view.messages, view.ledger, view.sources, view.plain)

    def note_answer(self, machine: Machine) -> None:
        """If the newest message answers the newest request, its thinking is bound to that request."""
        if self._form:  # no other form's thinking is bound
            return
        messages, sent = machine.view.messages, machine.view.sent
        if sent >= len(messages):
            return
        for at in range(sent, len(messages)):  # mostly the first of them decides
            if messages[at].get("role") != "assistant":
                return
        self._repairer.observe(messages[-1])

    def note_imported(self, machine: Machine) -> None:
        """Before levels change anything: responses to requests that were not prepared here are bound to the current list."""
        if self._form:
            return
        heard = False  # somebody else has spoken since the newest request
        for message in machine.view.messages[machine.view.sent :]:
            if message.get("role") != "assistant":
                heard = True
            elif heard:
                self._repaired(machine)
                return

    @property
    def binds(self) -> bool:
        """Whether `dump` tells of each answer to which request its thinking is bound."""
        return self._form is None and self._repairer.binds

    def dump(self, machine: Machine) -> dict[str, Any]:
        """The state that cannot be derived from the view, as plain JSON."""
        if machine.view.changed_from is not None and not self._form:
            # A rewrite that no request has shown yet: the thinking before it must be known as it was.
            self._repaired(machine)
        return self._repairer.dump()

    def forget(self, machine: Machine, stay: Iterable[int]) -> None:
        """Hold only these messages of the history of what the model made; the view's own are among them."""
        shown, _ = self._shown(machine.view)
        if self._provider.internal and self._own_list is (shown is machine.view.messages):
            history = [machine.history[at] for at in sorted(stay)]
            self._load_repairer(self._repairer.dump(), shown, history)

    def _load_repairer(
        self, stored: Mapping[str, Any], shown: Sequence[Item], history: Iterable[Item]
    ) -> None:
        messages = [message for item in history if (message := as_sent(item)) is not None]
        self._repairer = Repairer.load(stored, shown, history=messages, **self._options)

    def load(self, machine: Machine, stored: Mapping[str, Any]) -> None:
        """Continue from the state of `dump`, with the last request as far as it is still valid."""
        view = machine.view
        if stored and not self._form:
            shown, _ = self._shown(view)
            self._own_list = shown is view.messages
            self._load_repairer(stored, shown, machine.history)
        if not machine.requests or view.changed_from is not None:
            return
        sent: Sequence[Any] = list(view.messages[: view.sent])
        if self._form is not None:
            sent = self._form.whole(sent, self.definitions).messages if sent else sent
        elif not self._own_list:
            sent, _ = anthropic.AnthropicWriter().whole(sent)
        self._previous, self._count = sent, len(sent)

    def _changed(self, in_view: int | None, sent: Sequence[Any], count: int) -> int | None:
        """First message that differs from the last request.

        The lists must be compared only if something was repaired, now or last time.
        """
        if not self.light and (not self._provider.internal or not self._own_list):
            in_view = None  # a place in the view is none in the provider's list
        before, length = self._previous, self._count
        self._previous, self._count = sent, count
        if sent is before and in_view is None:
            return None
        end = length if in_view is None else min(in_view, length)
        same = 0 if self._form is None or self.light else min(self._form.same, end)
        alike = same + common_length(before[same:end], sent[same : min(end, count)])
        return alike if alike < end else in_view


MOST_MARKS: Final = 4
"""A request with more is refused (A17, B06)."""

_MARK: Final = {"cache_control": {"type": "ephemeral"}}
_POINT: Final = {"cachePoint": {"type": "default"}}
_TAKE_MARKS: Final = frozenset(("text", "image", "document", "tool_use", "tool_result"))
_TAKE_POINTS: Final = frozenset(("text", "image", "document", "toolUse", "toolResult"))
_LOOK_BACK: Final = 4
"""Messages before a place that are tried where the one there takes no mark."""

Body = tuple[list[Item], Mapping[str, Any]]


class CacheMarks(NamedTuple):
    """Marks of one request.

    Attributes:
        form: `anthropic`, `bedrock`, or that of OpenAI, whose cache a key finds.
        places: Messages to mark besides the newest, the most useful first: where the last request ended, or up to where it was
            the same, and the last that a level has changed (a summary among them). -1: none.
        key: Of the conversation, for OpenAI.
        own: The host has marked a message itself.
    """

    form: str
    places: tuple[int, ...] = ()
    key: str = ""
    own: bool = False

    def on(self, messages: list[Item], parts: Mapping[str, Any]) -> Body:
        """The messages and the other parts of a body, marked: copies where a mark stands, else the same objects.

        What the host has marked itself stays: with a mark in its messages there are no others; with one in the system prompt
        or the tools there are others in the messages alone.
        """
        if self.key:
            return messages, {**parts, "prompt_cache_key": self.key}
        if self.own:
            return messages, parts
        config = parts.get("toolConfig") or {}
        heads = (parts.get("system"), parts.get("tools"), config.get("tools"))
        theirs = sum(sum(map(_is_marked, head)) for head in heads if isinstance(head, list))
        body, count = self._in_list(messages, MOST_MARKS - theirs)
        return body, parts if theirs else self._in_head(parts, MOST_MARKS - count)

    def _in_list(self, messages: list[Item], most: int) -> tuple[list[Item], int]:
        body, done = list(messages), set[int]()
        for place in (len(messages) - 1, *self.places):
            if len(done) >= most:
                break
            place = min(place, len(body) - 1)  # repairs may have left out messages of the view
            for at in range(place, max(-1, place - _LOOK_BACK), -1):
                marked = body[at] if at in done else self._message(body[at])
                if marked is not None:
                    body[at] = marked
                    done.add(at)
                    break
        return body, len(done)

    def _message(self, message: Item) -> Item | None:
        """The message with a mark at its last block that takes one; `None`: none does."""
        content: Any = message.get("content")
        if isinstance(content, str) and content.strip():
            return {**message, "content": [{"type": "text", "text": content, **_MARK}]}
        for at in range(len(content) - 1, -1, -1) if isinstance(content, list) else ():
            if self._takes(content[at]):
                return {**message, "content": self._after(content, at)}
        return None

    def _takes(self, block: Any) -> bool:
        if not isinstance(block, Mapping):
            return False
        words = block.get("text")
        if isinstance(words, str) and not words.strip():
            return False
        if self.form == "bedrock":
            return bool(_TAKE_POINTS & block.keys())
        return block.get("type") in _TAKE_MARKS

    def _after(self, blocks: Sequence[Any], at: int) -> list[Any]:
        """The blocks with a mark at one of them."""
        if self.form == "bedrock":
            return [*blocks[: at + 1], _POINT, *blocks[at + 1 :]]
        return [*blocks[:at], {**blocks[at], **_MARK}, *blocks[at + 1 :]]

    def _in_head(self, parts: Mapping[str, Any], most: int) -> Mapping[str, Any]:
        """The system prompt marked, which stands after the tools; these too where a mark is left."""
        body, left = dict(parts), most
        if not left:
            return body
        system: Any = parts.get("system")
        config = parts.get("toolConfig")
        if isinstance(system, str) and system.strip():
            body["system"], left = [{"type": "text", "text": system, **_MARK}], left - 1
        elif isinstance(system, list) and system and self._takes(system[-1]):
            body["system"], left = self._after(system, len(system) - 1), left - 1
        if left and self.form == "bedrock" and config:
            body["toolConfig"] = {**config, "tools": [*config["tools"], _POINT]}
        elif left and (tools := parts.get("tools")):
            body["tools"] = self._tools(tools)
        return body

    def _tools(self, tools: Sequence[Any]) -> list[Any]:
        """A tool that is loaded later takes no mark."""
        for at in range(len(tools) - 1, -1, -1):
            if not tools[at].get("defer_loading"):
                return self._after(tools, at)
        return list(tools)


def marks_for(provider: Provider, model: Model, head: Any) -> CacheMarks | None:
    """The marks that requests of this form to this model can carry; `None`: none. `head`: system prompt, tools and first message, for OpenAI's key."""
    name, points = provider.name, model.cache.breakpoints
    if name == "anthropic" and points:
        return CacheMarks(name)
    # Bedrock caches for the models from Claude 3.7 on, the first that think; it refuses points for others.
    if name == "bedrock" and points and model.thinking != ("disabled",):
        return CacheMarks(name)
    if name in ("openai_chat", "openai_responses") and model.known and model.provider == "openai":
        return CacheMarks(name, key=hashlib.blake2b(as_bytes(head), digest_size=16).hexdigest())
    return None


def has_marks(messages: Iterable[Any]) -> bool:
    """Whether one of these messages, which are in a provider's form, carries a mark."""
    for message in messages:
        content = message["content"] if "content" in message else None
        for block in content if type(content) is list else ():
            if type(block) is dict and ("cache_control" in block or "cachePoint" in block):
                return True
    return False


def _is_marked(block: Any) -> bool:
    return isinstance(block, dict) and ("cache_control" in block or "cachePoint" in block)
