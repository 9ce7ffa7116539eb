"""The caller of the service: who it is, how that was proven, and which jobs it may see."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from forewarn.errors import SlurmTokenNeededError
from forewarn.quick_init import quick_init

if TYPE_CHECKING:  # it brings Polars
    from forewarn.operate.visibility import Visibility


class Role(StrEnum):
    """What a caller may do, from the least to the most.

    >>> Role.OPERATOR.rank > Role.HELPER.rank
    True
    """

    USER = "user"  # own jobs
    COORDINATOR = "coordinator"  # also the jobs of the accounts that it coordinates
    HELPER = "helper"  # sees all jobs, changes nothing
    OPERATOR = "operator"  # also sets thresholds and acknowledges notices
    ADMIN = "admin"  # also manages tokens and models, and reads the audit log

    @property
    def rank(self) -> int:
        """The place of the role in this order."""
        return _RANKS[self]


_RANKS = {role: rank for rank, role in enumerate(Role)}
_SEE_ALL = frozenset({Role.HELPER, Role.OPERATOR, Role.ADMIN})


@quick_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """A caller: the user name as Slurm has it, and what was proven about it.

    >>> ann = Identity(user="ann", role=Role.COORDINATOR, accounts=frozenset({"physics"}))
    >>> ann.sees("ann", "chemistry"), ann.sees("ben", "physics"), ann.sees("ben", "chemistry")
    (True, True, False)
    """

    user: str
    role: Role = Role.USER
    accounts: frozenset[str] = frozenset()  # those that a coordinator coordinates
    method: str = "none"  # none (loopback), peer, slurm, service-token, oidc, proxy, session
    slurm_token: str | None = field(default=None, repr=False)  # with which Slurm is asked to act

    @property
    def sees_all(self) -> bool:
        """Whether the jobs of all users are visible."""
        return self.role in _SEE_ALL

    @property
    def may_operate(self) -> bool:
        """Whether thresholds and notices may be changed."""
        return self.role.rank >= Role.OPERATOR.rank

    @property
    def is_admin(self) -> bool:
        """Whether tokens, models and the audit log may be managed."""
        return self.role is Role.ADMIN

    def sees(self, user: str | None, account: str | None) -> bool:
        """Check whether a job of this user and account is visible; one without a user only if all are."""
        if self.sees_all:
            return True
        return (user is not None and user == self.user) or (account is not None and account in self.accounts)

    def visibility(self) -> Visibility:
        """Return the same as a filter of jobs."""
        from forewarn.operate.visibility import Visibility

        return Visibility.everything() if self.sees_all else Visibility.of({self.user}, self.accounts)

    def require_slurm_token(self) -> str:
        """Return the token with which Slurm is asked to act for this caller, and for nobody else."""
        if self.slurm_token is None:
            raise SlurmTokenNeededError(
                "acting on Slurm needs your own Slurm token: get one by `scontrol token lifespan=3600` and "
                "send it as X-SLURM-USER-TOKEN, or paste it into the session (POST /auth/session)"
            )
        return self.slurm_token

    def to_json(self) -> dict[str, Any]:
        """Return what the caller may know of itself; no token."""
        return {
            "user": self.user,
            "role": self.role.value,
            "accounts": sorted(self.accounts),
            "method": self.method,
            "has_slurm_token": self.slurm_token is not None,
        }
