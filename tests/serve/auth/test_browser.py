"""Browsers, proxies and unix sockets over real HTTP: cookies, foreign pages, headers sent twice."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from forewarn.config import AccessConfig, Config, ServeConfig
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.access.identity import Role
from forewarn.operate.access.sessions import csrf_token
from forewarn.serve.rest.auth.safe_return import safe_return
from forewarn.store.people import PeopleStore
from forewarn.store.people_embedded import open_embedded_people
from tests.serve.auth.app import access_app, served

KEY = bytes(range(64))
Answered = tuple[int, str | None]


def slurm_token(user: str, **more: Any) -> str:
    return jwt.encode({"sun": user, "iat": 1000, "exp": 4102444800} | more, KEY)


@pytest.fixture
def people(tmp_path: Path) -> Iterator[PeopleStore]:
    with open_embedded_people(tmp_path) as store:
        yield store


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    place = tmp_path / "jwt.key"
    place.write_bytes(KEY)
    place.chmod(0o600)
    return place


def answered(response: httpx.Response) -> Answered:
    """The status, and the code of the problem if there is one."""
    if response.status_code < 400:
        return response.status_code, None
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, response.json()["code"]


def by_key(key_file: Path, **serve: Any) -> Config:
    access = AccessConfig(slurm_tokens="key", slurm_key_file=key_file, service_tokens=True)
    return Config(access=access, serve=ServeConfig(**serve))


def test_a_pasted_token_begins_a_session(people: PeopleStore, key_file: Path) -> None:
    app, _ = access_app(by_key(key_file), people)
    with served(app) as url, httpx.Client(base_url=url) as browser:
        assert answered(browser.get("/auth/session")) == (401, "unauthenticated")
        refused = browser.get("/auth/session").headers["www-authenticate"]
        assert refused.startswith("Bearer")
        for token, status in (("x", 401), ("", 422), ("x" * 20000, 422), (slurm_token("a", exp=1), 401)):
            assert browser.post("/auth/session", json={"token": token}).status_code == status
        wrong: list[Any] = [{}, {"token": 1}, {"token": "x", "more": 1}, []]
        for bad in wrong:
            assert answered(browser.post("/auth/session", json=bad)) == (422, "bad_fields")
        begun = browser.post("/auth/session", json={"token": slurm_token("alice")})
        assert begun.json()["user"] == "alice"
        assert slurm_token("alice") not in begun.text
        (cookie,) = begun.headers.get_list("set-cookie")
        assert "HttpOnly" in cookie
        assert "SameSite=lax" in cookie
        assert "Secure" not in cookie
        csrf = begun.json()["csrf_token"]
        assert csrf == csrf_token(browser.cookies["forewarn_session"])
        assert browser.get("/auth/session").json()["csrf_token"] == csrf
        assert answered(browser.post("/v1/act")) == (403, "cross_site")
        assert answered(browser.post("/v1/act", headers={b"X-CSRF-Token": "ü".encode()})) == (
            403,
            "cross_site",
        )
        assert answered(browser.post("/v1/act", headers={"X-CSRF-Token": csrf})) == (200, None)
        for user, status in (("alice", 200), ("bob", 403)):
            pasted = {"token": slurm_token(user)}
            added = browser.post("/auth/session", json=pasted, headers={"X-CSRF-Token": csrf})
            assert added.status_code == status
        assert answered(browser.post("/auth/logout", headers={"X-CSRF-Token": csrf})) == (204, None)
        assert answered(browser.get("/v1/me")) == (401, "unauthenticated")
    lines = audit_lines(people)
    assert [(line.user, line.action, line.result) for line in lines] == [
        ("alice", "login", "done"),
        ("alice", "add-slurm-token", "done"),
        ("alice", "add-slurm-token", "refused: the Slurm token is not alice's: paste your own"),
        ("alice", "logout", "done"),
    ]
    assert {line.address for line in lines} == {"127.0.0.1"}
    assert not any(slurm_token(user) in str(lines) for user in ("alice", "bob"))


def test_cookies_are_secure_where_browsers_come_by_https(people: PeopleStore, key_file: Path) -> None:
    app, _ = access_app(by_key(key_file, url="https://forewarn.example.org"), people)
    with served(app) as url:
        begun = httpx.post(f"{url}/auth/session", json={"token": slurm_token("alice")})
        (cookie,) = begun.headers.get_list("set-cookie")
        assert cookie.startswith("__Host-forewarn_session=")
        assert "Secure" in cookie
        value = cookie.partition("=")[2].partition(";")[0]
        # A cookie that another host of the domain, or plain http, could have set does not count.
        assert httpx.get(f"{url}/v1/me", cookies={"forewarn_session": value}).status_code == 401
        assert httpx.get(f"{url}/v1/me", cookies={"__Host-forewarn_session": value}).status_code == 200


def test_a_login_ends_the_session_before_it(people: PeopleStore, key_file: Path) -> None:
    app, access = access_app(by_key(key_file), people)
    text, _ = access.service_tokens.create("ann", Role.USER, by="root", user="ann")
    with served(app) as url, httpx.Client(base_url=url) as browser:
        assert browser.post("/auth/session", json={"token": slurm_token("alice")}).status_code == 200
        first = browser.cookies["forewarn_session"]
        assert browser.post("/auth/session", json={"token": text}).json()["user"] == "ann"
        assert browser.get("/v1/me").json()["user"] == "ann"
        assert httpx.get(f"{url}/v1/me", cookies={"forewarn_session": first}).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_foreign_pages_change_nothing(headers: dict[str, str], people: PeopleStore, key_file: Path) -> None:
    app, _ = access_app(by_key(key_file), people)
    with served(app) as url, httpx.Client(base_url=url) as browser:
        paste = browser.post("/auth/session", json={"token": slurm_token("alice")}, headers=headers)
        assert answered(paste) == (403, "cross_site")  # nor do they log anybody in
        csrf = browser.post("/auth/session", json={"token": slurm_token("alice")}).json()["csrf_token"]
        both = {**headers, "X-CSRF-Token": csrf}
        assert answered(browser.post("/v1/act", headers=both)) == (403, "cross_site")
        bearer = {**headers, "Authorization": f"Bearer {slurm_token('alice')}"}
        assert answered(browser.post("/v1/act", headers=bearer)) == (
            200,
            None,
        )  # no browser sends that by itself
    trial, _ = access_app(Config(), people)
    with served(trial) as url:
        token = {"X-SLURM-USER-TOKEN": slurm_token("alice")}
        assert answered(httpx.post(f"{url}/v1/act", headers=token)) == (200, None)
        assert answered(httpx.post(f"{url}/v1/act", headers=token | headers)) == (403, "cross_site")


def test_a_foreign_name_that_leads_here_is_refused(people: PeopleStore) -> None:
    """Without authentication a page of evil.example, resolved to 127.0.0.1, could read everything."""
    app, _ = access_app(Config(), people)
    with served(app) as url:
        for host, status in (
            ("evil.example", 403),
            ("localhost:1", 200),
            ("127.0.0.1", 200),
            ("[::1]:2", 200),
        ):
            assert httpx.get(f"{url}/v1/me", headers={"Host": host}).status_code == status


def test_headers_that_are_sent_twice_are_refused(people: PeopleStore, key_file: Path) -> None:
    app, _ = access_app(by_key(key_file), people)
    with served(app) as url:
        token = slurm_token("alice")
        for name, value in (("Authorization", f"Bearer {token}"), ("X-SLURM-USER-TOKEN", token)):
            assert answered(httpx.get(f"{url}/v1/me", headers=[(name, value)])) == (200, None)
            twice = [(name, value), (name, value)]
            assert answered(httpx.get(f"{url}/v1/me", headers=twice)) == (401, "unauthenticated")
        named = {"X-SLURM-USER-TOKEN": token, "X-SLURM-USER-NAME": "bob"}
        assert answered(httpx.get(f"{url}/v1/me", headers=named)) == (401, "unauthenticated")


def test_a_proxy_s_header_counts_only_from_the_proxy(people: PeopleStore, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("0123456789abcdef")
    access = AccessConfig(proxy_header="X-Remote-User", proxy_secret_file=secret)
    app, _ = access_app(Config(access=access, serve=ServeConfig(behind_proxy=True)), people)
    with served(app, proxy_headers=True, forwarded_allow_ips="127.0.0.1") as url:
        good = {
            "X-Remote-User": "alice",
            "X-Forewarn-Proxy-Secret": "0123456789abcdef",
            "X-Forwarded-For": "10.1.2.3",
        }
        me = httpx.get(f"{url}/v1/me", headers=good)
        assert (me.json()["user"], me.json()["method"]) == ("alice", "proxy")
        for headers in (
            {"X-Remote-User": "alice"},
            good | {"X-Forewarn-Proxy-Secret": "wrong"},
            good | {"X-Remote-User": "a\tb"},
        ):
            assert answered(httpx.get(f"{url}/v1/me", headers=headers)) == (401, "unauthenticated")
        twice = [*good.items(), ("X-Remote-User", "root")]
        assert answered(httpx.get(f"{url}/v1/me", headers=twice)) == (401, "unauthenticated")
        assert answered(httpx.post(f"{url}/v1/act", headers=good)) == (403, "slurm_token_needed")
        foreign = good | {"Origin": "https://evil.example"}
        assert answered(httpx.post(f"{url}/v1/act", headers=foreign)) == (403, "cross_site")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter, which those of tests are not."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_peers_of_a_unix_socket(loop: str, people: PeopleStore, open_folder: Path) -> None:
    socket = open_folder / "api.sock"
    access = AccessConfig(unix_peers=True)
    app, _ = access_app(Config(access=access, serve=ServeConfig(socket=socket)), people)
    with served(app, socket=socket, loop=loop):
        with httpx.Client(transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://x") as client:
            me = client.get("/v1/me").json()
            assert (me["method"], me["role"]) == ("peer", "admin")  # the user who runs the service
        if os.getuid() == 0:  # who else could ask as another user
            socket.chmod(0o666)
            assert '"user":"nobody","role":"user"' in as_nobody(socket)
    with served(app) as url:
        assert answered(httpx.get(f"{url}/v1/me")) == (401, "unauthenticated")


def as_nobody(socket: Path) -> str:
    """Ask over a unix socket as another user."""
    request = "GET /v1/me HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    code = f"import socket as s; c = s.socket(s.AF_UNIX); c.connect({str(socket)!r}); "
    code += f"c.sendall({request.encode()!r}); print(b''.join(iter(lambda: c.recv(9999), b'')).decode())"
    done = subprocess.run(
        ["/usr/bin/python3", "-c", code], user=65534, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_users_are_limited_and_the_site_s_programs_are_not(people: PeopleStore, key_file: Path) -> None:
    app, access = access_app(by_key(key_file, rate_limit=5), people)
    text, _ = access.service_tokens.create("x", Role.HELPER, by="root")
    with served(app) as url, httpx.Client(base_url=url) as client:
        alice = {"Authorization": f"Bearer {slurm_token('alice')}"}
        found = [client.get("/v1/me", headers=alice) for _ in range(7)]
        assert [one.status_code for one in found] == [200] * 5 + [429] * 2
        assert answered(found[-1]) == (429, "rate_limited")
        assert int(found[-1].headers["retry-after"]) >= 1
        bob = {"Authorization": f"Bearer {slurm_token('bob')}"}
        assert client.get("/v1/me", headers=bob).status_code == 200
        program = {"Authorization": f"Bearer {text}"}
        assert {client.get("/v1/me", headers=program).status_code for _ in range(20)} == {200}


def test_no_provider(people: PeopleStore, key_file: Path) -> None:
    app, _ = access_app(by_key(key_file), people)
    with served(app) as url:
        assert answered(httpx.get(f"{url}/auth/login")) == (400, "bad_request")
        assert answered(httpx.get(f"{url}/auth/callback?code=x&state=y")) == (400, "bad_request")


@settings(max_examples=300)
@given(st.text(alphabet="/\\:.@?#%a\t\r\n\0 é", max_size=12))
def test_a_return_stays_here(path: str) -> None:
    safe = safe_return(path)
    assert safe.startswith("/")
    assert not safe.startswith(("//", "/\\"))
    # What a browser does to a reference: drops tabs and breaks, and takes a backslash for a slash.
    read = safe.replace("\t", "").replace("\r", "").replace("\n", "").replace("\\", "/").strip()
    assert httpx.URL("https://here.example").join(read).host == "here.example"
