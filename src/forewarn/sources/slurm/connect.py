"""The scheduler that the configuration names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler


def how(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """`slurmrestd` or `commands`: as configured, else the first of them that there is."""
    if config.scheduler != "auto":
        if config.scheduler == "slurmrestd" and config.slurmrestd is None:
            raise UsageError('scheduler is "slurmrestd", but its address is not set: slurmrestd = "http://…"')
        return config.scheduler
    if config.slurmrestd is not None:
        return "slurmrestd"
    if shutil.which("sacct", path=environ.get("PATH")):
        return "commands"
    raise UsageError(
        "no scheduler: set slurmrestd to its address (http://HOST:6820 or unix:/PATH), or run this where "
        "Slurm's commands (sacct, scontrol) are on PATH"
    )


def connect(
    config: Config,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
    patience: RetryPolicy | None = None,
    user: str | None = None,
) -> Scheduler:
    """A scheduler that can be asked; nothing is asked yet. With `user`, commands tell that user's only."""
    clock = clock or Clock()
    patience = patience or RetryPolicy(clock=clock)
    scripts = config.scripts == "auto"
    if how(config, environ) == "commands":
        from forewarn.sources.commands import CommandScheduler
        from forewarn.sources.commands.runner import Runner

        runner = Runner(environ=environ, patience=patience)
        zone = config.of_cluster(config.cluster).timezone
        return CommandScheduler(
            runner, cluster=config.cluster, timezone=zone, clock=clock, user=user, scripts=scripts
        )
    from forewarn.sources.slurmrestd.address import Address
    from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
    from forewarn.sources.slurmrestd.session import RestSession
    from forewarn.sources.slurmrestd.tokens import find_tokens, is_given
    from forewarn.sources.slurmrestd.transport import Transport

    assert config.slurmrestd is not None
    tokens = find_tokens(
        config.slurm_token, config.slurm_token_file, config.slurm_user, environ=environ, clock=clock
    )
    address = Address.read(config.slurmrestd)
    transport = Transport(address, ca_file=config.slurm_ca_file, clock=clock)
    # A slurmrestd with rest_auth/local knows by the socket who asks: no token is made before it wants one.
    by_socket = address.socket is not None and not is_given(
        config.slurm_token, config.slurm_token_file, environ
    )
    asker = RestSession(
        transport,
        tokens,
        user=config.slurm_user,
        clock=clock,
        patience=patience,
        first_without=by_socket,
    )
    return SlurmrestdScheduler(asker, cluster=config.cluster, scripts=scripts)
