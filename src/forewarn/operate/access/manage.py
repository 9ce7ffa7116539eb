"""What an admin does on the command line: service tokens and the audit log of a home."""

from __future__ import annotations

import time
from collections.abc import Iterable

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.operate.access.audit import AuditLine, audit_lines, write_audit_line
from forewarn.operate.access.home_actions import home_owner
from forewarn.operate.access.identity import Role
from forewarn.operate.access.service_tokens import ServiceToken, ServiceTokens
from forewarn.store.opening import open_people_store

TOKEN_CREATED = "token.create"  # the action of an audit line; erasure looks for it
LONGEST_LIFE = 10 * 365  # days


def create_token(
    config: Config, name: str, role: Role, *, user: str | None = None, days: int | None = None
) -> tuple[str, ServiceToken]:
    """Create a service token; return its text, which nobody can show again, and what is kept of it."""
    if days is not None and days > LONGEST_LIFE:
        raise UsageError(f"a token lives at most {LONGEST_LIFE} days; without an end it lives until revoked")
    expires_at = None if days is None else int(time.time()) + days * 86400
    admin = home_owner()
    with open_people_store(config) as people:
        text, token = ServiceTokens(people).create(
            name, role, by=admin.user, user=user, expires_at=expires_at
        )
        details = {"role": role.value, "user": token.user, "expires_at": expires_at}
        write_audit_line(people, admin, TOKEN_CREATED, name, details=details)
    return text, token


def list_tokens(config: Config) -> list[ServiceToken]:
    """Return all service tokens, oldest first."""
    with open_people_store(config) as people:
        return ServiceTokens(people).all()


def revoke_token(config: Config, name: str) -> ServiceToken:
    """Delete a service token; a running service refuses it within ten seconds."""
    with open_people_store(config) as people:
        token = ServiceTokens(people).revoke(name)
        write_audit_line(people, home_owner(), "token.revoke", name)
    return token


def read_audit(
    config: Config,
    *,
    since: int | None = None,
    until: int | None = None,
    users: Iterable[str] = (),
    actions: Iterable[str] = (),
    newest: int | None = None,
) -> list[AuditLine]:
    """Return lines of the audit log in order of time."""
    with open_people_store(config) as people:
        return audit_lines(people, since=since, until=until, users=users, actions=actions, newest=newest)
