"""Checks of slurmrestd: its address, the token, and the API versions that it serves."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from forewarn.errors import SchedulerError
from forewarn.formatting import rough_duration
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.versions import NEWEST, number_of

_SOON = 3600  # seconds
_AHEAD = 5  # seconds by which clocks may differ; Slurm accepts a token from the future


def reachable(session: RestSession) -> Iterator[DoctorFinding]:
    """Check that slurmrestd responds at its address, with or without a token."""
    address = session.transport.address
    with session.transport.ask("GET", "/openapi/v3") as answer:
        if answer.status == 404:
            message = f"{address}: the server is not slurmrestd (404 for /openapi/v3): check the port"
            yield DoctorFinding("address", Severity.PROBLEM, message)
        else:
            yield DoctorFinding("address", Severity.FINE, f"{address}: slurmrestd responds")
    if address.url.startswith("http://") and address.socket is None and not _is_local(address.url):
        message = "tokens cross the network unencrypted: put a TLS proxy before slurmrestd and use https://"
        yield DoctorFinding("address", Severity.WARNING, message)


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.", "http://localhost", "http://[::1]"))


def token(session: RestSession, clock: Clock) -> Iterator[DoctorFinding]:
    """Check that there is a token, whose it is, and how long it is valid."""
    tokens = session.tokens
    if tokens is None or _needs_no_token(session):
        yield DoctorFinding(
            "token", Severity.FINE, "not needed: slurmrestd identifies the user by the socket"
        )
        return
    current, now = tokens.current(), clock.now()
    owner = f"of {current.user}" if current.user else "of an unnamed user"
    left = None if current.expires is None else int(current.expires - now)
    expiry = "has no expiry time" if left is None else f"expires in {rough_duration(left)}"
    if left is not None and left < _SOON and not tokens.renewable:
        message = f"{tokens.origin}: the token {owner} {expiry} and is not renewed: use slurm_token_file"
        yield DoctorFinding("token", Severity.WARNING, message)
    else:
        yield DoctorFinding("token", Severity.FINE, f"{tokens.origin}: the token {owner} {expiry}")
    if current.issued is not None and current.issued - now >= _AHEAD:
        message = (
            f"the token was issued {rough_duration(current.issued - now)} in the future by the local clock: "
            "synchronise the clocks with NTP"
        )
        yield DoctorFinding("token", Severity.WARNING, message)
    file = Path(tokens.origin)
    if file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        message = f"{file}: other users can read the token: chmod 600 {file}"
        yield DoctorFinding("token", Severity.WARNING, message)


def _needs_no_token(session: RestSession) -> bool:
    """Check whether slurmrestd and slurmctld accept this user without a token (rest_auth/local)."""
    if not session.needs_token:
        with suppress(SchedulerError):  # the checks that follow report it
            session.get_json("slurm", "diag")
    return not session.needs_token


def version(session: RestSession) -> Iterator[DoctorFinding]:
    """Check which API versions are served and which one is used."""
    served, used = session.served.versions, session.version
    message = f"slurmrestd serves {', '.join(sorted(served))}; Forewarn uses {used}"
    if number_of(used) > NEWEST:
        message += f", newer than the newest tested version (v0.0.{NEWEST})"
        yield DoctorFinding("api", Severity.WARNING, message)
    else:
        yield DoctorFinding("api", Severity.FINE, message)
