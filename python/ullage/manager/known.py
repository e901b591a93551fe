"""What a context manager takes in: arguments, messages, responses. All else is refused with what to give instead, never dropped or sent as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from os import PathLike
from types import UnionType
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ullage._engine import core
from ullage._start import NamedTuple, orjson
from ullage.compaction.effects_runner import Providers, flow_work
from ullage.counting.calibration import Weights, weights_for
from ullage.counting.models import Model, ModelTable
from ullage.counting.window import WindowSettings
from ullage.effects import Effect, Flow
from ullage.effects.background import BackgroundRunner, Mode
from ullage.exceptions import InvalidMessage, InvalidPolicy
from ullage.levels import pipeline
from ullage.messages import METADATA_TYPES, Item
from ullage.policy import KeepPolicy, refuse_unknown
from ullage.providers.incoming import as_json, camel_cased, tools_show
from ullage.providers.registry import SHAPES, Provider, form_by_name, forms_of, provider_of

if TYPE_CHECKING:
    from ullage.compaction.prefetch import Ahead
    from ullage.observe.events import Listener
    from ullage.recall.store import OffloadStore
    from ullage.summarizers.protocol import Writer
    from ullage.transcript.log import TranscriptLog


# `model` is Gemini's, `developer` and `function` are OpenAI's.
_ROLES: Final = ("user", "assistant", "system", "developer", "tool", "function", "model")
_SPEAKERS: Final = ("assistant", "model")
# Types of lines in transcripts, of which some hold no message: they are kept in the history, and not sent.
_LINES: Final = frozenset(
    ("user", "assistant", "system", "attachment", "progress", "summary", "queue-operation")
).union(METADATA_TYPES)
_ENVELOPE: Final = ("uuid", "sessionId", "parentUuid", "snapshot", "leafUuid")
_SAYS: Final = ("content", "parts", "output_config")
_CONTENT: Final = "content: text, or a list of blocks; parts in Gemini's form"
_WHOLE: Final = "that is a whole response: give it to observe"
_PIECE: Final = (
    "that is a piece of a stream: give observe the whole response, as the SDK puts it together"
)
_CHAIN: Final = "that is another library's message: turn it into the provider's form, a mapping with role and content"
_OBJECT: Final = "give a mapping; observe takes an SDK's response object too"


# ---- arguments -------------------------------------------------------------------------------


def read_arguments(**stated: Any) -> dict[str, Any]:
    """All arguments of a manager by name, those that are left out with their defaults; an `InvalidPolicy` says what makes one of the wrong type."""
    for name, argument in _ARGUMENTS.items():
        value, fits = stated.get(name), argument.fits
        if value is None or fits is None:
            continue
        if not (isinstance(value, fits) if isinstance(fits, type | UnionType) else fits(value)):
            got = value if isinstance(value, str | int | float) else type(value).__name__
            raise InvalidPolicy(name, got, argument.limit, hint=argument.hint)
    if not isinstance(stated["model"], str):
        hint = "such as 'claude-opus-4-5'; with context_window= any name will do"
        raise InvalidPolicy("model", stated["model"], "must be the name of a model", hint=hint)
    return {name: stated.get(name, argument.default) for name, argument in _ARGUMENTS.items()}


P = ParamSpec("P")
R = TypeVar("R")


def known_arguments(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap the constructor so that an unknown argument is an `InvalidPolicy` that names it, also where `model` is what was misspelt."""

    @wraps(function)
    def checked(*args: P.args, **stated: P.kwargs) -> R:
        refuse_unknown(stated, _ARGUMENTS)
        return function(*args, **stated)

    return checked


def _is_prompt(value: object) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, Sequence) and all(isinstance(part, str | Mapping) for part in value)


def _stores(value: object) -> bool:
    return all(callable(getattr(value, name, None)) for name in ("put", "get"))


def _are_callable(value: object) -> bool:
    return isinstance(value, list | tuple) and all(map(callable, value))


def _hooked(value: object) -> bool:
    from ullage.observe.hooks import Hooks  # where somebody has some

    return isinstance(value, Hooks | Mapping)


class _Argument(NamedTuple):
    """How an argument is checked, and what it is if it is left out."""

    fits: Any = None  # a type, or a function that says so; `None`: what is made of it checks it
    limit: str = ""
    hint: str = ""
    default: Any = None


_ANY: Final = _Argument()
_TEXT: Final = _Argument(str, "must be a string", default="")
_CALLABLE: Final = _Argument(callable, "must be a function")
_ARGUMENTS: Final[Mapping[str, _Argument]] = {
    "model": _ANY,
    "provider": _ANY,
    "policy": _ANY,
    "system": _Argument(_is_prompt, "must be a string, or a list of text blocks"),
    "tools": _Argument(default=()),
    "summarizer": _ANY,
    "line_summarizer": _ANY,
    "fallback": _ANY,
    "store": _Argument(
        _stores,
        "must be a store: an object with put and get",
        "FileStore(folder) keeps results in files, MemoryStore() in memory",
    ),
    "settings": _Argument(
        WindowSettings,
        "must be a WindowSettings",
        "WindowSettings.from_env() reads the environment",
    ),
    "table": _Argument(ModelTable, "must be a ModelTable", "ModelTable.load(path) reads a file"),
    "source": _TEXT._replace(default="main"),
    "cache": _Argument(bool, "must be True or False", default=True),
    "template": _TEXT,
    "session_id": _TEXT,
    "transcript_path": _TEXT,
    "cwd": _TEXT,
    "clock": _CALLABLE,
    "redact": _CALLABLE,
    "listeners": _Argument(_are_callable, "must be a list of functions", default=()),
    "hooks": _Argument(_hooked, "must be Hooks, or its fields as a mapping"),
    "keep": _Argument(int | KeepPolicy, "must be a number of tokens, or a KeepPolicy"),
    "levels": _Argument(
        Iterable,
        "must be a sequence of levels",
        "ullage.levels.ORDER has the built-in ones",
        pipeline.ORDER,
    ),
    "memory": _Argument(
        lambda value: callable(getattr(value, "recall_flow", None)),
        "must be notes of the session",
        "SessionMemory(folder) keeps them",
    ),
    "providers": _Argument(
        Providers,
        "must be Providers: sources of context after a compaction",
        "the form of messages is provider=",
    ),
    "log": _Argument(
        lambda value: isinstance(value, str | PathLike) or hasattr(value, "leaf"),
        "must be a path, or an open TranscriptLog",
    ),
    "record": _Argument(default=False),
    "thinking": _ANY,
    "context_management": _Argument(
        Mapping, "must be a mapping, as Anthropic's parameter of that name"
    ),
    "context_window": _ANY,
    "max_output_tokens": _ANY,
}
"""Every argument, the types of which `ManagerOptions` says and documents."""


# ---- the form --------------------------------------------------------------------------------


def first_form(arguments: Mapping[str, Any], row: Model) -> str:
    """The form of a manager that is given none: the tools', else the one in which the model is most often asked."""
    if not form_is_open(arguments):
        return tools_show(arguments["tools"]) or "anthropic"
    return form_by_name(arguments["model"], row.provider if row.known else "")


def form_is_open(arguments: Mapping[str, Any]) -> bool:
    """Whether nothing but the messages shows the form."""
    stated = arguments["thinking"] is not None or arguments["context_management"] is not None
    return not (stated or tools_show(arguments["tools"]))


def shown_form(items: Iterable[Any], current: Provider) -> Provider | None:
    """The form that the first of these shows which shows one; `current`, if that is among those it can be; `None`: none does."""
    for item in items:
        forms = forms_of(camel_cased(as_json(item)) if type(item) is not dict else item)
        if forms:
            return current if current.name in forms else provider_of(forms[0])
    return None


# ---- messages --------------------------------------------------------------------------------


def check_item(item: Any, provider: Provider) -> None:
    """Refuse what is no message, entry or item of the provider's form: an `InvalidMessage` says what it looks like, and in its hint what to give."""
    if type(item) is not dict and not isinstance(item, Mapping):  # dicts are recognised at once
        raise InvalidMessage("must be a mapping", got=type(item).__name__, hint=_OBJECT)
    _check_form(item, provider)
    role = item.get("role")
    if isinstance(role, str):
        # A model may answer with nothing; others say nothing where a key is missing or misspelt.
        if role not in _SPEAKERS and all(item.get(key) is None for key in _SAYS):
            raise InvalidMessage("is missing", field="content", got=_keys(item), hint=_CONTENT)
        if role not in _ROLES:
            limit = f"must be one of {', '.join(_ROLES)}"
            raise InvalidMessage(limit, field="role", got=repr(role), hint=_hint(item))
        return
    if not (_is_entry(item) or provider.owns(item)):
        got = _keys(item, "nothing")
        raise InvalidMessage("is not a message: it has no role", got=got, hint=_hint(item))


def _keys(item: Item, otherwise: str = "") -> str:
    return f"keys {', '.join(sorted(map(str, item))[:6]) or otherwise}"


def _check_form(item: Item, provider: Provider) -> None:
    """Refuse a message that only another provider has; the internal view, which is Anthropic's form, is read by all."""
    forms = forms_of(item)
    # A provider of the host's own may take whatever it likes.
    if not forms or provider.name in forms or provider.name not in SHAPES:
        return
    if forms != ("anthropic",) or provider.internal:
        raise InvalidMessage(
            f"is in the form of {forms[0]}, and this manager's is {provider.name}",
            got=_keys(item),
            hint=f"ContextManager(provider={forms[0]!r}) takes it",
        )


def check_answer(item: Any, provider: Provider) -> None:
    """Refuse what is no answer of a model, nor a part of one, as `check_item` does: a response as a mapping, or the message or item in it."""
    check_item(item, provider)
    inner = item.get("message")
    role = item.get("role") or (inner.get("role") if isinstance(inner, Mapping) else None)
    if role is not None and role not in _SPEAKERS:
        raise InvalidMessage(
            "is not a response of the model",
            field="role",
            got=repr(role),
            hint="what others say goes to add",
        )
    if role is None and provider.speakers_only:
        raise InvalidMessage(
            "is not a response of the model", got=_reasons_of(item), hint=_hint(item)
        )


def no_answer(body: Any) -> InvalidMessage:
    """The error for a response without any item."""
    reason = "the response holds no message of the model"
    return InvalidMessage(reason, got=_reasons_of(body), hint=_hint(body))


def _is_entry(item: Item) -> bool:
    if isinstance(item.get("message"), Mapping):
        return True
    kind = item.get("type")
    return isinstance(kind, str) and (
        kind in _LINES or any(key in item for key in _ENVELOPE) or "-" in kind
    )


def _hint(item: Any) -> str:
    if not isinstance(item, Mapping):
        return _OBJECT
    choices = item.get("choices")
    if isinstance(choices, list):
        whole = any(isinstance(choice, Mapping) and choice.get("message") for choice in choices)
        return _WHOLE if whole else _PIECE
    if item.get("output") or item.get("candidates"):
        return _WHOLE
    kind = item.get("type")
    if kind in ("ai", "human", "AIMessageChunk", "chat") or item.get("role") in ("ai", "human"):
        return _CHAIN
    if isinstance(kind, str) and (
        kind.startswith(("message_", "content_block_", "response.")) or "delta" in item
    ):
        return _PIECE
    return "give what the provider answered, or a mapping with role and content"


def _reasons_of(body: Any) -> str:
    if not isinstance(body, Mapping):
        return type(body).__name__
    reasons = [
        part.get("finishReason") or part.get("finish_reason")
        for name in ("candidates", "choices")
        for part in body.get(name) or ()
        if isinstance(part, Mapping)
    ]
    listed = ", ".join(str(reason) for reason in reasons if reason)
    return listed or _keys(body, "none")


# A flow in the background of a conversation: the summaries that a context collapse will need (COL-1).


_NAME = "ullage-collapse"


class BackgroundFlow:
    """At most one flow at a time.

    Its effects are performed on a thread, or the whole is a task of the event loop. Its own steps, which read and change the
    conversation, are taken only where `go_on` is called, or in the loop: never while something else does.
    """

    def __init__(self) -> None:
        self._background = BackgroundRunner(_NAME)
        self._host: Any = None
        self._flow: Flow[Any] | None = None
        self._in_loop = False
        self._answers: list[Any] = []

    @property
    def running(self) -> bool:
        """Whether a flow is at work or waits for `go_on`; not one whose thread or loop is no more, as in a forked process."""
        return self._flow is not None and (self._background.running or self.answered)

    @property
    def answered(self) -> bool:
        """Whether `go_on` has a step to take."""
        return bool(self._answers)

    def start(self, flow: Flow[Any], host: Any, *, in_loop: bool = False) -> None:
        """Take the first step of a fresh flow; nothing where one is running.

        `in_loop`: all of it is a task of the running event loop; else its effects are performed on a thread.
        """
        if self.running:
            return
        self._end()
        self._flow, self._host, self._in_loop = flow, host, in_loop
        if in_loop:
            self._submit(flow, partial(self._task_ended, flow), "auto")
        else:
            self._step(partial(next, flow))

    def go_on(self) -> None:
        """Take the steps that the answers so far allow; never waits. Raises what the flow raises."""
        if not self.running:
            self._end()
        while (flow := self._flow) is not None and self._answers:
            answer = self._answers.pop()
            resumed = flow.throw if isinstance(answer, Exception) else flow.send
            self._step(partial(resumed, answer))

    def stop_task(self) -> None:
        """Cancel the task: a synchronous `prepare` would block its event loop, so it could never finish."""
        if self._in_loop:
            self._background.cancel()
            self._end()
            # The loop has yet to see that the old one is cancelled: the next must not stand in line after it.
            self._background = BackgroundRunner(_NAME)

    # ---- inside ------------------------------------------------------------------------------

    def _step(self, step: Callable[[], Effect]) -> None:
        try:
            effect = step()
        except StopIteration:
            self._end()
            return
        except BaseException:
            self._end()
            raise
        self._submit(_one(effect), self._answers.append, "thread")

    def _submit(self, flow: Flow[Any], done: Callable[[Any], None], mode: Mode) -> None:
        host = self._host
        work = flow_work(lambda: flow, host.summarizer, host.listeners, done=done)
        self._background.submit(work, mode=mode)

    def _task_ended(self, flow: Flow[Any], result: object) -> None:
        if self._flow is flow:
            self._end()
        if isinstance(result, Exception):
            raise result  # nobody awaits it: the background reports it

    def _end(self) -> None:
        flow, self._flow, self._in_loop = self._flow, None, False
        self._answers = []
        if flow is not None:
            flow.close()


def _one(effect: Effect) -> Flow[Any]:
    return (yield effect)


# What belongs to the outside of a conversation: summarizers, stores, hooks, listeners; what a host's prompt and tools come to.


@dataclass(slots=True, kw_only=True, eq=False, repr=False)
class Host:
    """What is used from outside and is not saved; changed once at most, when a log is begun or resumed (`is_logged`).

    Attributes:
        summarizer: For compactions; `None`: extractive.
        line_summarizer: With a small model, for lines that replace single tool results; `None`: written by code.
        fallback: Writes the summary if that fails; `None`: the extractive one, for automatic compactions.
        offload: For large tool results; `None`: they stay, and are snipped.
        memory: Notes of the session, tried before a summary is written (AUTO-2); see `ullage.manager`. `None`: none.
        options: Further fields of `compaction.job.Job`.
        ahead: Writes summaries in advance; `None`: none are.
        background: Has summaries of spans written that a context collapse will need.
        logged: The conversation is in a log that holds what the history holds.
    """

    summarizer: Writer | None = None
    line_summarizer: Writer | None = None
    fallback: Writer | None = None
    offload: OffloadStore | None = None
    memory: Any = None
    hooks: Any = None
    options: dict[str, Any] = field(default_factory=dict)
    listeners: tuple[Listener, ...] = ()
    ahead: Ahead | None = None
    background: BackgroundFlow = field(default_factory=BackgroundFlow)
    logged: bool = False

    def is_logged(self, log: TranscriptLog) -> None:
        """From now on the conversation is in a log, whose path hooks and the model get unless the host named another."""
        self.logged = True
        self.options["transcript_path"] = self.options.get("transcript_path") or log.path
        self.options["session_id"] = self.options.get("session_id") or log.session_id


def overhead_of(system: Any, tools: Sequence[Any], model: Model) -> dict[str, int]:
    """Estimated tokens of a system prompt and of tool definitions, which may be objects of an SDK."""
    weights, definitions = weights_for(model), as_json(list(tools))
    return {"system": _count(system, weights), "tools": _count(definitions or None, weights)}


def names_of(tools: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Names of tool definitions: as they are read, or in OpenAI's form."""
    functions = (tool.get("function") for tool in tools)
    inner = (function.get("name") for function in functions if isinstance(function, Mapping))
    return frozenset(filter(None, [*(tool.get("name") for tool in tools), *inner]))


def _count(value: Any, weights: Weights) -> int:
    if not value:
        return 0
    text = value if isinstance(value, str) else orjson.dumps(value).decode()
    return int(core.estimate_text(text, weights))
