"""`forewarn tokens` and `forewarn audit`."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

from forewarn.config import AccessConfig, Config
from forewarn.errors import UnauthenticatedError
from forewarn.operate.access.access import Access
from forewarn.operate.access.audit import write_audit_line
from forewarn.operate.access.credentials import Credentials
from forewarn.operate.access.identity import Identity, Role
from forewarn.store.people_embedded import open_embedded_people
from tests.serve.conftest import Forewarn


def test_a_token_from_its_creation_to_its_end(forewarn: Forewarn, home: Path) -> None:
    created = forewarn("tokens", "create", "grafana", "--role", "helper", "--expires", "90days")
    assert created.code == 0
    token = created.out.strip()
    assert token.startswith("fwt_")
    assert len(token) == 47
    assert "service_tokens = true" in created.err
    listed = forewarn("tokens", "list", "--json").json
    assert [(one["name"], one["role"], one["user"]) for one in listed] == [
        ("grafana", "helper", "token:grafana")
    ]
    assert abs(listed[0]["expires_at"] - time.time() - 90 * 86400) < 60
    assert "grafana" in forewarn("tokens", "list").out
    with sqlite3.connect(home / "people.db") as database:
        kept = str(database.execute("SELECT * FROM entry").fetchall())
    database.close()
    assert token not in kept
    assert token[4:] not in kept
    config = Config(home=home, access=AccessConfig(service_tokens=True))
    with open_embedded_people(home) as people:
        access = Access(config, people, read_rights=dict)
        assert access.authenticate(Credentials(bearer=token)).role is Role.HELPER
        assert forewarn("tokens", "revoke", "grafana").code == 0
        access = Access(config, people, read_rights=dict)
        with pytest.raises(UnauthenticatedError, match="unknown or was revoked"):
            access.authenticate(Credentials(bearer=token))
    lines = forewarn("audit", "--json").lines
    assert [(one["action"], one["subject"], one["method"]) for one in lines] == [
        ("token.create", "grafana", "command"),
        ("token.revoke", "grafana", "command"),
    ]
    assert token not in str(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["x", "--role", "user"], "name it by --user"),
        (["x y", "--role", "helper"], "a name has letters"),
        (["x", "--role", "user", "--user", "a\nb"], "is not a user name"),
        (["x", "--role", "helper", "--expires", "soon"], "is not an age"),
        (["x", "--role", "helper", "--expires", "99years"], "at most 3650 days"),
        (["x", "--role", "root"], "is not one of"),
        (["x"], "--role"),
    ],
)
def test_wrong_arguments(forewarn: Forewarn, arguments: list[str], message: str) -> None:
    result = forewarn("tokens", "create", *arguments)
    assert result.code == 2
    assert message in result.err
    assert result.out == ""


def test_names_are_unique_and_unknown_ones_are_named(forewarn: Forewarn) -> None:
    assert forewarn("tokens", "create", "x", "--role", "helper").code == 0
    again = forewarn("tokens", "create", "x", "--role", "admin")
    assert (again.code, again.out) == (2, "")
    assert "there is a token x already" in again.err
    assert "there is no token y" in forewarn("tokens", "revoke", "y").err


def test_the_audit_log_is_filtered_and_steers_no_terminal(forewarn: Forewarn, home: Path) -> None:
    assert "no lines match" in forewarn("audit").err
    with open_embedded_people(home) as people:
        for user, action in (("ann", "cancel"), ("ben", "cancel"), ("ben", "login")):
            write_audit_line(people, Identity(user=user), action, "7\x1b[2J", address="10.0.0.1")
    assert [one["user"] for one in forewarn("audit", "--json", "--action", "cancel").lines] == ["ann", "ben"]
    assert [one["action"] for one in forewarn("audit", "--json", "-u", "ben", "-n", "1").lines] == ["login"]
    assert forewarn("audit", "--json", "-E", "now-1hours").lines == []
    table = forewarn("audit")
    assert "\x1b" not in table.out
    assert "10.0.0.1" in table.out
