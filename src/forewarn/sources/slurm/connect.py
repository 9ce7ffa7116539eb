"""The connection to the scheduler that the configuration names."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.sources.slurm.clock import Clock
from forewarn.sources.slurm.retry import RetryPolicy
from forewarn.sources.slurm.scheduler import Scheduler

if TYPE_CHECKING:  # the simulator's kernel takes long to import
    from forewarn.sources.simulator.live.shared_world import SharedWorld


def choose_scheduler(config: Config, environ: Mapping[str, str] = os.environ) -> str:
    """Choose `slurmrestd`, `commands` or `simulator`: as configured, else the first Slurm available."""
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


def clock_of(config: Config) -> Clock:
    """Return the clock that the configured cluster lives by: the wall clock, or a simulated cluster's.

    What reads the time beside a scheduler (a collector, an engine, a command) reads it here: the records of a
    simulated cluster whose time runs faster than the wall clock would lie in the future of that.
    """
    return _world(config).folder.clock() if config.scheduler == "simulator" else Clock()


def _world(config: Config) -> SharedWorld:
    from forewarn.sources.simulator.live.folder import FOLDER
    from forewarn.sources.simulator.live.shared_world import open_world

    return open_world(
        config.home / FOLDER,
        config.simulator,
        seed=config.simulator_seed,
        speed=config.simulator_speed,
        days=config.simulator_days,
    )


def connect(
    config: Config,
    *,
    environ: Mapping[str, str] = os.environ,
    clock: Clock | None = None,
    retry: RetryPolicy | None = None,
    user: str | None = None,
    acting: str | None = None,
) -> Scheduler:
    """Return a scheduler, without sending a request.

    With `user`, the commands and the simulator show that user's jobs only. `acting` is who submits and
    changes jobs of the simulator, which knows no tokens: else `slurm_user`, else this process's user.
    """
    if config.scheduler == "simulator":
        from forewarn.sources.simulator.live import SimulatedScheduler

        return SimulatedScheduler(
            _world(config), cluster=config.cluster, acting=acting or config.slurm_user, user=user
        )
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
