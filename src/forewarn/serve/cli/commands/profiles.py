"""`forewarn profiles`: cluster jobs into a few profiles and describe them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from forewarn.formatting import (
    byte_size,
    count,
    duration,
    number,
    percent_in_table,
    rough_duration,
    significant,
    times,
)
from forewarn.job.outcomes import outcome_name
from forewarn.learn.heads.profiles_number import MOST
from forewarn.learn.heads.profiles_space import APART
from forewarn.operate.profiles import ProfilesResult, find_profiles
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import cluster_option, population_option, seed_option, status_option
from forewarn.serve.cli.terminal.breakdown import bar
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say
from forewarn.serve.cli.terminal.progress import progress

_BAR = 24  # characters of the longest bar
_HEADINGS = {"size": "CPUs", "memory": "memory", "run_time": "run time", "wait": "wait"}


@click.command("profiles")
@click.argument("source", required=False, metavar="[SOURCE]")
@home_option
@cluster_option
@population_option
@click.option(
    "-k",
    "number",
    type=click.IntRange(1, MOST),
    help="Number of profiles.  [default: at the elbow]",
)
@status_option
@seed_option
@json_option
def command(
    source: str | None,
    home: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Cluster jobs into a few profiles and describe them.

    Profiles are the components of a Gaussian mixture over size, memory, run time, wait, the activity of
    the user and the job type (memory per CPU relative to the cluster's median). Their number is the elbow
    of the K-Means curve. Each job is assigned to its most likely profile.

    SOURCE: use a file instead of the store, such as swf:FILE or sacct:FILE.

    \b
    Examples:
      forewarn profiles
      forewarn profiles -k 5 -M blue --population papers
      forewarn profiles swf:CTC-SP2-1996-3.1-cln.swf.gz --json
    """
    with opened(home=home) as workspace:
        result = find_profiles(workspace, source, watch=progress, note=note, **options)
    if as_json:
        about = {"cluster": result.cluster, "policy": result.population, "seed": result.seed}
        print_json(about | dict(result.description))
    else:
        _print_all(result)


def _print_all(result: ProfilesResult) -> None:
    found = result.description
    left_out = ", ".join(f"{what} ({why})" for what, why in found["left_out"].items())
    print_facts(
        f"{result.cluster}: {count(len(found['profiles']), 'profile')} of {count(found['jobs'], 'job')}",
        {
            "population": result.failures,
            "left out": left_out or None,
            "fitted on": count(found["fitted_on"], "job") if found["fitted_on"] < found["jobs"] else None,
        },
    )
    _print_curves(found["number"])
    _print_profiles(found["profiles"])
    _print_mixes(found)


def _print_curves(choice: Mapping[str, Any]) -> None:
    curves = choice["curves"]
    if not curves:
        say("too few jobs, or too few recorded quantities, to separate profiles")
        return
    words: dict[int, list[str]] = {}
    for place, word in (("elbow", "elbow"), ("lowest_bic", "lowest BIC"), ("chosen", "chosen")):
        words.setdefault(choice[place], []).append(word)
    most = curves[0]["wcss"] or 1
    print_facts("\nNumber of profiles: within-cluster sum of squares of K-Means, BIC of the mixture", {})
    print_table(
        ("profiles", "squares", "curve", "BIC", ""),
        [
            (
                str(point["k"]),
                percent_in_table(point["wcss"] / most),
                bar(point["wcss"] / most * _BAR),
                number(point["bic"]),
                ", ".join(words.get(point["k"], [])),
            )
            for point in curves
        ],
        right=("profiles", "squares", "BIC"),
        drop=("curve", "BIC"),
    )


def _print_profiles(profiles: Sequence[Mapping[str, Any]]) -> None:
    print_facts("\nProfiles", {})
    cells: list[Sequence[str | None]] = [
        (
            number(each["jobs"]),
            percent_in_table(each["share"]),
            number(each["users"]),
            percent_in_table(each["failed"]),
        )
        for each in profiles
    ]
    _print(("jobs", "share", "users", "failed"), cells, profiles)
    numbers = list(profiles[0]["numbers"])
    if numbers:
        print_facts("\nMean ± standard deviation", {})
        cells = [[_mean(name, each["numbers"][name]) for name in numbers] for each in profiles]
        _print([_HEADINGS[name] for name in numbers], cells, profiles)


def _print_mixes(found: Mapping[str, Any]) -> None:
    profiles, bounds = found["profiles"], found["bounds"]
    run_time, activity = bounds["duration"], bounds["activity"]
    short, long = run_time["short_below"], run_time["long_from"]
    new, frequent = activity["new_below"], activity["frequent_from"]
    titles = {
        "duration": f"Run time: short under {rough_duration(short)}, long from {rough_duration(long)}",
        "activity": f"Users: new under {new} earlier jobs, frequent from {frequent}",
        "type": "",
        "outcomes": "Outcomes",
    }
    if bounds["memory_per_cpu_median"]:
        median = byte_size(bounds["memory_per_cpu_median"])
        titles["type"] = (
            f"Type: memory from {times(APART)} the median of {median} per CPU, compute up to half of it"
        )
    for what, title in titles.items():
        levels = list(dict.fromkeys(level for each in profiles for level in each[what]))
        if title and levels:
            print_facts(f"\n{title}", {})
            cells = [
                [percent_in_table(each[what].get(level, 0.0) if each[what] else None) for level in levels]
                for each in profiles
            ]
            _print([outcome_name(level) for level in levels], cells, profiles)


def _print(
    headings: Sequence[str],
    cells: Iterable[Sequence[str | None]],
    profiles: Sequence[Mapping[str, Any]],
) -> None:
    print_table(
        ("#", "profile", *headings),
        [(str(each["profile"]), each["words"], *row) for each, row in zip(profiles, cells, strict=True)],
        right=("#", *headings),
        shorten=("profile",),
        drop=("profile",),
    )


def _mean(name: str, of: Mapping[str, float | None]) -> str | None:
    """Format a mean with its standard deviation in the unit of the quantity.

    >>> _mean("size", {"mean": 8.25, "spread": 2.0}), _mean("run_time", {"mean": 90.0, "spread": 7200.0})
    ('8.25 ± 2', '0:01:30 ± 2:00:00')
    """
    if of["mean"] is None:
        return None
    formats = {"size": lambda value: significant(value, 3), "memory": byte_size}
    in_unit = formats.get(name, duration)
    return f"{in_unit(of['mean'])} ± {in_unit(of['spread'] or 0.0)}"
