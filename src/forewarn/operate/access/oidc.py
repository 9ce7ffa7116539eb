"""An OpenID Connect provider: its description and keys, bearer tokens, and the code flow of a login.

The code flow uses PKCE, a state and a nonce. What a login has to remember until the browser comes back is in
a signed cookie, so that logins that nobody finishes fill no memory.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx

from forewarn.config import Config, is_user_name
from forewarn.errors import UnauthenticatedError, UsageError
from forewarn.operate.access.credentials import Proof
from forewarn.operate.access.key_set import (
    KeySet,
    bounded_body,
    fetch_json,
    trusted_client,
    verify_token,
)
from forewarn.operate.access.refreshed import KeySourceError, Refreshed
from forewarn.sources.slurm.clock import Clock

METHOD = "oidc"
CALLBACK = "/auth/callback"
LOGIN_SECONDS = 600  # between the start of a login and the return of the browser
_DESCRIPTION = "/.well-known/openid-configuration"
_MAX_AGE = 3600.0  # seconds until the provider's description is read again
_MOST_GROUPS = 1000


@dataclass(frozen=True, slots=True)
class ProviderDescription:
    """The addresses of a provider, and its keys."""

    authorization: str
    token: str
    keys_address: str
    keys: KeySet


class OidcProvider:
    """The configured provider. Nothing is asked of it before the first login or token."""

    def __init__(self, config: Config, clock: Clock | None = None) -> None:
        access = config.access
        if access.oidc_issuer is None or access.oidc_client_id is None:
            raise UsageError("access.oidc_issuer needs access.oidc_client_id, and the other way round")
        self._access = access
        self._issuer = access.oidc_issuer
        self._client_id = access.oidc_client_id
        self._secret = _read_secret(access.oidc_client_secret_file)
        self._redirect = f"{config.serve.url}{CALLBACK}" if config.serve.url else None
        self._clock = clock or Clock()
        self._client = trusted_client(access.oidc_ca_file, "oidc_ca_file")
        self._signing_key = secrets.token_bytes(32)
        self._described = Refreshed(self._read_description, self._issuer, clock=clock)

    def is_issuer_of(self, claims: dict[str, Any]) -> bool:
        """Check whether unverified claims name this provider."""
        return claims.get("iss") == self._issuer

    def prove(self, text: str) -> Proof:
        """Verify a bearer token; raise `UnauthenticatedError` if it is not for this service."""
        audience = self._access.oidc_audience or self._client_id
        return self._proof(self._verified(text, audience))

    # --- login ---------------------------------------------------------------------------------------

    def begin_login(self, after: str) -> tuple[str, str]:
        """Return the address to send the browser to, and the cookie to keep until it is back at `after`."""
        if self._redirect is None:
            raise UsageError("logins need the address by which browsers reach the service: serve.url")
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        challenge = _base64(hashlib.sha256(verifier.encode()).digest())
        parameters = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._redirect,
            "scope": " ".join(self._access.oidc_scopes),
            "state": state,
            "nonce": nonce,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        until = int(self._clock.now()) + LOGIN_SECONDS
        cookie = self._sign({"s": state, "n": nonce, "v": verifier, "a": after, "u": until})
        address = self._described.get(_MAX_AGE).authorization
        return f"{address}{'&' if '?' in address else '?'}{urlencode(parameters)}", cookie

    def finish_login(self, code: str, state: str, cookie: str | None) -> tuple[Proof, str]:
        """Exchange the code that the browser brought for a proof; return it and where to go next."""
        begun = self._unsign(cookie or "")
        if begun is None or begun["u"] <= self._clock.now():
            raise UnauthenticatedError("this login was not begun here, or took too long: begin it again")
        if not hmac.compare_digest(str(begun["s"]).encode(), state.encode("utf-8", "replace")):
            raise UnauthenticatedError("the state of the login does not match: begin it again")
        claims = self._verified(self._exchange(code, str(begun["v"])), self._client_id)
        nonce = claims.get("nonce")
        if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), str(begun["n"]).encode()):
            raise UnauthenticatedError("the nonce of the login does not match: begin it again")
        return self._proof(claims), str(begun["a"])

    def _exchange(self, code: str, verifier: str) -> str:
        """Return the ID token for a code."""
        assert self._redirect is not None
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect,
            "client_id": self._client_id,
            "code_verifier": verifier,
        }
        # As RFC 6749 asks: both parts are form-encoded before they are joined.
        login = httpx.Auth()  # nothing, for a public client
        if self._secret:
            login = httpx.BasicAuth(_form_encoded(self._client_id), _form_encoded(self._secret))
        try:
            address = self._described.get(_MAX_AGE).token
            with self._client.stream("POST", address, data=form, auth=login) as response:
                answer = json.loads(bounded_body(response, self._issuer))
        except httpx.HTTPError as error:
            raise KeySourceError(f"{self._issuer}: does not answer: {type(error).__name__}") from None
        except (ValueError, RecursionError):
            raise KeySourceError(f"{self._issuer}: the answer is not JSON") from None
        if response.status_code != 200 or not isinstance(answer, dict):
            raise UnauthenticatedError("the provider does not accept the code of this login: begin it again")
        if not isinstance(answer.get("id_token"), str):
            raise UnauthenticatedError("the provider gave no ID token: is openid among access.oidc_scopes?")
        return str(answer["id_token"])

    # --- the provider ----------------------------------------------------------------------------------

    def _verified(self, text: str, audience: str) -> dict[str, Any]:
        claims = verify_token(
            text,
            self._described.get(_MAX_AGE).keys,
            leeway=self._access.clock_skew,
            issuer=self._issuer,
            audience=[audience],
        )
        # A token for several parties names the one that asked for it.
        of_another = claims.get("azp", self._client_id) != self._client_id
        if of_another and isinstance(claims.get("aud"), list) and self._access.oidc_audience is None:
            raise UnauthenticatedError("the token was issued to another client")
        return claims

    def _read_description(self) -> ProviderDescription:
        found = fetch_json(self._client, self._issuer.rstrip("/") + _DESCRIPTION)
        if not isinstance(found, dict) or found.get("issuer") != self._issuer:
            raise KeySourceError(f"{self._issuer}: its description names another issuer (access.oidc_issuer)")
        names = ("authorization_endpoint", "token_endpoint", "jwks_uri")
        scheme = urlsplit(self._issuer).scheme
        for name in names:
            # A provider that is reached by https has no address without it.
            if not isinstance(found.get(name), str) or urlsplit(found[name]).scheme not in ("https", scheme):
                raise KeySourceError(f"{self._issuer}: its description has no usable {name}")
        authorization, token, address = (found[name] for name in names)
        former = self._described.former
        if former is not None and former.keys_address == address:
            keys = former.keys
        else:
            keys = KeySet(address, client=self._client, clock=self._clock)
        return ProviderDescription(authorization, token, address, keys)

    def _proof(self, claims: dict[str, Any]) -> Proof:
        user = user_of(claims, self._access.oidc_user_claim, self._access.oidc_user_suffix)
        listed = claims.get(self._access.oidc_groups_claim)
        groups = [listed] if isinstance(listed, str) else listed if isinstance(listed, list) else []
        return Proof(
            user=user,
            method=METHOD,
            expires=float(claims["exp"]),
            groups=frozenset(one for one in groups[:_MOST_GROUPS] if isinstance(one, str)),
        )

    # --- the cookie of a login -------------------------------------------------------------------------

    def _sign(self, content: dict[str, Any]) -> str:
        body = _base64(json.dumps(content).encode())
        return f"{body}.{self._signature(body)}"

    def _unsign(self, cookie: str) -> dict[str, Any] | None:
        body, _, signature = cookie.partition(".")
        if not hmac.compare_digest(signature.encode("utf-8", "replace"), self._signature(body).encode()):
            return None
        content: dict[str, Any] = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
        return content

    def _signature(self, body: str) -> str:
        return hmac.new(self._signing_key, body.encode("utf-8", "replace"), hashlib.sha256).hexdigest()

    def close(self) -> None:
        """Close connections."""
        self._client.close()


def user_of(claims: dict[str, Any], claim: str, suffix: str | None) -> str:
    """Return the user name in the claims of a token.

    >>> user_of({"email": "ann@example.org", "email_verified": True}, "email", "@example.org")
    'ann'
    """
    name = claims.get(claim)
    if not isinstance(name, str):
        raise UnauthenticatedError(f"the token has no user name ({claim}): see access.oidc_user_claim")
    if claim == "email" and claims.get("email_verified") is not True:
        raise UnauthenticatedError("the mail address in the token is not verified")
    if suffix is not None:
        if not name.endswith(suffix) or name == suffix:
            raise UnauthenticatedError("the user name in the token is of another organisation")
        name = name.removesuffix(suffix)
    if not is_user_name(name) or ":" in name:  # `token:NAME` is the user of a service token
        raise UnauthenticatedError("the user name in the token is not a user name of Slurm")
    return name


def _read_secret(path: Path | None) -> str | None:
    if path is None:
        return None
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"access.oidc_client_secret_file: {path}: cannot be read: {error}") from None
    if not secret:
        raise UsageError(f"access.oidc_client_secret_file: {path}: is empty")
    return secret


def _form_encoded(text: str) -> str:
    return urlencode({"": text})[1:]


def _base64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()
