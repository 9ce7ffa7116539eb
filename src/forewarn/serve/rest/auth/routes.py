"""`/auth`: logins, sessions and who one is."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Body, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import RedirectResponse, Response

from forewarn.errors import UnauthenticatedError, UsageError
from forewarn.operate.access.identity import Identity
from forewarn.operate.access.oidc import LOGIN_SECONDS, OidcProvider
from forewarn.operate.access.sessions import csrf_token
from forewarn.serve.rest.auth.browser_checks import check_host, check_origin
from forewarn.serve.rest.auth.carried import credentials_of
from forewarn.serve.rest.auth.cookies import clear_cookie, login_cookie, session_cookie, set_cookie
from forewarn.serve.rest.auth.current import access_of, config_of, current_identity
from forewarn.serve.rest.auth.safe_return import safe_return
from forewarn.serve.rest.bounded_route import BoundedRoute
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.examples import TOKEN
from forewarn.serve.rest.json_body import json_response

router = APIRouter(route_class=BoundedRoute, prefix="/auth", tags=["access"])
CurrentIdentity = Annotated[Identity, Depends(current_identity)]
FormText = Annotated[str | None, Query(max_length=4096)]
_SESSION = named("Session")


def _without_body(status: int, description: str) -> dict[int | str, dict[str, Any]]:
    """Return the `responses` of a route that answers without a body."""
    problems = {code: one for code, one in answers({}).items() if code != 200}
    return {status: {"description": description}, **problems}


class TokenLogin(BaseModel):
    """A pasted token."""

    model_config = ConfigDict(extra="forbid", strict=True)

    token: Annotated[
        str,
        Field(min_length=1, max_length=16384, description="Slurm's, the provider's, or a service token."),
    ]


@router.get("/session", summary="Who am I", responses=answers(_SESSION))
async def session(request: Request, identity: CurrentIdentity) -> Response:
    """Return the caller's user name, role and accounts; in a session also the token that changes need."""
    credentials = credentials_of(request, config_of(request))
    return json_response(_info(request, identity, credentials.session))


@router.post(
    "/session",
    summary="Log in with a token, or add a Slurm token",
    responses=answers(_SESSION, problems=(413,)),
)
async def login_with_token(
    request: Request, login: Annotated[TokenLogin, Body(openapi_examples={"a token": {"value": TOKEN}})]
) -> Response:
    """Begin a session by a pasted token.

    In a session, a Slurm token of the same user is added to it: then the session can act on Slurm. It is kept
    in memory only, until it expires.
    """
    access, config = access_of(request), config_of(request)
    check_origin(request, config.serve)  # a foreign page must not log its victim in as somebody else
    if not access.methods:
        check_host(request, config.serve)
    credentials = credentials_of(request, config)
    if credentials.session and access.methods:
        try:
            current = await run_in_threadpool(access.authenticate, credentials)
        except UnauthenticatedError:
            current = None  # the session has ended: begin a new one
        if current is not None and current.method == "session" and not login.token.startswith("fwt_"):
            await current_identity(request)  # the token against foreign pages, and the limit
            add = partial(access.add_slurm_token, origin=credentials.origin)
            await run_in_threadpool(add, credentials.session, login.token, current)
            renewed = await run_in_threadpool(access.authenticate, credentials)
            return json_response(_info(request, renewed, credentials.session))
    begun, identity = await run_in_threadpool(
        lambda: access.login_with_token(login.token, origin=credentials.origin)
    )
    if credentials.session:  # a new login ends the old session
        await run_in_threadpool(access.replace_session, credentials.session)
    response = json_response(_info(request, identity, begun.id))
    set_cookie(response, config.serve, session_cookie(config.serve), begun.id, config.access.session_length)
    return response


@router.post("/logout", summary="Log out", status_code=204, responses=_without_body(204, "Logged out."))
async def logout(request: Request, identity: CurrentIdentity) -> Response:
    """End the session at once, and forget its Slurm token."""
    access, config = access_of(request), config_of(request)
    credentials = credentials_of(request, config)
    if credentials.session:
        await run_in_threadpool(
            lambda: access.end_session(credentials.session or "", identity, origin=credentials.origin)
        )
    response = Response(status_code=204)
    clear_cookie(response, config.serve, session_cookie(config.serve))
    return response


@router.get(
    "/login",
    summary="Log in at the site's provider",
    status_code=303,
    responses=_without_body(303, "To the provider."),
)
async def login(
    request: Request,
    next: Annotated[str | None, Query(max_length=2048, description="Path to go to after the login.")] = None,
) -> Response:
    """Send the browser to the OpenID Connect provider."""
    config = config_of(request)
    address, cookie = await run_in_threadpool(_provider(request).begin_login, safe_return(next))
    response = RedirectResponse(address, status_code=303)
    set_cookie(response, config.serve, login_cookie(config.serve), cookie, LOGIN_SECONDS)
    return response


@router.get(
    "/callback",
    summary="Return from the provider",
    status_code=303,
    responses=_without_body(303, "Logged in."),
)
async def callback(
    request: Request,
    code: FormText = None,
    state: FormText = None,
    error: FormText = None,
    error_description: FormText = None,  # noqa: ARG001 - providers send these too
    error_uri: FormText = None,  # noqa: ARG001
    iss: FormText = None,  # noqa: ARG001 - the issuer is checked in the ID token
    session_state: FormText = None,  # noqa: ARG001
    scope: FormText = None,  # noqa: ARG001
    client_info: FormText = None,  # noqa: ARG001
    authuser: FormText = None,  # noqa: ARG001
    prompt: FormText = None,  # noqa: ARG001
    hd: FormText = None,  # noqa: ARG001
) -> Response:
    """Finish a login: exchange the code, begin a session."""
    access, config, provider = access_of(request), config_of(request), _provider(request)
    if error is not None:
        raise UnauthenticatedError("the provider refused the login: begin it again at /auth/login")
    if not code or not state:
        raise UnauthenticatedError("the login has no code and state: begin it again at /auth/login")
    credentials = credentials_of(request, config)
    begun_by = request.cookies.get(login_cookie(config.serve))
    proof, after = await run_in_threadpool(provider.finish_login, code, state, begun_by)
    if credentials.session:  # a new login ends the old session
        await run_in_threadpool(access.replace_session, credentials.session)
    begun, _ = await run_in_threadpool(lambda: access.begin_session(proof, origin=credentials.origin))
    response = RedirectResponse(safe_return(after), status_code=303)
    set_cookie(response, config.serve, session_cookie(config.serve), begun.id, config.access.session_length)
    clear_cookie(response, config.serve, login_cookie(config.serve))
    return response


def _provider(request: Request) -> OidcProvider:
    provider = access_of(request).oidc
    if provider is None:
        raise UsageError(
            "no OpenID Connect provider is configured (access.oidc_issuer); POST a token to /auth/session"
        )
    return provider


def _info(request: Request, identity: Identity, session: str | None) -> dict[str, Any]:
    in_session = identity.method == "session" and session is not None
    return identity.to_json() | {
        "csrf_token": csrf_token(session) if in_session and session else None,
        "methods": list(access_of(request).methods),
    }
