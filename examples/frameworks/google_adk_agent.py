"""An agent of Google's ADK that keeps within its model's window: `python google_adk_agent.py gemini-2.5-pro "What is in notes.md?"`."""

import asyncio
import sys
from pathlib import Path

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.runners import InMemoryRunner
from google.genai.types import Content, Part

from ullage.integrations.google_adk import UllagePlugin


def read(path: str) -> str:
    """Reads a file."""
    found = Path(path)
    return found.read_text(encoding="utf-8") if found.is_file() else "No such file"


async def ask(model: str, question: str) -> str:
    agent = LlmAgent(name="reader", model=model, tools=[read])
    runner = InMemoryRunner(app=App(name="reading", root_agent=agent, plugins=[UllagePlugin()]))
    session = await runner.session_service.create_session(app_name="reading", user_id="me")
    asked = Content(role="user", parts=[Part(text=question)])
    texts = []
    async for event in runner.run_async(user_id="me", session_id=session.id, new_message=asked):
        parts = event.content.parts if event.content and event.content.parts else []
        texts += [part.text for part in parts if part.text]
    return texts[-1] if texts else ""


def main(model: str, question: str) -> str:
    return asyncio.run(ask(model, question))


if __name__ == "__main__":
    print(main(*sys.argv[1:3]))
