"""What accounting says about users: their AdminLevel, and the accounts that they coordinate."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass

from forewarn.config import Config
from forewarn.errors import NoAccountingError
from forewarn.sources.slurm.connect import choose_scheduler, connect


@dataclass(frozen=True, slots=True)
class UserRights:
    """One user's rights in accounting."""

    admin_level: str = "None"  # None, Operator, Administrator
    coordinates: frozenset[str] = frozenset()  # accounts; also those below an account that is coordinated


def read_user_rights(config: Config, environ: Mapping[str, str] = os.environ) -> dict[str, UserRights]:
    """Return the rights of all users by name, by one request; nothing where Slurm keeps no accounting.

    With PrivateData=users in slurmdbd.conf, the service's own user must be an Operator to see others'.
    """
    way = choose_scheduler(config, environ)
    try:
        if way == "commands":
            from forewarn.sources.commands.runner import Runner
            from forewarn.sources.commands.users import list_users

            return list_users(Runner(environ=environ))
        if way == "slurmrestd":
            from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
            from forewarn.sources.slurmrestd.users import get_users

            with closing(connect(config, environ=environ)) as scheduler:
                assert isinstance(scheduler, SlurmrestdScheduler)
                return get_users(scheduler.session)
    except NoAccountingError:
        pass
    return {}
