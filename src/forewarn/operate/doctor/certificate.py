"""Checks of TLS certificates: the service's own files, and the one that a service shows."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from forewarn.config import ServeConfig
from forewarn.formatting import rough_duration
from forewarn.operate.doctor.findings import DoctorFinding, Severity
from forewarn.sources.slurm.clock import Clock

SOON = 14 * 86400  # seconds before its end in which a certificate should have been renewed
TIMEOUT = 5.0


def own(serve: ServeConfig, clock: Clock) -> Iterator[DoctorFinding]:
    """Check the configured certificate: that it is whole, fits its key and its name, and has not ended."""
    certificate, key = serve.tls_certificate, serve.tls_key
    if certificate is None:
        return
    host = urlsplit(serve.url).hostname if serve.url else None
    try:
        end = _end_of_files(certificate, key, host)
    except ssl.SSLCertVerificationError as error:
        reason = error.verify_message or str(error)
        yield DoctorFinding("certificate", Severity.PROBLEM, f"{certificate}: {reason}: renew or replace it")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or str(error)
        message = f"{certificate}: cannot be used with {key or 'the key in it'}: {reason}"
        yield DoctorFinding("certificate", Severity.PROBLEM, message)
    else:
        yield _by_end(str(certificate), end, clock)


def served(url: str, clock: Clock) -> Iterator[DoctorFinding]:
    """Check when the certificate ends that a service shows; it was found valid a moment before."""
    parts = urlsplit(url)
    with suppress(OSError, ValueError):
        address = (parts.hostname or "", parts.port or 443)
        context = ssl.create_default_context()
        with (
            socket.create_connection(address, timeout=TIMEOUT) as plain,
            context.wrap_socket(plain, server_hostname=parts.hostname) as secured,
        ):
            yield _by_end(url, _end(secured.getpeercert()), clock)


def _by_end(place: str, end: int, clock: Clock) -> DoctorFinding:
    left = end - clock.now()
    if left < SOON:
        text = f"ends in {rough_duration(left)}" if left > 0 else "has ended"
        return DoctorFinding("certificate", Severity.WARNING, f"{place}: the certificate {text}: renew it")
    return DoctorFinding(
        "certificate", Severity.FINE, f"{place}: the certificate is valid for {rough_duration(left)}"
    )


def _end_of_files(certificate: Path, key: Path | None, host: str | None) -> int:
    """Return when a certificate ends, by a handshake in memory: that also checks key and name."""
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # A key with a passphrase would be asked for on the terminal.
    server_side.load_cert_chain(certificate, key, password=_no_passphrase)
    client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_side.check_hostname = host is not None
    client_side.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # whether clients trust its issuer is theirs
    client_side.load_verify_locations(certificate)
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = server_side.wrap_bio(to_server, to_client, server_side=True)
    client = client_side.wrap_bio(to_client, to_server, server_hostname=host)
    for _ in range(4):
        for side in (client, server):
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return _end(client.getpeercert())


def _end(shown: object) -> int:
    if not isinstance(shown, dict) or "notAfter" not in shown:
        raise ValueError("the certificate names no end")
    return ssl.cert_time_to_seconds(str(shown["notAfter"]))


def _no_passphrase() -> str:
    raise ValueError("the key has a passphrase; the service needs one without")
