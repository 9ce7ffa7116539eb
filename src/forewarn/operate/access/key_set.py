"""Public keys (JWKS) and the verification of tokens by them.

Only asymmetric algorithms: a token may not choose `none`, nor HS256 with a public key as the secret.
"""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import jwt

from forewarn.errors import MissingExtraError, UnauthenticatedError, UsageError
from forewarn.operate.access.refreshed import KeySourceError, Refreshed
from forewarn.sources.slurm.clock import Clock

_TYPES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP"}
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
LONGEST_TOKEN = 1 << 14  # characters
_MOST_BYTES, _MOST_KEYS = 1 << 20, 100
_MAX_AGE = 3600.0  # seconds until keys are read again
_SOONEST = 30.0  # seconds until they are read again because none of them has signed a token
TIMEOUT = httpx.Timeout(10.0, connect=5.0)
_LONGEST_ANSWER = 30.0  # seconds, however small the parts in which it comes


def trusted_client(ca_file: Path | None, setting: str) -> httpx.Client:
    """Return a client for a provider: no proxies of the environment, no redirects, short time limits.

    `setting` is the name of the setting of `ca_file`, for the message.
    """
    try:
        trusted = ssl.create_default_context(cafile=ca_file)
    except OSError as error:  # ssl.SSLError is one
        raise UsageError(
            f"access.{setting}: {ca_file}: holds no certificates that can be read: {error}"
        ) from None
    return httpx.Client(verify=trusted, timeout=TIMEOUT, trust_env=False, follow_redirects=False)


def fetch_json(client: httpx.Client, url: str) -> Any:
    """Read a small JSON document."""
    try:
        with client.stream("GET", url, headers={"Accept": "application/json"}) as response:
            body = bounded_body(response, url)
        if response.status_code != 200:
            raise KeySourceError(f"{url}: answers with HTTP status {response.status_code}")
        return json.loads(body)
    except httpx.HTTPError as error:
        raise KeySourceError(f"{url}: cannot be read: {type(error).__name__}") from None
    except (ValueError, RecursionError):
        raise KeySourceError(f"{url}: the answer is not JSON") from None


def bounded_body(response: httpx.Response, place: str) -> bytes:
    """Read the body of an answer; raise `KeySourceError` for a large one."""
    body, ends = bytearray(), time.monotonic() + _LONGEST_ANSWER
    for chunk in response.iter_bytes(1 << 16):
        body += chunk
        if len(body) > _MOST_BYTES:
            raise KeySourceError(f"{place}: the answer is larger than {_MOST_BYTES >> 20} MB")
        if time.monotonic() > ends:
            raise KeySourceError(f"{place}: the answer does not end")
    return bytes(body)


class KeySet:
    """The keys of a file or an address; read again when they are old, and when none has signed a token.

    An address needs a client.
    """

    def __init__(self, place: str, *, client: httpx.Client | None = None, clock: Clock | None = None) -> None:
        self._place = place
        self._client = client
        self._keys = Refreshed(self._read, place, clock=clock)

    def candidates(self, key_id: str | None, algorithm: str) -> Iterator[jwt.PyJWK]:
        """Yield the keys that may have signed a token with this key id and algorithm.

        Where none of those known did, the keys are read again, though not often: there may be a new one, also
        under an id that another one had.
        """
        known = self._keys.get(_MAX_AGE)
        yield from _matching(known, key_id, algorithm)
        newer = self._keys.get(_SOONEST, waits=True)
        yield from _matching([key for key in newer if key not in known], key_id, algorithm)

    def _read(self) -> tuple[Mapping[str, Any], ...]:
        document = self._document()
        keys = document.get("keys") if isinstance(document, dict) else None
        if not isinstance(keys, list) or not all(isinstance(key, dict) for key in keys):
            raise KeySourceError(f"{self._place}: holds no JSON Web Key Set")
        return tuple(keys[:_MOST_KEYS])

    def _document(self) -> Any:
        if "://" in self._place:
            assert self._client is not None
            return fetch_json(self._client, self._place)
        try:
            return json.loads(Path(self._place).read_bytes()[: _MOST_BYTES + 1])
        except OSError as error:
            raise KeySourceError(f"{self._place}: cannot be read: {error.strerror}") from None
        except (ValueError, RecursionError):
            raise KeySourceError(f"{self._place}: is not JSON") from None


def _matching(keys: Sequence[Mapping[str, Any]], key_id: str | None, algorithm: str) -> list[jwt.PyJWK]:
    found = []
    for key in keys:
        if (
            key.get("kty") == _TYPES[algorithm[:2]]
            and key.get("alg", algorithm) == algorithm
            and key.get("use", "sig") == "sig"
            and (key_id is None or key.get("kid") in (key_id, None))
        ):
            try:
                found.append(jwt.PyJWK(dict(key), algorithm))
            except jwt.exceptions.MissingCryptographyError:
                raise MissingExtraError('pip install "forewarn[serve]"') from None
            except jwt.PyJWTError:
                continue  # one bad key does not spoil the others
    return found


def verify_token(
    text: str,
    keys: KeySet,
    *,
    leeway: float,
    issuer: str | None = None,
    audience: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return the claims of a token that one of the keys signed; raise `UnauthenticatedError` otherwise."""
    if len(text) > LONGEST_TOKEN:
        raise UnauthenticatedError("the token is too long")
    try:
        header = jwt.get_unverified_header(text)
    except jwt.PyJWTError:
        raise UnauthenticatedError("this is not a JSON web token") from None
    algorithm, key_id = header.get("alg"), header.get("kid")
    if algorithm not in ALGORITHMS or not isinstance(key_id, str | None):
        raise UnauthenticatedError("the token's algorithm is not accepted")
    for key in keys.candidates(key_id, algorithm):
        try:
            return jwt.decode(
                text,
                key,
                algorithms=[key.algorithm_name],
                leeway=leeway,
                issuer=issuer,
                audience=audience,
                options={
                    "require": ["exp", *(["iss"] if issuer else []), *(["aud"] if audience else [])],
                    "verify_aud": audience is not None,
                    "verify_iss": issuer is not None,
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except jwt.InvalidSignatureError:
            continue
        except jwt.ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired") from None
        except (jwt.PyJWTError, TypeError, ValueError, OverflowError) as error:
            # Not PyJWT's words: they can quote what the token holds.
            raise UnauthenticatedError(f"the token is not accepted ({type(error).__name__})") from None
    raise UnauthenticatedError("the token was not signed by a known key")
