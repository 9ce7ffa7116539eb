"""Checks of Slurm behind it: controller, clocks, accounting, the key of its tokens."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.scheduler import Scheduler

_DAY = 86400
_WRONG_CLOCK, _DOUBTFUL_CLOCK = 60, 5  # seconds
_KEY = re.compile(r"jwt_key=([^,\s]+)")


def controller(scheduler: Scheduler, clock: Clock) -> Iterator[DoctorFinding]:
    """Whether it answers, and what time it has. A token that it refuses is refused here."""
    before = clock.now()
    found = scheduler.diag()
    after = clock.now()
    said = (
        f"slurmctld of {scheduler.cluster} answers: {found.jobs_running} jobs run, {found.jobs_pending} wait"
    )
    yield DoctorFinding("controller", Severity.FINE, said)
    if found.database_queue and found.database_queue > 1000:
        said = f"{found.database_queue:,} messages wait for slurmdbd: accounting lags, or slurmdbd is down"
        yield DoctorFinding("controller", Severity.WARNING, said)
    # Its clock counts whole seconds, somewhere between question and answer.
    skew = max(before - found.at - 1, found.at - after, 0)
    way = "ahead of" if found.at > after else "behind"
    if skew < _DOUBTFUL_CLOCK:
        yield DoctorFinding("clock", Severity.FINE, "ours and slurmctld's agree")
    else:
        level = Severity.PROBLEM if skew >= _WRONG_CLOCK else Severity.WARNING
        said = (
            f"slurmctld's clock is {skew:,.0f} s {way} ours: set both by NTP; tokens and times depend on it"
        )
        yield DoctorFinding("clock", level, said)


def accounting(scheduler: Scheduler, clock: Clock) -> Iterator[DoctorFinding]:
    """Whether slurmdbd answers, and has jobs of the last day."""
    now = int(clock.now())
    pieces = scheduler.history(now - _DAY, now, steps=False)
    first = next(pieces)
    yield DoctorFinding("slurmdbd", Severity.FINE, "slurmdbd answers")
    jobs = first.batch.frame.height
    while not jobs and (piece := next(pieces, None)) is not None:
        jobs += piece.batch.frame.height
    if jobs:
        yield DoctorFinding("accounting", Severity.FINE, "accounting has jobs of the last day")
        return
    yield DoctorFinding(
        "accounting",
        Severity.WARNING,
        "accounting has no job of the last day: did none run? Else AccountingStorageType must be "
        "accounting_storage/slurmdbd, the cluster be known (`sacctmgr show cluster`), and where PrivateData "
        "has jobs the user be an operator (`sacctmgr modify user NAME set adminlevel=operator`)",
    )


def key(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Whether the key of tokens is a secret, where we can see it."""
    scontrol = shutil.which("scontrol", path=environ.get("PATH"))
    if scontrol is None:
        return
    try:
        printed = subprocess.run(
            [scontrol, "show", "config"], capture_output=True, text=True, timeout=30, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        return
    named = _KEY.search(printed)
    if named is None:
        return
    file = Path(named[1])
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
    except OSError:
        return  # on the controller's host only, as it should be
    if mode & 0o077:
        said = f"{file}: others may read the key (mode {mode:o}) and make tokens of anybody: chmod 600 {file}"
        yield DoctorFinding("jwt key", Severity.PROBLEM, said)
    else:
        yield DoctorFinding("jwt key", Severity.FINE, f"{file}: only its owner may read it")
