"""Shared by all commands: common options, the configuration, the workspace."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from forewarn.config import Config, resolve
from forewarn.job.outcomes import UnknownStateWarning
from forewarn.operate.workspace import Workspace
from forewarn.sharing import work_in

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

home_option: Decorator = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder of all state.  [env: FOREWARN_HOME]",
)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")


def configured(**flags: Any) -> Config:
    """Resolve the configuration, overridden by the flags of this call."""
    config = resolve(flags).config
    work_in(config.home)
    return config


def opened(**flags: Any) -> Workspace:
    """Open the home that the flags of this call and the configuration name."""
    warnings.simplefilter("ignore", UnknownStateWarning)  # the summary reports it, with the number of jobs
    return Workspace(configured(**flags))
