"""`forewarn collect`: the live Slurm into the store, once or for as long as it runs."""

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

from forewarn.job.moments import parse_moment
from forewarn.serve.cli.commands.common import configured, home_option, json_option
from forewarn.serve.cli.terminal.output import note, print_json, say

if TYPE_CHECKING:
    from forewarn.operate.collector import CollectorRound


@click.command("collect")
@home_option
@click.option("--once", is_flag=True, help="Read all that there is up to now, and end: for cron.")
@click.option(
    "-S",
    "--since",
    metavar="TIME",
    help="Where history begins, the first time; later, if it is earlier than ever.  [default: now-30days]",
)
@click.option(
    "--interval",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="From one round to the next.",
)
@click.option(
    "--assess/--no-assess",
    default=None,
    help="Assess live jobs as they come, start, and when a job like them ends.  "
    "[default: from when on a model serves]",
)
@json_option
def command(
    home: Path | None, once: bool, since: str | None, interval: int, assess: bool | None, as_json: bool
) -> None:
    """Collect what Slurm knows, and go on collecting what is new.

    History first, from accounting; then, each round, what has ended since, and the jobs that wait and run.
    It goes on where it stopped, loses nothing when it is killed, and waits while slurmrestd, slurmctld,
    slurmdbd or its database is away. Ctrl-C and SIGTERM end it.

    As soon as a model serves, each live job is assessed when it is first seen, at its start, and again
    whenever a job of the same user with the same request ends meanwhile; what is said is kept in the store.

    \b
    Examples:
      forewarn collect                                   until it is ended
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
                _tell(done)
            if not once:  # there, it is the error that ends it
                _tell_troubles(troubles, done)
            troubles = done.troubles


@contextmanager
def ended_by_signals(*, quietly: bool) -> Iterator[None]:
    """SIGTERM ends it as Ctrl-C does, at once: a write that it meets is undone whole.

    What runs until it is ended has done what it should: `quietly`, it is no error.
    """

    def end(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    except KeyboardInterrupt:
        if not quietly:
            raise
        say("ended")
    finally:
        signal.signal(signal.SIGTERM, before)


def _tell(done: CollectorRound) -> None:
    """A line, where something happened."""
    for message in done.notes:
        note(f"{_when(done)}  {message}")
    if done.new_jobs or done.changed_jobs or done.nodes_and_partitions:
        left = f", {done.lag:,} s of history behind" if done.behind else ""
        said = f", {done.assessed:,} assessed, {done.warned:,} warned of" if done.assessed else ""
        unknown = f", {done.unknown_ends:,} ended unseen" if done.unknown_ends else ""
        say(
            f"{_when(done)}  {done.new_jobs:,} new jobs, {done.changed_jobs:,} changes{unknown}{said}, "
            f"{done.nodes_and_partitions:,} of nodes and partitions; {done.requests} requests, "
            f"{done.received / 1e6:.1f} MB, {done.seconds:.1f} s{left}"
        )


def _tell_troubles(before: dict[str, str], done: CollectorRound) -> None:
    """What began and what is over, each once: the words of a trouble that lasts may vary."""
    began = {part: why for part, why in done.troubles.items() if part not in before}
    for why in dict.fromkeys(began.values()):
        parts = ", ".join(part for part in began if began[part] == why)
        note(f"{_when(done)}  cannot read {parts}, and will try again: {why}")
    if over := [part for part in before if part not in done.troubles]:
        note(f"{_when(done)}  can read again: {', '.join(over)}")


def _when(done: CollectorRound) -> str:
    return datetime.fromtimestamp(done.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
