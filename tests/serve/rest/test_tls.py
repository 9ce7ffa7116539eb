"""HTTPS by `forewarn serve` itself: whom clients trust, what they are told else, and renewed certificates."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from forewarn import AsyncClient, Client
from forewarn.config import Config
from forewarn.errors import ServiceAwayError, UnknownJobError
from forewarn.operate.access.identity import Role
from forewarn.operate.access.manage import create_token
from tests.serve.rest.certificates import CertificateAuthority, CertificateFiles
from tests.serve.rest.conftest import Start
from tests.serve.rest.running import RunningService, start_service

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tls")


@pytest.fixture(scope="module")
def ca(folder: Path) -> CertificateAuthority:
    return CertificateAuthority(folder)


def tls(files: CertificateFiles) -> dict[str, Any]:
    return {"tls_certificate": files.certificate, "tls_key": files.key, "collect": "never"}


@pytest.fixture(scope="module")
def secured(folder: Path, ca: CertificateAuthority) -> Iterator[RunningService]:
    """A service with TLS, which also listens on a unix socket, and accepts service tokens."""
    running = start_service(
        folder / "home",
        folder / "service.log",
        **tls(ca.sign("server")),
        socket=folder / "api.sock",
        access__service_tokens=True,
        access__unix_peers=True,
    )
    assert running.url.startswith("https://127.0.0.1:")
    yield running
    assert running.stop() == 0
    assert "Traceback" not in running.text


@pytest.fixture(scope="module")
def token(folder: Path) -> str:
    return create_token(Config(home=folder / "home"), "program", Role.HELPER)[0]


def forewarn(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FOREWARN_")}
    command = [sys.executable, "-m", "forewarn", *arguments]
    return subprocess.run(command, env=clean | environment, capture_output=True, text=True, timeout=120)


def test_clients_that_trust_the_ca(secured: RunningService, ca: CertificateAuthority, token: str) -> None:
    with Client(secured.url, token=token, ca_file=ca.file) as client:
        assert client.thresholds() == []
        assert client.ready()["ready"]

    async def ask() -> object:
        async with AsyncClient(secured.url, token=token, ca_file=ca.file) as client:
            return await client.thresholds()

    assert asyncio.run(ask()) == []
    environment = {"FOREWARN_URL": secured.url, "FOREWARN_TOKEN": token, "FOREWARN_CA_FILE": str(ca.file)}
    done = forewarn("explain", "1", **environment)
    assert done.returncode == UnknownJobError.exit_code, done.stderr  # so the service has answered


def test_browsers_get_a_cookie_for_https_only(
    secured: RunningService, ca: CertificateAuthority, token: str
) -> None:
    trusted = ssl.create_default_context(cafile=ca.file)
    with httpx.Client(base_url=secured.url, verify=trusted, timeout=30) as browser:
        set_cookie = browser.post("/auth/session", json={"token": token}).headers["set-cookie"]
        assert set_cookie.startswith("__Host-forewarn_session=")
        assert "; Secure" in set_cookie
        assert browser.get("/v1/jobs").status_code == 200


def test_old_versions_of_tls_are_refused(secured: RunningService, ca: CertificateAuthority) -> None:
    def version(newest: ssl.TLSVersion) -> str | None:
        context = ssl.create_default_context(cafile=ca.file)
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version, context.maximum_version = ssl.TLSVersion.MINIMUM_SUPPORTED, newest
        with connection(secured) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as opened:
            return opened.version()

    assert version(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"
    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    with pytest.raises(ssl.SSLError), pytest.warns(DeprecationWarning, match=r"TLSv1_1"):
        version(ssl.TLSVersion.TLSv1_1)


def test_the_unix_socket_has_no_tls(secured: RunningService, folder: Path) -> None:
    with Client(f"unix:{folder / 'api.sock'}") as client:
        assert client.thresholds() == []  # as the user who runs the service


@pytest.mark.parametrize(
    ("url", "ca_file", "message"),
    [
        ("{url}", None, "no trusted TLS connection: unable to get local issuer certificate"),
        ("{url}", "other", "no trusted TLS connection: unable to get local issuer certificate"),
        ("https://localhost:{port}", "ca", "no trusted TLS connection: Hostname mismatch"),
        ("http://127.0.0.1:{port}", "ca", "If it uses TLS, the address begins with https://"),
    ],
)
def test_clients_that_do_not(
    secured: RunningService,
    ca: CertificateAuthority,
    folder: Path,
    token: str,
    url: str,
    ca_file: str | None,
    message: str,
) -> None:
    place = url.format(url=secured.url, port=secured.url.rpartition(":")[2])
    file = {"ca": ca.file, "other": CertificateAuthority(folder, "other").file, None: None}[ca_file]
    with Client(place, token=token, ca_file=file) as client, pytest.raises(ServiceAwayError) as caught:
        client.thresholds()
    assert message in str(caught.value)
    assert token not in str(caught.value)
    environment = {"FOREWARN_CA_FILE": str(file)} if file else {}
    done = forewarn("explain", "1", FOREWARN_URL=place, FOREWARN_TOKEN=token, **environment)
    assert (done.returncode, done.stdout) == (ServiceAwayError.exit_code, "")
    assert message in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


def test_an_expired_certificate(start: Start, tmp_path: Path, ca: CertificateAuthority) -> None:
    service = start(tmp_path / "home", **tls(ca.sign("expired", lasts=timedelta(hours=-1))))
    with Client(service.url, ca_file=ca.file) as client, pytest.raises(ServiceAwayError) as caught:
        client.ready()
    assert "no trusted TLS connection: certificate has expired" in str(caught.value)


def test_a_plain_service_asked_by_https(start: Start, tmp_path: Path) -> None:
    service = start(tmp_path / "home", collect="never")
    with (
        Client(service.url.replace("http:", "https:")) as client,
        pytest.raises(
            ServiceAwayError, match="if the service does not use TLS, the address begins with http"
        ),
    ):
        client.ready()


def connection(service: RunningService) -> socket.socket:
    host, _, port = service.url.partition("://")[2].rpartition(":")
    return socket.create_connection((host, int(port)), timeout=30)


def test_strangers_that_speak_no_tls(secured: RunningService, ca: CertificateAuthority, token: str) -> None:
    """Nothing of that is in the log, and others are served meanwhile."""
    silent = connection(secured)
    for sent in (
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"\0" * 999,
    ):
        with connection(secured) as stranger:
            stranger.sendall(sent)
            stranger.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: stranger.recv(999), b""))
        assert b"HTTP/1.1 2" not in answer
    with silent, Client(secured.url, token=token, ca_file=ca.file) as client:
        assert client.thresholds() == []
    assert not re.search(r"(?i)traceback|ssl|error", secured.text), secured.text


def serial(service: RunningService, ca: CertificateAuthority) -> str:
    context = ssl.create_default_context(cafile=ca.file)
    with connection(service) as plain, context.wrap_socket(plain, server_hostname="127.0.0.1") as opened:
        shown = opened.getpeercert()
    assert shown
    return str(shown["serialNumber"])


def wait_for_line(service: RunningService, text: str) -> None:
    until = time.monotonic() + 60
    while text not in service.text:
        assert time.monotonic() < until, service.text
        time.sleep(0.2)


def test_a_renewed_certificate(start: Start, tmp_path: Path) -> None:
    """It counts for new connections; those that are open go on, and files that do not fit change nothing."""
    ca = CertificateAuthority(tmp_path)
    files = ca.sign("server")
    service = start(tmp_path / "home", **tls(files))
    first = serial(service, ca)
    with httpx.Client(
        base_url=service.url, verify=ssl.create_default_context(cafile=ca.file), timeout=30
    ) as kept:
        assert kept.get("/healthz").status_code == 200
        new = ca.sign("new")
        new.certificate.replace(files.certificate)  # the key follows later
        wait_for_line(service, "the former certificate is still used")
        assert serial(service, ca) == first
        new.key.replace(files.key)
        wait_for_line(service, "the certificate was replaced")
        assert serial(service, ca) != first
        assert kept.get("/healthz").status_code == 200
    files.certificate.unlink()
    wait_for_line(service, f"{files.certificate}: cannot be read")
    assert serial(service, ca) != first
    assert service.text.count("the former certificate is still used") == 2  # once each
    assert "Traceback" not in service.text


@pytest.mark.parametrize(
    "fault", ["absent", "no key", "foreign", "passphrase", "no pem", "unreadable", "alone"]
)
def test_files_that_cannot_be_used(fault: str, tmp_path: Path) -> None:
    """The start ends with exit code 2 and a sentence that names the file."""
    ca = CertificateAuthority(tmp_path)
    good, other = ca.sign("good"), ca.sign("other", passphrase=b"x" if fault == "passphrase" else None)
    broken = tmp_path / "broken"
    broken.write_text("no certificate")
    certificate, key, message = {
        "absent": (
            tmp_path / "absent.pem",
            good.key,
            "serve.tls_certificate: {}/absent.pem: cannot be read: No such",
        ),
        "no key": (
            good.certificate,
            tmp_path / "absent.key",
            "serve.tls_key: {}/absent.key: cannot be read: No such",
        ),
        "foreign": (
            good.certificate,
            other.key,
            "serve.tls_key: {}/other.key: is not the key of {}/good.pem",
        ),
        "passphrase": (
            other.certificate,
            other.key,
            "{}/other.key: the key has a passphrase; the service needs one without",
        ),
        "no pem": (
            broken,
            good.key,
            "serve.tls_certificate: {}/broken: cannot be used with the key {}/good.key",
        ),
        "unreadable": (good.certificate, tmp_path, "serve.tls_key: {}: cannot be read: Is a directory"),
        "alone": (None, good.key, "serve.tls_key is set, but its certificate is not: serve.tls_certificate"),
    }[fault]
    settings = {"FOREWARN_SERVE_TLS_KEY": str(key)}
    if certificate is not None:
        settings["FOREWARN_SERVE_TLS_CERTIFICATE"] = str(certificate)
    done = forewarn(
        "serve", FOREWARN_HOME=str(tmp_path / "home"), FOREWARN_SERVE_LISTEN="127.0.0.1:0", **settings
    )
    assert done.returncode == 2, done.stderr
    assert message.format(*[tmp_path] * 2) in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert "listening" not in done.stderr
