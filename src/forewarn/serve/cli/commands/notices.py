"""`forewarn notices`: list, silence and try out notices by mail and webhook."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.formatting import count, timestamp
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.output import note, print_json, print_table, say

if TYPE_CHECKING:
    from forewarn.operate.notices.silences import Silence

_RULES = click.Choice(("risk", "failure", "node"))


@click.group("notices")
def command() -> None:
    """List, silence and try out notices by mail and webhook.

    `forewarn serve` sends them, once the table [notices] of the configuration names a mail server or a
    webhook (docs/notices.md).

    \b
    Examples:
      forewarn notices test --to me@example.org
      forewarn notices test --webhook ops
      forewarn notices list
      forewarn notices silence --node n12 --days 7 --reason "being repaired"
      forewarn notices silences
    """


@command.command("list")
@click.option("-n", "--limit", type=click.IntRange(1, 5000), default=50, help="How many, newest first.")
@click.option("--rule", type=_RULES, help="Only notices of this rule.")
@click.option("-u", "--user", metavar="USER", help="Only notices to this user.")
@home_option
@json_option
def list_(limit: int, rule: str | None, user: str | None, home: Path | None, as_json: bool) -> None:
    """List the newest notices, what became of them, and how often each rule was right."""
    from forewarn.operate.notices.manage import list_notices
    from forewarn.operate.notices.wording import precision_text

    config = configured(home=home)
    found, precision = list_notices(config, limit=limit, rule=rule, user=user)
    if as_json:
        shown = [one.to_json() for one in found]
        print_json({"notices": shown, "precision": [one.to_json() for one in precision]})
        return
    if found:
        zone = config.timezone or "UTC"
        rows = [
            (
                timestamp(one.notice.at, zone),
                one.notice.recipient,
                one.notice.rule,
                one.notice.state.value,
                "yes" if one.acknowledged_at else "no",
                one.notice.problem or one.notice.message.title,
            )
            for one in found
        ]
        headings = ("time", "recipient", "rule", "state", "acknowledged", "notice")
        print_table(headings, rows, shorten=("notice",), drop=("acknowledged",))
    else:
        say("no notices yet")
    for one in precision:
        say(f"{one.rule}: {precision_text(one.came_true, one.judged)}")
    if not config.notices.can_send:
        note("no notices are sent: set notices.smtp and notices.sender, or a webhook (docs/notices.md)")


@command.command()
@click.option("--to", metavar="ADDRESS", help="Mail address to send to.")
@click.option("--webhook", metavar="NAME", help="Webhook to send to, by its name in the configuration.")
@home_option
def test(to: str | None, webhook: str | None, home: Path | None) -> None:
    """Send a test message now, with the configured mail server or webhook."""
    from forewarn.operate.notices.manage import send_trial
    from forewarn.operate.notices.wording import NO_LINK

    config = configured(home=home)
    say(f"sent to {send_trial(config, to=to, webhook=webhook)}")
    if config.serve.url is None:
        note(NO_LINK)


@command.command()
@click.option("--rule", type=_RULES, help="Notices of this rule.")
@click.option("-u", "--user", metavar="USER", help="Notices about jobs of this user.")
@click.option("--node", metavar="NODE", help="Notices about this node.")
@click.option("--days", type=click.IntRange(1, 365), help="For how long.  [default: until it is lifted]")
@click.option("--reason", default="", help="Why; shown in the list.")
@home_option
@json_option
def silence(
    rule: str | None,
    user: str | None,
    node: str | None,
    days: int | None,
    reason: str,
    home: Path | None,
    as_json: bool,
) -> None:
    """Send no notices of a rule, about a user's jobs, or about a node; several options: of all of them."""
    from forewarn.operate.notices.manage import add_silence

    added = add_silence(configured(home=home), rule=rule, user=user, node=node, days=days, reason=reason)
    if as_json:
        print_json(added.to_json())
    else:
        say(f"silenced; `forewarn notices lift {added.id}` ends it")


@command.command()
@click.option("--past", is_flag=True, help="Those that have ended too.")
@home_option
@json_option
def silences(past: bool, home: Path | None, as_json: bool) -> None:
    """List the silences: what is silenced, until when, by whom and why."""
    from forewarn.operate.notices.manage import list_silences

    config = configured(home=home)
    found = list_silences(config, past=past)
    if as_json:
        print_json([one.to_json() for one in found])
    elif found:
        _print_silences(found, config.timezone or "UTC")
    else:
        say("nothing is silenced")


@command.command()
@click.argument("silence_id", metavar="ID")
@home_option
def lift(silence_id: str, home: Path | None) -> None:
    """End a silence; `forewarn notices silences` lists their ids."""
    from forewarn.operate.notices.manage import lift_silence

    lift_silence(configured(home=home), silence_id)
    say("lifted")


def _print_silences(found: list[Silence], zone: str) -> None:
    rows = []
    for one in found:
        chosen = (("rule", one.rule), ("recipient", one.recipient), ("user", one.user), ("node", one.node))
        what = ", ".join(f"{name} {value}" for name, value in chosen if value)
        until = (
            "lifted" if one.lifted_at else "until lifted" if one.until is None else timestamp(one.until, zone)
        )
        rows.append((what, until, one.by, one.reason, one.id))
    print_table(("silenced", "until", "by", "reason", "id"), rows, shorten=("reason",))
    say(count(len(found), "silence"))
