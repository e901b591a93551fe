"""The bill of materials, as CycloneDX: crates that are compiled in and Python packages that are installed with it."""

from __future__ import annotations

import json
import re
import tomllib
import uuid
from pathlib import Path

from tools.release.licences import Crate, requirements
from tools.release.texts import project, version

Row = dict[str, object]


def bill(root: Path, crates: list[Crate]) -> Row:
    """Equal for equal sources: no time, no folder, and a serial number made from the content."""
    ours = f"pkg:pypi/ullage@{version(root)}"
    names = {crate.id: f"pkg:cargo/{crate.name}@{crate.version}" for crate in crates}
    packages = [row for extra, rows in requirements(root).items() for row in _python(extra, rows)]
    needed = [str(row["bom-ref"]) for row in packages if row["scope"] == "required"]
    start = next(names[crate.id] for crate in crates if crate.name == "ullage-python")
    body: Row = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": _itself(root, ours)},
        "components": [*_crates(root, crates), *packages],
        "dependencies": [
            {"ref": ours, "dependsOn": [start, *needed]},
            *({"ref": names[c.id], "dependsOn": sorted(names[i] for i in c.used)} for c in crates),
        ],
    }
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(body, sort_keys=True))
    return {**body, "serialNumber": f"urn:uuid:{serial}"}


def _itself(root: Path, ref: str) -> Row:
    said = project(root)
    return {
        "type": "library",
        "bom-ref": ref,
        "name": "ullage",
        "version": version(root),
        "description": said.get("description"),
        "licenses": [{"expression": said.get("license")}],
        "purl": ref,
    }


def _crates(root: Path, crates: list[Crate]) -> list[Row]:
    rows = tomllib.loads((root / "Cargo.lock").read_text(encoding="utf-8"))["package"]
    digests = {(row["name"], row["version"]): row.get("checksum") for row in rows}
    return [_crate(each, digests.get((each.name, each.version))) for each in crates]


def _crate(crate: Crate, digest: str | None) -> Row:
    name = f"pkg:cargo/{crate.name}@{crate.version}"
    row: Row = {
        "type": "library",
        "bom-ref": name,
        "name": crate.name,
        "version": crate.version,
        "scope": "required",
        "licenses": [{"expression": crate.licence.replace("/", " OR ")}],
        "purl": name,
    }
    return {**row, "hashes": [{"alg": "SHA-256", "content": digest}]} if digest else row


def _python(extra: str, rows: list[str]) -> list[Row]:
    return [
        {
            "type": "library",
            "bom-ref": f"pkg:pypi/{name}" + (f"?extra={extra}" if extra else ""),
            "name": name,
            "scope": "optional" if extra else "required",
            "purl": f"pkg:pypi/{name}",
            "properties": [{"name": "ullage:requirement", "value": row}],
        }
        for row in rows
        for name in [re.split(r"[<>=!~;\[ ]", row)[0]]
    ]
