"""The table of programs: every scenario of `tests/programs`, played by the real programs with the gateway and without.

    python -m benches.clients            plays them and prints the table (some minutes)
    python -m benches.clients --write    and writes it into benches/TABLES.md

`make clients-table` installs the programs first. The rows of a program that is not installed stay as they are, with its version.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from benches import table

from tests.programs.kit import ClaudeCode, Codex, MiniSwe, Program, Vibe
from tests.programs.scenarios import Result, judge, of, play_out

PAGE = Path(__file__).with_name("TABLES.md")
BEGIN, END = "<!-- make clients-table: begin -->", "<!-- make clients-table: end -->"
NAMES: dict[type[Program], str] = {
    ClaudeCode: "Claude Code",
    Codex: "Codex",
    MiniSwe: "mini-swe-agent",
    Vibe: "Mistral Vibe",
}
HEAD = (
    "program",
    "scenario",
    "ended",
    "requests",
    "refused as illegal",
    "as too long",
    "million tokens",
    "largest, thousands",
    "rules of 80",
    "tokens for its compactions",
    "reopened",
)


def play(client: type[Program]) -> list[list[str]]:
    """The rows of one program."""
    rows = []
    for scenario in of(client):
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            print(scenario, file=sys.stderr)
            alone = play_out(scenario, Path(folder, "alone"), gateway=False)
            through = play_out(scenario, Path(folder, "gateway"), gateway=True)
        for wrong in [*judge(scenario, alone), *judge(scenario, through)]:
            print(f"{scenario}: {wrong}", file=sys.stderr)
        cells = [
            f"{a} → {b}"
            for a, b in zip(figures(client, alone), figures(client, through), strict=True)
        ]
        rows.append([NAMES[client], scenario.name, *cells])
    return rows


def figures(client: type[Program], result: Result) -> list[str]:
    """The cells of one run."""
    resumed, reopened = result.reopened
    return [
        "yes" if result.ended else "no",
        str(result.requests),
        str(len(result.illegal)),
        str(result.too_long),
        f"{result.tokens / 1e6:.2f}",
        f"{result.largest / 1e3:.0f}",
        str(result.rules) if client.rules_file else "–",
        f"{result.compaction_tokens:,}",
        f"{reopened} of {resumed}" if resumed else "–",
    ]


def versions(client: type[Program]) -> str:
    """The package's version, and Claude Code's own."""
    text = f"{client.package} {client.version()}"
    if client is ClaudeCode:
        said = subprocess.run(
            [client.find(), "--version"], capture_output=True, text=True, check=True
        ).stdout
        text += f" (Claude Code {said.split()[0]})"
    return text


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="benches.clients")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.name}")
    chosen = parser.parse_args(arguments)
    here = [client for client in NAMES if client.find()]
    before = written(PAGE.read_text(encoding="utf-8"))
    runs = {client: (play(client), versions(client)) for client in here}
    all_runs = [
        runs.get(client) or before[client] for client in NAMES if client in {*runs, *before}
    ]
    missing = ", ".join(client.package for client in NAMES if client not in here)
    print(lines(all_runs))
    if missing:
        print(f"Not installed here, so as they were: {missing}.")
    if chosen.write:
        table.between(PAGE, lines(all_runs), BEGIN, END)
    return 0


Run = tuple[list[list[str]], str]
"""A program's rows, and its version."""


def lines(runs: list[Run]) -> str:
    """The table, and what was run."""
    rows = [HEAD, ["---"] * len(HEAD), *(row for played, _ in runs for row in played)]
    text = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"{text}\n\nRun with {', '.join(version for _, version in runs)}."


def written(page: str) -> dict[type[Program], Run]:
    """What the table of a page says of each program."""
    text = page.partition(BEGIN)[2].partition(END)[0]
    rows = [line[2:-2].split(" | ") for line in text.splitlines() if line.startswith("| ")]
    of_packages = re.findall(
        r"([a-z-]+ [\d.]+(?: \([^)]*\))?)(?:, |\.$)", text.partition("Run with ")[2].strip()
    )
    versions_of = {each.partition(" ")[0]: each for each in of_packages}
    return {
        client: ([row for row in rows if row[0] == name], versions_of[client.package])
        for client, name in NAMES.items()
        if client.package in versions_of
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
