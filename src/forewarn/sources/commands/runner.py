"""Runner of Slurm's commands: with a time limit, one at a time, the output on disk where it is large."""

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
    "SLURM_TIME_FORMAT": "%s",  # Unix seconds: no zone, no repeated hour
    "LC_ALL": "C.UTF-8",
}
# A user's own defaults would change what the commands print.
_USER_DEFAULTS = re.compile(r"(?:SACCT|SQUEUE|SCONTROL|SBATCH|SINFO|SCANCEL|SDIAG)_")
_NO_ACCOUNTING = re.compile(r"accounting storage is disabled")
_DATABASE = re.compile(r"talking to the database|persistent connection|PersistInit|slurmdbd")
_CONTROLLER = re.compile(
    r"Unable to contact slurm controller|[Cc]onnection refused|Zero Bytes were transmitted"
)
_CODES = (
    (re.compile(r"Invalid job id"), 2017),
    (re.compile(r"[Pp]ermission denied"), 2002),
    (re.compile(r"Invalid user id"), 2010),
    (re.compile(r"Invalid account"), 2045),
    (re.compile(r"Invalid partition name|invalid partition specified"), 2000),
)
_REFUSED = re.compile(r"Batch job submission failed|slurm_update error|slurm_suspend error| for job \d")


class Runner:
    """Runner of commands on PATH."""

    def __init__(
        self,
        *,
        timeout: float = 120.0,
        environ: Mapping[str, str] = os.environ,
        retry: RetryPolicy | None = None,
    ) -> None:
        self.runs = 0
        self.received = 0  # bytes printed
        self._timeout = timeout
        self._environ = {
            name: value for name, value in environ.items() if not _USER_DEFAULTS.match(name)
        } | _PLAIN
        self._retry = retry or RetryPolicy()
        self._retry_by_command: dict[str, RetryPolicy] = {}
        self._in_use = threading.Lock()

    @contextmanager
    def output(self, *command: str, once: tuple[type[SchedulerError], ...] = ()) -> Iterator[IO[bytes]]:
        """Yield the output of a command that changes nothing; retry transient errors, except `once`."""
        # One for each command: while slurmdbd is down, scontrol is run as usual.
        retry = self._retry_by_command.setdefault(command[0], replace(self._retry))
        with retry.attempt(lambda: self._run(command), once=once) as stream:
            yield stream

    def text(self, *command: str) -> str:
        """Return the output of a command as text, where it is short."""
        with self.output(*command) as stream:
            return stream.read().decode("utf-8", "replace")

    def change(self, *command: str, stdin: str = "") -> str:
        """Run a command that changes something, once, with `stdin` as its input; return its output."""
        with self._run(command, stdin) as stream:
            return stream.read().decode("utf-8", "replace")

    def _run(self, command: tuple[str, ...], stdin: str = "") -> IO[bytes]:
        output = scratch_file()
        try:
            with self._in_use:
                self.runs += 1
                code, message = self._print_into(output, command, stdin)
            if code:
                raise _failed(command, code, message.strip())
        except BaseException:
            output.close()
            raise
        return output

    def _print_into(self, output: IO[bytes], command: tuple[str, ...], stdin: str) -> tuple[int, str]:
        """Run it; return its exit code and its standard error."""
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environ, start_new_session=True
            )
        except FileNotFoundError:
            raise CommandError(
                f"{command[0]}: no such command on PATH: install Slurm's commands here, or set slurmrestd"
            ) from None
        is_late = threading.Event()  # the timer's thread may outlive the process that it kills
        overdue = threading.Timer(self._timeout, _end, [process, is_late])
        errors: list[bytes] = []
        feeder = threading.Thread(target=_feed, args=(process, stdin, errors))
        with process:
            overdue.start()
            feeder.start()
            try:
                self.received += fill(output, _chunks(process.stdout))
                process.wait()
            except BaseException:
                _end(process)
                raise
            finally:
                overdue.cancel()
                feeder.join()
        if is_late.is_set():
            raise SlowAnswerError(f"{command[0]}: no answer within {self._timeout:.0f} s")
        return process.returncode, b"".join(errors).decode("utf-8", "replace")


def _chunks(stream: IO[bytes] | None) -> Iterator[bytes]:
    assert stream is not None
    while chunk := stream.read(1 << 18):
        yield chunk


def _feed(process: subprocess.Popen[bytes], stdin: str, errors: list[bytes]) -> None:
    """Write its input and read its errors, while another thread reads its output."""
    assert process.stdin is not None
    assert process.stderr is not None
    with suppress(OSError), process.stdin:  # it may have ended without reading
        process.stdin.write(stdin.encode())
    errors.append(process.stderr.read())


def _end(process: subprocess.Popen[bytes], is_late: threading.Event | None = None) -> None:
    """Kill it with all processes that it started, which would keep its output open."""
    if is_late:
        is_late.set()
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
    if _REFUSED.search(message):
        return RefusedError(f"{name}: Slurm says: {last_line}")
    return CommandError(f"{name}: {last_line}", code)
