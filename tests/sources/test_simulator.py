"""The simulated cluster: what happens follows from what is true, and every format gives it back."""

from __future__ import annotations

import gzip
from collections import defaultdict
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from forewarn.errors import ForewarnError, UsageError
from forewarn.job.columns import KEYS, SCHEMAS
from forewarn.job.outcomes import Outcome
from forewarn.job.units import compress_nodes, expand_nodes, parse_duration
from forewarn.sources.base import SourceOptions, open_source
from forewarn.sources.simulator import TRUTH_SCHEMA, Scenario, Simulator, load_scenario, replay, simulate
from forewarn.sources.simulator.columns import node_lists
from forewarn.sources.simulator.kernel import endings
from forewarn.sources.simulator.truth import Ending
from forewarn.sources.simulator.writers import SacctWriter, SlurmrestdWriter
from forewarn.sources.simulator.writers.machine import write_machine

JOBS = 12_000
SCENARIOS = ("default", "small", "harsh", "drift")


def simulated(
    scenario: str | Scenario, seed: int, jobs: int, **how: int
) -> tuple[pl.DataFrame, pl.DataFrame]:
    scenario = load_scenario(scenario) if isinstance(scenario, str) else scenario
    batches = list(Simulator(scenario, seed, jobs, **how))
    return pl.concat(seen for seen, _ in batches), pl.concat(truth for _, truth in batches)


@pytest.fixture(scope="module")
def small() -> tuple[pl.DataFrame, pl.DataFrame]:
    return simulated("small", 3, JOBS)


@pytest.fixture(scope="module")
def ended(small: tuple[pl.DataFrame, pl.DataFrame]) -> pl.DataFrame:
    """Each job's last observation beside its truth."""
    seen, truth = small
    last = seen.filter(pl.col("outcome").is_not_null())
    return last.join(truth, on=list(KEYS["job"]), how="inner", validate="1:1", maintain_order="left")


# --- determinism -----------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_jobs_whatever_the_batches(
    small: tuple[pl.DataFrame, pl.DataFrame],
) -> None:
    for batch in (997, 20_000):
        again = simulated("small", 3, JOBS, batch_jobs=batch)
        for one, other in zip(small, again, strict=True):
            assert_frame_equal(one, other)


def test_another_seed_gives_other_jobs(small: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    other, _ = simulated("small", 4, 2000)
    assert not other.head(500).equals(small[0].head(500))


def test_more_jobs_in_flight_than_the_ring_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ring grows without changing anything."""
    usual = simulated("small", 5, 6000)
    monkeypatch.setattr("forewarn.sources.simulator.world._RING", 1 << 11)
    for one, other in zip(usual, simulated("small", 5, 6000), strict=True):
        assert_frame_equal(one, other)


# --- what is seen ----------------------------------------------------------------------------------


def test_observations_are_jobs_in_order_of_submission(small: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    seen, truth = small
    assert dict(seen.schema) == SCHEMAS["job"]
    assert dict(truth.schema) == dict(TRUTH_SCHEMA)
    assert truth.height == JOBS
    assert truth.select(KEYS["job"]).is_unique().all()
    assert seen["submit"].is_sorted()
    assert seen["reconstructed"].any() is False
    assert 1.02 < seen.height / JOBS < 1.4


def test_the_truth_is_not_among_the_observations() -> None:
    assert set(TRUTH_SCHEMA) & set(SCHEMAS["job"]) == set(KEYS["job"])


def test_times_are_in_order(ended: pl.DataFrame) -> None:
    assert ended.select((pl.col("start") >= pl.col("submit")).all()).item()
    assert ended.select((pl.col("end") >= pl.coalesce("start", "submit")).all()).item()
    assert ended.select((pl.col("seen_at") == pl.col("end")).all()).item()
    assert ended.filter(pl.col("start").is_null())["outcome"].unique().to_list() == ["cancelled"]


def test_a_change_while_pending_is_seen_before_and_after(small: tuple[pl.DataFrame, pl.DataFrame]) -> None:
    seen, _ = small
    waiting = seen.filter(pl.col("state") == "PENDING")
    pairs = waiting.group_by(KEYS["job"], maintain_order=True).agg(
        pl.len(),
        pl.col("seen_at").first().alias("first"),
        pl.col("seen_at").last().alias("changed"),
        (pl.col("time_limit").n_unique() + pl.col("partition").n_unique()).alias("different"),
    )
    assert pairs.height > 100
    assert pairs["len"].unique().to_list() == [2]
    assert (pairs["first"] == pairs["submit"]).all()
    assert (pairs["changed"] > pairs["submit"]).all()
    assert pairs["different"].min() == 3  # of the two, one is different
    later = ("start", "end", "outcome", "exit_code", "nodes", "cpus_given", "max_memory", "cancelled_by")
    assert waiting.select(pl.all_horizontal(pl.col(later).is_null()).all()).item()
    last = seen.filter(pl.col("outcome").is_not_null()).join(
        waiting.group_by(KEYS["job"]).last(), on=list(KEYS["job"]), suffix="_changed"
    )
    assert (last["time_limit"] == last["time_limit_changed"]).all()
    assert (last["partition"] == last["partition_changed"]).all()


def test_names_and_arrays(ended: pl.DataFrame) -> None:
    arrays = ended.filter(pl.col("array_job_id").is_not_null())
    ids = arrays.select(pl.concat_str("array_job_id", "array_task_id", separator="_")).to_series()
    assert (ids == arrays["job_id"]).all()
    assert ended["raw_id"].n_unique() == JOBS
    last_of_array = arrays.filter(pl.col("raw_id") == pl.col("array_job_id"))
    assert last_of_array.height == arrays["array_job_id"].n_unique()
    assert ended["name"].str.contains(r"_\d{3}$").mean() > 0.1  # type: ignore[operator]


def test_people_work_by_their_clock(ended: pl.DataFrame) -> None:
    local = pl.from_epoch("submit").dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin")
    campaigns = ended.unique("campaign").select(hour=local.dt.hour(), day=local.dt.weekday())
    assert campaigns.filter(pl.col("hour").is_between(8, 18)).height > 0.6 * campaigns.height
    assert campaigns.filter(pl.col("day") > 5).height < 0.15 * campaigns.height


def test_requests_left_to_the_site_say_so(ended: pl.DataFrame) -> None:
    left = ended.filter(pl.col("defaulted").str.contains("time_limit"))
    assert left.height > 0
    assert left.select(pl.col("submit_line").str.contains(" -t ").any()).item() is False
    asked = ended.filter(~pl.col("defaulted").fill_null("").str.contains("memory_asked"))
    assert asked.select(pl.col("submit_line").str.contains(" --mem").all()).item()


# --- the machine -----------------------------------------------------------------------------------


def check_capacity(scenario: Scenario, seen: pl.DataFrame) -> None:
    """At no time does a node hold more than it has."""
    ran = seen.filter(pl.col("start").is_not_null() & (pl.col("end") > pl.col("start")))
    room = {g.prefix: (g.cpus, g.memory_gib << 30, g.gpus) for g in scenario.nodes}
    changes: dict[str, list[tuple[int, ...]]] = defaultdict(list)
    expanded = {text: expand_nodes(text) for text in ran["nodes"].unique()}
    for text, start, end, count, *held in ran.select(
        "nodes",
        "start",
        "end",
        "nodes_given",
        "cpus_given",
        "memory_given",
        pl.col("gpus_given").fill_null(0),
    ).iter_rows():
        nodes = expanded[text]
        assert len(nodes) == count == len(set(nodes))
        each = [amount // count for amount in held]
        for node in nodes:
            # What ends in a second makes room for what starts in it.
            changes[node].append((start, 1, *each))
            changes[node].append((end, 0, *(-amount for amount in each)))
    for node, steps in changes.items():
        held_now = np.cumsum(np.array(sorted(steps))[:, 2:], axis=0)
        assert (held_now <= np.array(room[node.rstrip("0123456789")])).all(), node


@pytest.mark.parametrize("name", ["small", "harsh"])
def test_no_node_ever_holds_more_than_it_has(name: str) -> None:
    scenario = load_scenario(name)
    check_capacity(scenario, simulated(scenario, 11, 6000)[0])


# The same machines each time: compiled code that does not end cannot be interrupted, and there is a machine
# on which it does not (docs/simulator.md, "Known limits").
@pytest.mark.slow
@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 2**63 - 1),
    nodes=st.integers(1, 12),
    cpus=st.integers(1, 32),
    memory=st.integers(1, 64),
    limit=st.sampled_from(["0:30:00", "6:00:00", "2-00"]),
    busy=st.floats(20, 2000),
)
def test_any_machine_gets_its_jobs_done(
    seed: int, nodes: int, cpus: int, memory: int, limit: str, busy: float
) -> None:
    """However small the machine, no request is one that could never start."""
    base = load_scenario("small")
    apps = {name: app for name, app in base.applications.items() if not app.gpus}
    seconds = parse_duration(limit)
    assert seconds is not None
    scenario = replace(
        base,
        cluster=replace(base.cluster, jobs_per_day=busy),
        nodes=(replace(base.nodes[0], count=nodes, cpus=cpus, memory_gib=memory),),
        partitions=tuple(
            replace(
                p, nodes=base.nodes[0].prefix, time_max=seconds, time_default=min(p.time_default, seconds)
            )
            for p in base.partitions
        ),
        applications=apps,
    )
    seen, truth = simulated(scenario, seed, 300)
    assert truth.height == 300
    check_capacity(scenario, seen)
    jobs = seen.filter(pl.col("outcome").is_not_null()).join(truth, on=list(KEYS["job"]))
    for row in jobs.iter_rows(named=True):
        assert replay(row).outcome == row["outcome"]


def test_limits_of_partitions_hold(ended: pl.DataFrame) -> None:
    specs = {p.name: p for p in load_scenario("small").partitions}
    for (name,), jobs in ended.group_by("partition"):
        spec = specs[str(name)]
        assert jobs["time_limit"].max() <= spec.time_max  # type: ignore[operator]
        assert jobs["nodes_asked"].max() <= spec.nodes_max  # type: ignore[operator]
        assert jobs["nodes"].drop_nulls().str.starts_with(spec.nodes).all()
    assert (ended["time_limit"] % 60 == 0).all()


def test_waiting_comes_from_capacity(ended: pl.DataFrame) -> None:
    """On three times the nodes the same people wait less."""
    scenario = load_scenario("small")
    larger = tuple(replace(group, count=3 * group.count) for group in scenario.nodes)
    roomy, _ = simulated(replace(scenario, nodes=larger), 3, JOBS)
    wait = (pl.col("start") - pl.col("submit")).mean()
    assert roomy.select(wait).item() < 0.4 * ended.select(wait).item()


def test_node_lists_are_slurms() -> None:
    scenario = load_scenario("small")
    placed = np.array([[4, 2, 3], [20, 0, 0], [9, 7, 0], [0, 0, 0]])
    counts = np.array([3, 1, 2, 0])
    assert node_lists(scenario, placed, counts).to_list() == [
        compress_nodes(["n005", "n003", "n004"]),
        "g001",
        compress_nodes(["n010", "n008"]),
        None,
    ]


# --- truth and outcome -----------------------------------------------------------------------------


def test_outcomes_follow_from_truth(ended: pl.DataFrame) -> None:
    col = pl.col
    run_time = col("end") - col("start")
    too_big, too_long = col("need_memory") > col("had_memory"), col("need_time") > col("had_time")
    rules = {
        "none": (col("outcome") == "completed") & ~too_big & (run_time == col("need_time")),
        "memory": (col("outcome") == "out_of_memory") & too_big & (run_time == col("peak_after")),
        "time": (col("outcome") == "timeout") & too_long & (run_time >= col("had_time")),
        "script": (col("outcome") == "failed") & (run_time == col("bug_after")),
        "input": (col("outcome") == "failed") & (run_time == col("bug_after")),
        "node": col("outcome").is_in(["failed", "node_fail"]) & (run_time == col("node_after")),
        "file_system": (col("outcome") == "failed") & (run_time == col("outage_after")),
        "user_cancel": (col("outcome") == "cancelled") & (col("cancelled_by") == col("user")),
        "preempted": (col("outcome") == "preempted") & (col("partition") == "scavenger"),
    }
    assert set(rules) == set(endings.CAUSES)
    for cause, rule in rules.items():
        wrong = ended.filter(col("cause") == cause).filter(~rule.fill_null(False))
        assert wrong.is_empty(), (cause, wrong.row(0, named=True))
    ran = ended.filter(col("start").is_not_null())
    assert (ran["memory_given"] == ran["had_memory"] * ran["had_nodes"]).all()
    assert (ended["time_limit"] == ended["had_time"]).all()


def test_exit_codes_are_as_slurm_shows_them(ended: pl.DataFrame) -> None:
    ends = {
        cause: set(group.select("exit_code", "exit_signal").iter_rows())
        for (cause,), group in ended.group_by("cause")
    }
    for cause in ("none", "time", "user_cancel"):
        assert ends[cause] == {(0, 0)}
    assert ends["memory"] == {(0, 125)}
    assert (1, 0) in ends["script"]
    assert (0, 0) not in ends["script"] | ends["input"] | ends["node"] | ends["file_system"]
    assert (107, 0) in ends["file_system"]
    sick = ended.filter((pl.col("cause") == "node") & (pl.col("outcome") == "failed"))
    assert set(sick["exit_code"]) <= {0, 5, 107}


def test_replay_gives_the_simulated_ending(ended: pl.DataFrame) -> None:
    for row in ended.sample(4000, seed=1).iter_rows(named=True):
        run_time = None if row["start"] is None else row["end"] - row["start"]
        assert replay(row) == Ending(Outcome(row["outcome"]), row["cause"], run_time)


def test_replay_with_what_it_takes(ended: pl.DataFrame) -> None:
    plenty: dict[str, Any] = {"memory": 1 << 50, "time_limit": 1 << 40}
    for row in ended.filter(pl.col("cause") != "none").iter_rows(named=True):
        healthy = [] if row["sick_node"] is None else [row["sick_node"]]
        given = replay(row, **plenty, exclude=healthy)
        assert (given.outcome is Outcome.COMPLETED) == row["completes_if_given"]
        elsewhere = replay(row, exclude=healthy)
        assert (elsewhere.outcome is Outcome.COMPLETED) == row["completes_elsewhere"]
        if row["cause"] == "memory":
            assert replay(row, memory=row["need_memory"]).cause != "memory"
            assert replay(row, memory=row["need_memory"] - 1).cause == "memory"
        if row["cause"] == "time":
            assert replay(row, time_limit=row["need_time"]).cause != "time"


def test_a_sick_node_strikes_who_runs_on_it(ended: pl.DataFrame) -> None:
    sick = ended.filter(pl.col("cause") == "node")
    assert sick.height > 20
    for nodes, node in sick.select("nodes", "sick_node").iter_rows():
        assert node in expand_nodes(nodes)


def test_an_outage_kills_many_at_once() -> None:
    """The ends of an outage's jobs lie within its first minutes; in the paper's bursts there are 25."""
    seen, truth = simulated("default", 2, 30_000)
    hit = seen.join(truth.filter(pl.col("cause") == "file_system"), on=list(KEYS["job"]))
    bursts = hit.sort("end").with_columns(burst=(pl.col("end").diff() > 3600).fill_null(False).cum_sum())
    largest = bursts.group_by("burst").agg(pl.len(), pl.col("user").n_unique()).sort("len").row(-1)
    assert largest[1] > 25
    assert largest[2] > 5


def test_broken_scripts_are_tried_again_until_mended(ended: pl.DataFrame) -> None:
    mistakes = ended.filter(
        pl.col("cause").is_in(["script", "input"]) & pl.col("broken_script").is_not_null()
    )
    tries = mistakes.group_by("broken_script").agg(pl.col("submit").n_unique(), pl.col("user").n_unique())
    assert tries["user"].max() == 1
    assert tries.filter(pl.col("submit") > 1).height > 0.1 * tries.height
    completed = ended.filter(pl.col("campaign").is_in(tries["broken_script"].implode()))["outcome"]
    assert (completed == "completed").any()


def test_memory_is_raised_after_a_kill(ended: pl.DataFrame) -> None:
    """The same case again: mostly with more, sometimes unchanged."""
    again = ended.with_columns(
        later=pl.col("had_memory").shift(-1).over("campaign", "case", order_by="submit")
    ).filter((pl.col("cause") == "memory") & pl.col("later").is_not_null())
    more = (again["later"] > again["had_memory"]).mean()
    assert again.height > 50
    assert 0.2 < more < 0.95  # type: ignore[operator]


@pytest.mark.parametrize(
    ("scenario", "rate"), [("small", (0.10, 0.32)), ("default", (0.13, 0.23)), ("harsh", (0.24, 0.50))]
)
def test_shares_are_plausible(scenario: str, rate: tuple[float, float]) -> None:
    _, truth = simulated(scenario, 1, 20_000 if scenario == "small" else 60_000)
    failed = truth.filter(pl.col("cause") != "none")
    assert rate[0] < failed.height / truth.height < rate[1]
    if scenario != "default":
        return
    share = {cause: n / failed.height for cause, n in failed["cause"].value_counts().iter_rows()}
    assert 0.28 < share["script"] + share["input"] < 0.52
    assert 0.10 < share["time"] < 0.30
    assert 0.07 < share["memory"] < 0.25
    assert 0.08 < share["user_cancel"] < 0.30
    assert 0.05 < share["node"] + share["file_system"] < 0.20
    assert share.get("preempted", 0) < 0.1


@pytest.mark.slow
def test_the_last_outcome_of_user_and_request_foretells_something_but_not_all() -> None:
    """Between the real logs' 0.47 and 0.69 or so: neither noise nor a give-away."""
    seen, _ = simulated("default", 1, 60_000)
    jobs = seen.filter(pl.col("outcome").is_not_null()).with_columns(failed=pl.col("outcome") != "completed")
    request = ["user", "cpus_asked", "time_limit", "memory_asked", "partition"]
    # The last one of the same request that had ended by the job's submit.
    known = jobs.select(*request, pl.col("end").alias("at"), last="failed").sort("at")
    paired = jobs.sort("submit").join_asof(known, left_on="submit", right_on="at", by=request)
    guess, truth = paired["last"].fill_null(False), paired["failed"]
    f1 = 2 * int((guess & truth).sum()) / (int(guess.sum()) + int(truth.sum()))
    assert 0.3 < f1 < 0.75


@pytest.mark.slow
def test_drift_comes_on_its_day() -> None:
    """Genomics needs 1.8 times the memory from day 45 on."""
    seen, truth = simulated("drift", 1, 150_000)
    jobs = seen.join(truth, on=list(KEYS["job"])).filter(pl.col("application") == "genomics")
    day = (pl.col("submit") - seen["submit"].min()) / 86400
    before = jobs.filter(day.is_between(20, 45))["need_memory"].log().mean()
    after = jobs.filter(day.is_between(46, 70))["need_memory"].log().mean()
    assert after - before > 0.2  # type: ignore[operator]


# --- scenarios -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_each_scenario_loads_and_runs(name: str) -> None:
    _, truth = simulated(name, 1, 500)
    assert truth["cluster"].unique().to_list() == [load_scenario(name).cluster.name]


def test_what_a_file_leaves_out_is_the_defaults(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('[cluster]\nname = "mine"\n[applications.python]\nrun_hours = 2.0\n')
    scenario, default = load_scenario(mine), load_scenario("default")
    assert scenario.cluster.name == "mine"
    assert scenario.users == default.users
    assert scenario.applications["python"].run_hours == 2.0
    assert scenario.applications["python"].memory_gib == default.applications["python"].memory_gib


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[cluster", "not TOML"),
        ("[cluster]\nnam = 1", "cluster.nam: no such key"),
        ("[users]\nslots = 'many'", "users.slots: int is needed"),
        ("[users]\nskill = 2.0", "users.skill: 2.0 is not between 0.05 and 0.95"),
        ("[cluster]\ntimezone = 'Mars/North'", "cluster.timezone"),
        ("[cluster]\nstart = 5", "cluster.start: date is needed"),
        ("nodes = []", "nodes: at least one group"),
        ("[[nodes]]\nprefix = 'n'", r"nodes\[0\].count: missing"),
        ("[[nodes]]\nprefix='x'\ncount=1\ncpus=1\nmemory_gib=1\ngpus=0", r"partitions\[0\].nodes: no group"),
        ("[applications.new]\nweight = 1.0", "applications.new.names: missing"),
        ("[applications.md]\nmemory_by = 'rack'", "applications.md.memory_by: 'rack' is not one of"),
        ("[applications.training]\ngpus = 8", "applications.training.gpus: no partition"),
        ("[applications.md]\ncpus = [0]", "applications.md: names, cpus and nodes"),
        ("[drift]\nevents = 3", "drift.events: a list is needed"),
        ("[users]\nslots = true", "users.slots: int is needed"),
        ("[users]\nskill = '0.5'", "users.skill: float is needed, not '0.5'"),
        ("[users]\nskill = nan", "users.skill: nan is not a number"),
        ("[cluster]\njobs_per_day = inf", "cluster.jobs_per_day: inf is not a number"),
        ("[cluster]\nname = 5", "cluster.name: str is needed"),
        ("[cluster]\nstart = '2024-01-01'", "cluster.start: date is needed"),
        ("[[nodes]]\nprefx = 'n'", r"nodes\[0\].prefx: no such key; known here: prefix, count"),
        ("[applications.md]\ncpus = ['4']", r"applications.md.cpus\[0\]: int is needed"),
        ("[applications.md]\nmpi = 'yes'", "applications.md.mpi: bool is needed"),
        ("applications = 3", "applications: a table is needed, not 3"),
        ("users = 3", "users: a table is needed"),
        ("[campaigns]\nsingle = 0\nsweep = 0\narray = 0\nchain = 0", "campaigns: one of"),
    ],
)
def test_a_wrong_scenario_is_named(tmp_path: Path, text: str, named: str) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text(text)
    with pytest.raises(UsageError, match=named):
        load_scenario(mine)


def test_a_wrong_time_limit_is_named(tmp_path: Path) -> None:
    default = (resources.files("forewarn.sources.simulator") / "scenarios" / "default.toml").read_text()
    mine = tmp_path / "mine.toml"
    mine.write_text(default.replace('time_max = "4:00:00"', 'time_max = "soon"', 1))
    with pytest.raises(UsageError, match=r"partitions\[0\].time_max: 'soon'"):
        load_scenario(mine)


def test_no_such_scenario(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="default, drift, harsh, small"):
        load_scenario(tmp_path / "none.toml")


@pytest.mark.parametrize("how", [{"seed": -1, "jobs": 5}, {"seed": 1, "jobs": 0}])
def test_a_wrong_call(how: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        Simulator(load_scenario("small"), **how)


# --- the formats -----------------------------------------------------------------------------------

# What each format carries unchanged.
_TIMES = ("submit", "start", "end")
_SLURM = (
    *("cluster", "job_id", "raw_id", "array_job_id", "array_task_id", *_TIMES, "eligible", "restarts"),
    *("user", "group", "account", "name", "work_dir", "submit_line", "partition", "qos", "nodes"),
    *("nodes_asked", "cpus_asked", "gpus_asked", "time_limit", "tres_asked", "priority"),
    *("nodes_given", "cpus_given", "memory_given", "gpus_given", "tres_given"),
    *("state", "outcome", "exit_code", "exit_signal", "derived_exit_code", "cancelled_by"),
)
_USED = ("cpu_time", "max_memory", "io_read", "io_written", "energy")
CARRIED = {
    "parquet": tuple(SCHEMAS["job"]),
    "sacct": (*_SLURM, *_USED, "suspended"),
    "slurmrestd": (*_SLURM, *_USED, "memory_asked", "memory_per", "suspended"),
    "swf": (*_TIMES, "cpus_asked", "cpus_given", "time_limit", "partition", "qos", "max_memory"),
}


def read_back(form: str, path: Path, **options: Any) -> pl.DataFrame:
    source = open_source(f"{form}:{path}", SourceOptions(**options))
    batches = list(source.batches())
    assert [bad for batch in batches for bad in batch.bad] == []
    return pl.concat(batch.frame for batch in batches)


@pytest.mark.parametrize(
    ("form", "ending"),
    [
        ("parquet", ""),
        ("sacct", ""),
        ("sacct", ".gz"),
        ("slurmrestd", ""),
        ("slurmrestd", ".gz"),
        ("swf", ".gz"),
    ],
)
def test_what_is_written_is_read_back(form: str, ending: str, tmp_path: Path) -> None:
    out = tmp_path / f"jobs{ending}"
    reports: list[int] = []
    summary = simulate("small", 3000, 7, out, form, reports.append)
    seen, truth = simulated("small", 7, 3000)
    assert (out.read_bytes()[:2] == b"\x1f\x8b") == bool(ending)
    assert sorted(f.name for f in tmp_path.iterdir()) == [out.name, f"{out.name}.truth.parquet"]
    assert_frame_equal(pl.read_parquet(summary.truth_path), truth)
    assert (summary.jobs, summary.observations, reports[-1]) == (3000, seen.height, 3000)
    assert dict(summary.causes) == dict(truth["cause"].value_counts().iter_rows())
    assert sum(summary.outcomes.values()) == 3000
    expected = seen if form == "parquet" else seen.filter(pl.col("outcome").is_not_null())
    found = read_back(form, out, cluster="small")
    assert_frame_equal(
        found.select(CARRIED[form]), expected.select(CARRIED[form]), rel_tol=1e-9, abs_tol=1e-3
    )


def test_sacct_gives_memory_back_by_node(tmp_path: Path) -> None:
    simulate("small", 500, 7, tmp_path / "jobs", "sacct")
    _, truth = simulated("small", 7, 500)
    found = read_back("sacct", tmp_path / "jobs")
    assert (found["memory_asked"] == truth["had_memory"]).all()
    assert found["memory_per"].unique().to_list() == ["node"]


def test_sacct_without_steps_knows_no_memory_used(tmp_path: Path) -> None:
    scenario = load_scenario("small")
    with SacctWriter(tmp_path / "jobs", scenario, steps=False) as writer:
        for seen, _ in Simulator(scenario, 7, 500):
            writer.write(seen)
    found = read_back("sacct", tmp_path / "jobs")
    assert found.height == 500
    assert found["max_memory"].null_count() == 500


@pytest.mark.parametrize("version", ["v0.0.36", "v0.0.38", "v0.0.39", "v0.0.43"])
def test_slurmrestd_of_other_versions(tmp_path: Path, version: str) -> None:
    scenario = load_scenario("small")
    with SlurmrestdWriter(tmp_path / "jobs", scenario, version=version) as writer:
        for seen, _ in Simulator(scenario, 7, 500):
            writer.write(seen)
    last = seen.filter(pl.col("outcome").is_not_null())
    found = read_back("slurmrestd", tmp_path / "jobs")
    assert_frame_equal(found.select(_SLURM), last.select(_SLURM))


def test_slurmrestd_of_no_version(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"v0\.0\.99"):
        SlurmrestdWriter(tmp_path / "jobs", load_scenario("small"), version="v0.0.99")


def test_swf_says_when_and_where(tmp_path: Path) -> None:
    simulate("small", 500, 7, tmp_path / "jobs.swf.gz", "swf")
    with gzip.open(tmp_path / "jobs.swf.gz", "rt") as log:
        head = [line for line in log if line.startswith(";")]
    assert "; TimeZoneString: Europe/Berlin\n" in head
    assert "; Partition: 3 gpu\n" in head
    outcomes = set(read_back("swf", tmp_path / "jobs.swf.gz")["outcome"])
    assert outcomes == {"completed", "failed", "cancelled"}


def test_the_machine_is_read_back(tmp_path: Path) -> None:
    scenario = load_scenario("small")
    nodes, partitions = (read_back("slurmrestd", path) for path in write_machine(scenario, tmp_path))
    assert nodes.height == sum(g.count for g in scenario.nodes)
    assert set(nodes["gpus"].drop_nulls()) == {4}
    assert partitions["name"].to_list() == [p.name for p in scenario.partitions]
    assert partitions["time_max"].to_list() == [p.time_max for p in scenario.partitions]
    assert partitions["nodes"].to_list()[0] == "n[001-020]"


def test_a_failed_write_leaves_nothing(tmp_path: Path) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    for form in CARRIED:
        with pytest.raises(KeyboardInterrupt):
            simulate("small", 300, 1, tmp_path / "jobs", form, stop)
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ForewarnError, match="cannot be written: No such file"):
        simulate("small", 300, 1, tmp_path / "nowhere" / "jobs", "swf")
    with pytest.raises(UsageError, match="no format 'xml'"):
        simulate("small", 300, 1, tmp_path / "jobs", "xml")
    with pytest.raises(UsageError, match=r"leave out \.gz"):
        simulate("small", 300, 1, tmp_path / "jobs.gz", "parquet")
