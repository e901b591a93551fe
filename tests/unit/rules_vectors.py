"""Reads `golden/vectors.json` and runs a vector through `validate`."""

from __future__ import annotations

import copy
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

from ullage.validate import Report, validate

PATH = Path(__file__).parent.parent / "golden" / "vectors.json"
# Where each provider's request keeps its messages.
KEYS = {"openai_responses": "input", "gemini": "contents"}


def vectors() -> list[dict[str, Any]]:
    """All vectors of requests; those about answers are the classifier's."""
    return [made for made in json.loads(PATH.read_text("utf-8")) if "request" in made]


def expanded(vector: dict[str, Any]) -> dict[str, Any]:
    """The request, with what is to be repeated repeated."""
    request = copy.deepcopy(vector["request"])
    for path, count in vector.get("repeat", ()):
        *way, last = path
        holder: Any = request
        for step in way:
            holder = holder[step]
        holder[last] = holder[last] * count
    return request


def run(vector: dict[str, Any], skip: Collection[str] = ()) -> Report:
    request = expanded(vector)
    messages = request.pop(KEYS.get(vector["provider"], "messages"))
    if "version" in vector:
        request["anthropic_version"] = vector["version"]
        request["betas"] = vector["betas"]
        request.setdefault("tools", [])
    facts = {name: vector[name] for name in ("window", "strict") if name in vector}
    if vector["rule"] in ("A21", "A22"):  # an estimate without weights takes media for larger
        facts["window"] = 0
    return validate(
        messages,
        provider=vector["provider"],
        original=vector.get("original"),
        resume=vector.get("resume", ""),
        skip=skip,
        facts=facts,
        wire=True,
        **request,
    )
