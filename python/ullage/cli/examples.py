"""What stands below the options of each command's `--help`, as Markdown."""

from __future__ import annotations

__all__ = ["EXAMPLES"]


def _block(*lines: str) -> str:
    # Two spaces at the end of a line: Markdown keeps the line break.
    return "Examples:\n\n" + "  \n".join(f"`{line}`" for line in lines)


EXAMPLES = {
    "list": _block("ullage list --here", "ullage list --json"),
    "demo": _block("ullage demo", "ullage demo --seed 3 --size 60000 --directory made"),
    "inspect": _block("ullage inspect session.jsonl", "ullage inspect --last --all"),
    "compact": _block(
        "ullage compact session.jsonl",
        "ullage compact session.jsonl --target 20k --dry-run --diff",
        "ullage compact --last -o smaller.jsonl -i 'the failing test'",
        "ullage compact --last --new-session",
        "ullage compact - -o - < session.jsonl > smaller.jsonl",
    ),
    "undo": _block("ullage undo --last --dry-run", "ullage undo session.jsonl"),
    "edit": _block("ullage edit --last --results", "ullage edit session.jsonl --remove t3 r7"),
    "handoff": _block("ullage handoff --last --to codex", "ullage handoff session.jsonl --to pi"),
    "watch": _block("ullage watch --last", "ullage watch session.jsonl --once"),
    "search": _block("ullage search flaky test", "ullage search '\"last row\"' --tool codex"),
    "mcp": _block("ullage mcp"),
    "resume": _block(
        "ullage resume session.jsonl",
        "ullage resume session.jsonl --tail 5",
        "ullage resume session.jsonl --provider openai_chat --body > request.json",
    ),
    "replay": _block("ullage replay session.jsonl", "ullage replay session.jsonl --ladder --all"),
    "report": _block(
        "ullage report session.jsonl -o report.html",
        "ullage report monday.jsonl tuesday.jsonl -o week.html --redact",
    ),
    "batch": _block("ullage batch inspect sessions", "ullage batch compact sessions --json"),
    "validate": _block(
        "ullage validate session.jsonl",
        "ullage validate session.jsonl --provider openai_responses --warnings",
    ),
    "policy": _block("ullage policy", "ullage policy --ladder --model claude-opus-4-5"),
    "schema": _block("ullage schema", "ullage schema compact", "ullage schema memory list"),
    "completion": _block(
        "ullage completion bash > ~/.local/share/bash-completion/completions/ullage",
        "ullage completion zsh > ~/.zfunc/_ullage",
        "ullage completion fish > ~/.config/fish/completions/ullage.fish",
    ),
}
