"""What a request carries to prove who is calling."""

from __future__ import annotations

from collections.abc import Iterable

from fastapi import Request

from forewarn.config import Config
from forewarn.errors import UnauthenticatedError
from forewarn.operate.access.credentials import Credentials
from forewarn.serve.rest.auth.cookies import session_cookie
from forewarn.serve.rest.auth.peer import EXTENSION

PROXY_SECRET = b"x-forewarn-proxy-secret"
_PROOFS = frozenset({b"authorization", b"x-slurm-user-token", b"x-slurm-user-name", PROXY_SECRET})


def credentials_of(request: Request, config: Config) -> Credentials:
    """Gather the proofs of a request; none of them is verified here."""
    scope = request.scope
    peer = (scope.get("extensions") or {}).get(EXTENSION)
    client = scope["client"][0] if scope.get("client") else None
    proxy_header = (config.access.proxy_header or "").lower().encode()
    found, has_cookie = _headers(scope["headers"], proxy_header)
    return Credentials(
        bearer=_bearer(found.get(b"authorization")),
        slurm_token=found.get(b"x-slurm-user-token"),
        slurm_user=found.get(b"x-slurm-user-name"),
        session=request.cookies.get(session_cookie(config.serve)) if has_cookie else None,
        proxy_user=found.get(proxy_header) if proxy_header else None,
        proxy_secret=found.get(PROXY_SECRET) if proxy_header else None,
        peer=peer["address"] if peer else client,
        uid=peer["uid"] if peer else None,
        client=client,
    )


def _headers(headers: Iterable[tuple[bytes, bytes]], proxy_header: bytes) -> tuple[dict[bytes, str], bool]:
    """Return the headers that prove something, and whether there is a cookie; one pass, for every request.

    A proof may come once: of two, a proxy and this service could believe different ones.
    """
    found: dict[bytes, str] = {}
    has_cookie = False
    for name, value in headers:
        if name in _PROOFS or (proxy_header and name == proxy_header):
            if name in found:
                raise UnauthenticatedError(f"the header {name.decode('latin-1')} was sent twice")
            found[name] = value.decode("latin-1").strip()
        elif name == b"cookie":
            has_cookie = True
    return {name: value for name, value in found.items() if value}, has_cookie


def _bearer(header: str | None) -> str | None:
    """Read the token of an Authorization header.

    >>> _bearer("Bearer abc"), _bearer("bearer  abc"), _bearer("Basic eA=="), _bearer(None)
    ('abc', 'abc', None, None)
    """
    scheme, _, token = (header or "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None
