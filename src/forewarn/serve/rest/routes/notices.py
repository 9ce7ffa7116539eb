"""`/v1/notices`: list and acknowledge notices, silence them, choose which to get."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Body, Path, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from forewarn.errors import UnknownNoticeError
from forewarn.operate.access.identity import Identity
from forewarn.operate.notices.requests import ListedNotice, NoticeRequests
from forewarn.operate.service.service import Service
from forewarn.serve.rest.audited import audited
from forewarn.serve.rest.auth.current import current_identity, origin_of
from forewarn.serve.rest.bounded_route import BoundedRoute
from forewarn.serve.rest.dependencies import IdentityDependency, ServiceDependency
from forewarn.serve.rest.documented import answers, named
from forewarn.serve.rest.json_body import json_response
from forewarn.serve.rest.routes.notice_page import acknowledge_page
from forewarn.serve.rest.work import in_thread

router = APIRouter(route_class=BoundedRoute, prefix="/notices", tags=["notices"])
_LINK = Identity(user="link", method="link")  # whoever has the link of a notice

NoticeId = Annotated[str, Path(description="The id of a notice.", pattern=r"^[0-9a-f]{24}$")]
SilenceId = Annotated[str, Path(description="The id of a silence.", pattern=r"^[A-Za-z0-9_-]{16,64}$")]
TokenParameter = Annotated[
    str | None, Query(description="The token of the link in the notice.", max_length=100, min_length=10)
]
RuleName = Annotated[str, Field(max_length=40, description="risk, failure or node.")]
# A browser with the token of a link gets a page.
_SHOWN = answers(named("Notice"), problems=(404,))
_SHOWN[200]["content"]["text/html"] = {"schema": {"type": "string"}}


class SilenceRequest(BaseModel):
    """What to silence."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rule: RuleName | None = None
    user: Annotated[str, Field(max_length=256, description="Owner of the jobs; operators only.")] | None = (
        None
    )
    node: Annotated[str, Field(max_length=256, description="Operators only.")] | None = None
    recipient: (
        Annotated[str, Field(max_length=300, description="user:ann, operator:ops@…, webhook:NAME.")] | None
    ) = None
    until: Annotated[int, Field(description="Unix seconds; else until it is lifted.")] | None = None
    reason: Annotated[str, Field(max_length=300)] = ""


class SubscriptionRequest(BaseModel):
    """The rules to get mail of."""

    model_config = ConfigDict(extra="forbid", strict=True)

    rules: Annotated[list[RuleName], Field(max_length=20, description="An empty list opts out.")]


@router.get("", summary="Notices", responses=answers(named("Notices")))
async def list_notices(
    service: ServiceDependency,
    identity: IdentityDependency,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
    rule: Annotated[str | None, Query(max_length=40)] = None,
    unacknowledged: Annotated[bool, Query(description="Only those sent and not acknowledged.")] = False,
) -> Response:
    """List the caller's notices, newest first, and the measured precision of each rule.

    Helpers, operators and admins see those of all.
    """

    def answer() -> Response:
        requests = _requests(service)
        found = requests.notices(identity, limit=limit, rule=rule, open_only=unacknowledged)
        precision = [one.to_json() for one in requests.precision()]
        return json_response({"notices": [one.to_json() for one in found], "precision": precision})

    return await in_thread(answer)


@router.get("/silences", summary="Silences", responses=answers(named("Silences")))
async def list_silences(
    service: ServiceDependency,
    identity: IdentityDependency,
    past: Annotated[bool, Query(description="Those that have ended too.")] = False,
) -> Response:
    """List the silences that concern the caller, with who set them and why; newest first."""

    def answer() -> Response:
        found = _requests(service).silences(identity, at=service.workspace.now(), past=past)
        return json_response({"silences": [one.to_json() for one in found]})

    return await in_thread(answer)


@router.post(
    "/silences",
    summary="Silence notices",
    status_code=201,
    responses=answers(named("Silence"), status=201, problems=(413,)),
)
async def add_silence(
    request: Request,
    wanted: Annotated[
        SilenceRequest, Body(openapi_examples={"one's own, by rule": {"value": {"rule": "risk"}}})
    ],
    service: ServiceDependency,
    identity: IdentityDependency,
) -> Response:
    """Silence one's own notices, all or of a rule; an operator also those of a user, node or recipient."""
    fields = wanted.model_dump()
    silence = await audited(
        request,
        service,
        identity,
        "notice.silence",
        wanted.rule or "all",
        lambda: _requests(service).silence(identity, at=service.workspace.now(), **fields),
        {name: value for name, value in fields.items() if value},
    )
    return json_response(silence.to_json(), 201)


@router.delete(
    "/silences/{silence_id}", summary="Lift a silence", responses=answers(named("Silence"), problems=(404,))
)
async def lift_silence(
    request: Request, silence_id: SilenceId, service: ServiceDependency, identity: IdentityDependency
) -> Response:
    """End a silence; it stays listed among the past ones."""
    silence = await audited(
        request,
        service,
        identity,
        "notice.lift",
        silence_id,
        lambda: _requests(service).lift(identity, silence_id, at=service.workspace.now()),
    )
    return json_response(silence.to_json())


@router.get(
    "/subscription", summary="Which notices the caller gets", responses=answers(named("Subscription"))
)
async def get_subscription(service: ServiceDependency, identity: IdentityDependency) -> Response:
    """Return the rules that the caller gets mail of."""
    found = await in_thread(lambda: _requests(service).subscription(identity))
    return json_response(found.to_json())


@router.put(
    "/subscription", summary="Choose notices", responses=answers(named("Subscription"), problems=(413,))
)
async def put_subscription(
    request: Request,
    wanted: Annotated[
        SubscriptionRequest, Body(openapi_examples={"only failures": {"value": {"rules": ["failure"]}}})
    ],
    service: ServiceDependency,
    identity: IdentityDependency,
) -> Response:
    """Choose the rules to get mail of; an empty list opts out."""
    subscription = await audited(
        request,
        service,
        identity,
        "notice.subscribe",
        identity.user,
        lambda: _requests(service).subscribe(identity, wanted.rules, at=service.workspace.now()),
        {"rules": wanted.rules},
    )
    return json_response(subscription.to_json())


@router.get("/{notice_id}/acknowledge", summary="Show a notice", responses=_SHOWN)
async def show_notice(
    request: Request, notice_id: NoticeId, service: ServiceDependency, token: TokenParameter = None
) -> Response:
    """Show what the link of a notice is about, to acknowledge it by POST. Opening it changes nothing.

    The token of the link is enough; without it, only the recipient and those who see all jobs.
    """
    identity = _LINK if token else await current_identity(request)

    def answer() -> ListedNotice:
        return _requests(service).notice(identity, notice_id)

    found = await (_by_link(request, service, notice_id, token) if token else in_thread(answer))
    return _answer(request, found, token)


@router.post("/{notice_id}/acknowledge", summary="Acknowledge a notice", responses=_SHOWN)
async def acknowledge(
    request: Request, notice_id: NoticeId, service: ServiceDependency, token: TokenParameter = None
) -> Response:
    """Acknowledge a notice: as its recipient, as an operator, or with the token of its link."""
    identity = _LINK if token else await current_identity(request)
    if token:  # a wrong link is no action: anybody could fill the audit log with them
        await _by_link(request, service, notice_id, token)

    def act() -> ListedNotice:
        requests, at = _requests(service), service.workspace.now()
        if token:
            return requests.acknowledge_by_token(notice_id, token, at=at)
        return requests.acknowledge(identity, notice_id, at=at)

    found = await audited(request, service, identity, "notice.acknowledge", notice_id, act)
    return _answer(request, found, token)


async def _by_link(request: Request, service: Service, notice_id: str, token: str) -> ListedNotice:
    """Return the notice of a link; wrong links are limited by address, as wrong tokens are."""
    try:
        return await in_thread(_requests(service).by_token, notice_id, token)
    except UnknownNoticeError:
        service.access.count_refused(origin_of(request))
        raise


def _requests(service: Service) -> NoticeRequests:
    return NoticeRequests(service.config.notices, service.people)


def _answer(request: Request, found: ListedNotice, token: str | None) -> Response:
    """Answer a browser with a page, a program with JSON."""
    if token and "text/html" in request.headers.get("accept", ""):
        return acknowledge_page(found, token)
    return json_response(found.to_json())
