"""`forewarn jobs`: list, filter and count the jobs in the store."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import click
import polars as pl

from forewarn.job.columns import JOB_SCHEMA
from forewarn.serve.cli import filters
from forewarn.serve.cli.breakdown import LIMIT, broken_down, columns_for, print_breakdown
from forewarn.serve.cli.common import configured, home_option, store_of
from forewarn.serve.cli.fields import (
    DEFAULT,
    DROPPED,
    FIELDS,
    FREE_TEXT,
    Measure,
    chosen,
    columns_of,
    raw,
    written,
)
from forewarn.serve.cli.history import print_history
from forewarn.serve.cli.moments import parse_moment
from forewarn.serve.cli.output import note, print_facts, print_json, print_table, say, shares
from forewarn.serve.cli.progress import watched
from forewarn.serve.cli.query import Query
from forewarn.serve.cli.terminal import echo, echo_json
from forewarn.store.base import KNOWN_AT, Store


@click.command("jobs")
@home_option
@click.option("-u", "--user", multiple=True, metavar="LIST", help="Jobs of these users.")
@click.option("-A", "--account", multiple=True, metavar="LIST", help="Jobs of these accounts.")
@click.option("-p", "--partition", multiple=True, metavar="LIST", help="Jobs in these partitions.")
@click.option("-s", "--state", multiple=True, metavar="LIST", help="failed, TIMEOUT, OOM, running, …")
@click.option("-j", "--jobs", "ids", multiple=True, metavar="LIST", help="123, 123_4, 123_[1-3], 123+1.")
@click.option("-M", "--cluster", multiple=True, metavar="LIST", help="Jobs of these clusters.")
@click.option(
    "-S", "--starttime", metavar="TIME", help="Submitted at or after: 2024-01-31T13:30, now-7days, …"
)
@click.option("-E", "--endtime", metavar="TIME", help="Submitted before.")
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
    user: tuple[str, ...],
    account: tuple[str, ...],
    partition: tuple[str, ...],
    state: tuple[str, ...],
    ids: tuple[str, ...],
    cluster: tuple[str, ...],
    starttime: str | None,
    endtime: str | None,
    limit: int | None,
    fields: str | None,
    helpformat: bool,
    count: bool,
    summary: bool,
    by: str | None,
    history: str | None,
    parsable: bool,
    as_json: bool,
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
    config = configured(home=home)
    store = store_of(config, read_only=True)
    try:
        clusters = filters.split(cluster)
        zones = {name: facts.timezone for name, facts in store.clusters().items()}
        if history is not None:
            print_history(store, history, clusters, zones, as_json=as_json)
            return
        chosen_ids = filters.ids_of(ids)
        tests = [
            filters.one_of("user", user),
            filters.one_of("account", account),
            filters.in_partition(partition),
            filters.in_state(state),
            chosen_ids.test if chosen_ids else None,
        ]
        query = Query(
            clusters=clusters,
            where=filters.all_of(tests),
            job_ids=sorted(chosen_ids.exact) if chosen_ids and not chosen_ids.whole else None,
            since=_moment(starttime, clusters, zones),
            until=_moment(endtime, clusters, zones),
        )
        if count:
            echo(query.count(store))
        elif by:
            frames = watched(query.all(store, columns_for(by.lower())), "counting")
            table = broken_down(frames, by.lower(), zones, config.policy)
            print_breakdown(table, by.lower(), config.policy, limit, as_json=as_json)
        elif summary:
            _print_summary(query, store, as_json=as_json)
        else:
            usual = ("cluster", *DEFAULT) if len(clusters or zones) > 1 else DEFAULT
            columns = [*JOB_SCHEMA, KNOWN_AT] if as_json and not names else columns_of(names or usual)
            now, limit = int(time.time()), LIMIT if limit is None else limit
            frames = query.newest(store, columns, limit, now) if limit else query.all(store, columns)
            if as_json:
                _print_json(frames, names)
            elif parsable:
                _print_parsable(frames, names or usual, zones)
            else:
                frames = watched(frames, "looking")
                _print_jobs(frames, names or usual, zones, limit, whole=names is not None)
    finally:
        store.close()


def _moment(text: str | None, clusters: Sequence[str], zones: Mapping[str, str]) -> int | None:
    """A moment in the clock of the clusters asked for, if they share one."""
    if text is None:
        return None
    meant = {zone for name, zone in zones.items() if not clusters or name in clusters} or {"UTC"}
    if len(meant) > 1:
        note(f"these clusters' clocks differ ({', '.join(sorted(meant))}): {text} is read as UTC")
        meant = {"UTC"}
    return parse_moment(text, meant.pop(), datetime.now(UTC))


def _print_summary(query: Query, store: Store, *, as_json: bool) -> None:
    outcomes: Counter[str] = Counter()
    total = 0
    for frame in watched(query.all(store, ["outcome"]), "counting"):
        total += frame.height
        outcomes.update(dict(frame["outcome"].drop_nulls().value_counts().iter_rows()))
    if as_json:
        print_json({"jobs": total, "ended": outcomes.total(), "outcomes": dict(outcomes.most_common())})
    else:
        title = f"{total:,} jobs, {outcomes.total():,} of them ended"
        print_facts(title, {"outcomes": shares(outcomes)})


def _print_json(frames: Iterator[pl.DataFrame], names: tuple[str, ...] | None) -> None:
    for frame in frames:
        shown = frame.select(raw(name) for name in names) if names else frame
        for part in shown.iter_slices(10_000):
            echo_json(part.write_ndjson(), end="")


def _print_parsable(frames: Iterator[pl.DataFrame], names: tuple[str, ...], zones: Mapping[str, str]) -> None:
    """As `sacct --parsable2`: a heading, then lines; a | or line break in a value has a backslash."""
    echo("|".join(names))
    for frame in frames:
        text = frame.select(
            written(name, zones, exact=True)
            .fill_null("")
            .str.replace_all(r"[\\|]", r"\$0")
            .str.replace_all("\n", r"\n", literal=True)
            for name in names
        )
        for row in text.iter_rows():
            echo("|".join(row))


def _print_jobs(
    frames: Iterator[pl.DataFrame],
    names: tuple[str, ...],
    zones: Mapping[str, str],
    limit: int,
    *,
    whole: bool,
) -> None:
    texts = [frame.select(written(name, zones, exact=False) for name in names) for frame in frames]
    if not texts:
        say("no such jobs")
        return
    table = pl.concat(texts)
    if not whole:  # a log that never has a field need not say so on every line
        table = table.select(name for name in names if table[name].null_count() < table.height)
    right = {name for name in names if FIELDS[name].measure is not Measure.TEXT}
    # What was asked for by name is shown; what is usual gives way to what matters more.
    left_out = print_table(
        table.columns,
        table.iter_rows(),
        right=right,
        shorten=FREE_TEXT,
        drop=() if whole else DROPPED,
    )
    if left_out:
        say(f"no room for {', '.join(left_out)}; --format shows what is asked for")
    if limit and table.height == limit:
        say(f"the newest {limit:,}; --limit 0 shows all, --count counts")
