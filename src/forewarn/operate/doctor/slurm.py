"""Checks of Slurm behind it: controller, clocks, accounting, the key of its tokens."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from forewarn.operate.doctor.findings import Finding, Level
from forewarn.sources.clock import Clock
from forewarn.sources.live import Scheduler

_DAY = 86400
_WRONG_CLOCK, _DOUBTFUL_CLOCK = 60, 5  # seconds
_KEY = re.compile(r"jwt_key=([^,\s]+)")


def controller(scheduler: Scheduler, clock: Clock) -> Iterator[Finding]:
    """Whether it answers, and what time it has. A token that it refuses is refused here."""
    before = clock.now()
    found = scheduler.diag()
    after = clock.now()
    said = (
        f"slurmctld of {scheduler.cluster} answers: {found.jobs_running} jobs run, {found.jobs_pending} wait"
    )
    yield Finding("controller", Level.FINE, said)
    if found.database_queue and found.database_queue > 1000:
        said = f"{found.database_queue:,} messages wait for slurmdbd: accounting lags, or slurmdbd is down"
        yield Finding("controller", Level.WARNING, said)
    # Its clock counts whole seconds, somewhere between question and answer.
    skew = max(before - found.at - 1, found.at - after, 0)
    way = "ahead of" if found.at > after else "behind"
    if skew < _DOUBTFUL_CLOCK:
        yield Finding("clock", Level.FINE, "ours and slurmctld's agree")
    else:
        level = Level.PROBLEM if skew >= _WRONG_CLOCK else Level.WARNING
        said = (
            f"slurmctld's clock is {skew:,.0f} s {way} ours: set both by NTP; tokens and times depend on it"
        )
        yield Finding("clock", level, said)


def accounting(scheduler: Scheduler, clock: Clock) -> Iterator[Finding]:
    """Whether slurmdbd answers, and has jobs of the last day."""
    now = int(clock.now())
    pieces = scheduler.history(now - _DAY, now, steps=False)
    first = next(pieces)
    yield Finding("slurmdbd", Level.FINE, "slurmdbd answers")
    jobs = first.batch.frame.height
    while not jobs and (piece := next(pieces, None)) is not None:
        jobs += piece.batch.frame.height
    if jobs:
        yield Finding("accounting", Level.FINE, "accounting has jobs of the last day")
        return
    yield Finding(
        "accounting",
        Level.WARNING,
        "accounting has no job of the last day: did none run? Else AccountingStorageType must be "
        "accounting_storage/slurmdbd, the cluster be known (`sacctmgr show cluster`), and where PrivateData "
        "has jobs the user be an operator (`sacctmgr modify user NAME set adminlevel=operator`)",
    )


def key(environ: Mapping[str, str]) -> Iterator[Finding]:
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
        yield Finding("jwt key", Level.PROBLEM, said)
    else:
        yield Finding("jwt key", Level.FINE, f"{file}: only its owner may read it")
