"""What a route needs besides its own arguments: the service, and who is calling."""

from __future__ import annotations

from typing import Annotated, cast

from fastapi import Depends, Request

from forewarn.errors import BadField, BadFieldsError, ForbiddenError
from forewarn.operate.access.identity import Identity
from forewarn.operate.service.service import Service
from forewarn.serve.rest.auth.current import current_identity


async def service_of(request: Request) -> Service:
    """Return the service of the app. Async, since FastAPI calls a plain function in another thread."""
    return cast("Service", request.app.state.service)


async def only_known_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have: a misspelt filter must not return everything."""
    route = request.scope["route"]
    known = getattr(route, "known_parameters", None)
    if known is None:
        known = route.known_parameters = _parameters(route.dependant)
    if unknown := sorted(set(request.query_params) - known):
        listed = ", ".join(sorted(known)) or "none"
        reason = f"there is no such parameter; this route has: {listed}"
        raise BadFieldsError("the request", [BadField(f"?{name}", reason) for name in unknown])


def _parameters(dependant: object) -> set[str]:
    """Return the names of a route's query parameters, with those of its dependencies."""
    own = {field.alias for field in getattr(dependant, "query_params", ())}
    return own.union(*(_parameters(one) for one in getattr(dependant, "dependencies", ())))


def require_operator(identity: Identity) -> None:
    """Refuse a caller that may not operate."""
    if not identity.may_operate:
        raise ForbiddenError(f"this needs the role operator; {identity.user} has the role {identity.role}")


ServiceDependency = Annotated[Service, Depends(service_of)]
IdentityDependency = Annotated[Identity, Depends(current_identity)]
