"""What a request carries to prove who is calling, and what was proven by it."""

from __future__ import annotations

from dataclasses import dataclass, field

from forewarn.operate.access.identity import Role
from forewarn.quick_init import quick_init


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """The proofs in one request, none of them verified yet."""

    bearer: str | None = field(default=None, repr=False)  # Authorization: Bearer …
    slurm_token: str | None = field(default=None, repr=False)  # X-SLURM-USER-TOKEN, as for slurmrestd
    slurm_user: str | None = None  # X-SLURM-USER-NAME
    session: str | None = field(default=None, repr=False)  # the cookie
    proxy_user: str | None = None  # the header that a trusted proxy sets
    proxy_secret: str | None = field(default=None, repr=False)
    peer: str | None = None  # address of the other end of the connection; None: a unix socket
    uid: int | None = None  # user id of the other end of a unix socket, by the kernel
    client: str | None = None  # address of the caller, which a proxy may have forwarded; for limits and audit

    @property
    def origin(self) -> str:
        """The caller's place, for limits and the audit log."""
        return self.client or self.peer or (f"uid:{self.uid}" if self.uid is not None else "unix")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """A user name that was proven, how, and until when that counts."""

    user: str
    method: str
    expires: float | None = None  # Unix seconds
    groups: frozenset[str] = frozenset()  # of an OIDC provider
    role: Role | None = None  # fixed, for service tokens; else looked up
    slurm_token: str | None = field(default=None, repr=False)
    token_key: str | None = None  # the entry of a service token, which can be revoked
