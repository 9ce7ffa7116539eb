"""What the commands share: the options that mean the same everywhere, the configuration, the workspace."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from forewarn.config import Config, resolve
from forewarn.job.outcomes import UnknownStateWarning
from forewarn.operate.workspace import Workspace
from forewarn.sharing import work_in

if TYPE_CHECKING:  # the store's imports are heavy, and not every command opens it
    pass

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

home_option: Decorator = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder that holds all state.  [env: FOREWARN_HOME]",
)
json_option: Decorator = click.option("--json", "as_json", is_flag=True, help="For programs: JSON on stdout.")


def configured(**flags: Any) -> Config:
    """The configuration with the flags of this call over it."""
    config = resolve(flags).config
    work_in(config.home)
    return config


def opened(**flags: Any) -> Workspace:
    """Open the home that the flags of this call and the configuration name."""
    warnings.simplefilter("ignore", UnknownStateWarning)  # a summary says it, with how many jobs
    return Workspace(configured(**flags))
