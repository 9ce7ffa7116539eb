"""`forewarn jobs`: list, filter and count the jobs in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from forewarn.job.columns import JOB_SCHEMA
from forewarn.operate.breakdown import break_down
from forewarn.operate.job_fields import FIELDS, chosen, columns_of
from forewarn.operate.job_filters import split
from forewarn.operate.job_history import job_history
from forewarn.operate.queries import Query, query_of, summarise, timezones
from forewarn.serve.cli.commands.common import home_option, opened
from forewarn.serve.cli.terminal.breakdown import LIMIT, print_breakdown
from forewarn.serve.cli.terminal.jobs import (
    DEFAULT,
    print_history,
    print_jobs,
    print_jobs_json,
    print_parsable,
    print_summary,
)
from forewarn.serve.cli.terminal.output import note
from forewarn.serve.cli.terminal.progress import progress
from forewarn.serve.cli.terminal.safe_text import echo
from forewarn.store.base import KNOWN_AT, Store


@click.command("jobs")
@home_option
@click.option("-u", "--user", multiple=True, metavar="LIST", help="Jobs of these users.")
@click.option("-A", "--account", multiple=True, metavar="LIST", help="Jobs of these accounts.")
@click.option("-p", "--partition", multiple=True, metavar="LIST", help="Jobs in these partitions.")
@click.option("-s", "--state", multiple=True, metavar="LIST", help="failed, TIMEOUT, OOM, running, …")
@click.option("-j", "--jobs", "job_id", multiple=True, metavar="LIST", help="123, 123_4, 123_[1-3], 123+1.")
@click.option("-M", "--cluster", multiple=True, metavar="LIST", help="Jobs of these clusters.")
@click.option(
    "-S", "--starttime", "since", metavar="TIME", help="Submitted at or after: 2024-01-31T13:30, now-7days, …"
)
@click.option("-E", "--endtime", "until", metavar="TIME", help="Submitted before.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help="The newest so many; 0 is all.  [default: 50; all of --by day, week, month]",
)
@click.option("-o", "--format", "fields", metavar="LIST", help="Fields to show: jobid,user,elapsed, …")
@click.option("-e", "--helpformat", is_flag=True, help="List the fields that --format knows.")
@click.option("--count", is_flag=True, help="Print how many there are, and nothing else.")
@click.option("--summary", is_flag=True, help="Print how many there are and how they ended.")
@click.option("--by", metavar="FIELD", help="Print failures by user, partition, day, week, month, …")
@click.option("--history", metavar="JOBID", help="Print what was seen of one job, and when.")
@click.option("-P", "--parsable", is_flag=True, help="For programs: |-separated, whole, without alignment.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object a line.")
def command(
    home: Path | None,
    cluster: tuple[str, ...],
    limit: int | None,
    fields: str | None,
    helpformat: bool,
    count: bool,
    summary: bool,
    by: str | None,
    history: str | None,
    parsable: bool,
    as_json: bool,
    **which: Any,
) -> None:
    """List, filter and count the jobs in the store.

    Flags are those of sacct; -S and -E speak of the time of submit. Lists are separated by commas.
    Times are shown in the clock of the job's cluster; --json has Unix seconds and bytes, null where
    a value is missing.

    \b
    Examples:
      forewarn jobs -u alice -s failed,timeout -S now-7days
      forewarn jobs --count -s OOM -p gpu
      forewarn jobs --by user -S now-30days
      forewarn jobs -j 1234 -o jobid,nodelist,exitcode,maxrss
      forewarn jobs --limit 0 --json | jq .time_limit
    """
    if helpformat:
        echo("\n".join(sorted(FIELDS)))
        return
    names = chosen(fields) if fields else None
    with opened(home=home) as workspace:
        store, policy = workspace.reading(), workspace.config.policy
        if history is not None:
            changes = job_history(store, history, split(cluster))
            print_history(changes, timezones(store), as_json=as_json)
            return
        query = query_of(store, cluster=cluster, note=note, **which)
        if count:
            echo(query.count(store, progress))
        elif by:
            print_breakdown(break_down(store, query, by, policy, progress), limit, as_json=as_json)
        elif summary:
            print_summary(summarise(store, query, progress), as_json=as_json)
        else:
            _list(store, query, names, limit, parsable=parsable, as_json=as_json)


def _list(
    store: Store,
    query: Query,
    names: tuple[str, ...] | None,
    limit: int | None,
    *,
    parsable: bool,
    as_json: bool,
) -> None:
    """Print jobs as they are read, so that many of them need no memory."""
    zones = timezones(store)
    usual = ("cluster", *DEFAULT) if len(query.clusters or zones) > 1 else DEFAULT
    columns = [*JOB_SCHEMA, KNOWN_AT] if as_json and not names else columns_of(names or usual)
    limit = LIMIT if limit is None else limit
    frames = query.newest(store, columns, limit) if limit else query.all(store, columns)
    if as_json:
        print_jobs_json(frames, names)
    elif parsable:
        print_parsable(frames, names or usual, zones)
    else:
        print_jobs(frames, names or usual, zones, limit, whole=names is not None)
