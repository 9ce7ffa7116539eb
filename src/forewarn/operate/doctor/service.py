"""Checks of the service: who may come in, whether it answers, and whether its clock agrees."""

from __future__ import annotations

import email.utils
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from forewarn.config import AccessConfig, Config, ServeConfig
from forewarn.errors import UsageError
from forewarn.formatting import rough_duration
from forewarn.operate.access.binding import check_bind
from forewarn.operate.doctor import certificate
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock

TIMEOUT = 5.0  # seconds
_DOUBTFUL_CLOCK = 5  # seconds
_START = "start it: `systemctl start forewarn`, or `forewarn serve`"


@dataclass(frozen=True, slots=True)
class ServiceAddress:
    """An address at which a service should answer: a URL, and the unix socket if it is asked by one."""

    url: str
    socket: Path | None = None
    is_own: bool = True  # of this configuration, and not named by FOREWARN_URL

    def __str__(self) -> str:
        return str(self.socket or self.url)


def service(config: Config, environ: Mapping[str, str], clock: Clock) -> Iterator[DoctorFinding]:
    """Check the service of this configuration, or the one that FOREWARN_URL names."""
    url = environ.get("FOREWARN_URL")
    is_configured = config.serve != ServeConfig() or config.access != AccessConfig()
    if is_configured:
        yield from access(config)
        yield from certificate.own(config.serve, clock)
    for address in _addresses(config.serve, url):
        yield from _answers(address, is_expected=is_configured or url is not None, clock=clock)
    yield from _socket_modes(config)


def access(config: Config) -> Iterator[DoctorFinding]:
    """Check that nobody comes in without proof from where the service can be reached."""
    try:
        warnings = check_bind(config)
    except UsageError as error:
        yield DoctorFinding("access", Severity.PROBLEM, str(error))
        return
    for warning in warnings:
        yield DoctorFinding("access", Severity.WARNING, warning)
    if not warnings:
        methods = ", ".join(config.access.methods)
        yield DoctorFinding("access", Severity.FINE, f"callers prove who they are by: {methods}")


def _addresses(serve: ServeConfig, url: str | None) -> Iterator[ServiceAddress]:
    if url is not None:
        # The client takes a unix socket by this scheme too.
        if url.startswith("unix:"):
            yield ServiceAddress("http://localhost", Path(url.removeprefix("unix:")), is_own=False)
        else:
            yield ServiceAddress(url.rstrip("/"), is_own=False)
        return
    host, _, port = serve.listen.rpartition(":")
    if port != "0":  # a free port, chosen at each start
        # One cannot connect to "all addresses": the loopback is one of them.
        host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)
        yield ServiceAddress(f"{'https' if serve.tls_certificate else 'http'}://{host}:{port}")
    if serve.socket is not None:
        yield ServiceAddress("http://localhost", serve.socket)


def _answers(address: ServiceAddress, *, is_expected: bool, clock: Clock) -> Iterator[DoctorFinding]:
    """Ask `/readyz`; nothing secret is sent, so an own certificate for another name is no obstacle."""
    transport = httpx.HTTPTransport(
        uds=None if address.socket is None else str(address.socket), verify=not address.is_own
    )
    try:
        with httpx.Client(transport=transport, timeout=TIMEOUT, trust_env=False) as client:
            before = clock.now()
            answer = client.get(f"{address.url}/readyz")
            after = clock.now()
        body = answer.json()
        is_forewarn = isinstance(body, dict) and isinstance(body.get("parts"), dict)
    except (httpx.ConnectError, httpx.UnsupportedProtocol, httpx.InvalidURL) as error:
        yield _no_answer(address, is_expected=is_expected, error=error)
        return
    except httpx.HTTPError as error:
        message = f"{address}: does not answer: {type(error).__name__}; see the service's log"
        yield DoctorFinding("service", Severity.PROBLEM, message)
        return
    except ValueError:
        is_forewarn = False
    if not is_forewarn:
        # On the default port, another program's answer is nobody's mistake.
        level = Severity.PROBLEM if is_expected else Severity.FINE
        yield DoctorFinding("service", level, f"{address}: another program answers: check the address")
        return
    yield from _parts(address, body)
    yield from _clock(address, answer.headers.get("date"), before, after)
    if not address.is_own and address.url.startswith("https://"):
        yield from certificate.served(address.url, clock)


def _no_answer(address: ServiceAddress, *, is_expected: bool, error: Exception) -> DoctorFinding:
    text = str(error)
    if "CERTIFICATE_VERIFY_FAILED" in text:
        reason = text.partition("certificate verify failed: ")[2].partition(" (_ssl")[0] or "not verified"
        message = f"{address}: its certificate is refused: {reason}"
        return DoctorFinding("certificate", Severity.PROBLEM, message)
    if not is_expected:
        return DoctorFinding("service", Severity.FINE, f"{address}: no service runs, and none is configured")
    level = Severity.WARNING if address.is_own else Severity.PROBLEM
    advice = _START if address.is_own else "check FOREWARN_URL, or ask its operator"
    return DoctorFinding("service", level, f"{address}: no service answers: {advice}")


def _parts(address: ServiceAddress, body: Mapping[str, Any]) -> Iterator[DoctorFinding]:
    is_fine = True
    for name, part in sorted(body["parts"].items()):
        if isinstance(part, dict) and (not part.get("works") or part.get("detail")):
            broken = Severity.PROBLEM if part.get("needed") else Severity.WARNING
            level = Severity.WARNING if part.get("works") else broken
            is_fine = False
            reason = part.get("detail") or "does not work; see the service's log"
            yield DoctorFinding("service", level, f"{address}: {name}: {reason}")
    if is_fine:
        yield DoctorFinding("service", Severity.FINE, f"{address}: answers, and is ready")


def _clock(address: ServiceAddress, date: str | None, before: float, after: float) -> Iterator[DoctorFinding]:
    try:
        at = email.utils.parsedate_to_datetime(date or "").timestamp()
    except ValueError:
        return
    skew = max(before - at - 1, at - after, 0)  # whole seconds, at some time between request and answer
    if skew >= _DOUBTFUL_CLOCK:
        way = "ahead of" if at > after else "behind"
        message = (
            f"the clock of the service at {address} is {rough_duration(skew)} {way} the local clock: "
            "synchronise both with NTP; tokens depend on them"
        )
        yield DoctorFinding("clock", Severity.WARNING, message)


def _socket_modes(config: Config) -> Iterator[DoctorFinding]:
    """Check that a unix socket is open only to those who are known or trusted."""
    for setting, path in (
        ("serve.socket", config.serve.socket),
        ("serve.datagram_socket", config.serve.datagram_socket),
    ):
        try:
            about = None if path is None else path.stat()
        except OSError:
            continue  # no service, or not for us to see; `_answers` reports it
        if about is None:
            continue
        if not stat.S_ISSOCK(about.st_mode):
            message = f"{path}: is no socket ({setting}): remove it, or choose another place"
            yield DoctorFinding("service", Severity.PROBLEM, message)
        elif stat.S_IMODE(about.st_mode) & 0o006 and setting == "serve.socket" and not config.access.methods:
            message = (
                f"{path}: every user of this machine can use it, without proof of who they are: set "
                "serve.socket_mode to 0660, or access.unix_peers"
            )
            yield DoctorFinding("access", Severity.WARNING, message)
