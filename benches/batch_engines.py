"""Generated transcripts through the batch on each engine: are the results equal, how fast is it, how much memory does it take?

python -m benches.batch_engines --files 2000 --engines threads daft --action compact
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ullage.batch import RowTask, find_places, run_places
from ullage.testing import Layout, scenario, session_file


def made(folder: Path, files: int, seeds: int) -> int:
    """Writes so many transcripts, of some different sessions; one is fifty times as long. Returns their bytes."""
    kinds = [
        session_file(scenario(seed, turns=2 + seed % 5), layout=Layout()).to_bytes()
        for seed in range(seeds)
    ]
    total = 0
    for number in range(files):
        path = folder / f"{number % 100:02}" / f"{number:06}.jsonl"
        path.parent.mkdir(exist_ok=True)
        total += path.write_bytes(kinds[number % seeds])
    long = session_file(scenario(seeds, turns=200), layout=Layout()).to_bytes()
    return total + (folder / "long.jsonl").write_bytes(long)


def one(folder: str, engine: str, action: str) -> dict[str, object]:
    """Runs one engine in this process."""
    places, began = find_places([folder]), time.perf_counter()
    task = RowTask(action=action, dry=True)  # type: ignore[arg-type]
    found = [*run_places(task, places, name=action, engine=engine)]  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    own, children = (
        resource.getrusage(who).ru_maxrss
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    total = sum(each.size for each in places)
    return {
        "engine": engine,
        "files": len(found),
        "failed": sum(str(each.status) == "failed" for each in found),
        "tokens": sum(
            each.report.get("tokens_before", each.report.get("tokens", 0)) for each in found
        ),
        "tokens after": sum(each.report.get("tokens_after", 0) for each in found),
        "seconds": round(seconds, 1),
        "files per second": round(len(found) / seconds, 1),
        "MB per second": round(total / seconds / 1e6, 1),
        "most memory of one process, MB": max(own, children) // 1024,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--engines", nargs="+", default=["threads", "daft"])
    parser.add_argument("--action", default="compact")
    parser.add_argument("--folder", default="")
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(one(args.folder, args.engines[0], args.action)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(f"{made(Path(folder), args.files, args.seeds) / 1e6:.0f} MB")
        for engine in args.engines:  # each in a process of its own, for its memory
            given = ["--folder", folder, "--engines", engine, "--action", args.action]
            subprocess.run([sys.executable, "-m", "benches.batch_engines", *given], check=True)


if __name__ == "__main__":
    main()
