"""How well failure is predicted on real logs, against the aims of the learning room and the simple rules.

    python bench/learning.py ../shared/data/swf [--log CTC] [--phases submit,start] [--retrain weekly] …

Each log through `forewarn bench` in a process of its own; what follows `--` is handed to it. The JSON of each
goes to --keep, so that a table can be made of it again.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

FOREWARN = Path(sys.executable).with_name("forewarn")
# Sandia-Ross's status is an exit code: without saying so its labels would be inverted.
STATUS = {"Sandia-Ross": ["--status", "exit-code"]}


def measured(log: Path, arguments: list[str]) -> dict[str, Any]:
    own = next((flags for name, flags in STATUS.items() if log.name.startswith(name)), [])
    command = [FOREWARN, "bench", f"swf:{log}", "--features", "swf", "--json", *own, *arguments]
    began = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout) | {"seconds": round(time.perf_counter() - began, 1)}


def row(log: str, retrain: str, phase: str, figures: dict[str, Any]) -> str:
    at, ahead = figures["at_validation"], figures["above_best_baseline"]
    low, high = ahead["interval"] or (float("nan"), float("nan"))
    cells = (
        *(log, phase, retrain, f"{figures['n']:,}", f"{figures['base_rate']:.3f}"),
        *(f"{figures[name]:.4f}" for name in ("roc_auc", "pr_auc")),
        " / ".join(f"{at[name]:.3f}" for name in ("accuracy", "precision", "recall", "f1")),
        f"{ahead['f1']:+.3f} [{low:+.3f}, {high:+.3f}]",
        f"{figures['ece']:.3f}",
    )
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--log", default="", help="only logs whose name begins so")
    parser.add_argument("--keep", type=Path, help="folder for the JSON of each run")
    known, arguments = parser.parse_known_args()
    print("| log | phase | retrain | n | rate | ROC-AUC | PR-AUC | acc / P / R / F1 | F1 above rule | ECE |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for log in sorted(known.folder.glob(f"{known.log}*.swf*")):
        found = measured(log, [a for a in arguments if a != "--"])
        if known.keep:
            known.keep.mkdir(parents=True, exist_ok=True)
            name = f"{log.name.split('.')[0]}-{found['retrain']}-{'-'.join(found['phases'])}.json"
            (known.keep / name).write_text(json.dumps(found, indent=1))
        for phase, figures in found["phases"].items():
            print(row(found["log"], found["retrain"], phase, figures), flush=True)


if __name__ == "__main__":
    main()
