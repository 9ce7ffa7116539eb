"""Slurm's tokens by public keys and by the HS256 key: what is accepted, and everything that is not."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given, settings
from hypothesis import strategies as st
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from forewarn.config import AccessConfig, Config
from forewarn.errors import UnauthenticatedError, UsageError
from forewarn.operate.access.key_set import ALGORITHMS, KeySet, verify_token
from forewarn.operate.access.refreshed import KeySourceError
from forewarn.operate.access.slurm_tokens import SlurmTokens, read_key
from forewarn.sources.slurm.clock import Clock

SECRET = bytes(range(64))
LATER = 4102444800


def public(key: rsa.RSAPrivateKey, **more: str) -> dict[str, Any]:
    return RSAAlgorithm.to_jwk(key.public_key(), as_dict=True) | more


def by_keys(folder: Path, *keys: dict[str, Any], **settings: Any) -> SlurmTokens:
    place = folder / "jwks.json"
    place.write_text(json.dumps({"keys": keys}))
    return SlurmTokens(Config(access=AccessConfig(slurm_tokens="jwks", slurm_jwks=str(place), **settings)))


def by_secret(folder: Path, secret: bytes = SECRET, mode: int = 0o600) -> SlurmTokens:
    place = folder / "jwt_hs256.key"
    place.write_bytes(secret)
    place.chmod(mode)
    return SlurmTokens(Config(access=AccessConfig(slurm_tokens="key", slurm_key_file=place)))


def claims(**more: Any) -> dict[str, Any]:
    return {"sun": "alice", "iat": 1000, "exp": LATER} | more


def test_a_token_of_a_known_key(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    tokens = by_keys(tmp_path, public(rsa_key, kid="one", use="sig"))
    for headers in ({"kid": "one"}, {}):
        proof = tokens.prove(jwt.encode(claims(), rsa_key, "RS256", headers=headers))
        assert (proof.user, proof.method, proof.expires) == ("alice", "slurm", LATER)
    assert by_secret(tmp_path).prove(jwt.encode(claims(), SECRET)).user == "alice"


def test_the_claim_of_the_user_can_be_another(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    tokens = by_keys(tmp_path, public(rsa_key), slurm_user_claim="preferred_username")
    assert tokens.prove(jwt.encode(claims(preferred_username="ann"), rsa_key, "RS256")).user == "ann"
    with pytest.raises(UnauthenticatedError, match="names no user"):
        tokens.prove(jwt.encode(claims(), rsa_key, "RS256"))


def signed_with(header: dict[str, Any], body: dict[str, Any], secret: bytes) -> str:
    """Sign as any program could, without a library that objects."""
    parts = [
        base64.urlsafe_b64encode(json.dumps(one).encode()).rstrip(b"=").decode() for one in (header, body)
    ]
    text = ".".join(parts)
    signature = hmac.new(secret, text.encode(), hashlib.sha256).digest()
    return f"{text}.{base64.urlsafe_b64encode(signature).rstrip(b'=').decode()}"


def test_forged_tokens_are_refused(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    from cryptography.hazmat.primitives import serialization

    other = rsa.generate_private_key(65537, 2048)
    curve = ec.generate_private_key(ec.SECP256R1())
    pem = rsa_key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    forged = {
        "another key": jwt.encode(claims(), other, "RS256", headers={"kid": "one"}),
        "a key in the header": jwt.encode(claims(), other, "RS256", headers={"jwk": public(other)}),
        "none": jwt.encode(claims(), "", "none"),
        "None": signed_with({"alg": "None"}, claims(), b""),
        "HS256 with the public key": signed_with({"alg": "HS256", "kid": "one"}, claims(), pem),
        "HS256 with an empty key": signed_with({"alg": "HS256"}, claims(), b""),
        "HS256 with another key": jwt.encode(claims(), b"x" * 32),
        "another type of key": jwt.encode(claims(), curve, "ES256", headers={"kid": "one"}),
        "no algorithm": signed_with({}, claims(), SECRET),
        "a number as key id": signed_with({"alg": "RS256", "kid": 1}, claims(), SECRET),
        "expired": jwt.encode(claims(exp=int(time.time()) - 60), rsa_key, "RS256"),
        "no end": jwt.encode({"sun": "alice"}, rsa_key, "RS256"),
        "not yet": jwt.encode(claims(nbf=LATER - 1), rsa_key, "RS256"),
        "no user": jwt.encode({"exp": LATER}, rsa_key, "RS256"),
        "a user that is none": jwt.encode(claims(sun="a b\r\nX: y"), rsa_key, "RS256"),
        "a list as user": jwt.encode(claims(sun=["root"]), rsa_key, "RS256"),
        "words as end": signed_with({"alg": "HS256"}, claims(exp="never"), SECRET),
        "endless": signed_with({"alg": "HS256"}, claims(exp=1e400), SECRET),
        "too long": jwt.encode(claims(more="x" * 20000), rsa_key, "RS256"),
        "garbage": "a.b.c",
        "empty": "",
    }
    for tokens in (by_keys(tmp_path, public(rsa_key, kid="one")), by_secret(tmp_path)):
        for name, token in forged.items():
            with pytest.raises(UnauthenticatedError) as refused:
                tokens.prove(token)
            assert token == "" or token not in str(refused.value), name
    # Each way refuses what the other accepts.
    with pytest.raises(UnauthenticatedError):
        by_secret(tmp_path).prove(jwt.encode(claims(), rsa_key, "RS256"))
    with pytest.raises(UnauthenticatedError):
        by_keys(tmp_path, public(rsa_key)).prove(jwt.encode(claims(), SECRET))


def test_a_token_without_an_end_an_issuer_or_an_audience(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    """As for a provider's tokens, which name all three."""
    place = tmp_path / "jwks.json"
    place.write_text(json.dumps({"keys": [public(rsa_key)]}))
    whole = claims(iss="https://login.example.org", aud=["forewarn", "other"])

    def verify(body: dict[str, Any]) -> dict[str, Any]:
        keys, issuer = KeySet(str(place)), "https://login.example.org"
        text = jwt.encode(body, rsa_key, "RS256")
        return verify_token(text, keys, leeway=0, issuer=issuer, audience=["forewarn"])

    assert verify(whole) == whole
    for name in ("exp", "iss", "aud"):
        with pytest.raises(UnauthenticatedError, match="not accepted"):
            verify({key: value for key, value in whole.items() if key != name})
    others: list[dict[str, Any]] = [{"iss": "https://login.example.org/"}, {"aud": "forewarn2"}, {"aud": []}]
    for wrong in others:
        with pytest.raises(UnauthenticatedError, match="not accepted"):
            verify(whole | wrong)


def test_a_secret_among_public_keys_signs_nothing(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    symmetric = {"kty": "oct", "kid": "one", "k": base64.urlsafe_b64encode(SECRET).decode(), "alg": "HS256"}
    with pytest.raises(UnauthenticatedError):
        by_keys(tmp_path, symmetric).prove(jwt.encode(claims(), SECRET, headers={"kid": "one"}))
    for bad in ({"use": "enc"}, {"alg": "RS512"}, {"kty": "EC"}, {"n": "!"}):
        with pytest.raises(UnauthenticatedError):
            by_keys(tmp_path, public(rsa_key) | bad).prove(jwt.encode(claims(), rsa_key, "RS256"))
    assert not any(one.startswith("HS") or one == "none" for one in ALGORITHMS)


def test_elliptic_curves(tmp_path: Path) -> None:
    curve = ec.generate_private_key(ec.SECP256R1())
    key = ECAlgorithm.to_jwk(curve.public_key(), as_dict=True)
    assert by_keys(tmp_path, key).prove(jwt.encode(claims(), curve, "ES256")).user == "alice"


def test_keys_are_read_again(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    at = [0.0]
    place = tmp_path / "jwks.json"
    keys = KeySet(str(place), clock=Clock(monotonic=lambda: at[0]))
    with pytest.raises(KeySourceError, match="cannot be read"):
        list(keys.candidates(None, "RS256"))
    place.write_text('{"keys": []}')
    at[0] = 6  # a moment after the error
    assert list(keys.candidates("one", "RS256")) == []
    place.write_text(json.dumps({"keys": [public(rsa_key, kid="one")]}))
    assert list(keys.candidates("one", "RS256")) == []  # not at every token with an unknown key
    at[0] = 37
    assert len(list(keys.candidates("one", "RS256"))) == 1
    place.write_text("broken")
    at[0] = 8000
    assert len(list(keys.candidates("one", "RS256"))) == 1  # those read before still count
    for text in ("[]", '{"keys": 1}', '{"keys": [1]}', "\x00", "[" * 100000):
        place.write_text(text)
        with pytest.raises(KeySourceError, match=r"jwks\.json"):
            list(KeySet(str(place)).candidates(None, "RS256"))


@pytest.mark.parametrize(
    ("secret", "mode", "message"),
    [
        (b"", 0o600, "empty"),
        (b"\n" * 64, 0o600, "empty"),
        (b"short", 0o600, "too short"),
        (b"\0" * 64, 0o600, "no key"),
        (SECRET, 0o644, "others can read"),
        (SECRET, 0o660, "others can read or change"),
    ],
)
def test_keys_that_are_none_are_refused(secret: bytes, mode: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        by_secret(tmp_path, secret, mode)


def test_a_random_key_may_begin_and_end_with_blanks(tmp_path: Path) -> None:
    secret = b" \t" + bytes(range(100, 128)) + b"\r\n"
    assert by_secret(tmp_path, secret).prove(jwt.encode(claims(), secret)).user == "alice"


def test_incomplete_settings_are_refused(tmp_path: Path) -> None:
    for way, message in (("jwks", "slurm_jwks"), ("key", "slurm_key_file"), ("slurmrestd", "slurmrestd")):
        with pytest.raises(UsageError, match=message):
            SlurmTokens(Config(access=AccessConfig(slurm_tokens=way)))
    with pytest.raises(UsageError, match="cannot be read"):
        read_key(tmp_path / "nowhere")


text = st.text(max_size=40)
value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    header=st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64"]), value),
    body=st.dictionaries(st.sampled_from(["sun", "exp", "nbf", "iat", "iss", "aud", "sub", "jti"]), value),
    tail=text,
)
def test_no_text_passes_or_crashes(
    header: dict[str, Any], body: dict[str, Any], tail: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A token that is accepted is HS256, signed with the key, and has a user and an end in the future."""
    tokens = by_secret(tmp_path_factory.getbasetemp())
    for candidate in (
        signed_with(header, body, SECRET),
        signed_with(header, body, b"") + tail,
        tail,
        f"{tail}.{tail}.{tail}",
    ):
        try:
            proof = tokens.prove(candidate)
        except UnauthenticatedError:
            continue
        assert header.get("alg") == "HS256"
        assert proof.user == body["sun"]
        assert body["exp"] > time.time() - 31
