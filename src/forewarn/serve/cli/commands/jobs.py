"""`forewarn jobs`: list, filter and count the jobs in the store."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from forewarn.job.columns import JOB_SCHEMA
from forewarn.operate.breakdown import break_down
from forewarn.operate.job_fields import FIELDS, columns_of, parse_fields
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
    "-S",
    "--starttime",
    "since",
    metavar="TIME",
    help="Submitted from TIME on: 2024-01-31T13:30, now-7days, …",
)
@click.option("-E", "--endtime", "until", metavar="TIME", help="Submitted before TIME.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help="Number of newest jobs or groups; 0 for all.  [default: 50; all with --by day, week, month]",
)
@click.option("-o", "--format", "fields", metavar="LIST", help="Fields: jobid,user,elapsed, …")
@click.option("-e", "--helpformat", is_flag=True, help="List the fields of --format.")
@click.option("--count", is_flag=True, help="Print only the number of jobs.")
@click.option("--summary", is_flag=True, help="Print the number of jobs and their outcomes.")
@click.option("--by", metavar="FIELD", help="Print the failure rate by user, partition, day, week, month, …")
@click.option("--history", metavar="JOBID", help="Print the observations of one job and their times.")
@click.option("-P", "--parsable", is_flag=True, help="For programs: |-separated, nothing shortened.")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object per line.")
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
    **filters: Any,
) -> None:
    """List, filter and count the jobs in the store.

    The flags are those of sacct; -S and -E select by submit time. LIST is comma-separated. Times are in
    the time zone of the job's cluster; --json has Unix seconds and bytes, and null for missing values.

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
    names = parse_fields(fields) if fields else None
    with opened(home=home) as workspace:
        store, policy = workspace.reading(), workspace.config.policy
        if history is not None:
            changes = job_history(store, history, split(cluster))
            print_history(changes, timezones(store), as_json=as_json)
            return
        query = query_of(store, cluster=cluster, note=note, **filters)
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
    """Print jobs while they are read, so that memory use does not grow with their number."""
    zones = timezones(store)
    defaults = ("cluster", *DEFAULT) if len(query.clusters or zones) > 1 else DEFAULT
    columns = [*JOB_SCHEMA, KNOWN_AT] if as_json and not names else columns_of(names or defaults)
    limit = LIMIT if limit is None else limit
    frames = query.newest(store, columns, limit) if limit else query.all(store, columns)
    if as_json:
        print_jobs_json(frames, names)
    elif parsable:
        print_parsable(frames, names or defaults, zones)
    else:
        print_jobs(frames, names or defaults, zones, limit, whole=names is not None)
