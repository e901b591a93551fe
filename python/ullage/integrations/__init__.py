"""Agent frameworks with Ullage in them: one module each, which imports its framework and begins with the line to add.

Each needs its extra, `pip install 'ullage[langchain]'`; without it the import raises `MissingExtra`. The Claude Agent SDK's hooks
are in `ullage.clients.agent_sdk`. `docs/integrations.md` has them all in a table.
"""
