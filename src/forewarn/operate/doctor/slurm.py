"""Checks of Slurm itself: controller, clocks, accounting, and the key that signs tokens."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from forewarn.formatting import number, rough_duration
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.scheduler import Scheduler

_DAY = 86400
_WRONG_CLOCK, _DOUBTFUL_CLOCK = 60, 5  # seconds
_KEY = re.compile(r"jwt_key=([^,\s]+)")


def controller(scheduler: Scheduler, clock: Clock) -> Iterator[DoctorFinding]:
    """Check that slurmctld responds and that its clock agrees; it also rejects invalid tokens here."""
    before = clock.now()
    status = scheduler.diag()
    after = clock.now()
    message = (
        f"slurmctld of {scheduler.cluster} responds: {number(status.jobs_running)} running and "
        f"{number(status.jobs_pending)} pending jobs"
    )
    yield DoctorFinding("controller", Severity.FINE, message)
    if status.database_queue and status.database_queue > 1000:
        message = f"{number(status.database_queue)} messages are queued for slurmdbd: it is slow or down"
        yield DoctorFinding("controller", Severity.WARNING, message)
    # slurmctld reports whole seconds, taken at some time between request and response.
    skew = max(before - status.at - 1, status.at - after, 0)
    way = "ahead of" if status.at > after else "behind"
    if skew < _DOUBTFUL_CLOCK:
        yield DoctorFinding("clock", Severity.FINE, "the local clock and slurmctld's agree")
    else:
        level = Severity.PROBLEM if skew >= _WRONG_CLOCK else Severity.WARNING
        message = (
            f"slurmctld's clock is {rough_duration(skew)} {way} the local clock: synchronise both with NTP; "
            "tokens and job times depend on them"
        )
        yield DoctorFinding("clock", level, message)


def accounting(scheduler: Scheduler, clock: Clock) -> Iterator[DoctorFinding]:
    """Check that slurmdbd responds and has jobs of the last day."""
    now = int(clock.now())
    pieces = scheduler.history(now - _DAY, now, steps=False)
    first = next(pieces)
    yield DoctorFinding("slurmdbd", Severity.FINE, "slurmdbd responds")
    jobs = first.batch.frame.height
    while not jobs and (piece := next(pieces, None)) is not None:
        jobs += piece.batch.frame.height
    if jobs:
        yield DoctorFinding("accounting", Severity.FINE, "accounting has jobs of the last day")
        return
    yield DoctorFinding(
        "accounting",
        Severity.WARNING,
        "accounting has no jobs of the last day. If jobs did run, check that AccountingStorageType is "
        "accounting_storage/slurmdbd, that the cluster is registered (`sacctmgr show cluster`), and, if "
        "PrivateData contains jobs, that the user is an operator (`sacctmgr modify user NAME set "
        "adminlevel=operator`)",
    )


def key(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check that only its owner can read the key that signs tokens, if the key is on this host."""
    scontrol = shutil.which("scontrol", path=environ.get("PATH"))
    if scontrol is None:
        return
    try:
        printed = subprocess.run(
            [scontrol, "show", "config"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        return
    match = _KEY.search(printed)
    if match is None:
        return
    file = Path(match[1])
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return  # the key is on the controller's host only, as it should be
    if mode & 0o077:
        message = (
            f"{file}: other users can read the key (mode {mode:o}) and sign tokens for any user: "
            f"chmod 600 {file}"
        )
        yield DoctorFinding("jwt key", Severity.PROBLEM, message)
    else:
        yield DoctorFinding("jwt key", Severity.FINE, f"{file}: readable by its owner only")
