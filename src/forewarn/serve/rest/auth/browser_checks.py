"""Protection of callers whose browser sends the proof by itself: against pages of other sites.

A cookie, a proxy's login and the trust in this machine are sent along with any request that some foreign page
lets the browser make; a token in a header is not. So requests of the former that change something must come
from the service's own pages, and with a session they must carry a token that only such a page can read.
"""

from __future__ import annotations

import hmac
import ipaddress
from functools import lru_cache
from urllib.parse import urlsplit

from fastapi import Request

from forewarn.config import ServeConfig
from forewarn.errors import CrossSiteError
from forewarn.operate.access.identity import Identity
from forewarn.operate.access.sessions import csrf_token

CSRF_HEADER = "x-csrf-token"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_SENT_BY_BROWSERS = frozenset({"session", "proxy", "none"})


def check_browser(request: Request, config: ServeConfig, identity: Identity, session: str | None) -> None:
    """Raise `CrossSiteError` for a request that a page of another site may have caused."""
    if identity.method not in _SENT_BY_BROWSERS:
        return
    if identity.method == "none":
        check_host(request, config)
    if request.method in SAFE:
        return
    check_origin(request, config)
    if identity.method == "session":
        sent = request.headers.get(CSRF_HEADER, "").encode("utf-8", "replace")
        if session is None or not hmac.compare_digest(sent, csrf_token(session).encode()):
            raise CrossSiteError(
                "a change in a session needs the header X-CSRF-Token, with the value that GET /auth/session "
                "shows"
            )


def check_origin(request: Request, config: ServeConfig) -> None:
    """Refuse a request that the browser says comes from another site; programs say nothing about it."""
    site = header_of(request, b"sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise CrossSiteError("this request comes from a page of another site")
    origin = header_of(request, b"origin")
    if origin is not None and origin not in _own_origins(request, config):
        raise CrossSiteError("this request comes from a page of another site")


def check_host(request: Request, config: ServeConfig) -> None:
    """Refuse a request for another host: a foreign name that leads here (DNS rebinding)."""
    if request.scope.get("client") and not _is_here(header_of(request, b"host") or "", config.url):
        raise CrossSiteError("without authentication the service is served as localhost only")


def header_of(request: Request, name: bytes) -> str | None:
    """Return a header; Starlette's own search takes ten times as long where there is none."""
    for other, value in request.scope["headers"]:
        if other == name:
            return str(value, "latin-1")
    return None


def _own_origins(request: Request, config: ServeConfig) -> set[str]:
    own = {f"{request.url.scheme}://{request.headers.get('host', '')}"}
    if config.url is not None:
        parts = urlsplit(config.url)
        own.add(f"{parts.scheme}://{parts.netloc}")
    return own


@lru_cache(maxsize=100)
def _is_here(host_header: str, own_url: str | None) -> bool:
    """Check whether a Host header names this machine from itself, or the configured address."""
    try:
        host = urlsplit(f"//{host_header}").hostname
        if not host or host == "localhost" or (own_url and host == urlsplit(own_url).hostname):
            return True
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
