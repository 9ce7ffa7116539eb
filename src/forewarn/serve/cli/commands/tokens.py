"""`forewarn tokens`: tokens with which programs use the service."""

from __future__ import annotations

from pathlib import Path

import click

from forewarn.formatting import timestamp
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say
from forewarn.serve.cli.terminal.safe_text import echo

_ROLES = ("user", "coordinator", "helper", "operator", "admin")


@click.group("tokens")
def command() -> None:
    """Create, list and revoke tokens with which programs use the service.

    A program sends its token as "Authorization: Bearer TOKEN". Only a hash of it is stored. The service
    accepts tokens if access.service_tokens is true (docs/access.md).

    \b
    Examples:
      forewarn tokens create grafana --role helper --expires 90days
      forewarn tokens create nightly --role user --user alice > token.txt
      forewarn tokens list
      forewarn tokens revoke grafana
    """


@command.command()
@click.argument("name")
@click.option(
    "--role", type=click.Choice(_ROLES), required=True, help="What the program may do (docs/access.md)."
)
@click.option("-u", "--user", metavar="USER", help="Whose jobs it sees, for the roles user and coordinator.")
@click.option("--expires", metavar="AGE", help="When it ends: 90days, 1year.  [default: when it is revoked]")
@home_option
@json_option
def create(
    name: str, role: str, user: str | None, expires: str | None, home: Path | None, as_json: bool
) -> None:
    """Create a token and print it, this once."""
    from forewarn.operate.access.identity import Role
    from forewarn.operate.access.manage import create_token
    from forewarn.operate.upkeep.ages import parse_age

    config = configured(home=home)
    days = None if expires is None else parse_age(expires)
    text, token = create_token(config, name, Role(role), user=user, days=days)
    if as_json:
        print_json({"token": text, **token.to_json()})
    else:
        echo(text)
        say("store it now: it cannot be shown again")
    if not config.access.service_tokens:
        note("the service does not accept tokens yet: set service_tokens = true in the table [access]")


@command.command("list")
@home_option
@json_option
def list_(home: Path | None, as_json: bool) -> None:
    """List the tokens, without the tokens themselves."""
    from forewarn.operate.access.manage import list_tokens

    found = list_tokens(configured(home=home))
    if as_json:
        print_json([token.to_json() for token in found])
    elif found:
        headings = ("name", "role", "user", "created", "by", "expires")
        rows = [
            (
                token.name,
                token.role.value,
                token.user,
                timestamp(token.created_at, "UTC"),
                token.created_by,
                "never" if token.expires_at is None else timestamp(token.expires_at, "UTC"),
            )
            for token in found
        ]
        print_table(headings, rows)
    else:
        say("no tokens yet; `forewarn tokens create NAME --role helper` creates one")


@command.command()
@click.argument("name")
@home_option
def revoke(name: str, home: Path | None) -> None:
    """Revoke a token: a running service refuses it within ten seconds."""
    from forewarn.operate.access.manage import revoke_token

    revoke_token(configured(home=home), name)
    say(f"revoked {name}")
