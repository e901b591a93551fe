"""Agent Framework's agent on its session."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from agent_framework import (
    Agent,
    AgentSession,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    ResponseStream,
    UsageDetails,
    tool,
)

from tests.frameworks.hard_cases import Brain, Call, Heard, Reply, looked, question
from ullage.integrations.agent_framework import UllageChatMiddleware


class Client(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    def __init__(self, brain: Brain) -> None:
        super().__init__()
        self.model, self.brain = "gpt-5.4", brain

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **more: Any) -> Any:
        if stream:
            return ResponseStream(self._stream(messages), finalizer=ChatResponse.from_updates)
        return self._answer(messages)

    async def _stream(self, messages: Any) -> Any:
        reply = self.brain.asked(heard(messages))
        yield ChatResponseUpdate(role="assistant", contents=[*contents(reply)])
        yield ChatResponseUpdate(role="assistant", contents=[Content.from_usage(usage(reply))])

    async def _answer(self, messages: Any) -> ChatResponse:
        reply = self.brain.asked(heard(messages))
        said = Message("assistant", [*contents(reply)])
        return ChatResponse(messages=[said], usage_details=usage(reply))


def usage(reply: Reply) -> UsageDetails:
    return UsageDetails(input_token_count=reply.usage, output_token_count=5)


def contents(reply: Reply) -> Iterator[Content]:
    for call in reply.calls:
        yield Content.from_function_call(
            call.id, "look", arguments=json.dumps({"place": call.place})
        )
    if reply.text:
        yield Content.from_text(reply.text)


def heard(messages: Any) -> Iterator[Heard]:
    for message in messages:
        calls, results, words = [], [], [message.text]
        for each in message.contents:
            if each.type == "function_call":
                given = each.parse_arguments() or {}
                calls.append(Call(each.call_id, str(given["place"])))
            elif each.type == "function_result":
                results.append((each.call_id, str(each.result)))
                words.append(str(each.result))
        role = "user" if message.role == "tool" else message.role
        yield Heard(role, "".join(words), tuple(calls), tuple(results))


def look(place: str) -> str:
    """Looks at a place."""
    return looked(place)


async def play(brain: Brain, turns: int, limits: Any, path: Any) -> None:
    case, session = brain.case, AgentSession(session_id="s")
    mode: Any = "always_require" if case.approvals else "never_require"
    for turn in range(turns):
        if turn == 0 or (case.restarts and turn % 10 == 0):
            middleware = [] if limits is None else [UllageChatMiddleware(**limits)]
            tools = [tool(look, approval_mode=mode)]
            agent = Agent(Client(brain), tools=tools, middleware=middleware)
            session = AgentSession.from_dict(json.loads(json.dumps(session.to_dict())))
        if case.streamed:
            async for _ in agent.run(question(turn), session=session, stream=True):
                pass
            continue
        done = await agent.run(question(turn), session=session)
        while done.user_input_requests:
            answers = [each.to_function_approval_response(True) for each in done.user_input_requests]  # fmt: skip
            done = await agent.run(Message("user", answers), session=session)
