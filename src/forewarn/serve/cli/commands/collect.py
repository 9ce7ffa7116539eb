"""`forewarn collect`: read a running Slurm into the store, once or continuously."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.formatting import byte_size, count, elapsed, number, rough_duration, timestamp
from forewarn.job.moments import parse_moment
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.output import note, print_json, say

if TYPE_CHECKING:
    from forewarn.operate.collector_round import CollectorRound


@click.command("collect")
@home_option
@click.option("--once", is_flag=True, help="Read everything up to now and exit: for cron.")
@click.option(
    "-S",
    "--since",
    metavar="TIME",
    help="Begin of the history in the first run, or an earlier begin in a later run.  [default: now-30days]",
)
@click.option(
    "--interval",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="Time between two rounds.",
)
@click.option(
    "--assess/--no-assess",
    default=None,
    help="Assess live jobs at submit, at start, and when a similar job ends.  "
    "[default: as soon as a model serves]",
)
@json_option
def command(
    home: Path | None, once: bool, since: str | None, interval: int, assess: bool | None, as_json: bool
) -> None:
    """Collect jobs, nodes and partitions from a running Slurm, continuously.

    Reads the history from accounting first, then in each round the jobs that have ended since and the
    pending and running jobs. Resumes where it stopped, loses nothing when killed, and retries while
    slurmrestd, slurmctld, slurmdbd or its database is down. Ctrl-C and SIGTERM end it.

    As soon as a model serves, each live job is assessed when it is first seen, at its start, and whenever a
    job of the same user with the same request ends; the assessments are kept in the store.

    \b
    Examples:
      forewarn collect                                   until interrupted
      forewarn collect --since 2024-01-01 --interval 120
      * * * * *  forewarn collect --once                 from cron
    """
    from forewarn.operate.collect import collecting

    config = configured(home=home)
    zone = config.of_cluster(config.cluster).timezone
    begin = None if since is None else parse_moment(since, zone or "UTC", datetime.now(UTC))
    with ended_by_signals(quietly=not once), collecting(config, since=begin, assess=assess) as collector:
        rounds: Iterator[CollectorRound] = collector.once() if once else collector.forever(interval)
        troubles: dict[str, str] = {}
        for done in rounds:
            if as_json:
                print_json(asdict(done))
                sys.stdout.flush()
            else:
                _print_round(done)
            if not once:  # with --once the error ends the command
                _print_troubles(troubles, done)
            troubles = done.troubles


@contextmanager
def ended_by_signals(*, quietly: bool) -> Iterator[None]:
    """Let SIGTERM end the command as Ctrl-C does; an unfinished write is rolled back.

    With `quietly` this is no error: the command is meant to run until it is ended.
    """

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        if not quietly:
            raise
        say("stopped")
    finally:
        signal.signal(signal.SIGTERM, before)


def _print_round(done: CollectorRound) -> None:
    """Print one line for a round in which something changed."""
    for message in done.notes:
        note(f"{_when(done)}  {message}")
    if done.new_jobs or done.changed_jobs or done.nodes_and_partitions:
        behind = f"; {rough_duration(done.lag)} of history left" if done.behind else ""
        assessed = (
            f", {number(done.assessed)} assessed with {count(done.warned, 'alert')}" if done.assessed else ""
        )
        unknown = f", {number(done.unknown_ends)} with unknown end" if done.unknown_ends else ""
        say(
            f"{_when(done)}  {count(done.new_jobs, 'new job')}, {number(done.changed_jobs)} changed"
            f"{unknown}{assessed}, {number(done.nodes_and_partitions)} nodes and partitions changed; "
            f"{count(done.requests, 'request')}, {byte_size(done.received)}, "
            f"{elapsed(done.seconds)}{behind}"
        )


def _print_troubles(before: dict[str, str], done: CollectorRound) -> None:
    """Print each trouble once when it begins and once when it is over; its text may vary meanwhile."""
    began = {part: why for part, why in done.troubles.items() if part not in before}
    for why in dict.fromkeys(began.values()):
        parts = ", ".join(part for part in began if began[part] == why)
        note(f"{_when(done)}  cannot read {parts}, retrying: {why}")
    if over := [part for part in before if part not in done.troubles]:
        note(f"{_when(done)}  reading again: {', '.join(over)}")


def _when(done: CollectorRound) -> str:
    return timestamp(done.at, "UTC", name_zone=True)
