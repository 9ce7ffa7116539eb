"""`forewarn evaluate`: how good registered models are on jobs that none of them has learnt from."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from forewarn.errors import NotEnoughError, UsageError
from forewarn.serve.cli.common import configured, home_option, json_option
from forewarn.serve.cli.learning import print_judged, seed_option
from forewarn.serve.cli.moments import parse_moment
from forewarn.serve.cli.output import print_facts, print_json
from forewarn.serve.cli.progress import progress

if TYPE_CHECKING:
    from forewarn.learn.registry import Registry
    from forewarn.learn.serving import ModelName
    from forewarn.learn.versions import Version


def _numbers_or_aliases(
    _: click.Context, __: click.Parameter, given: tuple[str, ...]
) -> tuple[int | str, ...]:
    for one in given:
        if not one.isdecimal() and one not in ("champion", "challenger"):
            raise click.BadParameter(f"{one!r}: give a number, champion or challenger")
    return tuple(int(one) if one.isdecimal() else one for one in given)


@click.command("evaluate")
@click.argument("model", metavar="MODEL")
@click.argument("which", nargs=-1, metavar="[VERSION]...", callback=_numbers_or_aliases)
@home_option
@click.option("-S", "--starttime", "since", metavar="TIME", help="Only jobs submitted from then on.")
@click.option("-E", "--endtime", "until", metavar="TIME", help="Only jobs submitted before.")
@seed_option
@json_option
def command(
    model: str,
    which: tuple[int | str, ...],
    home: Path | None,
    since: str | None,
    until: str | None,
    seed: int,
    as_json: bool,
) -> None:
    """Judge registered models on jobs that none of them has learnt from.

    MODEL is CLUSTER.PHASE.FEATURES as `forewarn models list` names it. VERSION is a number, `champion` or
    `challenger`; by default both of them, so that one sees whether to promote. All are judged on the same
    jobs, submitted after what any of them learnt from. To judge on newer ones, ingest them first: what was
    knowable of a job rests on the history before it.

    \b
    Examples:
      forewarn evaluate alps.submit.generic                   champion and challenger
      forewarn evaluate alps.submit.generic 3 4 -S now-30days
    """
    import numpy as np

    from forewarn.learn.bootstrap import difference, groups
    from forewarn.learn.bundle import Bundle
    from forewarn.learn.evaluation import evaluate
    from forewarn.learn.population import POPULATIONS
    from forewarn.learn.registry import Registry
    from forewarn.learn.serving import ModelName
    from forewarn.learn.split import FEWEST
    from forewarn.learn.table import read_table
    from forewarn.learn.thresholds import threshold_for_f1
    from forewarn.serve.cli.history_of import learning_store

    config = configured(home=home)
    name = ModelName.parse(model)
    registry = Registry(config.home, config.tracking)
    found = _versions(registry, name, which)
    bundles = {version.version: Bundle.load(registry.bundle(version)) for version in found}
    populations = {bundle.facts.population for bundle in bundles.values()}
    if len(populations) > 1:
        raise UsageError(
            f"{name}: these versions count failure differently ({', '.join(sorted(populations))}), so no "
            "jobs judge them both. Evaluate one at a time"
        )
    learnt_until = max(bundle.facts.learnt_until for bundle in bundles.values())
    with learning_store(None, config, name.cluster) as (store, cluster):
        zone = store.clusters()[cluster].timezone
        begin = _moment(since, zone) or learnt_until
        end = _moment(until, zone) or 2**62
        if begin < learnt_until:
            raise UsageError(
                f"--starttime: jobs submitted before {_shown(learnt_until)} were learnt from: no proof"
            )
        with progress(f"features at {name.phase}") as far:
            table = read_table(store, cluster, name.phase, POPULATIONS[populations.pop()], far)
    rows = np.flatnonzero(table.labelled & (table.submit >= begin) & (table.submit < end))
    if len(rows) < FEWEST:
        raise NotEnoughError(
            f"{name}: {len(rows)} jobs with a known outcome were submitted since {_shown(begin)}, after what "
            f"was learnt from: {FEWEST} are the least to judge by. Ingest newer history"
        )
    before = np.flatnonzero(table.labelled & (table.submit < begin))
    if not len(before):  # the store may hold only what came after
        before = rows
    stated = {
        version: bundle.risk(bundle.assembly.matrix(table, rows), bundle.excess(table, rows))
        for version, bundle in bundles.items()
    }
    p = {version: risk.probability for version, risk in stated.items()}
    judged = {
        version: evaluate(
            table,
            rows,
            p[version],
            bundle.chosen.value,
            train_rows=before,
            for_f1=threshold_for_f1(bundle.thresholds),
            outcomes=bundle.causes.outcomes(stated[version].by_cause) if bundle.causes else None,
            hours_lost=bundle.causes.hours_lost(stated[version].by_cause, table.about[rows])
            if bundle.causes
            else None,
            seed=seed,
        )
        for version, bundle in bundles.items()
    }
    ahead = None
    if len(bundles) == 2:
        old, new = ((p[version] >= bundle.chosen.value) for version, bundle in bundles.items())
        ahead = difference(groups(table.about[rows]), table.fails[rows], new, old, seed=seed)
    if as_json:
        versions = {f"version {version}": evaluation for version, evaluation in judged.items()}
        print_json(
            {
                "model": str(name),
                "from": begin,
                "jobs": len(rows),
                "versions": versions,
                "f1_above_first": ahead,
            }
        )
        return
    titles = [" ".join((f"version {v.version}", *v.aliases)) for v in found]
    print_judged(
        f"{name} on jobs from {_shown(begin)} on, which it has not learnt from",
        dict(zip(titles, judged.values(), strict=True)),
    )
    if ahead:
        interval = ahead["interval"]
        between = f"  [{interval[0]:+.3f}, {interval[1]:+.3f}]" if interval else ""
        print_facts("", {f"F1 of {titles[1]} above {titles[0]}": f"{ahead['f1']:+.3f}{between}"})


def _versions(registry: Registry, name: ModelName, which: tuple[int | str, ...]) -> list[Version]:
    """Those asked for, each once; else the champion, and the challenger where there is one."""
    if which:
        found = [registry.version(name, one) for one in which]
        return list({version.version: version for version in found}.values())
    there = registry.versions(name)
    found = [v for alias in ("champion", "challenger") for v in there if alias in v.aliases]
    return found or [registry.version(name)]  # which says what there is instead


def _moment(text: str | None, zone: str) -> int | None:
    return None if text is None else parse_moment(text, zone, datetime.now(UTC))


def _shown(moment: int) -> str:
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%d %H:%M UTC")
