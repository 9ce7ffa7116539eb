"""`forewarn doctor`: each of the usual mistakes is named, with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from forewarn.config import Config
from forewarn.operate.doctor import DoctorFinding, Severity, examine, overall_severity
from forewarn.sources.slurm.clock import Clock
from tests.serve.conftest import Forewarn, forewarn, home  # noqa: F401 - fixtures
from tests.sources.fake_slurmrestd import NOW, FakeSlurmrestd, FakeTime, Reply, jwt, serving
from tests.sources.test_slurmrestd import META, slurmdb_job
from tests.sources.test_slurmrestd_client import DATABASE, jobs, script

TIMES = {"submission": NOW - 60, "eligible": NOW - 60, "start": NOW - 60, "end": NOW - 50}
GOOD: dict[str, Any] = {
    "ping": (200, {"pings": [], "meta": META}),
    "diag": (200, {"statistics": {"req_time": NOW, "jobs_running": 3, "jobs_pending": 1}, "meta": META}),
    "jobs_db": jobs(slurmdb_job(time=TIMES)),
}


def examined(
    folder: Path, answers: dict[str, Any] | None = None, *, token: str | None = None, **settings: Any
) -> dict[str, DoctorFinding]:
    """The worst finding of each check."""
    with serving(script(42, **(GOOD | (answers or {})))) as fake:
        return looked_at(fake, folder, token, **settings)


def looked_at(
    fake: FakeSlurmrestd, folder: Path, token: str | None, **settings: Any
) -> dict[str, DoctorFinding]:
    defaults: dict[str, Any] = {"home": folder / "home", "slurmrestd": fake.address}
    config = Config(**(defaults | settings))
    environ = {"SLURM_JWT": token or jwt(), "PATH": str(folder)}
    found = list(examine(config, environ=environ, clock=FakeTime().clock))
    return {finding.check: finding for finding in sorted(found, key=lambda finding: finding.level)}


def test_all_is_fine(tmp_path: Path) -> None:
    found = examined(tmp_path)
    assert overall_severity(found.values()) is Severity.FINE, found
    assert list(found) == [
        "config",
        "address",
        "token",
        "api",
        "controller",
        "clock",
        "slurmdbd",
        "accounting",
        "store",
        "model",
        "service",
        "permissions",
    ]
    assert "of ann expires in 1 hour" in found["token"].message


@pytest.mark.parametrize(
    ("answers", "check", "level", "words"),
    [
        (
            {"diag": (200, {"statistics": {"req_time": NOW + 300}})},
            "clock",
            Severity.PROBLEM,
            "5 minutes ahead of the local clock",
        ),
        (
            {"diag": (200, {"statistics": {"req_time": NOW - 20}})},
            "clock",
            Severity.WARNING,
            "19 seconds behind the local clock",
        ),
        ({"diag": (511, {})}, "controller", Severity.PROBLEM, "does not accept the token"),
        (
            {"diag": (502, {"errors": [{"error_number": 1800}]})},
            "controller",
            Severity.PROBLEM,
            "slurmctld does not",
        ),
        (
            {"jobs_db": (502, {"errors": [DATABASE]})},
            "accounting",
            Severity.PROBLEM,
            "slurmdbd does not answer",
        ),
        ({"jobs_db": jobs()}, "accounting", Severity.WARNING, "PrivateData"),
        (
            {"diag": (200, {"statistics": {"req_time": NOW, "dbd_agent_queue_size": 5000}})},
            "controller",
            Severity.WARNING,
            "5,000 messages are queued for slurmdbd",
        ),
    ],
)
def test_what_is_wrong_behind_slurmrestd(
    tmp_path: Path, answers: dict[str, Any], check: str, level: Severity, words: str
) -> None:
    found = examined(tmp_path, answers)
    assert (found[check].level, overall_severity(found.values())) == (level, level)
    assert words in found[check].message


def test_accounting_is_looked_at_though_the_controller_is_down(tmp_path: Path) -> None:
    found = examined(tmp_path, {"diag": (502, {"errors": [{"error_number": 1800}]})})
    assert found["accounting"].level is Severity.FINE


def test_tokens(tmp_path: Path) -> None:
    found = examined(tmp_path, token=jwt(expires=NOW - 5))
    assert (found["token"].level, found["controller"].level) == (Severity.PROBLEM, Severity.UNKNOWN)
    assert "expired 5 seconds ago" in found["token"].message
    for wrong in ("garbage", f"{jwt()}\ns3cret", f"{jwt()}é"):
        found = examined(tmp_path, token=wrong)
        assert found["token"].level is Severity.PROBLEM
        assert not any(part in found["token"].message for part in ("garbage", "s3cret", jwt()))
    found = examined(tmp_path, token=jwt(expires=NOW + 600))
    assert found["token"].level is Severity.WARNING
    file = tmp_path / "token"
    file.write_text(jwt())
    file.chmod(0o644)
    found = examined(tmp_path, slurm_token_file=file)
    assert f"chmod 600 {file}" in found["token"].message
    file.chmod(0o600)
    assert examined(tmp_path, slurm_token_file=file)["token"].level is Severity.FINE
    found = examined(tmp_path, {"diag": (511, {})}, slurm_user="bob")
    assert "the token is ann's, and was sent as bob's" in found["controller"].message
    found = examined(tmp_path, {"diag": (511, {})}, token=jwt(issued=NOW + 500))
    assert "500 s in the future" in found["controller"].message


def test_a_token_from_the_future_that_slurm_takes(tmp_path: Path) -> None:
    found = examined(tmp_path, token=jwt(issued=NOW + 500, expires=NOW + 9000))
    assert found["token"].level is Severity.WARNING
    assert "issued 8.3 minutes in the future by the local clock" in found["token"].message


def test_a_socket_that_wants_no_token(tmp_path: Path) -> None:
    with serving(script(42, **GOOD), tmp_path / "s.sock") as fake:
        config = Config(home=tmp_path / "home", slurmrestd=fake.address)
        found = list(examine(config, environ={"PATH": str(tmp_path)}, clock=FakeTime().clock))
    assert overall_severity(found) is Severity.FINE, found
    assert "not needed: slurmrestd identifies the user by the socket" in next(
        one.message for one in found if one.check == "token"
    )


def test_addresses(tmp_path: Path) -> None:
    found = examined(tmp_path, slurmrestd=f"unix:{tmp_path}/none")
    assert "no such socket" in found["address"].message
    assert overall_severity(found.values()) is Severity.PROBLEM
    found = examined(tmp_path, slurmrestd=None)
    assert "no scheduler: set slurmrestd" in found["config"].message

    def other(request: Any) -> Reply:
        return 404, b"a web server"

    with serving(other) as fake:
        assert "the server is not slurmrestd" in looked_at(fake, tmp_path, None)["address"].message


def test_the_key_of_tokens(tmp_path: Path) -> None:
    key, scontrol = tmp_path / "jwt.key", tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho 'AuthAltParameters = jwt_key={key}'\n")
    scontrol.chmod(0o755)
    assert "jwt key" not in examined(tmp_path)  # it lies elsewhere
    key.touch(mode=0o644)
    found = examined(tmp_path)
    assert (found["jwt key"].level, f"chmod 600 {key}" in found["jwt key"].message) == (
        Severity.PROBLEM,
        True,
    )
    key.chmod(0o600)
    assert examined(tmp_path)["jwt key"].level is Severity.FINE


def test_a_store_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    assert examined(tmp_path)["store"].level is not Severity.FINE


def test_a_home_that_others_can_look_into(tmp_path: Path) -> None:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)
    assert examined(tmp_path)["store"].level is Severity.FINE
    folder.chmod(0o755)
    found = examined(tmp_path)["store"]
    assert (found.level, "mode 755" in found.message) == (Severity.WARNING, True)
    folder.chmod(0o2750)  # as `forewarn config share` leaves it
    assert examined(tmp_path)["store"].level is Severity.FINE


@pytest.fixture
def slurmrestd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeSlurmrestd]:
    now = int(Clock().now())
    times = {"submission": now - 60, "eligible": now - 60, "start": now - 60, "end": now - 50}
    answers = GOOD | {
        "diag": lambda request: (200, {"statistics": {"req_time": int(Clock().now())}, "meta": META}),
        "jobs_db": jobs(slurmdb_job(time=times)),
    }
    with serving(script(42, **answers)) as fake:
        monkeypatch.setenv("FOREWARN_SLURMRESTD", fake.address)
        monkeypatch.setenv("SLURM_JWT", jwt(issued=now, expires=now + 7200))
        monkeypatch.setenv("PATH", str(tmp_path))
        yield fake


def test_the_command(forewarn: Forewarn, slurmrestd: FakeSlurmrestd, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    result = forewarn("doctor")
    assert (result.code, result.err) == (0, "")
    assert {line.split()[0] for line in result.out.splitlines()} == {"fine"}
    assert jwt()[:20] not in result.out
    monkeypatch.setenv("FOREWARN_SLURMRESTD", "unix:/nowhere.sock")
    result = forewarn("doctor", "--json")
    assert (result.code, result.json["verdict"]) == (2, "problem")
    assert {"check", "level", "said"} == set(result.json["findings"][0])
