"""The lab's own namespaces: one process holds them, all runs inside, and all ends with that process."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from lab.errors import LabError
from lab.state_folder import OWN

HOLDER = Path(__file__).parent / "holder.sh"


class Namespace:
    """Starts, enters and ends the namespaces of the lab in one folder."""

    def __init__(self, state: Path) -> None:
        self.state = state
        self._record = state / "holder.pid"
        self._outer: subprocess.Popen[bytes] | None = None
        """The process that we started, if it was us: it is collected when the lab ends."""

    def start(self, tree: Path, lock: TextIO, *, dies_with_me: bool) -> None:
        """Start the holder, which keeps the lock; with `dies_with_me` it ends if this process dies."""
        command = ["unshare", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--"]
        command += ["bash", str(HOLDER), str(self.state), str(tree), *OWN]
        if dies_with_me:
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        log = self.state / "holder.log"
        with log.open("w") as output:
            outer = self._outer = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=(lock.fileno(),),
                start_new_session=True,
                env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            )
        deadline = time.monotonic() + 30
        while not (self.state / "run/lab/ready").exists():
            if outer.poll() is not None or time.monotonic() > deadline:
                outer.kill()
                outer.wait()
                raise LabError(f"the lab's namespaces could not be made: {log.read_text().strip()}")
            time.sleep(0.02)
        holder = int(Path(f"/proc/{outer.pid}/task/{outer.pid}/children").read_text().split()[0])
        # `enter` reads the first number; the times tell these processes from later ones with their numbers.
        record = f"{holder} {_started(holder)} {outer.pid} {_started(outer.pid)}\n"
        self._record.write_text(record)

    @property
    def holder(self) -> int | None:
        """The process that is PID 1 inside, if the lab is up."""
        processes = self._processes()
        return processes[0][0] if processes and _is(*processes[0]) else None

    def end(self) -> None:
        """End everything inside, at once; a lab that is not up is left as it is."""
        processes = self._processes()
        if processes and _is(*processes[0]):
            os.kill(processes[0][0], signal.SIGKILL)
        # The outer process ends by itself once it has collected the holder, and that the kernel gives it
        # only when all the rest has ended.
        deadline = time.monotonic() + 30
        while any(_is(pid, started) for pid, started in processes):
            if self._outer is not None:
                self._outer.poll()
            if time.monotonic() > deadline:
                raise LabError(f"the lab's processes do not end: {processes}")
            time.sleep(0.05)
        if self._outer is not None:
            self._outer.wait()
        self._record.unlink(missing_ok=True)

    def run(
        self,
        user: str,
        command: Sequence[str],
        *,
        text: str | None = None,
        timeout: float = 60,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command inside and wait for it; `text` is its standard input."""
        try:
            result = subprocess.run(
                [str(self.state / "bin/enter"), user, *command],
                input=text if text is not None else "",
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
                cwd="/",
            )
        except subprocess.TimeoutExpired:
            raise LabError(f"`{' '.join(command)}` as {user} has not ended after {timeout:g} s") from None
        if check and result.returncode:
            message = result.stderr.strip() or result.stdout.strip()
            raise LabError(f"`{' '.join(command)}` as {user} ended with {result.returncode}: {message}")
        return result

    def inner_process(self, pid: int) -> Path | None:
        """Return the /proc entry of a process by its number inside; None if it has ended."""
        holder = self.holder
        entry = Path(f"/proc/{holder}/root/proc/{pid}")
        return entry if holder is not None and _state(entry) not in ("", "Z") else None

    def processes(self) -> list[int]:
        """Return the numbers, outside, of every process of the lab."""
        holder = self.holder
        if holder is None:
            return []
        space = Path(f"/proc/{holder}/ns/pid").readlink()
        found = []
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "ns/pid").readlink() == space:
                    found.append(int(entry.name))
            except OSError:  # ended meanwhile
                continue
        return found

    def _processes(self) -> list[tuple[int, str]]:
        try:
            words = self._record.read_text().split()
        except FileNotFoundError:
            return []
        return [(int(words[0]), words[1]), (int(words[2]), words[3])]


def _is(pid: int, started: str) -> bool:
    """Check whether this is still the process that was started then, and it has not ended."""
    return _started(pid) == started and _state(Path(f"/proc/{pid}")) not in ("", "Z")


def _started(pid: int) -> str:
    """Return when a process started, in ticks since boot: with its number, that identifies it for good."""
    return _stat(Path(f"/proc/{pid}"), 21)


def _state(entry: Path) -> str:
    return _stat(entry, 2)


def _stat(entry: Path, field: int) -> str:
    try:
        text = (entry / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    # The second field is the command in brackets, which may itself hold blanks and brackets.
    return text.rpartition(")")[2].split()[field - 2]
