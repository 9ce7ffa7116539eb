"""`forewarn config`: show the configuration, write a config file, share the home."""

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
    """Show the configuration and where each value comes from.

    A value comes from the command's flag, else the environment (FOREWARN_HOME, FOREWARN_POLICY, …), else
    config.toml in the home folder (or the file named by FOREWARN_CONFIG), else its default.

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
    """Print each value and where it comes from."""
    resolved = resolve({"home": home})
    if as_json:
        values = {
            name: {
                "value": str(value) if isinstance(value, Path) else value,
                "from": origin.layer,
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
        note(f"{name} is set but is not a setting of Forewarn")


@command.command()
@home_option
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
def init(home: Path | None, force: bool) -> None:
    """Write a config file with each setting as a comment."""
    from forewarn.files import write_file

    file = resolve({"home": home}).file
    if file.exists() and not force:
        raise UsageError(f"{file}: already exists; use --force to overwrite it")
    file.parent.mkdir(parents=True, exist_ok=True)
    write_file(file, template(), private=True)  # a user may put a token into it
    say(f"wrote {file}")


@command.command("share")
@click.argument("group", required=False)
@click.option("--off", is_flag=True, help="Stop sharing: only the owner can read the home.")
@home_option
def share_home(group: str | None, off: bool, home: Path | None) -> None:
    """Let a group read the home, so that its members can use `jobs`, `check`, `explain` and `health`.

    Members can read everything in the store, including other users' jobs. Only the owner can write.
    """
    from forewarn.sharing import share, unshare
    from forewarn.store.opening import location_of

    if (group is None) != off:
        raise UsageError("name a group, or use --off")
    config = resolve({"home": home}).config
    if group is None:
        unshare(config.home)
        say(f"{config.home}: only you can read it now")
        return
    if config.slurm_token is not None:
        raise UsageError(
            "slurm_token is a secret in a config file that the group would be able to read: move it to a "
            "file of its own (mode 600) and set slurm_token_file"
        )
    place = location_of(config)
    token = [] if config.slurm_token_file is None else [config.slurm_token_file]
    share(config.home, group, but=[*token, *place.secret_files])
    place.let_group_read()
    say(f"{config.home}: group {group} can read it now")


@command.command()
@home_option
def path(home: Path | None) -> None:
    """Print the path of the config file, whether it exists or not."""
    echo(resolve({"home": home}).file)
