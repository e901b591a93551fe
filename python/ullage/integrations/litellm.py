"""litellm: `litellm.callbacks = [UllageLogger()]`, also as a callback of its proxy; for synchronous calls, `around`.

```python
import litellm
from ullage.integrations.litellm import UllageLogger

litellm.callbacks = [UllageLogger()]  # acompletion, aresponses, anthropic_messages, Router, proxy
completion = UllageLogger().around(litellm.completion)
```
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar, Unpack, cast

from ullage.exceptions import InvalidMessage
from ullage.integrations.conversations import (
    NATIVE,
    Fitted,
    Head,
    HeldConversation,
    HeldConversations,
    HostSummarizer,
    ModelFacts,
    Options,
    framework,
    transcript_of,
)
from ullage.manager.whole_list import print_of
from ullage.messages import Item
from ullage.summarizers.protocol import SummaryReply, SummaryRequest

with framework("litellm"):
    import litellm
    from litellm import ContextWindowExceededError
    from litellm.integrations.custom_logger import CustomLogger
    from litellm.types.utils import CallTypes

P = ParamSpec("P")
R = TypeVar("R")


class _Form(NamedTuple):
    """How a kind of request is read."""

    provider: str
    messages: str  # the argument with the conversation
    system: str  # the argument with the system prompt; empty: it is among the messages


_CHAT: Final = _Form("openai_chat", "messages", "")
_ANTHROPIC: Final = _Form("anthropic", "messages", "system")
_RESPONSES: Final = _Form("openai_responses", "input", "instructions")
_FORMS: Final = {
    "acompletion": _CHAT,
    "anthropic_messages": _ANTHROPIC,
    "aresponses": _RESPONSES,
    "responses": _RESPONSES,  # the one synchronous call for which litellm asks its callbacks
}
_ACCESS: Final = ("api_key", "api_base", "base_url", "api_version", "custom_llm_provider")
_log = logging.getLogger(__name__)

# Calls that callbacks leave as they are: of a model that writes a summary, and those that `around` has fitted.
_own_call: ContextVar[bool] = ContextVar("ullage_litellm_own_call", default=False)
# The conversation of the request that is under way; a failed one holds its fitted messages, which may begin in another way.
_under_way: ContextVar[tuple[object, HeldConversation[Item]] | None] = ContextVar(
    "ullage_litellm_under_way", default=None
)


def _read_item(message: Item) -> Item:
    """Messages as litellm takes them: dicts, and the objects of its responses."""
    if isinstance(message, Mapping):
        return message
    return cast("Item", cast("Any", message).model_dump(exclude_none=True))


_ITEMS: Final = NATIVE._replace(read=_read_item)


class UllageLogger(CustomLogger):
    """Keeps requests that pass through litellm within the model's window.

    As a callback it acts on each request to a deployment, so the window is that of the model that is asked, with a router or the
    proxy too. litellm does not repeat a request that was refused as too long; but room is made, and the same messages are sent
    smaller when they come again: from the caller, or as a router falls back to another deployment of the model. `around` sends
    them again itself. Requests that go on from what the provider keeps (`previous_response_id`, `conversation`) pass as they are.

    Args:
        **options: See `ullage.integrations.conversations.Options`.
    """

    def __init__(self, **options: Unpack[Options]) -> None:
        super().__init__()
        options["listeners"] = tuple(options.get("listeners", ()))  # for three of them
        self._warned = False
        self._conversations = {
            form.provider: HeldConversations[Item](
                _ITEMS, form.provider, overflow=ContextWindowExceededError, **options
            )
            for form in (_CHAT, _ANTHROPIC, _RESPONSES)
        }

    async def async_pre_call_deployment_hook(
        self, kwargs: dict[str, Any], call_type: CallTypes | None
    ) -> dict[str, Any] | None:
        """The request with what fits; `None`: it stays as it is."""
        form = None if call_type is None else _FORMS.get(call_type.value)
        request = None if form is None or _own_call.get() else _Request.read(form, kwargs)
        if request is None:
            return None
        conversation = self._of(request, None)
        _under_way.set((self, conversation))
        try:
            fitted = await conversation.afit(request.items, **request.head)
        except InvalidMessage as error:  # what a provider says of it is the provider's
            _log.warning("a request passes as it is, for it cannot be read: %s", error)
            return None
        return {**kwargs, **request.now(fitted)} if fitted.changed else None

    async def async_post_call_failure_deployment_hook(
        self,
        request_data: Mapping[str, Any],
        exception: Exception,
        call_type: CallTypes | None,
        fallback_depth: int | None = None,
    ) -> None:
        """Make room after a refusal as too long; litellm raises the error, or falls back."""
        owner, conversation = _under_way.get() or (None, None)
        if owner is self and conversation is not None and not _own_call.get():
            _under_way.set(None)
            # Where no room can be made: litellm raises the error itself.
            with suppress(type(exception)):
                await conversation.arefused(exception)

    def log_pre_api_call(self, model: str, messages: Any, kwargs: Mapping[str, Any]) -> None:
        """Say once that a synchronous call passes as it is, since litellm lets callbacks only look at it."""
        if kwargs.get("call_type") == "completion" and not self._warned and not _own_call.get():
            self._warned = True
            _log.warning(
                "litellm.completion asks no callback what to send, so its requests pass as they are: "
                "call UllageLogger().around(litellm.completion), or litellm.acompletion"
            )

    def around(self, call: Callable[P, R]) -> Callable[P, R]:
        """The same function with messages that fit; after a refusal as too long it is called again with less.

        Args:
            call: `litellm.completion`, `acompletion`, `responses`, `aresponses`, `anthropic_messages`, or that method of a
                `Router`, for which `context_window` has to be stated where litellm does not know the group's name as a model.
        """
        shape = inspect.signature(call)

        @functools.wraps(call)
        def asked(*args: P.args, **kwargs: P.kwargs) -> R:
            request = _Request.of_call(call, shape, args, kwargs)
            if request is None:
                return call(*args, **kwargs)

            def send(fitted: Fitted[Item]) -> R:
                with _passing():
                    return cast("Any", call)(**{**request.options, **request.now(fitted)})

            return self._of(request, call).send(request.items, send, **request.head)

        @functools.wraps(call)
        async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
            acall: Callable[..., Awaitable[Any]] = cast("Any", call)
            request = _Request.of_call(call, shape, args, kwargs)
            if request is None:
                return await acall(*args, **kwargs)

            async def send(fitted: Fitted[Item]) -> Any:
                with _passing():
                    return await acall(**{**request.options, **request.now(fitted)})

            return await self._of(request, call).asend(request.items, send, **request.head)

        return cast("Callable[P, R]", awaited) if inspect.iscoroutinefunction(call) else asked

    def _of(self, request: _Request, call: Callable[..., Any] | None) -> HeldConversation[Item]:
        held = self._conversations[request.form.provider]
        return held.of(request.name, _facts(request.options), lambda: _host(request, call))


class _Request:
    """One call: its conversation, without the system prompt that stands before it."""

    def __init__(self, form: _Form, options: Mapping[str, Any]) -> None:
        self.form, self.options = form, options
        messages = options[form.messages]
        first = len(messages)
        for at, item in enumerate(messages):
            role = item.get("role") if isinstance(item, Mapping) else getattr(item, "role", None)
            if role not in ("system", "developer"):
                first = at
                break
        self._standing, self.items = list(messages[:first]), list(messages[first:])
        standing = [_read_item(message) for message in self._standing]
        system = options.get(form.system) if form.system else standing
        self.head: Head = {"system": system or "", "tools": options.get("tools") or ()}

    @property
    def name(self) -> str:
        """What names the conversation: the session that the caller names, else how it begins; with the key, on the proxy."""
        own = self.options.get("litellm_session_id")
        # Where `metadata` is the caller's, as in Responses, the proxy writes into the other one.
        notes = [self.options.get(name) or {} for name in ("litellm_metadata", "metadata")]
        key = next(filter(None, (note.get("user_api_key_hash") for note in notes)), "")
        begin = print_of([_read_item(message) for message in (self.items or self._standing)[:1]])
        return f"{key}/{own or begin}"

    def now(self, fitted: Fitted[Item]) -> dict[str, Any]:
        """The argument that holds the conversation."""
        return {self.form.messages: [*self._standing, *fitted.messages]}

    @classmethod
    def read(cls, form: _Form, options: Mapping[str, Any]) -> _Request | None:
        """The call; `None`: it is none of a conversation that the caller keeps."""
        if options.get("previous_response_id") or options.get("conversation"):
            return None
        if form.messages not in options:
            _log.warning("litellm shows callbacks no positional arguments: pass %s= by name", form.messages)  # fmt: skip
        messages = options.get(form.messages)
        return cls(form, options) if isinstance(messages, list) and messages else None

    @classmethod
    def of_call(
        cls, call: Callable[..., Any], shape: inspect.Signature, args: Any, kwargs: Any
    ) -> _Request | None:
        """The call of a function of litellm, whose arguments have the names of its signature."""
        options: dict[str, Any] = {}
        for name, value in shape.bind(*args, **kwargs).arguments.items():
            more = shape.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
            options.update(value if more else {name: value})
        form = _RESPONSES if "input" in options else _CHAT
        if "anthropic" in getattr(call, "__name__", "") and "messages" in options:
            form = _ANTHROPIC
        return cls.read(form, options)


def _host(request: _Request, call: Callable[..., Any] | None) -> HostSummarizer:
    """The model in use as the writer of summaries, with the request's own access.

    `call`: what `around` was given; `None`: a callback asks litellm itself.
    """
    options = request.options
    access = {name: options[name] for name in ("model", *_ACCESS) if options.get(name)}
    # The caller's function may know what the request does not name, as a router its deployments' keys.
    chat = call if call is not None and request.form is _CHAT else None
    is_async = chat is not None and inspect.iscoroutinefunction(chat)
    plain: Any = litellm.completion if chat is None or is_async else chat
    awaited: Any = chat if is_async else litellm.acompletion

    def ask(asked: SummaryRequest) -> SummaryReply:
        with _passing():
            return _reply(plain(messages=_asked(asked), **access))

    async def aask(asked: SummaryRequest) -> SummaryReply:
        with _passing():
            return _reply(await awaited(messages=_asked(asked), **access))

    window = _facts(options).context_window
    return HostSummarizer(f"host:{options.get('model')}", window, ask, aask)


@contextmanager
def _passing() -> Iterator[None]:
    before = _own_call.set(True)
    try:
        yield
    finally:
        _own_call.reset(before)


def _asked(request: SummaryRequest) -> list[dict[str, str]]:
    head = [{"role": "system", "content": request.system}] if request.system else []
    text = transcript_of(request)
    return [*head, {"role": "user", "content": text}]


def _reply(answer: Any) -> SummaryReply:
    choice = answer.choices[0]
    text, reason = choice.message.content or "", str(choice.finish_reason or "")
    return SummaryReply(text=text, finish_reason=reason)


def _facts(options: Mapping[str, Any]) -> ModelFacts:
    """What litellm knows of the model, and before it what its deployment's `model_info` says."""
    model = str(options.get("model") or "")
    try:
        row: Mapping[str, Any] = litellm.get_model_info(model, options.get("custom_llm_provider"))
    except Exception:  # litellm raises a bare Exception for a model that it does not know
        row = {}
    own = options.get("model_info") or {}
    window, output = (own.get(name) or row.get(name) for name in ("max_input_tokens", "max_output_tokens"))  # fmt: skip
    # litellm's names have the provider in front.
    return ModelFacts(model.rpartition("/")[2], window, output)
