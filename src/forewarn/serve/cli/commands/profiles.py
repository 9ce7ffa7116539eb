"""`forewarn profiles`: the few kinds of jobs that a cluster has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from forewarn.learn.heads.profiles_number import MOST
from forewarn.learn.heads.profiles_space import APART
from forewarn.operate.profiles import ProfilesResult, find_profiles
from forewarn.serve.cli.commands.common import home_option, json_option, opened
from forewarn.serve.cli.commands.learning import cluster_option, policy_option, seed_option, status_option
from forewarn.serve.cli.terminal.breakdown import bar
from forewarn.serve.cli.terminal.output import note, print_facts, print_json, print_table, say, share
from forewarn.serve.cli.terminal.progress import progress

_BAR = 24  # characters of the longest bar
_HEADINGS = {"size": "CPUs", "memory": "memory", "run_time": "run time", "wait": "wait"}
_TIMES = (("s", 1, 120), ("min", 60, 7200), ("h", 3600, 172_800), ("d", 86_400, np.inf))
_SIZES = (("B", 1, 1 << 10), ("K", 1 << 10, 1 << 20), ("M", 1 << 20, 1 << 30), ("G", 1 << 30, 1 << 40))


@click.command("profiles")
@click.argument("source", required=False, metavar="[SOURCE]")
@home_option
@cluster_option
@policy_option
@click.option(
    "-k", "number", type=click.IntRange(1, MOST), help="So many profiles.  [default: where the curve bends]"
)
@status_option
@seed_option
@json_option
def command(
    source: str | None,
    home: Path | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Find the few kinds of jobs that a cluster has, and describe them.

    Jobs are alike in size, memory, run time, wait, how active their user is and their type (memory per
    CPU against the cluster's median). How many kinds there are is where the curve of K-Means bends; the
    kinds themselves are a Gaussian mixture. Each job counts for its most likely one.

    SOURCE: a file to look at instead of the store, as in swf:FILE or sacct:FILE.

    \b
    Examples:
      forewarn profiles
      forewarn profiles -k 5 -M blue --policy papers
      forewarn profiles swf:CTC-SP2-1996-3.1-cln.swf.gz --json
    """
    with opened(home=home) as workspace:
        result = find_profiles(workspace, source, watch=progress, note=note, **how)
    if as_json:
        about = {"cluster": result.cluster, "policy": result.policy, "seed": result.seed}
        print_json(about | dict(result.described))
    else:
        _print_all(result)


def _print_all(result: ProfilesResult) -> None:
    found = result.described
    left_out = ", ".join(f"{what} ({why})" for what, why in found["left_out"].items())
    print_facts(
        f"{result.cluster}: {_counted(len(found['profiles']))} of {found['jobs']:,} jobs",
        {
            "failures": result.failures,
            "left out": left_out or None,
            "fitted on": f"{found['fitted_on']:,} jobs" if found["fitted_on"] < found["jobs"] else None,
        },
    )
    _print_curves(found["number"])
    _print_profiles(found["profiles"])
    _print_mixes(found)


def _counted(profiles: int) -> str:
    return f"{profiles} profiles" if profiles > 1 else "one profile"


def _print_curves(number: Mapping[str, Any]) -> None:
    curves = number["curves"]
    if not curves:
        say("too few jobs to tell kinds apart, or in too few numbers")
        return
    words: dict[int, list[str]] = {}
    for place, word in (("elbow", "bends most"), ("lowest_bic", "lowest BIC"), ("chosen", "chosen")):
        words.setdefault(number[place], []).append(word)
    most = curves[0]["wcss"] or 1
    print_facts("\nHow many: the within-cluster sum of squares of K-Means, the BIC of the mixture", {})
    print_table(
        ("profiles", "squares", "curve", "BIC", ""),
        [
            (
                str(point["k"]),
                f"{point['wcss'] / most * 100:.1f} %",
                bar(point["wcss"] / most * _BAR),
                f"{point['bic']:,.0f}",
                ", ".join(words.get(point["k"], [])),
            )
            for point in curves
        ],
        right=("profiles", "squares", "BIC"),
        drop=("curve", "BIC"),
    )


def _print_profiles(profiles: Sequence[Mapping[str, Any]]) -> None:
    total = sum(each["jobs"] for each in profiles)
    print_facts("\nProfiles", {})
    cells: list[Sequence[str | None]] = [
        (
            f"{each['jobs']:,}",
            share(each["jobs"], total),
            f"{each['users']:,}",
            share(round((each["failed"] or 0) * each["jobs"]), each["jobs"]),
        )
        for each in profiles
    ]
    _print(("jobs", "share", "users", "failed"), cells, profiles)
    numbers = list(profiles[0]["numbers"])
    if numbers:
        print_facts("\nNumbers: mean ± standard deviation", {})
        cells = [[_mean(name, each["numbers"][name]) for name in numbers] for each in profiles]
        _print([_HEADINGS[name] for name in numbers], cells, profiles)


def _print_mixes(found: Mapping[str, Any]) -> None:
    profiles, bounds = found["profiles"], found["bounds"]
    duration, activity = bounds["duration"], bounds["activity"]
    short, long = duration["short_below"] // 3600, duration["long_from"] // 3600
    new, frequent = activity["new_below"], activity["frequent_from"]
    titles = {
        "duration": f"Duration: short under {short} h, long from {long} h",
        "activity": f"Users: new under {new} earlier jobs, frequent from {frequent}",
        "type": "",
        "outcomes": "Outcomes",
    }
    if bounds["memory_per_cpu_median"]:
        median = _amount(bounds["memory_per_cpu_median"], _SIZES)
        titles["type"] = (
            f"Type: memory from {APART:g} times the median of {median} per CPU, compute up to half"
        )
    for what, title in titles.items():
        levels = list(dict.fromkeys(level for each in profiles for level in each[what]))
        if title and levels:
            print_facts(f"\n{title}", {})
            cells = [
                [share(round(each[what].get(level, 0) * each["jobs"]), each["jobs"]) for level in levels]
                for each in profiles
            ]
            _print(levels, cells, profiles)


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
    """
    >>> _mean("size", {"mean": 8.25, "spread": 2.0}), _mean("run_time", {"mean": 90.0, "spread": 7200.0})
    ('8.2 ± 2', '90 s ± 2 h')
    """
    if of["mean"] is None:
        return None
    units = {"size": (("", 1, np.inf),), "memory": _SIZES}.get(name, _TIMES)
    return f"{_amount(of['mean'], units)} ± {_amount(of['spread'] or 0.0, units)}"


def _amount(value: float, units: Sequence[tuple[str, float, float]]) -> str:
    """
    >>> _amount(5400, _TIMES), _amount(3 << 40, _SIZES)
    ('90 min', '3072 G')
    """
    unit, one, _ = next((found for found in units if value < found[2]), units[-1])
    number = value / one
    return f"{number:.{0 if number >= 10 or number == round(number) else 1}f} {unit}".strip()
