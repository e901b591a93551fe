"""What a record says besides its figures: the libraries' versions; nothing that names the machine or the branch."""

from __future__ import annotations

from typing import Any

from benches.table import versions

MACHINE = ("machine", "system", "python_implementation", "python_version")


def pytest_benchmark_update_json(config: Any, benchmarks: Any, output_json: dict[str, Any]) -> None:
    del config, benchmarks
    machine = output_json["machine_info"]
    output_json["machine_info"] = {name: machine.get(name) for name in MACHINE}
    for name in ("branch", "project"):
        output_json["commit_info"].pop(name, None)
    output_json["versions"] = versions()
