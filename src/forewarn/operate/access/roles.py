"""Which role a user has: by the site's lists, Slurm's coordinators, and perhaps Slurm's AdminLevel."""

from __future__ import annotations

import grp
import logging
import os
import pwd
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping

from forewarn.config import AccessConfig
from forewarn.errors import ForewarnError
from forewarn.operate.access.credentials import Proof
from forewarn.operate.access.identity import Identity, Role
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.user_rights import UserRights

log = logging.getLogger(__name__)
_FIRST_WAIT = 3.0  # seconds for which a first caller waits for Slurm's answer
_STALE = 12  # refreshes that may fail before what Slurm answered last no longer counts
_MOST_USERS = 10_000
_NO_RIGHTS = UserRights()
_LEVELS = {"Operator": Role.OPERATOR, "Administrator": Role.ADMIN}


class Roles:
    """The roles of users. Slurm is asked in the background: no caller waits for it, except the first."""

    def __init__(
        self,
        config: AccessConfig,
        read_rights: Callable[[], Mapping[str, UserRights]],
        clock: Clock | None = None,
    ) -> None:
        self._config = config
        self._read_rights = read_rights
        self._clock = clock or Clock()
        self._lists = (
            (Role.ADMIN, config.admins),
            (Role.OPERATOR, config.operators),
            (Role.HELPER, config.helpers),
        )
        self._needs_groups = any(one.startswith("group:") for _, names in self._lists for one in names)
        self._needs_rights = config.coordinators or config.slurm_admins
        self._groups: OrderedDict[str, tuple[frozenset[str], float]] = OrderedDict()
        self._rights: Mapping[str, UserRights] = {}
        self._read_at: float | None = None  # when Slurm last answered
        self._next_at = 0.0  # when it is asked again
        self._reader: threading.Thread | None = None
        self._lock = threading.Lock()

    def identity(self, proof: Proof, *, method: str | None = None) -> Identity:
        """Return the identity of a proven user."""
        if self._asks_slurm(proof):
            self._refresh_rights(wait=_FIRST_WAIT)
        groups = self._unix_groups(proof.user) if self._needs_groups and proof.role is None else frozenset()
        return self._build(proof, groups, method)

    def cached_identity(self, proof: Proof) -> Identity | None:
        """Return the identity without any I/O, or None where it needs some."""
        if self._asks_slurm(proof):
            if self._read_at is None and self._next_at == 0.0:
                return None
            self._refresh_rights(wait=0.0)
        groups: frozenset[str] = frozenset()
        if self._needs_groups and proof.role is None:
            known = self._groups.get(proof.user)
            if known is None or known[1] <= self._clock.monotonic():
                return None
            groups = known[0]
        return self._build(proof, groups, None)

    def _asks_slurm(self, proof: Proof) -> bool:
        """Check whether rights in Slurm could add to what the user may see."""
        return self._needs_rights and proof.role not in (Role.HELPER, Role.OPERATOR, Role.ADMIN)

    def _build(self, proof: Proof, unix_groups: frozenset[str], method: str | None) -> Identity:
        rights = self._rights.get(proof.user, _NO_RIGHTS) if self._still_counts() else _NO_RIGHTS
        accounts = rights.coordinates if self._config.coordinators else frozenset()
        role = proof.role
        if role is None:
            role = self._listed(proof, unix_groups)
            if self._config.slurm_admins:
                role = max(role, _LEVELS.get(rights.admin_level, Role.USER), key=lambda one: one.rank)
            if accounts and role is Role.USER:
                role = Role.COORDINATOR
        elif role is Role.USER:
            accounts = frozenset()  # a token that was created for one user's own jobs
        return Identity(
            user=proof.user,
            role=role,
            accounts=accounts,
            method=method or proof.method,
            slurm_token=proof.slurm_token,
        )

    def _listed(self, proof: Proof, unix_groups: frozenset[str]) -> Role:
        own = {proof.user, *(f"group:{one}" for one in unix_groups), *(f"oidc:{one}" for one in proof.groups)}
        return next((role for role, names in self._lists if own.intersection(names)), Role.USER)

    # --- groups of this machine ------------------------------------------------------------------------

    def _unix_groups(self, user: str) -> frozenset[str]:
        now = self._clock.monotonic()
        with self._lock:
            known = self._groups.get(user)
            if known is not None and known[1] > now:
                return known[0]
        groups = unix_groups(user)
        with self._lock:
            self._groups[user] = (groups, now + self._config.roles_refresh)
            self._groups.move_to_end(user)
            if len(self._groups) > _MOST_USERS:
                self._groups.popitem(last=False)
        return groups

    # --- rights in Slurm ---------------------------------------------------------------------------------

    def _still_counts(self) -> bool:
        age = None if self._read_at is None else self._clock.monotonic() - self._read_at
        return age is not None and age < _STALE * self._config.roles_refresh

    def _refresh_rights(self, wait: float) -> None:
        with self._lock:
            if self._reader is None and self._clock.monotonic() >= self._next_at:
                self._next_at = self._clock.monotonic() + self._config.roles_refresh
                self._reader = threading.Thread(target=self._read, name="roles", daemon=True)
                self._reader.start()
            reader = self._reader
        if reader is not None and self._read_at is None and wait:
            reader.join(wait)

    def _read(self) -> None:
        try:
            self._rights = self._read_rights()
            self._read_at = self._clock.monotonic()
        except ForewarnError as error:
            log.warning("coordinators cannot be read from Slurm now: %s", error)
        finally:
            self._reader = None

    def close(self) -> None:
        """Wait a moment for a request that is in flight."""
        reader = self._reader
        if reader is not None:
            reader.join(_FIRST_WAIT)


def unix_groups(user: str) -> frozenset[str]:
    """Return the groups that a user has on this machine; none where it is unknown here."""
    try:
        numbers = os.getgrouplist(user, pwd.getpwnam(user).pw_gid)
    except (KeyError, OSError, ValueError):
        return frozenset()
    names = set()
    for number in numbers:
        try:
            names.add(grp.getgrgid(number).gr_name)
        except KeyError:
            continue
    return frozenset(names)
