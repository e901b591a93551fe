"""Compares the model table with the one that litellm publishes in its wheel: windows, longest responses, prices.

    uv pip install litellm        # or read its JSON from elsewhere: --file
    python -m tools.model_table   # exit code 1 if a difference was not reviewed

Reviewed differences, with the reason for keeping our value, are in `tools/model_differences.toml`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

from ullage.counting.models import ModelTable

LOOKED_AT = Path(__file__).with_name("model_differences.toml")
VENDORS = (
    "anthropic",
    "openai",
    "azure",
    "gemini",
    "mistral",
    "deepseek",
    "xai",
    "moonshot",
    "zai",
    "dashscope",
)
"""Whose names are compared: those of vendors. Routers serve smaller windows than a model has."""

NAME = "model_prices_and_context_window_backup.json"


class Difference(NamedTuple):
    """One value that differs: ours and theirs, in tokens or dollars per million tokens."""

    model: str
    field: str
    ours: Decimal
    theirs: Decimal

    def __str__(self) -> str:
        return f"{self.model:45} {self.field:18} ours {self.ours:>12,}  theirs {self.theirs:>12,}"


def public_table(path: str | None) -> Mapping[str, Any]:
    """Litellm's table: from a file, or as it lies in the installed wheel; nothing of it is imported."""
    if path is None:
        found = importlib.util.find_spec("litellm")
        if found is None or not found.origin:
            sys.exit("litellm is not installed: uv pip install litellm, or --file PATH")
        path = str(Path(found.origin).with_name(NAME))
    read: Mapping[str, Any] = json.loads(Path(path).read_text(encoding="utf-8"))
    return read


def differences(theirs: Mapping[str, Any], table: ModelTable) -> Iterator[Difference]:
    """Every value of a vendor's chat model that the two tables state in different ways."""
    for name, row in sorted(theirs.items()):
        chat = row.get("mode") in ("chat", "responses")
        if not chat or row.get("litellm_provider") not in VENDORS or "ft:" in name:
            continue
        ours = table.find(name)
        if ours is None:
            yield Difference(name, "unknown", Decimal(0), Decimal(row.get("max_input_tokens") or 0))
            continue
        prompt = ours.input_limit or ours.context_window
        yield from _differing(name, "max_input_tokens", prompt, row)
        yield from _differing(name, "max_output_tokens", ours.max_output_tokens, row)
        if ours.prices is not None and row.get("litellm_provider") != "azure":
            for key, price in (("input", ours.prices.input), ("output", ours.prices.output)):
                yield from _differing(name, f"{key}_cost_per_token", price, row)


def _differing(
    name: str, field: str, ours: int | Decimal, row: Mapping[str, Any]
) -> Iterator[Difference]:
    value = row.get(field)
    if not value:
        return
    theirs = Decimal(str(value)) * (1_000_000 if "cost" in field else 1)
    if abs(theirs - ours) > Decimal("0.02") * theirs:  # 128,000 and 131,072 are one size
        if field == "max_input_tokens" and {int(ours), int(theirs)} <= {128_000, 131_072}:
            return
        yield Difference(name, field, Decimal(ours), theirs.normalize())


def looked_at() -> Mapping[str, str]:
    """Reasons by `model field`; a model may be the beginning of many names, with a star."""
    return tomllib.loads(LOOKED_AT.read_text(encoding="utf-8"))["differences"]


def is_known(found: Difference, known: Mapping[str, str]) -> bool:
    """Whether it was reviewed."""
    keys = (tuple(key.split()) for key in known)
    return any(
        field in ("*", found.field)
        and (found.model == model or (model.endswith("*") and found.model.startswith(model[:-1])))
        for model, field in keys
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print differences that were not reviewed; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--file", help="litellm's JSON; default: that of the installed wheel")
    parser.add_argument("--all", action="store_true", help="also reviewed differences")
    given = parser.parse_args(arguments)
    table, known = ModelTable.builtin(), looked_at()
    found = list(differences(public_table(given.file), table))
    new = [each for each in found if given.all or not is_known(each, known)]
    for each in new:
        print(each)
    print(f"table of {table.version}: {len(found)} differences, {len(new)} shown")
    return 1 if new and not given.all else 0


if __name__ == "__main__":
    sys.exit(main())
