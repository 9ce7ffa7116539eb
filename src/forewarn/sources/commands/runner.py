"""A Slurm command run: with a time limit, one at a time, its output on disk where it is large."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import IO

from forewarn.errors import (
    CommandError,
    ControllerDownError,
    DatabaseDownError,
    NoAccountingError,
    RefusedError,
    SchedulerError,
    SlowAnswerError,
)
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scratch import fill, scratch_file

_PLAIN = {
    "SLURM_TIME_FORMAT": "%s",  # Unix seconds: no zone, no hour that comes twice
    "LC_ALL": "C.UTF-8",
}
# A person's own defaults would change what the commands print.
_THEIRS = re.compile(r"(?:SACCT|SQUEUE|SCONTROL|SBATCH|SINFO|SCANCEL|SDIAG)_")
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled")
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
        retry: RetryPolicy | None = None,
    ) -> None:
        self.runs = 0
        self.received = 0  # bytes that they printed
        self._timeout = timeout
        self._environ = {name: value for name, value in environ.items() if not _THEIRS.match(name)} | _PLAIN
        self._retry = retry or RetryPolicy()
        self._patience_with: dict[str, RetryPolicy] = {}
        self._one = threading.Lock()

    @contextmanager
    def output(self, *command: str, once: tuple[type[SchedulerError], ...] = ()) -> Iterator[IO[bytes]]:
        """What a command that changes nothing prints; passing trouble is tried again, but for `once`."""
        # Each command its own: while slurmdbd is away, scontrol is asked as ever.
        retry = self._patience_with.setdefault(command[0], replace(self._retry))
        with retry.attempt(lambda: self._run(command), once=once) as stream:
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
        printed = scratch_file()
        try:
            with self._one:
                self.runs += 1
                code, complaint = self._print_into(printed, command, given)
            if code:
                raise _failed(command, code, complaint.strip())
        except BaseException:
            printed.close()
            raise
        return printed

    def _print_into(self, printed: IO[bytes], command: tuple[str, ...], given: str) -> tuple[int, str]:
        """Run it; its exit code, and what it says on standard error."""
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environ, start_new_session=True
            )
        except FileNotFoundError:
            raise CommandError(
                f"{command[0]}: no such command on PATH: install Slurm's commands here, or set slurmrestd"
            ) from None
        overdue = threading.Timer(self._timeout, _end, [process])
        complaint: list[bytes] = []
        aside = threading.Thread(target=_converse, args=(process, given, complaint))
        with process:
            overdue.start()
            aside.start()
            try:
                self.received += fill(printed, _chunks(process.stdout))
                process.wait()
            except BaseException:
                _end(process)
                raise
            finally:
                in_time = overdue.is_alive()
                overdue.cancel()
                aside.join()
        if not in_time:
            raise SlowAnswerError(f"{command[0]}: no answer within {self._timeout:.0f} s")
        return process.returncode, b"".join(complaint).decode("utf-8", "replace")


def _chunks(stream: IO[bytes] | None) -> Iterator[bytes]:
    assert stream is not None
    while chunk := stream.read(1 << 18):
        yield chunk


def _converse(process: subprocess.Popen[bytes], given: str, complaint: list[bytes]) -> None:
    """Give it its input and take its complaints, while others read what it prints."""
    assert process.stdin is not None
    assert process.stderr is not None
    with suppress(OSError), process.stdin:  # it may have ended without reading
        process.stdin.write(given.encode())
    complaint.append(process.stderr.read())


def _end(process: subprocess.Popen[bytes]) -> None:
    """End it with whatever it has started, which would keep its output open."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _failed(command: tuple[str, ...], code: int, message: str) -> SchedulerError:
    name = command[0]
    last_line = message.splitlines()[-1] if message else f"exit code {code}"
    number = next((number for pattern, number in _CODES if pattern.search(message)), None)
    if number is not None:
        return RefusedError(f"{name}: Slurm says: {last_line}", number)
    if _NO_ACCOUNTING.search(message):
        return NoAccountingError(f"{name}: this Slurm keeps no accounting ({last_line})")
    if _DATABASE.search(message):
        return DatabaseDownError(f"{name}: slurmdbd does not answer ({last_line}): is it running?")
    if _CONTROLLER.search(message):
        return ControllerDownError(f"{name}: slurmctld does not answer ({last_line}): is it running?")
    return CommandError(f"{name}: {last_line}", code)
