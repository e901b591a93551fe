"""`make picture`: runs `ullage demo` in a terminal of its own and writes what it printed as docs/picture.svg.

    python tools/picture.py [FILE]

The session is generated, so the picture shows no one's data; equal versions write equal pictures. What the picture leaves out
is marked by `…`. Needs the extra `cli`, and a system with pseudo-terminals.
"""

from __future__ import annotations

import io
import os
import pty
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

PAGE = Path(__file__).parents[1] / "docs" / "picture.svg"
COLUMNS, ROWS = 104, 80
COMMAND = ("ullage", "demo")

# From the first of these lines up to the second, the second not included, output is left out.
LEFT_OUT = (("Tools", "session-7.jsonl"), ("Try:", ""))

THEME = TerminalTheme(
    background=(22, 27, 34),
    foreground=(214, 220, 228),
    normal=[(72, 79, 88), (255, 123, 114), (86, 211, 100), (227, 179, 65), (121, 192, 255), (210, 168, 255), (86, 212, 221), (177, 186, 196)],
    bright=None,
)  # fmt: skip

# Without rich's web font: a page that shows pictures does not let them fetch anything.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>ullage demo: a generated session before and after a compaction</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def terminal(folder: str) -> str:
    """What the demo prints on a terminal, with its colours."""
    leader, follower = pty.openpty()
    environment = {
        **os.environ, "COLUMNS": str(COLUMNS), "LINES": str(ROWS), "TERM": "xterm-256color",
        "COLORTERM": "truecolor", "PYTHONIOENCODING": "utf-8",
    }  # fmt: skip
    environment.pop("NO_COLOR", None)
    command = [sys.executable, "-m", *COMMAND, "--directory", "."]
    running = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=follower, stderr=follower, stdin=follower
    )
    os.close(follower)
    said = io.BytesIO()
    while piece := _read(leader):
        said.write(piece)
    os.close(leader)
    if running.wait() != 0:
        raise SystemExit(f"the demo failed:\n{said.getvalue().decode()}")
    return said.getvalue().decode().replace("\r\n", "\n")


def _read(leader: int) -> bytes:
    try:
        return os.read(leader, 65536)
    except OSError:  # Linux: the other end is closed
        return b""


def shown(lines: list[Text]) -> list[Text]:
    """The lines without the parts that are left out."""
    kept: list[Text] = []
    ends = dict(LEFT_OUT)
    until: str | None = None
    for line in lines:
        if until is not None and (not until or not line.plain.startswith(until)):
            continue
        until = next((end for start, end in ends.items() if line.plain.startswith(start)), None)
        if until is None:
            kept.append(line)
        elif until:
            kept += [Text("…", style="dim"), Text("")]
    return kept


def main(arguments: list[str]) -> int:
    """Write the picture."""
    page = Path(arguments[0]) if arguments else PAGE
    with tempfile.TemporaryDirectory() as folder:
        lines = list(Text.from_ansi(terminal(folder)).split("\n"))
    console = Console(
        record=True,
        width=COLUMNS + 2,
        file=io.StringIO(),
        force_terminal=True,
        color_system="truecolor",
        legacy_windows=False,
    )
    console.print(Text(f"$ {' '.join(COMMAND)}", style="bold"))
    for line in shown(lines):
        console.print(line, no_wrap=True, overflow="crop", crop=True)
    svg = console.export_svg(
        title=" ".join(COMMAND), theme=THEME, code_format=FORMAT, unique_id="ullage"
    )
    page.write_text(svg, encoding="utf-8")
    print(f"{page}: {len(svg):,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
