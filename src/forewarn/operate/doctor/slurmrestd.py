"""Checks of slurmrestd itself: its address, our token, the versions that it serves."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from forewarn.errors import SchedulerError
from forewarn.operate.doctor.findings import Finding, Level
from forewarn.sources.clock import Clock
from forewarn.sources.slurmrestd.asking import Asker
from forewarn.sources.slurmrestd.versions import NEWEST, number_of

_SOON = 3600  # seconds
_AHEAD = 5  # seconds by which clocks may differ; Slurm itself does not mind


def reachable(asker: Asker) -> Iterator[Finding]:
    """Whether anything answers there, token or not."""
    address = asker.transport.address
    with asker.transport.ask("GET", "/openapi/v3") as answer:
        if answer.status == 404:
            said = (
                f"{address}: something answers, but it is not slurmrestd (404 for /openapi/v3): another port?"
            )
            yield Finding("address", Level.PROBLEM, said)
        else:
            yield Finding("address", Level.FINE, f"{address}: slurmrestd answers")
    if address.url.startswith("http://") and address.socket is None and not _is_local(address.url):
        said = "the token goes over the network in the clear: put TLS before slurmrestd, and use https://"
        yield Finding("address", Level.WARNING, said)


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.", "http://localhost", "http://[::1]"))


def token(asker: Asker, clock: Clock) -> Iterator[Finding]:
    """Whether there is one, whose it is, and how long it lasts."""
    tokens = asker.tokens
    if tokens is None or _known_by_socket(asker):
        yield Finding("token", Level.FINE, "none is needed: slurmrestd knows by the socket who asks")
        return
    current, now = tokens.current(), clock.now()
    whose = f"of {current.user}" if current.user else "of a user that it does not name"
    left = None if current.expires is None else int(current.expires - now)
    lasts = "does not say when it ends" if left is None else f"ends in {left:,} s"
    if left is not None and left < _SOON and not tokens.renewable:
        said = f"{tokens.origin}: the token {whose} {lasts}, and is not renewed: use slurm_token_file"
        yield Finding("token", Level.WARNING, said)
    else:
        yield Finding("token", Level.FINE, f"{tokens.origin}: a token {whose}; it {lasts}")
    if current.issued is not None and current.issued - now >= _AHEAD:
        said = (
            f"the token was made {current.issued - now:,.0f} s in the future by our clock: set clocks by NTP"
        )
        yield Finding("token", Level.WARNING, said)
    file = Path(tokens.origin)
    if file.is_file() and stat.S_IMODE(file.stat().st_mode) & 0o077:
        yield Finding("token", Level.WARNING, f"{file}: others may read the token: chmod 600 {file}")


def _known_by_socket(asker: Asker) -> bool:
    """Whether slurmrestd lets this user in without a token (rest_auth/local), and the controller too."""
    if not asker.needs_token:
        with suppress(SchedulerError):  # told by the checks that follow
            asker.said("slurm", "diag")
    return not asker.needs_token


def version(asker: Asker) -> Iterator[Finding]:
    """Which versions are served, and which is spoken."""
    served, spoken = asker.served.versions, asker.version
    said = f"serves {', '.join(sorted(served))}; {spoken} is spoken"
    if number_of(spoken) > NEWEST:
        yield Finding("api", Level.WARNING, f"{said}: newer than what is tested (v0.0.{NEWEST})")
    else:
        yield Finding("api", Level.FINE, said)
