"""The daemons of a lab: how each is started, when it is ready, and how it is stopped or killed on its own."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError
from lab.namespace import Namespace
from lab.ports import answers
from lab.settings import Settings

REST_MEMORY = 4 << 30
"""Bytes: one unbounded question over 300,000 jobs took slurmrestd to 21 GB, and the machine with it."""

# `setsid` keeps the number of the background process, which leads no group; so do all that follow by exec.
START = 'umask 022; setsid "${@:3}" </dev/null >>"$2" 2>&1 & echo $! >"$1"'


@dataclass(frozen=True, slots=True)
class Daemon:
    """One daemon: who runs it, how, and the port that answers once it is ready."""

    name: str
    user: str
    command: tuple[str, ...]
    port: int | None = None
    socket: str | None = None
    """Path inside of a unix socket that it makes; what a killed one left is removed before a start."""


def daemons_of(settings: Settings) -> dict[str, Daemon]:
    """Return all daemons of a lab by name, in the order in which they start."""
    rest = settings.rest_port
    rest_socket = "/run/slurmrestd/slurmrestd.sock"
    daemons = [
        Daemon("munged", "munge", ("munged", "--foreground"), socket="/run/munge/munge.socket.2"),
        Daemon("mariadb", "mysql", _mariadb(settings), port=settings.database_port),
        Daemon("slurmdbd", "slurm", ("slurmdbd", "-D"), port=settings.accounting_port),
        Daemon("slurmctld", "slurm", ("slurmctld", "-D"), port=settings.controller_port),
        *(
            Daemon(f"slurmd.{name}", "root", _slurmd(name), port)
            for name, port in settings.node_ports.items()
        ),
        Daemon("slurmrestd", "slurmrest", _slurmrestd(settings, rest_socket), port=rest, socket=rest_socket),
    ]
    if not settings.accounting:
        daemons = [daemon for daemon in daemons if daemon.name not in ("mariadb", "slurmdbd")]
    return {daemon.name: daemon for daemon in daemons}


class Daemons:
    """Starts, stops and kills the daemons of one lab, each on its own."""

    def __init__(self, namespace: Namespace, settings: Settings) -> None:
        self._inside = namespace
        self._daemons = daemons_of(settings)

    @property
    def names(self) -> list[str]:
        """All daemons, in the order in which they start."""
        return list(self._daemons)

    def start(self, name: str, *, timeout: float = 60) -> None:
        """Start a daemon and wait until it answers; one that runs is left alone."""
        daemon = self._named(name)
        if self.pid(name) is not None:
            return
        if daemon.socket is not None:
            self._outside(daemon.socket).unlink(missing_ok=True)
        command = ["setpriv", "--reuid", daemon.user, "--regid", daemon.user, "--init-groups", "--"]
        files = [f"/run/lab/{name}.pid", f"/var/log/{name}.out"]
        silent = f"{name} does not answer; see {self.log(name)}"
        deadline = time.monotonic() + timeout
        while True:
            self._inside.run("root", ["bash", "-c", START, "start", *files, *command, *daemon.command])
            try:
                self._wait(deadline - time.monotonic(), lambda: self._ready(daemon), silent)
                break
            except LabError as error:
                # The port may be held for some moments by what is left of who had it before.
                if "Address already in use" not in str(error) or time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
        if name == "slurmrestd" and daemon.socket is not None:
            # Who may ask is decided by the token, not by who may open the socket.
            self._outside(daemon.socket).chmod(0o666)

    def stop(self, name: str, *, timeout: float = 60) -> None:
        """End a daemon in good order and wait for it; one that does not run is left alone."""
        self._signal(name, "TERM", timeout)

    def kill(self, name: str) -> None:
        """End a daemon as a crash would."""
        self._signal(name, "KILL", 20)

    def pid(self, name: str) -> int | None:
        """Return the process id of a daemon inside the lab; None if it does not run."""
        self._named(name)
        try:
            pid = int(self._outside(f"/run/lab/{name}.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return pid if self._inside.inner_process(pid) is not None else None

    def memory_bytes(self, name: str) -> int | None:
        """Return the resident memory of a daemon."""
        return self._status(name, "VmRSS")

    def peak_memory_bytes(self, name: str) -> int | None:
        """Return the peak resident memory of a daemon since its start."""
        return self._status(name, "VmHWM")

    def _status(self, name: str, field: str) -> int | None:
        """Read an amount of memory from /proc/PID/status, in bytes."""
        pid = self.pid(name)
        entry = self._inside.inner_process(pid) if pid is not None else None
        if entry is None:
            return None
        for line in (entry / "status").read_text().splitlines():
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
        return None

    def log(self, name: str) -> Path:
        """Return the path of a daemon's log on the host; earlier output is in `var/log/NAME.out`."""
        own = {"munged": "munge/munged.log", "mariadb": "mysql/error.log"}.get(name, f"slurm/{name}.log")
        file = self._outside(f"/var/log/{own}")
        return file if file.exists() else self._outside(f"/var/log/{name}.out")

    def _signal(self, name: str, signal: str, timeout: float) -> None:
        pid = self.pid(name)
        if pid is None:
            return
        reported_at = float("-inf")

        def ended() -> bool:
            nonlocal reported_at
            if self.pid(name) is None:
                return True
            # Again and again: slurmctld forgets a TERM that comes in the first moments of its start.
            if time.monotonic() > reported_at + 3:
                self._inside.run("root", ["bash", "-c", f"kill -{signal} {pid}"], check=False)
                reported_at = time.monotonic()
            return False

        self._wait(timeout, ended, f"{name} has not ended after {timeout:g} s; see {self.log(name)}")

    def _ready(self, daemon: Daemon) -> bool:
        if self.pid(daemon.name) is None:
            last_lines = self.log(daemon.name).read_text(errors="replace").strip().splitlines()[-3:]
            raise LabError(f"{daemon.name} ended at once: {' / '.join(last_lines)} ({self.log(daemon.name)})")
        socket_exists = daemon.socket is None or self._outside(daemon.socket).exists()
        return socket_exists and (daemon.port is None or answers(daemon.port))

    def _wait(self, timeout: float, done: Callable[[], bool], failure: str) -> None:
        deadline = time.monotonic() + timeout
        while not done():
            if time.monotonic() > deadline:
                raise LabError(failure)
            time.sleep(0.05)

    def _named(self, name: str) -> Daemon:
        try:
            return self._daemons[name]
        except KeyError:
            raise LabError(f"no daemon {name}: there is {', '.join(self._daemons)}") from None

    def _outside(self, path: str) -> Path:
        return self._inside.state / path.lstrip("/")


def _mariadb(settings: Settings) -> tuple[str, ...]:
    return (
        *("mariadbd", "--no-defaults", "--datadir=/var/lib/mysql", "--socket=/run/mysqld/mysqld.sock"),
        *(f"--port={settings.database_port}", "--bind-address=127.0.0.1", "--skip-name-resolve"),
        *("--pid-file=/run/mysqld/mysqld.pid", "--log-error=/var/log/mysql/error.log", "--skip-log-bin"),
        *("--innodb-buffer-pool-size=512M", "--innodb-lock-wait-timeout=900", "--max-allowed-packet=64M"),
        # What is committed outlives a kill of the daemon, though not one of the machine.
        "--innodb-flush-log-at-trx-commit=2",
    )


def _slurmd(node: str) -> tuple[str, ...]:
    # Its own host name, so that `hostname` in a job tells the node.
    return ("unshare", "--uts", "bash", "-c", f"hostname {node}; exec slurmd -D -N {node}")


def _slurmrestd(settings: Settings, socket: str) -> tuple[str, ...]:
    port = settings.rest_port
    # Without accounting it does not start with the plugins that would ask it.
    controller = "openapi/v0.0.38" if settings.version < "23.11" else "openapi/slurmctld"
    plugins = () if settings.accounting else ("-s", controller)
    return (
        *("env", "SLURM_JWT=daemon", "SLURMRESTD_DEBUG=3", "MALLOC_ARENA_MAX=1"),
        # Should memory run out all the same, let the kernel choose it and not a neighbour.
        *("choom", "-n", "1000", "--", "prlimit", f"--as={REST_MEMORY}", "--"),
        *("slurmrestd", "-a", "rest_auth/jwt,rest_auth/local", *plugins),
        *(f"127.0.0.1:{port}", f"unix:{socket}"),
    )
