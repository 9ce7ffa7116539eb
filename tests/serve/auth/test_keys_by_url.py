"""Keys from a real server, by HTTPS too: what is trusted, rotation, and a server that is slow."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from forewarn.config import AccessConfig, Config
from forewarn.errors import UnauthenticatedError, UsageError
from forewarn.operate.access.oidc import OidcProvider
from forewarn.operate.access.refreshed import MOST_WAITING, KeySourceError
from forewarn.operate.access.slurm_tokens import SlurmTokens
from forewarn.sources.slurm.clock import Clock
from tests.operate.notices.servers import certificate
from tests.serve.auth.document_server import DocumentServer, serving_documents

LATER = 4102444800
JWKS = "/jwks.json"


@pytest.fixture(scope="module")
def private_keys() -> dict[str, rsa.RSAPrivateKey]:
    return {name: rsa.generate_private_key(public_exponent=65537, key_size=2048) for name in ("old", "new")}


def _public(keys: dict[str, rsa.RSAPrivateKey], *names: str) -> dict[str, Any]:
    return {
        "keys": [RSAAlgorithm.to_jwk(keys[name].public_key(), as_dict=True) | {"kid": name} for name in names]
    }


def _token(keys: dict[str, rsa.RSAPrivateKey], name: str, **claims: Any) -> str:
    content = {"sun": "alice", "exp": LATER} | claims
    return jwt.encode(content, keys[name], "RS256", headers={"kid": name})


def test_keys_rotate(private_keys: dict[str, rsa.RSAPrivateKey]) -> None:
    """A new key counts soon after it is published, and an old one no longer once it is withdrawn."""
    at = [0.0]
    with serving_documents() as server:
        server.documents[JWKS] = _public(private_keys, "old")
        access = AccessConfig(slurm_tokens="jwks", slurm_jwks=server.url + JWKS)
        tokens = SlurmTokens(Config(access=access), Clock(monotonic=lambda: at[0]))
        old, new = _token(private_keys, "old"), _token(private_keys, "new")
        assert tokens.prove(old).user == "alice"
        for _ in range(5):
            with pytest.raises(UnauthenticatedError, match="not signed by a known key"):
                tokens.prove(new)
        assert server.asked[JWKS] == 1  # unknown keys do not ask at every token
        server.documents[JWKS] = _public(private_keys, "old", "new")
        at[0] = 31
        assert (tokens.prove(new).user, tokens.prove(old).user, server.asked[JWKS]) == ("alice", "alice", 2)
        server.documents[JWKS] = _public(private_keys, "new")
        at[0] = 4000
        assert tokens.prove(new).user == "alice"
        with pytest.raises(UnauthenticatedError):
            tokens.prove(old)
        tokens.close()


def test_a_key_replaced_under_its_id(private_keys: dict[str, rsa.RSAPrivateKey]) -> None:
    """It counts half a minute later at most; forged tokens ask the server no more often than that."""
    at = [0.0]
    with serving_documents() as server:
        server.documents[JWKS] = _public(private_keys, "old")
        access = AccessConfig(slurm_tokens="jwks", slurm_jwks=server.url + JWKS)
        tokens = SlurmTokens(Config(access=access), Clock(monotonic=lambda: at[0]))
        assert tokens.prove(_token(private_keys, "old")).user == "alice"
        replaced = {"old": private_keys["new"]}
        server.documents[JWKS] = _public(replaced, "old")
        for _ in range(20):
            with pytest.raises(UnauthenticatedError, match="not signed by a known key"):
                tokens.prove(_token(replaced, "old"))
        assert server.asked[JWKS] == 1  # the keys were read a moment ago
        at[0] = 31
        assert tokens.prove(_token(replaced, "old")).user == "alice"
        for at[0] in range(32, 92):
            for _ in range(5):
                with pytest.raises(UnauthenticatedError, match="not signed by a known key"):
                    tokens.prove(_token(private_keys, "old"))  # no longer, or forged
            assert tokens.prove(_token(replaced, "old")).user == "alice"
        assert server.asked[JWKS] == 3
        tokens.close()


def test_forged_tokens_do_not_take_all_threads_while_the_server_is_slow(
    private_keys: dict[str, rsa.RSAPrivateKey],
) -> None:
    at = [0.0]
    with serving_documents() as server, ThreadPoolExecutor(30) as pool:
        server.documents[JWKS] = _public(private_keys, "old")
        access = AccessConfig(slurm_tokens="jwks", slurm_jwks=server.url + JWKS)
        tokens = SlurmTokens(Config(access=access), Clock(monotonic=lambda: at[0]))
        assert tokens.prove(_token(private_keys, "old")).user == "alice"
        server.answers.clear()
        at[0] = 60
        forged = _token({"old": private_keys["new"]}, "old")
        begun = time.monotonic()
        guesses = [pool.submit(tokens.prove, forged) for _ in range(30)]
        _wait_for(lambda: sum(guess.done() for guess in guesses) >= 30 - MOST_WAITING - 1)
        assert time.monotonic() - begun < 3  # the others wait for 5 s
        assert tokens.prove(_token(private_keys, "old")).user == "alice"
        server.answers.set()
        assert all(isinstance(guess.exception(), UnauthenticatedError) for guess in guesses)
        assert server.asked[JWKS] == 2
        tokens.close()


def test_keys_by_https(private_keys: dict[str, rsa.RSAPrivateKey], tmp_path: Path) -> None:
    """A private CA is one of a setting; the system's do not know it, and another name is not its own."""
    ca_file, tls = certificate(tmp_path)
    with serving_documents(tls) as server:
        server.documents[JWKS] = _public(private_keys, "old")
        by_name = server.url.replace("127.0.0.1", "localhost")
        for place, file, is_trusted in (
            (server.url, ca_file, True),
            (server.url, None, False),
            (by_name, ca_file, False),
        ):
            access = AccessConfig(slurm_tokens="jwks", slurm_jwks=place + JWKS, slurm_jwks_ca_file=file)
            tokens = SlurmTokens(Config(access=access))
            if is_trusted:
                assert tokens.prove(_token(private_keys, "old")).user == "alice"
            else:
                with pytest.raises(KeySourceError, match="cannot be read: ConnectError"):
                    tokens.prove(_token(private_keys, "old"))
            tokens.close()


@pytest.mark.parametrize("content", [None, "", "no certificate"])
def test_a_ca_file_without_certificates(content: str | None, tmp_path: Path) -> None:
    file = tmp_path / "ca.pem"
    if content is not None:
        file.write_text(content)
    by_keys = AccessConfig(
        slurm_tokens="jwks", slurm_jwks="https://keys.example.org", slurm_jwks_ca_file=file
    )
    by_provider = AccessConfig(
        oidc_issuer="https://keys.example.org", oidc_client_id="forewarn", oidc_ca_file=file
    )
    with pytest.raises(UsageError, match=r"access\.slurm_jwks_ca_file: .*ca\.pem: holds no certificates"):
        SlurmTokens(Config(access=by_keys))
    with pytest.raises(UsageError, match=r"access\.oidc_ca_file: .*ca\.pem: holds no certificates"):
        OidcProvider(Config(access=by_provider))


def test_a_provider_with_a_private_ca(private_keys: dict[str, rsa.RSAPrivateKey], tmp_path: Path) -> None:
    ca_file, tls = certificate(tmp_path)
    with serving_documents(tls) as server:
        server.documents[JWKS] = _public(private_keys, "old")
        token = _token(private_keys, "old", iss=server.url, aud="forewarn", sub="alice")
        trusting = _provider(server, [0.0], oidc_ca_file=ca_file)
        assert trusting.prove(token).user == "alice"
        trusting.close()
        other = _provider(server, [0.0])
        with pytest.raises(KeySourceError, match="cannot be read: ConnectError"):
            other.prove(token)
        other.close()


def _provider(server: DocumentServer, at: list[float], **settings: Any) -> OidcProvider:
    names = ("authorization_endpoint", "token_endpoint")
    server.documents["/.well-known/openid-configuration"] = {
        "issuer": server.url,
        "jwks_uri": server.url + JWKS,
        **{name: f"{server.url}/{name}" for name in names},
    }
    access = AccessConfig(
        oidc_issuer=server.url, oidc_client_id="forewarn", oidc_user_claim="sub", **settings
    )
    return OidcProvider(Config(access=access), Clock(monotonic=lambda: at[0]))


def _wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.01)


def test_a_slow_provider_holds_up_nobody_whose_key_is_known(
    private_keys: dict[str, rsa.RSAPrivateKey],
) -> None:
    at = [0.0]
    with serving_documents() as server:
        server.documents[JWKS] = _public(private_keys, "old")
        provider = _provider(server, at)
        token = _token(private_keys, "old", iss=server.url, aud="forewarn", sub="alice")
        assert provider.prove(token).user == "alice"
        server.answers.clear()
        at[0] = 4000  # description and keys are old
        with ThreadPoolExecutor(2) as pool:
            # One thread reads the description, a second one the keys; the others go on with those known.
            readers = []
            for number in (3, 4):
                readers.append(pool.submit(provider.prove, token))
                _wait_for(lambda number=number: server.asked.total() == number)  # type: ignore[misc]
            begun = time.monotonic()
            assert [provider.prove(token).user for _ in range(20)] == ["alice"] * 20
            assert time.monotonic() - begun < 2
            assert not any(reader.done() for reader in readers)
            server.answers.set()
            assert [reader.result().user for reader in readers] == ["alice"] * 2
        provider.close()
