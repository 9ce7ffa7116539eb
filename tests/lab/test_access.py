"""Real tokens of a real Slurm, over real HTTP: who is believed, who is not, and what coordinators see."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from forewarn.config import AccessConfig, Config
from forewarn.errors import SchedulerError
from forewarn.operate.access.access import Access
from forewarn.operate.access.credentials import Credentials
from forewarn.operate.access.identity import Role
from forewarn.sources.slurm.user_rights import UserRights, read_user_rights
from forewarn.sources.slurmrestd.token_check import TokenCheck
from forewarn.sources.slurmrestd.tokens import Token
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import open_embedded_people
from lab.cluster import Lab
from tests.lab.forged import forged_tokens
from tests.serve.auth.app import access_app, served


@pytest.fixture
def people(tmp_path: Path) -> Iterator[PeopleStore]:
    with open_embedded_people(tmp_path) as store:
        yield store


def config_of(lab: Lab, folder: Path, **access: object) -> Config:
    token = folder / "service.jwt"
    token.write_text(lab.token("root", 600))
    token.chmod(0o600)
    settings = {"slurm_tokens": "slurmrestd", **access}
    return Config(
        home=folder,
        slurmrestd=lab.rest_url,
        slurm_token_file=token,
        access=AccessConfig(**settings),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("way", ["slurmrestd", "socket", "key"])
def test_slurm_s_own_tokens(lab: Lab, way: str, people: PeopleStore, tmp_path: Path) -> None:
    config = config_of(lab, tmp_path)
    if way == "key":
        config = config_of(lab, tmp_path, slurm_tokens="key", slurm_key_file=lab.jwt_key)
    elif way == "socket":
        from dataclasses import replace

        config = replace(config, slurmrestd=f"unix:{lab.rest_socket}")
    app, access = access_app(config, people)
    with served(app) as url, httpx.Client(base_url=url) as client:
        for headers in (
            {"Authorization": f"Bearer {lab.token('alice', 600)}"},
            {"X-SLURM-USER-TOKEN": lab.token("alice", 600), "X-SLURM-USER-NAME": "alice"},
            {"X-SLURM-USER-TOKEN": lab.token("alice", 600)},
        ):
            me = client.get("/v1/me", headers=headers)
            assert me.status_code == 200, me.text
            assert (me.json()["user"], me.json()["method"]) == ("alice", "slurm")
            assert client.post("/v1/act", headers=headers).status_code == 200
        for name, token in forged_tokens(lab).items():
            for headers in ({"Authorization": f"Bearer {token}"}, {"X-SLURM-USER-TOKEN": token}):
                refused = client.get("/v1/me", headers=headers)
                assert refused.status_code == 401, f"{name}: {refused.text}"
                assert refused.headers["content-type"] == "application/problem+json"
                assert token not in refused.text
        for user in ("alice", "root"):  # Slurm itself lets root act as anyone
            claimed = {"X-SLURM-USER-TOKEN": lab.token(user, 600), "X-SLURM-USER-NAME": "bob"}
            assert client.get("/v1/me", headers=claimed).status_code == 401
    access.close()


def test_a_token_is_asked_about_once(lab: Lab, people: PeopleStore, tmp_path: Path) -> None:
    """Also while slurmctld is away: what was verified counts until it expires, what is new is refused."""
    access = Access(config_of(lab, tmp_path, coordinators=False), people)
    known, other = lab.token("alice", 600), lab.token("bob", 600)
    assert access.authenticate(Credentials(bearer=known)).user == "alice"
    lab.daemons.kill("slurmrestd")
    try:
        assert access.authenticate(Credentials(bearer=known)).user == "alice"
        assert access.cached(Credentials(bearer=known)) is not None
        with pytest.raises(SchedulerError, match="nothing listens there"):
            access.authenticate(Credentials(bearer=other))
    finally:
        lab.daemons.start("slurmrestd")
    assert access.authenticate(Credentials(bearer=other)).user == "bob"
    access.close()


def test_a_slurmrestd_that_accepts_anything_is_not_believed(lab: Lab) -> None:
    """Such as one behind a proxy that brings its own token."""
    own = lab.token("root", 600)
    check = TokenCheck(lab.rest_url)
    ask = check._transport.ask

    def with_own_token(*arguments: object, **options: object) -> object:
        options["headers"] = {"X-SLURM-USER-TOKEN": own, "X-SLURM-USER-NAME": "root"}
        return ask(*arguments, **options)  # type: ignore[arg-type]

    check._transport.ask = with_own_token  # type: ignore[method-assign, assignment]
    with pytest.raises(SchedulerError, match="accepts a token with a random key"):
        check.confirm(Token.read(lab.token("alice", 600)))
    check.close()


def test_coordinators(lab: Lab, people: PeopleStore, tmp_path: Path) -> None:
    """As slurmrestd and sacctmgr list them: also of the accounts below."""
    commands = [
        ("add", "account", "optics", "parent=science"),
        ("add", "coordinator", "account=optics", "names=carol"),
        ("modify", "user", "dave", "set", "adminlevel=Operator"),
    ]
    for command in commands:
        lab.run("root", "sacctmgr", "-i", *command)
    try:
        config = config_of(lab, tmp_path, slurm_admins=True)
        rights = read_user_rights(config)
        assert rights["carol"] == UserRights("None", frozenset({"optics"}))
        assert rights["dave"].admin_level == "Operator"
        assert rights["alice"] == UserRights()
        environ = {"PATH": f"{lab.state / 'bin'}:/usr/bin:/bin"}
        by_commands = Config(home=tmp_path, scheduler="commands")
        assert read_user_rights(by_commands, environ) == rights
        access = Access(config, people)
        carol = access.authenticate(Credentials(bearer=lab.token("carol", 600)))
        assert (carol.role, carol.accounts) == (Role.COORDINATOR, frozenset({"optics"}))
        assert access.authenticate(Credentials(bearer=lab.token("dave", 600))).role is Role.OPERATOR
        assert access.authenticate(Credentials(bearer=lab.token("alice", 600))).role is Role.USER
        access.close()
    finally:
        lab.run("root", "sacctmgr", "-i", "modify", "user", "dave", "set", "adminlevel=None")
        lab.run("root", "sacctmgr", "-i", "delete", "account", "optics")
