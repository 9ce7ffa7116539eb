"""The cookies of sessions and logins: HttpOnly, SameSite=Lax, Secure wherever browsers come by https."""

from __future__ import annotations

from starlette.responses import Response

from forewarn.config import ServeConfig

_SESSION, _LOGIN = "forewarn_session", "forewarn_login"


def is_secure(config: ServeConfig) -> bool:
    """Check whether browsers reach the service by https."""
    if config.url is not None:
        return config.url.startswith("https://")
    return config.tls_certificate is not None or config.behind_proxy


def session_cookie(config: ServeConfig) -> str:
    """Return the name of the session's cookie; by `__Host-` no other host of the domain can set it."""
    return f"__Host-{_SESSION}" if is_secure(config) else _SESSION


def login_cookie(config: ServeConfig) -> str:
    """Return the name of the cookie that a login needs until the browser is back."""
    return f"__Host-{_LOGIN}" if is_secure(config) else _LOGIN


def set_cookie(response: Response, config: ServeConfig, name: str, value: str, seconds: int) -> None:
    """Set a cookie for some seconds."""
    response.set_cookie(
        name, value, max_age=seconds, path="/", secure=is_secure(config), httponly=True, samesite="lax"
    )


def clear_cookie(response: Response, config: ServeConfig, name: str) -> None:
    """Delete a cookie."""
    response.delete_cookie(name, path="/", secure=is_secure(config), httponly=True, samesite="lax")
