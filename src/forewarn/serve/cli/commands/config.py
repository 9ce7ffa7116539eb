"""`forewarn config`: what is configured, where each value came from, and a file to begin with."""

from __future__ import annotations

import os
from pathlib import Path

import click

from forewarn.config import resolve, template, unknown_variables
from forewarn.errors import UsageError
from forewarn.serve.cli.commands.common import home_option, json_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say
from forewarn.serve.cli.terminal.safe_text import echo


@click.group("config")
def command() -> None:
    """Show what is configured, and where each value came from.

    A value is taken from the command's flag, else from the environment (FOREWARN_HOME,
    FOREWARN_POLICY, …), else from config.toml in the home folder (or the file that FOREWARN_CONFIG
    names), else from its default.

    \b
    Examples:
      forewarn config show
      forewarn config init && $EDITOR "$(forewarn config path)"
      FOREWARN_POLICY=papers forewarn config show --json
    """


@command.command()
@home_option
@json_option
def show(home: Path | None, as_json: bool) -> None:
    """Print every value and where it came from."""
    resolved = resolve({"home": home})
    if as_json:
        values = {
            name: {
                "value": str(value) if isinstance(value, Path) else value,
                "from": origin.kind,
                "place": origin.place,
            }
            for name, value, origin in resolved.values()
        }
        print_json({"file": str(resolved.file), "exists": resolved.file.exists(), "values": values})
    else:
        rows = [
            (name, None if value is None else str(value), str(origin))
            for name, value, origin in resolved.values()
        ]
        print_table(("setting", "value", "from"), rows)
    for name in unknown_variables(os.environ):
        note(f"{name} is set and is no setting of Forewarn")


@command.command()
@home_option
@click.option("--force", is_flag=True, help="Write over a file that is there.")
def init(home: Path | None, force: bool) -> None:
    """Write a config file in which every setting stands as a comment."""
    from forewarn.files import write_file

    file = resolve({"home": home}).file
    if file.exists() and not force:
        raise UsageError(f"{file}: is there already (--force writes over it)")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, template(), private=True)  # a token may be put into it
    say(f"wrote {file}")


@command.command("share")
@click.argument("group", required=False)
@click.option("--off", is_flag=True, help="Take it back: the home is its owner's alone again.")
@home_option
def share_home(group: str | None, off: bool, home: Path | None) -> None:
    """Let a group read the home, now and from now on: `jobs`, `check`, `explain`, `health` work for it.

    Its members read all that is in the store, other people's jobs included. Nobody but you writes there.
    """
    from forewarn.sharing import share, unshare
    from forewarn.store.opening import place_of

    if (group is None) != off:
        raise UsageError("name the group that may read, or --off")
    config = resolve({"home": home}).config
    if group is None:
        unshare(config.home)
        say(f"{config.home}: only you can read it")
        return
    if config.slurm_token is not None:
        raise UsageError(
            "slurm_token holds a secret in a file that the group would read: put it into a file of its own "
            "(mode 600), and name that by slurm_token_file"
        )
    place = place_of(config)
    token = [] if config.slurm_token_file is None else [config.slurm_token_file]
    share(config.home, group, but=[*token, *place.secret_files])
    place.let_group_read()
    say(f"{config.home}: {group} can read it")


@command.command()
@home_option
def path(home: Path | None) -> None:
    """Print where the config file is, or would be."""
    echo(resolve({"home": home}).file)
