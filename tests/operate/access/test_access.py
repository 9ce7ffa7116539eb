"""Which proof counts, what a caller becomes by it, and how long it is believed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest

from forewarn.config import AccessConfig, Config, ServeConfig
from forewarn.errors import (
    ForbiddenError,
    RateLimitError,
    SlurmTokenNeededError,
    UnauthenticatedError,
    UsageError,
)
from forewarn.operate.access.access import Access
from forewarn.operate.access.credentials import Credentials, Proof
from forewarn.operate.access.identity import Identity, Role
from forewarn.operate.access.key_set import bounded_body
from forewarn.operate.access.refreshed import KeySourceError
from forewarn.sources.slurm.user_rights import UserRights
from forewarn.store.people import PeopleStore
from tests.operate.access.conftest import TurnedClock

KEY = bytes(range(64))
LATER = 4102444800


def slurm_token(user: str, **more: Any) -> str:
    return jwt.encode({"sun": user, "iat": 1000, "exp": LATER} | more, KEY)


@pytest.fixture
def build(people: PeopleStore, turned: TurnedClock, tmp_path: Path) -> Any:
    """Build an `Access` from settings."""
    place = tmp_path / "jwt.key"
    place.write_bytes(KEY)
    place.chmod(0o600)

    def build(rights: dict[str, UserRights] | None = None, **settings: Any) -> Access:
        if settings.get("slurm_tokens") == "key":
            settings["slurm_key_file"] = place
        serve = settings.pop("serve", ServeConfig())
        config = Config(access=AccessConfig(**settings), serve=serve)
        return Access(config, people, clock=turned.clock(), read_rights=lambda: rights or {})

    return build


def test_without_any_method_this_machine_is_trusted(build: Any) -> None:
    access = build()
    identity = access.authenticate(Credentials(peer="127.0.0.1"))
    assert (identity.role, identity.method) == (Role.OPERATOR, "none")
    assert access.cached(Credentials(peer="::1")) == identity
    for peer in ("10.0.0.1", "::ffff:10.0.0.1", "testclient", ""):
        with pytest.raises(UnauthenticatedError, match="only this machine"):
            access.authenticate(Credentials(peer=peer))
    with pytest.raises(SlurmTokenNeededError, match="scontrol token"):
        identity.require_slurm_token()
    acting = access.authenticate(Credentials(peer="127.0.0.1", slurm_token=slurm_token("alice")))
    assert (acting.user, acting.require_slurm_token()) == ("alice", slurm_token("alice"))


def test_with_a_method_this_machine_is_not_trusted(build: Any) -> None:
    ways = (
        ({"service_tokens": True}, "send a service token [^;]*$"),
        ({"slurm_tokens": "key"}, "send a token of Slurm [^;]*$"),
        ({"unix_peers": True}, "use the unix socket$"),
    )
    for settings, way in ways:
        access = build(**settings)
        with pytest.raises(UnauthenticatedError, match=f"nothing proves who is calling: {way}"):
            access.authenticate(Credentials(peer="127.0.0.1"))
        assert access.cached(Credentials(peer="127.0.0.1")) is None


def test_slurm_tokens(build: Any) -> None:
    access = build(slurm_tokens="key")
    by_header = access.authenticate(Credentials(slurm_token=slurm_token("alice"), slurm_user="alice"))
    by_bearer = access.authenticate(Credentials(bearer=slurm_token("alice")))
    assert by_header == by_bearer
    assert by_bearer.require_slurm_token() == slurm_token("alice")
    assert slurm_token("alice") not in repr(by_bearer)
    for user in ("root", "bob"):  # even if Slurm would let root act as anyone
        with pytest.raises(UnauthenticatedError, match="X-SLURM-USER-NAME"):
            access.authenticate(Credentials(slurm_token=slurm_token(user), slurm_user="alice"))
    # Also if it comes from the cache.
    with pytest.raises(UnauthenticatedError, match="X-SLURM-USER-NAME"):
        access.cached(Credentials(slurm_token=slurm_token("alice"), slurm_user="bob"))


def test_a_proof_is_believed_until_it_ends(build: Any, turned: TurnedClock) -> None:
    access = build(slurm_tokens="key", service_tokens=True)
    token = slurm_token("alice", exp=int(turned.now) + 100)
    assert access.cached(Credentials(bearer=token)) is None
    identity = access.authenticate(Credentials(bearer=token))
    turned.now += 99
    assert access.cached(Credentials(bearer=token)) == identity
    turned.now += 2
    assert access.cached(Credentials(bearer=token)) is None
    text, _ = access.service_tokens.create("x", Role.HELPER, by="root", expires_at=int(turned.now) + 50)
    assert access.authenticate(Credentials(bearer=text)).role is Role.HELPER
    access.service_tokens.revoke("x")
    turned.now += 11
    with pytest.raises(UnauthenticatedError, match="revoked"):
        access.authenticate(Credentials(bearer=text))


def test_a_second_token_is_for_acting_and_of_the_same_user(build: Any) -> None:
    access = build(service_tokens=True, slurm_tokens="key")
    text, _ = access.service_tokens.create("x", Role.USER, by="root", user="alice")
    identity = access.authenticate(Credentials(bearer=text, slurm_token=slurm_token("alice")))
    assert (identity.method, identity.slurm_token) == ("service-token", slurm_token("alice"))
    with pytest.raises(ForbiddenError, match="not alice's"):
        access.authenticate(Credentials(bearer=text, slurm_token=slurm_token("bob")))
    with pytest.raises(ForbiddenError, match="not alice's"):
        access.authenticate(Credentials(bearer=slurm_token("alice"), slurm_token=slurm_token("bob")))
    with pytest.raises(UnauthenticatedError, match="expired"):
        access.authenticate(Credentials(bearer=text, slurm_token=slurm_token("alice", exp=1)))
    with pytest.raises(UnauthenticatedError, match="not a JSON web token"):
        access.authenticate(Credentials(bearer=text, slurm_token="x"))


def test_kinds_of_tokens_that_are_not_configured(build: Any) -> None:
    access = build(unix_peers=True)
    for token in (slurm_token("alice"), "fwt_" + "x" * 43, "x"):
        with pytest.raises(UnauthenticatedError, match=r"not accepted here|not a JSON web token"):
            access.authenticate(Credentials(bearer=token, uid=0, client=token))


def test_an_invalid_proof_is_not_replaced_by_a_weaker_one(build: Any) -> None:
    access = build(unix_peers=True, service_tokens=True)
    with pytest.raises(UnauthenticatedError):
        access.authenticate(Credentials(bearer="fwt_" + "x" * 43, uid=os.getuid()))
    assert access.authenticate(Credentials(session="x" * 43, uid=os.getuid())).method == "peer"


def test_peers_of_the_unix_socket(build: Any) -> None:
    access = build(unix_peers=True, helpers=("nobody",))
    assert access.authenticate(Credentials(uid=0)).role is Role.ADMIN
    nobody = access.authenticate(Credentials(uid=65534))
    assert (nobody.user, nobody.role, nobody.method) == ("nobody", Role.HELPER, "peer")
    assert access.cached(Credentials(uid=65534)) == nobody
    stranger = access.authenticate(Credentials(uid=987654))
    assert (stranger.user, stranger.role) == ("uid:987654", Role.USER)


def test_a_trusted_proxy(build: Any, tmp_path: Path) -> None:
    place = tmp_path / "secret"
    place.write_text("0123456789abcdef\n")
    serve = ServeConfig(trusted_proxies=("10.0.0.0/24", "::1"))
    access = build(proxy_header="X-Remote-User", proxy_secret_file=place, serve=serve)
    good: dict[str, Any] = {"proxy_user": "alice", "proxy_secret": "0123456789abcdef", "peer": "10.0.0.7"}
    assert access.authenticate(Credentials(**good)).method == "proxy"
    for bad in (
        {"proxy_secret": None},
        {"proxy_secret": "0123456789abcdeF"},
        {"peer": "10.0.1.7"},
        {"peer": "127.0.0.1"},
        {"proxy_user": "token:x"},
        {"proxy_user": "a b"},
    ):
        with pytest.raises(UnauthenticatedError):
            access.authenticate(Credentials(**(good | bad)))
    place.write_text("short")
    with pytest.raises(UsageError, match="fewer than 16"):
        build(proxy_header="X-Remote-User", proxy_secret_file=place)
    with pytest.raises(UsageError, match="not an address"):
        build(serve=ServeConfig(trusted_proxies=("here",)))


def test_many_refused_tokens_are_limited_by_address_and_valid_ones_are_not(
    build: Any, turned: TurnedClock
) -> None:
    access = build(slurm_tokens="key")
    for number in range(30):
        with pytest.raises(UnauthenticatedError):
            access.authenticate(Credentials(bearer=f"a.b.{number}", client="10.0.0.1"))
    with pytest.raises(RateLimitError) as limited:
        access.authenticate(Credentials(bearer="a.b.c", client="10.0.0.1"))
    assert 0 < limited.value.retry_after <= 2
    valid = Credentials(bearer=slurm_token("alice"), client="10.0.0.1")
    assert access.authenticate(valid).user == "alice", "others may share the address"
    cached = access.cached(valid)
    assert cached is not None
    assert cached.user == "alice"
    assert access.login_with_token(slurm_token("bob"), origin="10.0.0.1")[1].user == "bob"
    with pytest.raises(UnauthenticatedError):
        access.authenticate(Credentials(bearer="a.b.c", client="10.0.0.2"))
    turned.now += 61
    with pytest.raises(UnauthenticatedError):
        access.authenticate(Credentials(bearer="a.b.c", client="10.0.0.1"))
    for _ in range(100):  # asking without a token is no guess
        with pytest.raises(UnauthenticatedError):
            access.authenticate(Credentials(client="10.0.0.3"))


# --- roles -----------------------------------------------------------------------------------------------


def role(access: Access, user: str) -> Identity:
    return access.authenticate(Credentials(bearer=slurm_token(user)))


def test_roles_by_lists_groups_and_slurm(build: Any) -> None:
    rights = {
        "cora": UserRights("None", frozenset({"physics", "optics"})),
        "olaf": UserRights("Operator"),
        "adam": UserRights("Administrator", frozenset({"physics"})),
    }
    access = build(rights, slurm_tokens="key", helpers=("hugo", "group:nogroup"), operators=("olga", "hugo"))
    found = {user: role(access, user) for user in ("cora", "olaf", "adam", "hugo", "olga", "nobody", "una")}
    assert {user: one.role.value for user, one in found.items()} == {
        "cora": "coordinator",
        "olaf": "user",
        "adam": "coordinator",
        "hugo": "operator",
        "olga": "operator",
        "nobody": "helper",
        "una": "user",
    }
    assert found["cora"].accounts == {"physics", "optics"}
    trusting = build(rights, slurm_tokens="key", slurm_admins=True, coordinators=False)
    assert [role(trusting, user).role.value for user in ("olaf", "adam", "cora")] == [
        "operator",
        "admin",
        "user",
    ]
    assert role(trusting, "cora").accounts == frozenset()


def test_slurm_away_takes_rights_and_gives_none(build: Any, turned: TurnedClock, people: PeopleStore) -> None:
    from forewarn.errors import DatabaseDownError

    answers: list[Any] = [{"cora": UserRights("None", frozenset({"physics"}))}]
    asked = []

    def read() -> dict[str, UserRights]:
        asked.append(turned.now)
        if not answers:
            raise DatabaseDownError("slurmdbd is away")
        found: dict[str, UserRights] = answers.pop()
        return found

    access = Access(build(slurm_tokens="key")._config, people, clock=turned.clock(), read_rights=read)
    assert role(access, "cora").role is Role.COORDINATOR
    turned.now += 301
    for _ in range(3):
        assert role(access, "cora").role is Role.COORDINATOR  # what Slurm answered last still counts
    access.close()
    assert len(asked) == 2
    turned.now += 3600
    assert role(access, "cora").role is Role.USER
    access.close()


def test_what_an_identity_sees() -> None:
    user = Identity(user="ann", accounts=frozenset({"physics"}), role=Role.COORDINATOR)
    for one in (user, user.visibility()):
        assert one.sees("ann", None)
        assert one.sees("ben", "physics")
        assert not one.sees("ben", "optics")
        assert not one.sees(None, None)
    for name in ("helper", "operator", "admin"):
        assert Identity(user="x", role=Role(name)).visibility().sees(None, None)
    assert [Identity(user="x", role=one).may_operate for one in Role] == [False, False, False, True, True]
    assert [Identity(user="x", role=one).is_admin for one in Role] == [False, False, False, False, True]


# --- sessions --------------------------------------------------------------------------------------------


def test_sessions_end(build: Any, turned: TurnedClock, people: PeopleStore) -> None:
    access = build(slurm_tokens="key", session_idle=1000, session_length=5000)
    session, identity = access.login_with_token(slurm_token("alice"), origin="10.0.0.1")
    cookie = Credentials(session=session.id)
    assert (identity.method, access.authenticate(cookie).slurm_token) == ("session", slurm_token("alice"))
    assert session.id not in str(people.entries("session"))
    assert session.id not in repr(session)
    for _ in range(4):
        turned.now += 990
        assert access.authenticate(cookie).user == "alice"
    turned.now += 1001
    with pytest.raises(UnauthenticatedError, match="ended"):
        access.authenticate(cookie)
    assert people.entries("session") == []
    session, identity = access.login_with_token(slurm_token("alice"), origin="10.0.0.1")
    for _ in range(6):
        turned.now += 800
        assert access.authenticate(Credentials(session=session.id)).user == "alice"
    turned.now += 201
    with pytest.raises(UnauthenticatedError, match="ended"):
        access.authenticate(Credentials(session=session.id))


def test_a_session_ends_with_what_it_was_begun_by(build: Any, turned: TurnedClock) -> None:
    access = build(slurm_tokens="key", service_tokens=True)
    short, _ = access.login_with_token(slurm_token("alice", exp=int(turned.now) + 60), origin="x")
    assert short.expires == turned.now + 60
    text, _ = access.service_tokens.create("x", Role.HELPER, by="root")
    session, _ = access.login_with_token(text, origin="x")
    assert access.authenticate(Credentials(session=session.id)).role is Role.HELPER
    access.service_tokens.revoke("x")
    turned.now += 11
    with pytest.raises(UnauthenticatedError, match="revoked"):
        access.authenticate(Credentials(session=session.id))
    trial = build()
    kept, _ = trial.login_with_token(slurm_token("root"), origin="x")
    assert trial.authenticate(Credentials(session=kept.id, peer="127.0.0.1")).slurm_token == slurm_token(
        "root"
    )
    with pytest.raises(UnauthenticatedError, match="ended"):  # once authentication is configured
        build(slurm_tokens="key").authenticate(Credentials(session=kept.id))


def test_logging_in_changes_the_id_and_logging_out_ends_it(build: Any, people: PeopleStore) -> None:
    access = build(slurm_tokens="key")
    first, identity = access.login_with_token(slurm_token("alice"), origin="x")
    second, _ = access.login_with_token(slurm_token("alice"), origin="x")
    assert first.id != second.id
    assert first.csrf_token != second.csrf_token
    access.end_session(first.id, identity, origin="x")
    with pytest.raises(UnauthenticatedError, match="no such session"):
        access.authenticate(Credentials(session=first.id))
    actions = [entry.value["action"] for entry in people.entries("audit")]
    assert sorted(actions) == ["login", "login", "logout"]


def test_a_restart_forgets_slurm_tokens(build: Any) -> None:
    session, _ = build(slurm_tokens="key").login_with_token(slurm_token("alice"), origin="x")
    assert build(slurm_tokens="key").authenticate(Credentials(session=session.id)).slurm_token is None


def test_the_audit_log_has_no_secrets(build: Any, people: PeopleStore) -> None:
    access = build()
    details = {"slurm_token": "a", "note": f"Bearer {slurm_token('alice')}", "jobs": [1, {"password": "b"}]}
    access.audit(Identity(user="ann"), "submit", "fwt_" + "x" * 43, "x" * 1000, details, address="10.0.0.1")
    line = people.entries("audit")[0].value
    assert line["details"] == {
        "slurm_token": "(not shown)",
        "note": "Bearer (not shown)",
        "jobs": [1, {"password": "(not shown)"}],
    }
    assert line["subject"] == "(not shown)"
    assert len(line["result"]) == 500
    assert (line["user"], line["address"], line["method"]) == ("ann", "10.0.0.1", "none")


def test_a_proof_shows_no_token() -> None:
    assert "secret" not in repr(Proof(user="x", method="slurm", slurm_token="secret"))
    shown = repr(Credentials(bearer="secret", slurm_token="secret", session="secret", proxy_secret="secret"))
    assert "secret" not in shown.replace("proxy_secret", "")


# --- sessions that end, large answers -----------------------------------------------------------------------


def test_a_session_that_another_replaces_is_not_believed_any_longer(build: Any) -> None:
    access = build(slurm_tokens="key")
    session, _ = access.login_with_token(slurm_token("alice"), origin="10.0.0.1")
    carried = Credentials(session=session.id)
    assert access.authenticate(carried).user == "alice"
    assert access.cached(carried) is not None
    assert access.replace_session(session.id)
    assert access.cached(carried) is None
    with pytest.raises(UnauthenticatedError):
        access.authenticate(carried)


@pytest.mark.parametrize(("size", "is_read"), [(1 << 20, True), ((1 << 20) + 1, False)])
def test_a_provider_s_large_answer_is_not_read(size: int, is_read: bool) -> None:
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"x" * size))
    with httpx.Client(transport=transport) as client, client.stream("POST", "http://idp/token") as response:
        if is_read:
            assert len(bounded_body(response, "idp")) == size
        else:
            with pytest.raises(KeySourceError, match="larger than 1 MB"):
                bounded_body(response, "idp")


def test_a_session_is_not_believed_for_longer_by_asking_all_the_time(build: Any, turned: TurnedClock) -> None:
    """Each request within ten seconds of the last one: a revoked token's session still ends."""
    access = build(service_tokens=True)
    text, _ = access.service_tokens.create("lost", Role.HELPER, by="root")
    session, _ = access.login_with_token(text, origin="x")
    carried = Credentials(session=session.id)
    assert access.authenticate(carried).role is Role.HELPER
    access.service_tokens.revoke("lost")
    for _ in range(2):
        turned.now += 4
        assert access.authenticate(carried).role is Role.HELPER
    turned.now += 4
    with pytest.raises(UnauthenticatedError, match="revoked"):
        access.authenticate(carried)
    assert access.cached(carried) is None
    assert access.cached_again(carried) is None


def test_a_request_that_takes_long_does_not_make_a_session_look_idle(build: Any, turned: TurnedClock) -> None:
    """What it looks up is kept apart: other requests of the session are a use of it all the same."""
    access = build(slurm_tokens="key", session_idle=200)
    session, _ = access.login_with_token(slurm_token("alice"), origin="x")
    carried = Credentials(session=session.id)
    for _ in range(100):
        turned.now += 9
        assert (access.cached_again(carried) or access.authenticate_again(carried)).user == "alice"
        assert (access.cached(carried) or access.authenticate(carried)).user == "alice"
    for _ in range(14):  # not 22: a use is written down once a minute
        turned.now += 9
        assert (access.cached_again(carried) or access.authenticate_again(carried)).user == "alice"
    turned.now += 74
    with pytest.raises(UnauthenticatedError, match="has ended"):
        access.authenticate_again(carried)


def test_a_slurm_user_cannot_be_named_as_a_group(build: Any) -> None:
    """Where an identity provider signs Slurm's tokens, people may choose their names there."""
    access = build(slurm_tokens="key", operators=("group:support",), helpers=("oidc:staff",))
    for name in ("group:support", "oidc:staff", "token:grafana"):
        with pytest.raises(UnauthenticatedError, match="not a user name"):
            access.authenticate(Credentials(bearer=slurm_token(name)))


def test_a_proxy_s_user_is_known_without_a_thread(build: Any, tmp_path: Path) -> None:
    place = tmp_path / "secret"
    place.write_text("0123456789abcdef")
    access = build(proxy_header="X-Remote-User", proxy_secret_file=place, coordinators=False)
    good: dict[str, Any] = {
        "proxy_user": "alice",
        "proxy_secret": "0123456789abcdef",
        "peer": "127.0.0.1",
    }
    assert access.cached(Credentials(**good)) == access.authenticate(Credentials(**good))
    for bad in ({"proxy_secret": "wrong"}, {"peer": "10.0.0.1"}, {"proxy_user": "a b"}, {"bearer": "x"}):
        assert access.cached(Credentials(**(good | bad))) is None
