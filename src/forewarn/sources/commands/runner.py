"""A Slurm command run: with a time limit, one at a time, its output on disk where it is large."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import IO, cast

from forewarn.errors import (
    CommandError,
    ControllerDownError,
    DatabaseDownError,
    RefusedError,
    SchedulerError,
    SlowAnswerError,
)
from forewarn.sources.patience import Patience

_PLAIN = {
    "SLURM_TIME_FORMAT": "%s",  # Unix seconds: no zone, no hour that comes twice
    "LC_ALL": "C.UTF-8",
}
# A person's own defaults would change what the commands print.
_THEIRS = re.compile(r"(?:SACCT|SQUEUE|SCONTROL|SBATCH|SINFO|SCANCEL|SDIAG)_")
_DATABASE = re.compile(r"talking to the database|persistent connection|PersistInit|slurmdbd")
_CONTROLLER = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection refused|Zero Bytes were transmitted"
)
_CODES = (
    (re.compile(r"Invalid job id"), 2017),
    (re.compile(r"[Pp]ermission denied"), 2002),
    (re.compile(r"Invalid partition name|invalid partition specified"), 2000),
)


class Runner:
    """Runs commands that are on PATH."""

    def __init__(
        self,
        *,
        timeout: float = 120.0,
        environ: Mapping[str, str] = os.environ,
        patience: Patience | None = None,
    ) -> None:
        self.runs = 0
        self.received = 0  # bytes that they printed
        self._timeout = timeout
        self._environ = {name: value for name, value in environ.items() if not _THEIRS.match(name)} | _PLAIN
        self._patience = patience or Patience()
        self._patience_with: dict[str, Patience] = {}
        self._one = threading.Lock()

    @contextmanager
    def output(self, *command: str, once: tuple[type[SchedulerError], ...] = ()) -> Iterator[IO[bytes]]:
        """What a command that changes nothing prints; passing trouble is tried again, but for `once`."""
        # Each command its own: while slurmdbd is away, scontrol is asked as ever.
        patience = self._patience_with.setdefault(command[0], replace(self._patience))
        with patience.attempt(lambda: self._run(command), once=once) as stream:
            yield stream

    def text(self, *command: str) -> str:
        """The same where it is short."""
        with self.output(*command) as stream:
            return stream.read().decode("utf-8", "replace")

    def change(self, *command: str, given: str = "") -> str:
        """What a command prints that changes something, run once, with `given` as its input."""
        with self._run(command, given) as stream:
            return stream.read().decode("utf-8", "replace")

    def _run(self, command: tuple[str, ...], given: str = "") -> IO[bytes]:
        stream = cast("IO[bytes]", tempfile.TemporaryFile())  # noqa: SIM115 - whoever asked closes it
        try:
            with self._one:
                self.runs += 1
                done = subprocess.run(
                    command,
                    input=given.encode(),
                    stdout=stream,
                    stderr=subprocess.PIPE,
                    timeout=self._timeout,
                    env=self._environ,
                    check=False,
                )
            if done.returncode:
                raise _failed(command, done.returncode, done.stderr.decode("utf-8", "replace").strip())
        except FileNotFoundError:
            stream.close()
            raise CommandError(
                f"{command[0]}: no such command on PATH: install Slurm's commands here, or set slurmrestd"
            ) from None
        except subprocess.TimeoutExpired:
            stream.close()
            raise SlowAnswerError(f"{command[0]}: no answer within {self._timeout:.0f} s") from None
        except BaseException:
            stream.close()
            raise
        self.received += stream.seek(0, os.SEEK_END)
        stream.seek(0)
        return stream


def _failed(command: tuple[str, ...], code: int, said: str) -> SchedulerError:
    name = command[0]
    words = said.splitlines()[-1] if said else f"exit code {code}"
    number = next((number for pattern, number in _CODES if pattern.search(said)), None)
    if number is not None:
        return RefusedError(f"{name}: Slurm says: {words}", number)
    if _DATABASE.search(said):
        return DatabaseDownError(f"{name}: slurmdbd does not answer ({words}): is it running?")
    if _CONTROLLER.search(said):
        return ControllerDownError(f"{name}: slurmctld does not answer ({words}): is it running?")
    return CommandError(f"{name}: {words}", code)
