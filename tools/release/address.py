"""Gives the project its address, once: `project.urls` in pyproject.toml, and links of the README that the package index can follow.

python -m tools.release.address https://HOST/OWNER/NAME
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from tools.release.texts import ABSOLUTE, CODE, LINK

ROOT = Path(__file__).parents[2]
PICTURES = (".svg", ".png", ".gif", ".jpg")


def urls(address: str) -> str:
    """The table for pyproject.toml."""
    rows = {
        "Source": address,
        "Documentation": f"{address}/blob/main/docs/index.md",
        "Changelog": f"{address}/blob/main/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    return "[project.urls]\n" + "".join(f'{label} = "{url}"\n' for label, url in rows.items())


def described(text: str, address: str) -> str:
    """pyproject.toml with its table of addresses, in place of one that is there."""
    without = re.sub(r"^\[project\.urls\]\n(?:[^\[\n].*\n)*\n?", "", text, flags=re.MULTILINE)
    return without.replace("[project.scripts]", f"{urls(address)}\n[project.scripts]", 1)


def absolute(text: str, address: str) -> str:
    """A page whose links go to the repository, code excepted."""
    code = [row.span() for row in CODE.finditer(text)]

    def linked(row: re.Match[str]) -> str:
        target = row[1] or row[2]
        inside = any(start <= row.start() < stop for start, stop in code)
        if inside or target.startswith((*ABSOLUTE, "#")):
            return row[0]
        kind = "raw" if target.endswith(PICTURES) else "blob"
        return row[0].replace(target, f"{address}/{kind}/main/{target}", 1)

    return LINK.sub(linked, text)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Command line."""
    parser = argparse.ArgumentParser(prog="tools.release.address", description=__doc__)
    parser.add_argument("address", help="of the repository, without a slash at its end")
    address = parser.parse_args(arguments).address.rstrip("/")
    if not re.fullmatch(r"https://[^/\s]+(/[^/\s]+)+", address):
        parser.error("an address is https://HOST/OWNER/NAME")
    for name, change in (("pyproject.toml", described), ("README.md", absolute)):
        path = root / name
        path.write_text(change(path.read_text(encoding="utf-8"), address), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
