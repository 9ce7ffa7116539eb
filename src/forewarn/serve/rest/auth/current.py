"""The caller of a request, as a dependency of routes."""

from __future__ import annotations

from typing import Any, cast

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from forewarn.config import Config
from forewarn.errors import ForewarnError
from forewarn.operate.access.access import Access
from forewarn.operate.access.identity import Identity, Role
from forewarn.serve.rest.auth.browser_checks import check_browser
from forewarn.serve.rest.auth.carried import credentials_of
from forewarn.serve.rest.work import MOST_OF_SITE, MOST_OF_USER, Caller, current_caller

# For the OpenAPI document: `components.securitySchemes`, and `security` of routes with `current_identity`.
SECURITY_SCHEMES: dict[str, Any] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A token of Slurm, of `forewarn tokens create`, or of the site's OIDC provider.",
    },
    "slurm": {
        "type": "apiKey",
        "in": "header",
        "name": "X-SLURM-USER-TOKEN",
        "description": "A token of Slurm, as slurmrestd takes it; it also acts, beside another proof.",
    },
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": "forewarn_session",
        "description": "A browser's session; changes need the header X-CSRF-Token (GET /auth/session).",
    },
}
_LIMITED = frozenset({Role.USER, Role.COORDINATOR})  # the site's own programs have other roles
SECURITY: list[dict[str, list[str]]] = [{name: []} for name in SECURITY_SCHEMES]


def access_of(request: Request) -> Access:
    """Return who decides about access."""
    return cast("Access", request.app.state.service.access)


def config_of(request: Request) -> Config:
    """Return the configuration of the service."""
    return cast("Config", request.app.state.service.config)


def origin_of(request: Request) -> str:
    """Return where a request comes from, for the audit log."""
    return credentials_of(request, config_of(request)).origin


async def is_known(request: Request) -> bool:
    """Check whether the caller is one who is served; for routes that answer others too, with less."""
    try:
        await current_identity(request)
    except ForewarnError:
        return False
    return True


async def current_identity(request: Request) -> Identity:
    """Return who is calling; raise an `AccessError` for a caller that is not served."""
    access, config = access_of(request), config_of(request)
    credentials = credentials_of(request, config)
    identity = access.cached(credentials)
    if identity is None:
        identity = await run_in_threadpool(access.authenticate, credentials)
    check_browser(request, config.serve, identity, credentials.session)
    current_caller.set(Caller(identity.user, MOST_OF_SITE if identity.sees_all else MOST_OF_USER))
    if identity.role in _LIMITED:
        access.limiter.check(identity.user)
    return identity
