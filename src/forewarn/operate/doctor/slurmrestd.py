"""Checks of slurmrestd itself: its address, our token, the versions that it serves."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from forewarn.errors import SchedulerError
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurmrestd.session import RestSession
from forewarn.sources.slurmrestd.versions import NEWEST, number_of

_SOON = 3600  # seconds
_AHEAD = 5  # seconds by which clocks may differ; Slurm itself does not mind


def reachable(asker: RestSession) -> Iterator[DoctorFinding]:
    """Whether anything answers there, token or not."""
    address = asker.transport.address
    with asker.transport.ask("GET", "/openapi/v3") as answer:
        if answer.status == 404:
            said = (
                f"{address}: something answers, but it is not slurmrestd (404 for /openapi/v3): another port?"
            )
            yield DoctorFinding("address", Severity.PROBLEM, said)
        else:
            yield DoctorFinding("address", Severity.FINE, f"{address}: slurmrestd answers")
    if address.url.startswith("http://") and address.socket is None and not _is_local(address.url):
        said = "the token goes over the network in the clear: put TLS before slurmrestd, and use https://"
        yield DoctorFinding("address", Severity.WARNING, said)


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.", "http://localhost", "http://[::1]"))


def token(asker: RestSession, clock: Clock) -> Iterator[DoctorFinding]:
    """Whether there is one, whose it is, and how long it lasts."""
    tokens = asker.tokens
    if tokens is None or _known_by_socket(asker):
        yield DoctorFinding("token", Severity.FINE, "none is needed: slurmrestd knows by the socket who asks")
        return
    current, now = tokens.current(), clock.now()
    whose = f"of {current.user}" if current.user else "of a user that it does not name"
    left = None if current.expires is None else int(current.expires - now)
    lasts = "does not say when it ends" if left is None else f"ends in {left:,} s"
    if left is not None and left < _SOON and not tokens.renewable:
        said = f"{tokens.origin}: the token {whose} {lasts}, and is not renewed: use slurm_token_file"
        yield DoctorFinding("token", Severity.WARNING, said)
    else:
        yield DoctorFinding("token", Severity.FINE, f"{tokens.origin}: a token {whose}; it {lasts}")
    if current.issued is not None and current.issued - now >= _AHEAD:
        said = (
            f"the token was made {current.issued - now:,.0f} s in the future by our clock: set clocks by NTP"
        )
        yield DoctorFinding("token", Severity.WARNING, said)
    file = Path(tokens.origin)
    if file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield DoctorFinding("token", Severity.WARNING, f"{file}: others may read the token: chmod 600 {file}")


def _known_by_socket(asker: RestSession) -> bool:
    """Whether slurmrestd lets this user in without a token (rest_auth/local), and the controller too."""
    if not asker.needs_token:
        with suppress(SchedulerError):  # told by the checks that follow
            asker.said("slurm", "diag")
    return not asker.needs_token


def version(asker: RestSession) -> Iterator[DoctorFinding]:
    """Which versions are served, and which is spoken."""
    served, spoken = asker.served.versions, asker.version
    said = f"serves {', '.join(sorted(served))}; {spoken} is spoken"
    if number_of(spoken) > NEWEST:
        yield DoctorFinding("api", Severity.WARNING, f"{said}: newer than what is tested (v0.0.{NEWEST})")
    else:
        yield DoctorFinding("api", Severity.FINE, said)
