"""Logins and bearer tokens of a real OpenID Connect provider."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from forewarn.config import AccessConfig, Config, ServeConfig
from forewarn.errors import UnauthenticatedError
from forewarn.operate.access.access import Access
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.access.credentials import Credentials
from forewarn.operate.access.identity import Role
from forewarn.operate.access.refreshed import KeySourceError
from forewarn.sources.slurm.clock import Clock
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import open_embedded_people
from tests.serve.auth.app import access_app, served
from tests.serve.oidc.provider import (
    CLIENT,
    PROGRAM,
    PROGRAM_REDIRECT,
    SECRET,
    free_port,
    log_in,
    running_provider,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("oidc")]


@dataclass(frozen=True)
class LoginSite:
    """A service whose users log in at a provider."""

    issuer: str
    url: str
    config: Config
    access: Access
    people: PeopleStore


def configured(issuer: str, url: str, folder: Path, **settings: object) -> Config:
    secret = folder / "secret"
    secret.write_text(SECRET + "\n")
    access = {
        "oidc_issuer": issuer,
        "oidc_client_id": CLIENT,
        "oidc_client_secret_file": secret,
        "operators": ("oidc:hpc-operators", "root"),
        "helpers": ("oidc:hpc-support",),
        **settings,
    }
    return Config(home=folder, access=AccessConfig(**access), serve=ServeConfig(url=url))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoginSite]:
    folder = tmp_path_factory.mktemp("oidc")
    port, own = free_port(), free_port()
    url = f"http://127.0.0.1:{own}"
    with running_provider(port, f"{url}/auth/callback") as issuer, open_embedded_people(folder) as people:
        config = configured(issuer, url, folder)
        app, access = access_app(config, people)
        with served(app, port=own):
            yield LoginSite(issuer, url, config, access, people)
        access.close()


@contextmanager
def logged_in(site: LoginSite, user: str, after: str = "/v1/me") -> Iterator[httpx.Client]:
    """A browser in which somebody has logged in."""
    with httpx.Client() as browser:
        begun = browser.get(f"{site.url}/auth/login", params={"next": after})
        assert begun.status_code == 303
        back = log_in(browser, begun.headers["location"], user)
        done = browser.get(back)
        assert done.status_code == 303, done.text
        assert done.headers["location"] == after
        yield browser


def test_the_code_flow(site: LoginSite) -> None:
    with logged_in(site, "alice") as browser:
        me = browser.get(f"{site.url}/v1/me").json()
        assert (me["user"], me["role"], me["method"]) == ("alice", "user", "session")
        cookie = next(one for one in browser.cookies.jar if one.name == "forewarn_session")
        assert cookie.has_nonstandard_attr("HttpOnly")
        assert cookie.get_nonstandard_attr("SameSite") == "lax"
        entries = site.people.entries("session")
        assert all(str(cookie.value) not in str(entry) for entry in entries)
    line = audit_lines(site.people, users=["alice"], actions=["login"])[-1]
    assert (line.method, line.address, line.details) == ("oidc", "127.0.0.1", {"by": "oidc"})


@pytest.mark.parametrize(("user", "role"), [("olga", "operator"), ("hugo", "helper"), ("root", "operator")])
def test_groups_and_names_give_roles(site: LoginSite, user: str, role: str) -> None:
    with logged_in(site, user) as browser:
        assert browser.get(f"{site.url}/v1/me").json()["role"] == role


def test_a_change_needs_the_token_against_foreign_pages_and_a_slurm_token(site: LoginSite) -> None:
    with logged_in(site, "alice") as browser:
        csrf = browser.get(f"{site.url}/auth/session").json()["csrf_token"]
        act = f"{site.url}/v1/act"
        for headers in ({}, {"X-CSRF-Token": "x"}, {"X-CSRF-Token": csrf, "Origin": "https://evil.example"}):
            refused = browser.post(act, headers=headers)
            assert (refused.status_code, refused.json()["code"]) == (403, "cross_site")
        asks = browser.post(act, headers={"X-CSRF-Token": csrf, "Origin": site.url})
        assert (asks.status_code, asks.json()["code"]) == (403, "slurm_token_needed")
        own = {"X-CSRF-Token": csrf}
        token = jwt.encode({"sun": "alice", "exp": 4102444800}, "k" * 32)
        others = jwt.encode({"sun": "bob", "exp": 4102444800}, "k" * 32)
        paste = f"{site.url}/auth/session"
        assert browser.post(paste, json={"token": token}).status_code == 403  # without the header
        assert browser.post(paste, json={"token": others}, headers=own).status_code == 403
        assert browser.post(paste, json={"token": token}, headers=own).json()["has_slurm_token"] is True
        assert browser.post(act, headers=own).status_code == 200
        assert token not in str(site.people.entries("session"))
        assert browser.post(f"{site.url}/auth/logout").status_code == 403
        cookie = browser.cookies["forewarn_session"]
        assert browser.post(f"{site.url}/auth/logout", headers=own).status_code == 204
        again = httpx.get(f"{site.url}/v1/me", cookies={"forewarn_session": cookie})
        assert again.status_code == 401
        assert again.headers["content-type"] == "application/problem+json"


def test_a_login_cannot_be_forged(site: LoginSite) -> None:
    with httpx.Client() as browser, httpx.Client() as other:
        begun = browser.get(f"{site.url}/auth/login")
        back = log_in(browser, begun.headers["location"], "alice")
        code = parse_qs(urlsplit(back).query)["code"][0]
        assert other.get(back).status_code == 401  # another browser: no cookie
        other.get(f"{site.url}/auth/login")
        assert other.get(back).status_code == 401  # with the cookie of its own login
        callback = f"{site.url}/auth/callback"
        assert browser.get(callback, params={"code": code, "state": "x"}).status_code == 401
        assert browser.get(callback, params={"error": "access_denied", "state": "x"}).status_code == 401
        assert browser.get(callback).status_code == 401
        assert browser.get(back).status_code == 303
        assert browser.get(back).status_code == 401  # a code counts once


def test_a_login_with_another_nonce_is_refused(site: LoginSite) -> None:
    """As with an ID token of another login that somebody slipped in."""
    with httpx.Client() as browser:
        begun = httpx.URL(browser.get(f"{site.url}/auth/login").headers["location"])
        back = log_in(browser, str(begun.copy_set_param("nonce", "another")), "alice")
        done = browser.get(back)
        assert (done.status_code, "nonce" in done.json()["detail"]) == (401, True)


@pytest.mark.parametrize(
    "after", ["https://evil.example/", "//evil.example", "/\\evil.example", "/\t/evil.example"]
)
def test_a_login_leads_nowhere_else(site: LoginSite, after: str) -> None:
    with httpx.Client() as browser:
        begun = browser.get(f"{site.url}/auth/login", params={"next": after})
        done = browser.get(log_in(browser, begun.headers["location"], "alice"))
        assert done.headers["location"] == "/auth/session"


def access_token(site: LoginSite, user: str) -> dict[str, str]:
    """Return what a program gets from the provider for a user: an access token and an ID token."""
    verifier = "v" * 64
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    asks = {
        "client_id": PROGRAM,
        "response_type": "code",
        "redirect_uri": PROGRAM_REDIRECT,
        "scope": "openid profile",
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    with httpx.Client() as browser:
        back = log_in(browser, str(httpx.URL(f"{site.issuer}/auth", params=asks)), user)
        form = {
            "grant_type": "authorization_code",
            "client_id": PROGRAM,
            "code": parse_qs(urlsplit(back).query)["code"][0],
            "redirect_uri": PROGRAM_REDIRECT,
            "code_verifier": verifier,
        }
        found: dict[str, str] = browser.post(f"{site.issuer}/token", data=form).json()
        return found


def test_bearer_tokens(site: LoginSite, tmp_path: Path) -> None:
    tokens = access_token(site, "olga")
    config = configured(site.issuer, site.url, tmp_path, oidc_audience="forewarn-api")
    access = Access(config, site.people, read_rights=dict)
    identity = access.authenticate(Credentials(bearer=tokens["access_token"]))
    assert (identity.user, identity.role, identity.method) == ("olga", Role.OPERATOR, "oidc")
    assert access.cached(Credentials(bearer=tokens["access_token"])) == identity
    # An ID token is for the program that asked for it, and this audience is not the default one.
    with pytest.raises(UnauthenticatedError, match="not accepted"):
        access.authenticate(Credentials(bearer=tokens["id_token"]))
    with pytest.raises(UnauthenticatedError, match="not accepted"):
        site.access.authenticate(Credentials(bearer=tokens["access_token"]))
    access.close()


def test_forged_bearer_tokens(site: LoginSite, tmp_path: Path) -> None:
    claims = {
        "iss": site.issuer,
        "aud": CLIENT,
        "sub": "root",
        "preferred_username": "root",
        "exp": 4102444800,
    }
    own = rsa.generate_private_key(65537, 2048)
    public = httpx.get(f"{site.issuer}/jwks").json()["keys"][0]
    forged = [
        jwt.encode(claims, own, "RS256"),
        jwt.encode(claims, own, "RS256", headers={"kid": public["kid"]}),
        jwt.encode(claims, own, "RS256", headers={"jwk": public}),
        jwt.encode(claims, "", "none"),
        jwt.encode(claims, public["n"], "HS256", headers={"kid": public["kid"]}),
        access_token(site, "alice")["access_token"][:-6] + "AAAAAA",
    ]
    for token in forged:
        answer = httpx.get(f"{site.url}/v1/me", headers={"Authorization": f"Bearer {token}"})
        assert (answer.status_code, answer.json()["code"]) == (401, "unauthenticated"), answer.text
        assert token not in answer.text


def test_keys_rotate(tmp_path: Path) -> None:
    port = free_port()
    url, times = "http://127.0.0.1:1", [0.0]
    with open_embedded_people(tmp_path) as people:
        with running_provider(port, f"{url}/auth/callback") as issuer:
            config = configured(issuer, url, tmp_path, oidc_audience="forewarn-api")
            access = Access(config, people, read_rights=dict, clock=Clock(monotonic=lambda: times[0]))
            site = LoginSite(issuer, url, config, access, people)
            old = access_token(site, "alice")["access_token"]
            assert access.authenticate(Credentials(bearer=old)).user == "alice"
        with running_provider(port, f"{url}/auth/callback"):
            new = access_token(site, "alice")["access_token"]
            with pytest.raises(UnauthenticatedError):  # the keys were read a moment ago
                access.authenticate(Credentials(bearer=new, client="a"))
            newer = access_token(site, "ben")["access_token"]
            times[0] += 31
            assert access.authenticate(Credentials(bearer=newer, client="b")).user == "ben"
        access.close()
        gone = Access(config, people, read_rights=dict)
        with pytest.raises(KeySourceError, match="cannot be read"):
            gone.authenticate(Credentials(bearer=new))
        gone.close()
