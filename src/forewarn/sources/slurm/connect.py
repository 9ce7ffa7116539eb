"""The connection to the scheduler that the configuration names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler


def choose_scheduler(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """Choose `slurmrestd` or `commands`: as configured, else the first that is available."""
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
    retry: RetryPolicy | None = None,
    user: str | None = None,
) -> Scheduler:
    """Return a scheduler, without sending a request. With `user`, the commands show that user's jobs only."""
    clock = clock or Clock()
    retry = retry or RetryPolicy(clock=clock)
    scripts = config.scripts == "auto"
    if choose_scheduler(config, environ) == "commands":
        from forewarn.sources.commands import CommandScheduler
        from forewarn.sources.commands.runner import Runner

        runner = Runner(environ=environ, retry=retry)
        zone = config.of_cluster(config.cluster).timezone
        return CommandScheduler(
            runner, cluster=config.cluster, timezone=zone, clock=clock, user=user, scripts=scripts
        )
    from forewarn.sources.slurmrestd.address import Address
    from forewarn.sources.slurmrestd.client import SlurmrestdScheduler
    from forewarn.sources.slurmrestd.session import RestSession
    from forewarn.sources.slurmrestd.tokens import find_tokens, is_configured
    from forewarn.sources.slurmrestd.transport import Transport

    assert config.slurmrestd is not None
    tokens = find_tokens(
        config.slurm_token, config.slurm_token_file, config.slurm_user, environ=environ, clock=clock
    )
    address = Address.read(config.slurmrestd)
    transport = Transport(address, ca_file=config.slurm_ca_file, clock=clock)
    # A slurmrestd with rest_auth/local knows the user by the socket: no token is created before it demands
    # one.
    by_socket = address.socket is not None and not is_configured(
        config.slurm_token, config.slurm_token_file, environ
    )
    session = RestSession(
        transport,
        tokens,
        user=config.slurm_user,
        clock=clock,
        retry=retry,
        first_without=by_socket,
    )
    return SlurmrestdScheduler(session, cluster=config.cluster, scripts=scripts)
