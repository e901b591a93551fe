"""Claude Agent SDK with Ullage's hooks: `python claude_agent.py "What is in notes.md?"` (Claude Code has to be logged in)."""

import asyncio
import sys
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query

from ullage.clients.agent_sdk import ullage_hooks


async def ask(question: str, transport: Any = None) -> str:
    options = ClaudeAgentOptions(hooks=ullage_hooks())
    result = ""
    async for message in query(prompt=question, options=options, transport=transport):
        if isinstance(message, ResultMessage):
            result = message.result or ""
    return result


def main(question: str) -> str:
    return asyncio.run(ask(question))


if __name__ == "__main__":
    print(main(sys.argv[1]))
