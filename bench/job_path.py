"""The path of a job from `ingest` to `check`: modules passed, conversions made, history read.

    python bench/job_path.py [--jobs 5000]

Each command is a process of its own, as a person gives them; every call in it is looked at. It runs on any
version of the code that PYTHONPATH leads to, so that two can be held against each other.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any

SCRIPT = "#!/bin/bash\n#SBATCH --partition={partition}\n#SBATCH --nodes=1\n#SBATCH --time=60\nsrun ./solve\n"


def described(scan: Any) -> str:
    """Say what a scan of jobs reads."""
    views = scan.views if hasattr(scan, "views") else {scan.view: scan.columns}
    columns = {name for names in views.values() for name in names or ["all"]}
    where = "part of the history" if (scan.since, scan.until, scan.job_ids) != (None,) * 3 else "all history"
    return f"{where}, as of {' and '.join(views)}, {'all' if 'all' in columns else len(columns)} columns"


def is_import(frame: FrameType | None) -> bool:
    """Check whether a call is part of a module's import, as that of a decorator is."""
    while frame is not None:
        if frame.f_code.co_name == "<module>" and "/forewarn/" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


class Counted:
    """Counts calls by where they go."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.passed: set[str] = set()
        self.counts: Counter[str] = Counter()
        self.scans: list[str] = []

    def opened(self, event: str, details: tuple[Any, ...]) -> None:
        """Hear of each file that Python opens."""
        if event == "open" and details[0] is not None and os.fspath(details[0]) == self.source:
            self.counts["source's file opened"] += 1

    def called(self, frame: FrameType, event: str, _: object) -> None:
        """Hear of each call."""
        if event != "call":
            return
        code, seen = frame.f_code, frame.f_locals
        where, name = code.co_filename, code.co_name
        if name == "replace" and where.endswith("dataclasses.py"):
            self.counts["copies of an assessment"] += type(seen["obj"]).__name__ == "Assessment"
        _, ours, module = where.rpartition("/forewarn/")
        if not ours or name == "<module>":
            return
        if module not in self.passed and not is_import(frame):
            self.passed.add(module)
        match module, name:
            case "sources/base.py", "__init__" if "path" in seen:
                self.counts["sources made"] += 1
            case "job/columns.py", "complete":
                self.counts["schema completed"] += 1
            case "operate/ingest_file.py", "_write":
                self.counts["batches"] += 1
            case "store/segments.py", "unpacked":
                self.counts["segments read"] += 1
            case "store/scanning.py", "_in_order" if seen["self"].kind == "job":
                self.scans.append(described(seen["self"]))

    def as_dict(self) -> dict[str, Any]:
        """Return the counts."""
        rooms = Counter(module.split("/")[0] for module in self.passed if "/" in module)
        return {
            "modules imported": sum(name.startswith("forewarn.") for name in sys.modules),
            "modules passed": len(self.passed),
            "of rooms": dict(sorted(rooms.items())),
            **{name: count for name, count in self.counts.items() if count},
            "scans of jobs": self.scans,
        }


def watch(out: Path, source: str, command: list[str]) -> None:
    """Run one command in this process, and count."""
    counted = Counted(source)
    from forewarn.serve.cli.main import main

    sys.argv = ["forewarn", *command]
    sys.addaudithook(counted.opened)
    threading.setprofile(counted.called)
    sys.setprofile(counted.called)
    try:
        main()
    except SystemExit as ended:
        if ended.code not in (range(3) if command[0] == "check" else (0, None)):
            raise
    finally:
        sys.setprofile(None)
        out.write_text(json.dumps(counted.as_dict()), encoding="utf-8")


def run(jobs: int) -> dict[str, Any]:
    """Run every command on the path, and return the counts of each."""
    with TemporaryDirectory(prefix="job-path-") as folder:
        home, log, script = Path(folder, "home"), Path(folder, "jobs.txt"), Path(folder, "job.sbatch")
        given = ["simulate", "--scenario", "small", "--format", "sacct", "--jobs", str(jobs), "-o", str(log)]
        cli = [sys.executable, "-c", "from forewarn.serve.cli.main import main; main()"]
        subprocess.run([*cli, *given], check=True, capture_output=True)
        names, first, *_ = (line.split("|") for line in log.read_text(encoding="utf-8").splitlines()[:2])
        about = dict(zip(names, first, strict=True))
        script.write_text(SCRIPT.format(partition=about["Partition"]), encoding="utf-8")
        commands = {
            "ingest": ["ingest", f"sacct:{log}", "--home", str(home)],
            "train": ["train", "--home", str(home), "--family", "online"],
            "train at start": ["train", "--home", str(home), "--family", "online", "--phase", "start"],
            "check, first": ["check", str(script), "--home", str(home), "--user", about["User"]],
            "check": ["check", str(script), "--home", str(home), "--user", about["User"]],
        }
        counts_by_command = {}
        for name, command in commands.items():
            out = Path(folder, "counted.json")
            here = [sys.executable, __file__, "--watch", str(out), "--source", str(log), "--", *command]
            done = subprocess.run(here, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr}")
            counts_by_command[name] = json.loads(out.read_text(encoding="utf-8"))
        return counts_by_command


def main() -> None:
    """Print what was counted as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=5000)
    parser.add_argument("--watch", type=Path)
    parser.add_argument("--source", default="")
    parser.add_argument("command", nargs="*")
    asked = parser.parse_args()
    if asked.watch:
        watch(asked.watch, asked.source, asked.command)
    else:
        print(json.dumps(run(asked.jobs), indent=2))


if __name__ == "__main__":
    main()
