"""Actions with a line in the audit log, whether they succeed or fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from fastapi import Request

from forewarn.errors import ForewarnError
from forewarn.operate.access.identity import Identity
from forewarn.operate.service.service import Service
from forewarn.serve.rest.auth.current import origin_of
from forewarn.serve.rest.work import in_thread

log = logging.getLogger(__name__)
Result = TypeVar("Result")


async def audited(
    request: Request,
    service: Service,
    identity: Identity,
    action: str,
    subject: str,
    act: Callable[[], Result],
    details: Mapping[str, Any] | None = None,
    *,
    details_of: Callable[[Result], Mapping[str, Any]] = lambda _: {},
    subject_of: Callable[[Result], str] | None = None,
) -> Result:
    """Act in a thread, and write down who did what with which result.

    If it succeeds, `details_of` the result are added, and `subject_of` it is the subject: what is made has a
    name only then.
    """
    address = origin_of(request)

    def act_and_write() -> Result:
        try:
            result = act()
        except Exception as error:
            shown = f"refused: {error}" if isinstance(error, ForewarnError) else "failed"
            service.access.audit(identity, action, subject, shown, details=details, address=address)
            raise
        more = {**(details or {}), **details_of(result)}
        about = subject if subject_of is None else subject_of(result)
        try:
            service.access.audit(identity, action, about, details=more, address=address)
        except ForewarnError as error:  # it is done: the caller must not take it for refused
            log.error(
                "%s of %s by %s is done, but not in the audit log: %s", action, about, identity.user, error
            )
        return result

    return await in_thread(act_and_write)
