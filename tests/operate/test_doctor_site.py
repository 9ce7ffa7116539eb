"""`forewarn doctor` beside what a site runs: service, certificate, models, registry, secrets, mail."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from forewarn.config import AccessConfig, Config, NoticesConfig, ServeConfig
from forewarn.config.notices import Webhook
from forewarn.learn.registry.serving import Serving
from forewarn.operate.doctor import DoctorFinding, Severity, examine
from forewarn.sources.slurm.clock import Clock
from forewarn.store.opening import open_people_store, open_store
from tests.assess.served import damage, promote, small_bundle
from tests.operate.notices.servers import PASSWORD, Mailbox, free_port, smtp_server
from tests.serve.rest.running import start_service

DAY = 86400


def examined(
    home: Path, *, clock: Clock | None = None, url: str | None = None, **settings: Any
) -> dict[str, list[DoctorFinding]]:
    """The findings of each check; there is no Slurm, and nothing on the default port counts."""
    defaults: dict[str, Any] = {"home": home, "serve": ServeConfig(listen="127.0.0.1:0")}
    environ = {"PATH": str(home)} | ({} if url is None else {"FOREWARN_URL": url})
    found: dict[str, list[DoctorFinding]] = {}
    for finding in examine(Config(**(defaults | settings)), environ=environ, clock=clock or Clock()):
        found.setdefault(finding.check, []).append(finding)
    return found


def worst(findings: list[DoctorFinding]) -> tuple[Severity, str]:
    finding = max(findings, key=lambda one: one.level)
    return finding.level, finding.message


# --- models and registry ---------------------------------------------------------------------------


def test_a_model_that_serves(tmp_path: Path) -> None:
    now = int(time.time())
    copy = promote(Serving(tmp_path / "models"), small_bundle(now, learnt_until=now - DAY), 3)
    level, message = worst(examined(tmp_path)["model"])
    assert (level, message.split(";")[0]) == (Severity.FINE, "alps.submit.generic version 3 serves")
    later = Clock(now=lambda: now + 40 * DAY)
    level, message = worst(examined(tmp_path, clock=later)["model"])
    assert (level, "41 days ago: `forewarn train`" in message) == (Severity.WARNING, True)
    damage(copy)
    level, message = worst(examined(tmp_path)["model"])
    assert (level, "model.json" in message) == (Severity.PROBLEM, True)


def test_a_model_that_is_not_fit_to_serve(tmp_path: Path) -> None:
    now = int(time.time())
    promote(Serving(tmp_path / "models"), small_bundle(now, learnt_until=now, may_serve=False), 1)
    level, message = worst(examined(tmp_path)["model"])
    assert (level, "no better than a simple rule" in message) == (Severity.WARNING, True)


def test_history_without_a_model(tmp_path: Path) -> None:
    assert worst(examined(tmp_path)["model"])[0] is Severity.FINE
    with open_store(Config(home=tmp_path)):
        pass
    level, message = worst(examined(tmp_path)["model"])
    assert (level, "forewarn train" in message) == (Severity.WARNING, True)


def test_the_registry_of_the_home(tmp_path: Path, registry_template: Path) -> None:
    assert "registry" not in examined(tmp_path)
    models = tmp_path / "models"
    models.mkdir()
    database = models / "mlflow.db"
    shutil.copy(registry_template, database)
    assert worst(examined(tmp_path)["registry"])[0] is Severity.FINE
    (models / "pending/0123").mkdir(parents=True)
    assert "1 trained model not registered yet" in worst(examined(tmp_path)["registry"])[1]
    database.write_bytes(b"no database" * 100)
    level, message = worst(examined(tmp_path)["registry"])
    assert (level, "forewarn store restore" in message) == (Severity.PROBLEM, True)


@pytest.mark.slow
def test_a_registry_that_is_away(tmp_path: Path) -> None:
    tracking = f"http://ann:s3cret@127.0.0.1:{free_port()}"
    level, message = worst(examined(tmp_path, tracking=tracking)["registry"])
    assert (level, "s3cret" in message) == (Severity.PROBLEM, False)
    assert "Models that serve continue to" in message


# --- store -----------------------------------------------------------------------------------------


def test_a_store_of_a_newer_version(tmp_path: Path) -> None:
    with open_store(Config(home=tmp_path)):
        pass
    with closing(sqlite3.connect(tmp_path / "forewarn.db")) as connection:
        connection.execute("PRAGMA user_version = 999")
    level, message = worst(examined(tmp_path)["store"])
    assert (level, "newer" in message) == (Severity.PROBLEM, True)


# --- permissions -----------------------------------------------------------------------------------


def test_files_with_secrets(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("x" * 40)
    settings: dict[str, dict[str, Any]] = {
        "access.proxy_secret_file": {"access": AccessConfig(proxy_secret_file=secret)},
        "access.slurm_key_file": {"access": AccessConfig(slurm_tokens="key", slurm_key_file=secret)},
        "access.oidc_client_secret_file": {"access": AccessConfig(oidc_client_secret_file=secret)},
        "serve.tls_key": {"serve": ServeConfig(listen="127.0.0.1:0", tls_key=secret)},
        "notices.smtp_password_file": {"notices": NoticesConfig(smtp_password_file=secret)},
        "notices.webhooks ops": {"notices": NoticesConfig(webhooks=(Webhook(name="ops", url_file=secret),))},
    }
    for name, own in settings.items():
        for mode, level in ((0o600, Severity.FINE), (0o640, Severity.FINE), (0o644, Severity.PROBLEM)):
            secret.chmod(mode)
            found = worst(examined(tmp_path / "home", **own)["permissions"])
            assert found[0] is level, (name, oct(mode))
        assert name in found[1]
        assert f"chmod 600 {secret}" in found[1]
    secret.unlink()
    level, message = worst(examined(tmp_path / "home", **own)["permissions"])
    assert (level, "No such file" in message) == (Severity.PROBLEM, True)


def test_databases_that_others_can_read(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with open_people_store(Config(home=home)):
        pass
    assert worst(examined(home)["permissions"])[0] is Severity.FINE
    (home / "people.db").chmod(0o644)
    level, message = worst(examined(home)["permissions"])
    assert (level, f"chmod 600 {home / 'people.db'}" in message) == (Severity.PROBLEM, True)


def test_a_config_file_with_a_secret(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text("")
    file.chmod(0o644)
    assert worst(examined(tmp_path)["permissions"])[0] is Severity.FINE, "others may read it"
    notices = NoticesConfig(smtp_password="hunter2")
    level, message = worst(examined(tmp_path, notices=notices)["permissions"])
    assert (level, "holds a secret" in message, "hunter2" in message) == (Severity.PROBLEM, True, False)
    file.chmod(0o666)
    assert "change the configuration" in worst(examined(tmp_path)["permissions"])[1]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_home_of_another_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    os.chown(home, 65534, 65534)
    level, message = worst(examined(home)["permissions"])
    assert (level, "runuser -u nobody" in message) == (Severity.WARNING, True)


# --- notices ---------------------------------------------------------------------------------------


def test_the_mail_server(tmp_path: Path) -> None:
    mailbox = Mailbox()
    with smtp_server(mailbox) as server:
        notices = NoticesConfig(smtp=server, smtp_tls="none", sender="forewarn@example.org")
        assert worst(examined(tmp_path, notices=notices)["notices"])[0] is Severity.FINE
        assert not mailbox.mails, "nothing is sent"
    level, message = worst(examined(tmp_path, notices=notices)["notices"])
    assert (level, "refused" in message.lower()) == (Severity.PROBLEM, True)
    half = NoticesConfig(smtp="mail.example.org")
    assert "notices.sender" in worst(examined(tmp_path, notices=half)["notices"])[1]
    assert PASSWORD not in message


# --- certificates ----------------------------------------------------------------------------------


def write_certificate(folder: Path, *, days: float, name: str = "forewarn.example.org") -> dict[str, Any]:
    """Write a certificate that ends in so many days, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    files: dict[str, Any] = {"tls_certificate": folder / "tls.pem", "tls_key": folder / "tls.key"}
    files["tls_certificate"].write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    files["tls_key"].write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    files["tls_key"].chmod(0o600)
    return files


@pytest.mark.parametrize(
    ("days", "url", "level", "words"),
    [
        (90, "https://forewarn.example.org", Severity.FINE, "valid for"),
        (90, None, Severity.FINE, "valid for"),
        (3, None, Severity.WARNING, "ends in"),
        (-1, None, Severity.PROBLEM, "expired"),
        (90, "https://other.example.org", Severity.PROBLEM, "Hostname mismatch"),
    ],
)
def test_the_certificate(tmp_path: Path, days: float, url: str | None, level: Severity, words: str) -> None:
    serve = ServeConfig(listen="127.0.0.1:0", url=url, **write_certificate(tmp_path, days=days))
    found = examined(tmp_path / "home", serve=serve, access=AccessConfig(service_tokens=True))
    assert worst(found["certificate"])[0] is level
    assert words in worst(found["certificate"])[1]


def test_a_certificate_with_another_key(tmp_path: Path) -> None:
    files = write_certificate(tmp_path, days=90)
    other = tmp_path / "other"
    other.mkdir()
    files["tls_key"] = write_certificate(other, days=90)["tls_key"]
    found = examined(tmp_path / "home", serve=ServeConfig(listen="127.0.0.1:0", **files))
    assert worst(found["certificate"])[0] is Severity.PROBLEM
    files["tls_certificate"] = tmp_path / "none.pem"
    found = examined(tmp_path / "home", serve=ServeConfig(listen="127.0.0.1:0", **files))
    assert "No such file" in worst(found["certificate"])[1]


# --- the service -----------------------------------------------------------------------------------


def test_who_may_come_in(tmp_path: Path) -> None:
    found = examined(tmp_path, serve=ServeConfig(listen="0.0.0.0:0"))
    assert worst(found["access"])[0] is Severity.PROBLEM
    serve = ServeConfig(listen="127.0.0.1:0")
    found = examined(tmp_path, serve=serve, access=AccessConfig(service_tokens=True))
    assert worst(found["access"]) == (Severity.FINE, "callers prove who they are by: service-token")
    assert worst(examined(tmp_path, serve=serve)["access"])[0] is Severity.WARNING


def test_nothing_listens(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    level, message = worst(examined(tmp_path, serve=ServeConfig(listen=address))["service"])
    assert (level, "systemctl start forewarn" in message) == (Severity.WARNING, True)
    level, message = worst(examined(tmp_path, url=f"http://{address}")["service"])
    assert (level, "FOREWARN_URL" in message) == (Severity.PROBLEM, True)


@pytest.fixture
def other_program() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"<html>a web server</html>")

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_another_program_listens(tmp_path: Path, other_program: str) -> None:
    level, message = worst(examined(tmp_path, url=other_program)["service"])
    assert (level, "another program" in message) == (Severity.PROBLEM, True)


@pytest.mark.slow
def test_a_running_service(tmp_path: Path) -> None:
    home, socket = tmp_path / "home", tmp_path / "api.sock"
    running = start_service(home, tmp_path / "log", socket=socket, socket_mode="0666")
    try:
        found = examined(home, url=running.url)["service"]
        assert {one.level for one in found} == {Severity.WARNING}, "no history and no model yet"
        assert any("forewarn train" in one.message for one in found)
        port = running.url.rpartition(":")[2]
        serve = ServeConfig(listen=f"127.0.0.1:{port}", socket=socket)
        found_by_config = examined(home, serve=serve)
        places = {one.message.partition(": ")[0] for one in found_by_config["service"]}
        assert places == {running.url, str(socket)}, "both ways are asked"
        assert "every user of this machine can use it" in str(found_by_config["access"])
        ahead = Clock(now=lambda: time.time() - 3600)
        level, message = worst(examined(home, url=running.url, clock=ahead)["clock"])
        assert (level, "ahead of the local clock" in message) == (Severity.WARNING, True)
        fast = Config(
            home=home, scheduler="simulator", simulator="small", simulator_days=2, simulator_speed=36000.0
        )
        time.sleep(0.1)  # an hour of the simulated cluster
        with_fast = list(examine(fast, environ={"FOREWARN_URL": running.url}))
        assert [one for one in with_fast if one.check == "service"]
        assert {one.level for one in with_fast if one.check == "clock"} <= {Severity.FINE}, "the wall clock"
    finally:
        running.stop()
