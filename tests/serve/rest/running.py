"""`forewarn serve` as a process: start it, wait until it listens, stop it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STARTS_WITHIN = 60.0  # seconds


@dataclass
class RunningService:
    process: subprocess.Popen[bytes]
    url: str
    log: Path

    def stop(self, *, within: float = 40.0) -> int:
        """Send SIGTERM, and return the exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(within)

    @property
    def text(self) -> str:
        """What it has written."""
        return self.log.read_text()


def start_service(
    home: Path, log: Path, *, environment: dict[str, str] | None = None, **settings: Any
) -> RunningService:
    """Start a service on a free port; `settings` are those of the section serve, or dotted by `__`."""
    variables = {"serve.listen": "127.0.0.1:0", "serve.interval": 1}
    variables |= {
        name.replace("__", ".") if "__" in name else f"serve.{name}": value
        for name, value in settings.items()
    }
    given = {
        f"FOREWARN_{name.replace('.', '_').upper()}": ",".join(value)
        if isinstance(value, tuple)
        else str(value)
        for name, value in variables.items()
    }
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("FOREWARN_", "SLURM_"))
    }
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "forewarn", "serve"],
            env={**clean, "FOREWARN_HOME": str(home), **given, **(environment or {})},
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    ends = time.monotonic() + STARTS_WITHIN
    while time.monotonic() < ends and process.poll() is None:
        if found := re.search(r"listening on (https?://\S+)", log.read_text()):
            return RunningService(process, found[1], log)
        time.sleep(0.05)
    process.kill()
    process.wait()
    raise AssertionError(f"the service did not start: {log.read_text()}")
