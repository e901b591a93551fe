"""Generated transcripts through the batch on each engine: are the results equal, how fast is it, how much memory does it take? What if it is killed?

python -m benches.batch_engines --files 2000 --engines threads daft --action compact --kill
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from tests.kit.transcripts import Layout, session_file
from ullage.batch import Manifest, RowTask, find_places, run_places
from ullage.batch.run import Done, Status
from ullage.testing import scenario


def made(folder: Path, files: int, seeds: int, turns: int) -> int:
    """Writes so many transcripts, of some different sessions of up to so many turns; one has 200. Returns their bytes."""
    kinds = [
        session_file(scenario(seed, turns=1 + seed % turns), layout=Layout()).to_bytes()
        for seed in range(seeds)
    ]
    total = 0
    for number in range(files):
        path = folder / f"{number % 100:02}" / f"{number:06}.jsonl"
        path.parent.mkdir(exist_ok=True)
        total += path.write_bytes(kinds[number % seeds])
    long = session_file(scenario(seeds, turns=200), layout=Layout()).to_bytes()
    (folder / "poisoned.jsonl").write_bytes(b"{no transcript")
    return total + (folder / "long.jsonl").write_bytes(long)


def figures(done: Done) -> tuple[str, int, int]:
    report = done.report
    tokens = report.get("tokens_before", report.get("tokens", 0))
    return report.get("code", ""), tokens, report.get("tokens_after", 0)


def digest(found: Iterable[Done]) -> str:
    """Of what every row says: the same for equal results, in whichever order they came."""
    rows = sorted(f"{Path(each.path).name} {figures(each)}" for each in found)
    return hashlib.sha256("\n".join(rows).encode()).hexdigest()[:16]


def one(folder: str, engine: str, action: str, manifest: str) -> dict[str, object]:
    """Runs one engine in this process."""
    places, began = find_places([folder]), time.perf_counter()
    task, book = RowTask(action=action, dry=True), Manifest.open(Path(manifest))  # type: ignore[arg-type]
    found = [*run_places(task, places, name=action, engine=engine, manifest=book)]  # type: ignore[arg-type]
    seconds = time.perf_counter() - began
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    kept = sum(each.status is Status.KEPT for each in found)
    new = max(1, len(found) - kept)
    return {
        "engine": engine,
        "files": len(found),
        "kept from the run before": kept,
        "failed": sum(each.status is Status.FAILED for each in found),
        "tokens": sum(figures(each)[1] for each in found),
        "tokens after": sum(figures(each)[2] for each in found),
        "seconds": round(seconds, 1),
        "files per second": round(new / seconds, 1),
        "MB per second": round(sum(each.size for each in places) / seconds / 1e6, 1),
        "CPU ms a file": round(sum(each.ru_utime + each.ru_stime for each in used) * 1e3 / new, 2),
        "most memory of one process, MB": max(each.ru_maxrss for each in used) // 1024,
        "digest": digest(found),
    }


def run(folder: str, engine: str, action: str, manifest: Path) -> subprocess.Popen[str]:
    """An engine in processes of its own, for its memory and for a kill of all of them."""
    engine, _, runner = engine.partition("@")
    given = [
        "--folder",
        folder,
        "--engines",
        engine,
        "--action",
        action,
        "--manifest",
        str(manifest),
    ]
    return subprocess.Popen(
        [sys.executable, "-m", "benches.batch_engines", *given],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | ({"DAFT_RUNNER": runner} if runner else {}),
    )


def result(process: subprocess.Popen[str]) -> dict[str, object]:
    out, _ = process.communicate()
    return json.loads(out.strip().splitlines()[-1])


def killed(folder: str, engine: str, action: str, manifest: Path, files: int) -> dict[str, object]:
    """Killed when half is done, then begun again."""
    process = run(folder, engine, action, manifest)
    while process.poll() is None:
        time.sleep(0.02)
        if manifest.exists() and manifest.read_bytes().count(b"\n") > files / 2:
            os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return {**result(run(folder, engine, action, manifest)), "killed": process.returncode < 0}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=1_000)
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--turns", type=int, default=6, help="of the longest session but one")
    parser.add_argument(
        "--engines", nargs="+", default=["threads", "daft"], help="and daft@ray: Daft on local Ray"
    )
    parser.add_argument("--action", default="compact")
    parser.add_argument(
        "--kill", action="store_true", help="and once more, killed when half is done"
    )
    parser.add_argument("--folder", default="", help="(one run)")
    parser.add_argument("--manifest", default="")
    args = parser.parse_args()
    if args.folder:
        print(json.dumps(one(args.folder, args.engines[0], args.action, args.manifest)))
        return 0
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as books:
        print(f"{made(Path(folder), args.files, args.seeds, args.turns) / 1e6:.0f} MB", flush=True)
        seen = set()
        for engine in args.engines:
            found = [result(run(folder, engine, args.action, Path(books) / engine))]
            if args.kill:
                book = Path(books) / f"{engine}-killed"
                found.append(killed(folder, engine, args.action, book, args.files))
            print("\n".join(json.dumps(each) for each in found), flush=True)
            seen |= {each["digest"] for each in found}
    print("equal" if len(seen) == 1 else "NOT EQUAL")
    return len(seen) - 1


if __name__ == "__main__":
    sys.exit(main())
