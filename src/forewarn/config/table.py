"""The table of settings.

The fields of `Config` are the whole table: a field added there, or in one of its sections, can be set in the
TOML file, by the environment (``FOREWARN_`` and its name), and shows in `forewarn config show`.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from forewarn.config.access import AccessConfig
from forewarn.config.notices import NoticesConfig
from forewarn.config.serve import ServeConfig
from forewarn.config.values import (
    as_days,
    as_path,
    as_seconds,
    as_seed,
    as_slurmrestd,
    as_speed,
    as_text,
    as_tracking,
    as_user_name,
    one_of,
    setting,
    time_zone,
)


def default_home(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the default home: beside other programs' data of this user."""
    return Path(environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "forewarn"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The settings of one cluster, in the table ``[clusters.NAME]``."""

    timezone: str | None = field(
        default=None, metadata=setting(time_zone, "time zone of the cluster's clock", "Europe/Zurich")
    )
    swf_status: str | None = field(
        default=None,
        metadata=setting(
            as_text, "how its SWF logs' status is read: swf, exit-code, or 0=failed,1=completed", "exit-code"
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Every setting, with its default.

    >>> Config().policy
    'wasted'
    """

    home: Path = field(
        default_factory=default_home,
        metadata=setting(as_path, "folder that holds the store, its config file and rejects"),
    )
    cluster: str | None = field(
        default=None,
        metadata=setting(as_text, "name for records that carry none; else the file's name", "alps"),
    )
    timezone: str | None = field(
        default=None,
        metadata=setting(
            time_zone, "zone of times written without one; else the file's own, else UTC", "Europe/Zurich"
        ),
    )
    known_delay: int = field(
        default=0,
        metadata=setting(as_seconds, "seconds from a job's end until its outcome counts as known, for files"),
    )
    policy: str = field(
        default="wasted",
        metadata=setting(
            one_of("wasted", "papers"),
            "which outcomes are failures: wasted (preempted and user-cancelled left out) or papers "
            "(everything but completed)",
        ),
    )
    store: str = field(
        default="embedded", metadata=setting(one_of("embedded"), "where observations are kept: embedded")
    )
    history_kept: int | None = field(
        default=None,
        metadata=setting(
            as_days,
            "days after its end for which a job is kept (`forewarn store prune`); without it for ever",
            "1100",
        ),
    )
    assessments_kept: int = field(
        default=400,
        metadata=setting(as_days, "days for which the collector keeps assessments"),
    )
    audit_kept: int = field(
        default=1100,
        metadata=setting(as_days, "days for which audit lines are kept"),
    )
    tracking: str | None = field(
        default=None,
        metadata=setting(
            as_tracking,
            "MLflow server or database that registers the models; else one in the home folder",
            "https://mlflow.example.org",
        ),
    )
    model: Path | None = field(
        default=None,
        metadata=setting(
            as_path,
            "exported bundle, used to check a user's own jobs without access to the store",
            "/opt/forewarn/alps.tar.gz",
        ),
    )
    model_cluster: str | None = field(
        default=None,
        metadata=setting(
            as_text,
            "cluster that this bundle was trained on, to let it serve another cluster on purpose",
            "alps",
        ),
    )
    scheduler: str = field(
        default="auto",
        metadata=setting(
            one_of("auto", "slurmrestd", "commands", "simulator"),
            "how to query a live Slurm: slurmrestd, commands (sacct, scontrol), or auto (the first that is "
            "available); simulator: a simulated cluster instead",
        ),
    )
    simulator: str = field(
        default="default",
        metadata=setting(
            as_text, "scenario of the simulated cluster: default, small, harsh, drift or a file"
        ),
    )
    simulator_seed: int = field(
        default=1, metadata=setting(as_seed, "seed of the simulated cluster: each number is another one")
    )
    simulator_speed: float = field(
        default=1.0,
        metadata=setting(as_speed, "simulated seconds in a second: 1, 60 (a minute), 3600 (an hour)"),
    )
    simulator_days: int = field(
        default=42, metadata=setting(as_days, "days of history that a new simulated cluster has")
    )
    scripts: str = field(
        default="auto",
        metadata=setting(
            one_of("auto", "never"),
            "whether scripts of ended jobs are read from a live Slurm: auto (where accounting keeps them) or "
            "never",
        ),
    )
    slurmrestd: str | None = field(
        default=None,
        metadata=setting(
            as_slurmrestd,
            "where slurmrestd listens: http://HOST:6820, https://HOST or unix:/PATH/OF/SOCKET",
            "http://slurm.example.org:6820",
        ),
    )
    slurm_user: str | None = field(
        default=None,
        metadata=setting(as_user_name, "user for slurmrestd requests; default: the token's", "forewarn"),
    )
    slurm_token: str | None = field(
        default=None,
        repr=False,
        metadata=setting(
            as_text,
            "token for as_slurmrestd, the token itself; a file is safer",
            "eyJhbGciOiJIUzI1NiJ9…",
            secret=True,
        ),
    )
    slurm_token_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path,
            "file that holds the token, read again before it expires; else SLURM_JWT, else `scontrol token`",
            "/etc/forewarn/slurm.jwt",
        ),
    )
    slurm_ca_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path,
            "CA certificates for slurmrestd; default: the system's",
            "/etc/ssl/certs/site-ca.pem",
        ),
    )
    serve: ServeConfig = field(default_factory=ServeConfig)
    access: AccessConfig = field(default_factory=AccessConfig)
    notices: NoticesConfig = field(default_factory=NoticesConfig)
    clusters: Mapping[str, ClusterConfig] = field(default_factory=lambda: MappingProxyType({}))

    def of_cluster(self, name: str | None) -> ClusterConfig:
        """Return the settings of a cluster: its own table, completed by the general settings."""
        own = self.clusters.get(name or "", ClusterConfig())
        return dataclasses.replace(own, timezone=own.timezone or self.timezone)
