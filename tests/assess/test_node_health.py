"""Node health: sick nodes are found, bad users make none, repair and expiry clear, Slurm's words count."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from forewarn.assess.node_health.classification import classify_nodes, node_health
from forewarn.assess.node_health.expected_failures import expect, probability
from forewarn.assess.node_health.fitness import fitness
from forewarn.assess.node_health.health_cache import cache_health, cached_health
from forewarn.assess.node_health.job_runs import DAY, EVIDENCE_DAYS, runs_of, without_bursts
from forewarn.assess.node_health.likelihood import benjamini_hochberg, scores, tail
from forewarn.assess.node_health.records import Health, NodeEvidence, NodeHealth, exclude_line
from forewarn.assess.node_health.slurm_states import NodeHistory, in_service, node_histories, slurm_evidence
from forewarn.config import Config
from forewarn.job.columns import complete
from forewarn.job.record import Job, Node, Partition
from forewarn.job.units import expand_nodes
from forewarn.store.opening import open_store

NOW = 1_700_000_000
NODES = [f"n{i:02}" for i in range(1, 13)]
Row = dict[str, Any]


def cluster(days: int = 14, a_day: int = 240, users: int = 12, rate: float = 0.1, seed: int = 0) -> list[Row]:
    """Jobs of users with their own failure rates, spread over the nodes as they come."""
    random = np.random.default_rng(seed)
    rates = rate * random.gamma(1.0, 1.0, users).clip(0, 4)
    rows = []
    for number in range(days * a_day):
        user = int(random.integers(users))
        start = NOW - days * DAY + int(number * DAY / a_day)
        fails = random.random() < rates[user]
        rows.append(run(number, start, NODES[random.integers(len(NODES))], f"u{user}", 1 if fails else 0))
    return rows


def run(number: int, start: int, nodes: str, user: str = "u", code: int = 0, **fields: Any) -> Row:
    return {
        "cluster": "c",
        "job_id": str(number),
        "submit": start - 60,
        "user": user,
        "name": f"work{number % 3}x",
        "nodes": nodes,
        "start": start,
        "end": start + 900,
        "outcome": "failed" if code else "completed",
        "exit_code": code,
        "exit_signal": 0,
        **fields,
    }


def struck(
    rows: Iterable[Row], node: str, share: float, since: int = 0, until: int = NOW, code: int = 1
) -> list[Row]:
    """Return the same jobs, with a share of those on a node failed."""
    random = np.random.default_rng(1)
    return [
        {**row, "outcome": "failed", "exit_code": code}
        if node in expand_nodes(row["nodes"]) and since <= row["start"] < until and random.random() < share
        else row
        for row in rows
    ]


def judged(
    rows: Iterable[Row], now: int = NOW, seen: dict[str, NodeHistory] | None = None
) -> dict[str, NodeHealth]:
    known = [row for row in rows if row["end"] <= now]
    runs = runs_of(complete(pl.DataFrame(known, infer_schema_length=None)))
    return {node.node: node for node in classify_nodes("c", seen or {}, runs, now)}


def named(found: dict[str, NodeHealth], health: Health = Health.SICK) -> set[str]:
    return {name for name, node in found.items() if node.health is health}


@pytest.mark.parametrize("seed", range(5))
def test_where_all_nodes_are_alike_none_is_named(seed: int) -> None:
    assert named(judged(cluster(seed=seed))) == set()


@pytest.mark.parametrize(("code", "way"), [(1, "failed (time-outs"), (107, "lost file system")])
def test_a_sick_node_is_found_and_reported(code: int, way: str) -> None:
    found = judged(struck(cluster(), "n05", 0.5, since=NOW - 4 * DAY, code=code))
    assert named(found) == {"n05"}
    (evidence,) = found["n05"].evidence
    assert way in evidence.what
    assert f"{found['n05'].failed} of {found['n05'].jobs} jobs" in evidence.what
    assert (found["n05"].failed or 0) > 2 * (found["n05"].expected or 0)
    assert found["n05"].until is not None
    assert found["n05"].until > NOW


def test_a_user_who_always_fails_and_always_there_makes_no_node_sick() -> None:
    rows = cluster()
    bad = [run(10_000 + i, NOW - 10 * DAY + i * 3_600, "n05", "bad", 1) for i in range(200)]
    assert judged([*rows, *bad])["n05"].health is Health.HEALTHY
    # Nor do two, one of them with failures as systems make them.
    worse = [run(20_000 + i, NOW - 10 * DAY + i * 3_000, "n05", "worse", 5) for i in range(200)]
    assert judged([*rows, *bad, *worse])["n05"].health is not Health.SICK


def test_an_array_with_a_mistake_makes_no_node_sick() -> None:
    rows = cluster()
    array = [run(10_000 + i, NOW - 3_600 + i, "n05", f"u{i % 2}", 1) for i in range(300)]
    assert named(judged([*rows, *array])) == set()


def test_an_outage_makes_no_node_sick() -> None:
    rows, at = cluster(), NOW - DAY
    hit = [
        {**row, "outcome": "failed", "exit_code": 107, "end": at + 60}
        if row["start"] <= at < row["end"]
        else row
        for row in cluster(a_day=2_400, seed=4)
    ]
    # Of the outage most jobs are on two nodes, as where a scheduler fills them one by one.
    packed = [
        run(30_000 + i, at - 600, "n05" if i % 3 else "n06", f"u{i % 9}", 107, end=at + i) for i in range(60)
    ]
    assert named(judged([*rows, *hit, *packed])) == set()


def test_time_outs_and_memory_are_not_the_node_s() -> None:
    rows = [
        {**row, "outcome": "timeout" if i % 2 else "out_of_memory"} if row["nodes"] == "n05" else row
        for i, row in enumerate(cluster())
    ]
    assert judged(rows)["n05"].health is Health.HEALTHY


def test_of_jobs_on_several_nodes_only_the_sick_one_is_blamed() -> None:
    wide = [
        run(40_000 + i, NOW - 6 * DAY + i * 1_800, f"n0{1 + i % 4},n{5 + i % 5:02}", f"u{i % 12}")
        for i in range(280)
    ]
    found = judged([*cluster(), *struck(wide, "n02", 0.8, code=107)])
    assert named(found) == {"n02"}


def test_it_expires_when_the_node_does_well_again() -> None:
    rows = struck(cluster(), "n05", 0.6, since=NOW - 8 * DAY, until=NOW - 4 * DAY)
    assert named(judged(rows, NOW - 4 * DAY)) == {"n05"}
    assert named(judged(rows, NOW)) == set()


@pytest.mark.slow
def test_it_expires_with_its_evidence() -> None:
    rows = struck(cluster(), "n05", 0.6, since=NOW - 3 * DAY)
    until = judged(rows)["n05"].until
    assert until is not None
    idle = [row for row in cluster(seed=9, days=28) if row["nodes"] != "n05"]  # nothing runs there any more
    later = [{**row, "start": row["start"] + 15 * DAY, "end": row["end"] + 15 * DAY} for row in idle]
    assert named(judged([*rows, *later], until - DAY)) == {"n05"}
    assert "n05" not in named(judged([*rows, *later], until + 1))


def test_a_repair_clears_it() -> None:
    rows = struck(cluster(), "n05", 0.6, since=NOW - 3 * DAY, until=NOW - 3_600)
    assert named(judged(rows)) == {"n05"}
    booted = NodeHistory(Node(cluster="c", name="n05", state="IDLE"), NOW - 3_600, NOW - 3_600, ())
    assert judged(rows, seen={"n05": booted})["n05"].health is Health.HEALTHY


def test_a_node_under_which_jobs_are_lost() -> None:
    lost = [
        run(50_000 + i, NOW - (6 - i) * 2 * DAY // 3, "n05", f"u{i}", outcome="node_fail", exit_code=0)
        for i in range(5)
    ]
    found = judged([*cluster(), *lost])
    assert named(found) == {"n05"}
    assert "lost the node" in found["n05"].evidence[0].what
    # All at once it is one crash.
    once = [{**row, "start": NOW - DAY, "end": NOW - DAY + 60 + i} for i, row in enumerate(lost)]
    assert named(judged([*cluster(), *once])) == set()


@pytest.mark.parametrize(
    ("state", "reason", "health", "serves"),
    [
        ("IDLE", None, Health.HEALTHY, True),
        ("MIXED+PLANNED", None, Health.HEALTHY, True),
        ("DOWN+NOT_RESPONDING", "Not responding", Health.SICK, False),
        ("DOWN", None, Health.SICK, False),
        ("IDLE+DRAIN", "Kill task failed", Health.SICK, False),
        ("IDLE+DRAIN", "NHC: check_fs_mount: /scratch not mounted", Health.SICK, False),
        ("ALLOCATED+DRAIN", "ask Ann", Health.SUSPECT, False),
        ("IDLE+DRAIN", "kernel update on Monday", Health.HEALTHY, False),
        ("IDLE+DRAIN", "maintenance: bad DIMM", Health.SICK, False),
        ("IDLE+POWERED_DOWN", None, Health.HEALTHY, True),
        ("DOWN+POWERING_UP", None, Health.HEALTHY, True),
        (None, None, Health.HEALTHY, True),
    ],
)
def test_what_slurm_says(state: str | None, reason: str | None, health: Health, serves: bool) -> None:
    node = Node(cluster="c", name="n1", state=state, reason=reason)
    result = classify_nodes("c", {"n1": NodeHistory(node, 0, 0, ())}, runs_of(pl.DataFrame()), NOW)[0]
    assert (result.health, result.in_service) == (health, serves)
    assert result.until is None
    assert not reason or health is Health.HEALTHY or reason in result.evidence[0].what
    assert in_service(node) is serves


def seen_over_time(*sightings: tuple[int, str, int | None]) -> NodeHistory:
    rows = [
        {
            "cluster": "c",
            "name": "n1",
            "seen_at": at,
            "source": "s",
            "reconstructed": False,
            "state": s,
            "boot": b,
        }
        for at, s, b in sightings
    ]
    return node_histories(complete(pl.DataFrame(rows, infer_schema_length=None), "node"), NOW)["n1"]


def test_a_drain_that_ended_is_a_repair_a_return_from_down_is_none() -> None:
    first = NOW - 20 * DAY
    drained = seen_over_time(
        (first, "IDLE", first), (NOW - 900, "IDLE+DRAIN", first), (NOW - 500, "IDLE", first)
    )
    assert (drained.since, drained.repaired) == (NOW - 500, NOW - 500)
    down = seen_over_time((first, "IDLE", first), (NOW - 900, "DOWN", first), (NOW - 500, "IDLE", NOW - 600))
    assert (down.since, down.repaired) == (NOW - 500, 0)
    # What was seen later than the moment asked for is not known.
    assert seen_over_time((first, "IDLE", first), (NOW + 1, "DOWN", first)).node.state == "IDLE"


def test_a_node_that_boots_again_and_again_is_suspect() -> None:
    boots = [NOW - 20 * DAY, *(NOW - days * DAY for days in (5, 3, 1))]
    seen = seen_over_time(*((boot + 60, "IDLE", boot) for boot in boots), (NOW - 10, "IDLE", boots[-1] + 1))
    assert seen.boots == tuple(boots[1:])
    (evidence,) = slurm_evidence(seen)
    assert (evidence.health, evidence.until) == (Health.SUSPECT, NOW - 5 * DAY + EVIDENCE_DAYS * DAY)


def test_by_the_store(tmp_path: Any) -> None:
    rows = struck(cluster(), "n05", 0.6, since=NOW - 3 * DAY)
    jobs = complete(
        pl.DataFrame(rows, infer_schema_length=None).with_columns(
            seen_at=pl.col("end"), source=pl.lit("s"), reconstructed=pl.lit(False)
        )
    )
    nodes = pl.DataFrame(
        {"cluster": ["c"], "name": ["n07"], "state": ["DOWN"], "reason": ["fan"], "seen_at": [NOW - 50]}
    ).with_columns(source=pl.lit("s"), reconstructed=pl.lit(False))
    with open_store(Config(home=tmp_path)) as store:
        with store.writing() as writer:
            writer.observe("job", jobs)
            writer.observe("node", complete(nodes, "node"))
        found = {node.node: node for node in node_health(store, "c", NOW)}
        assert named(found) == {"n05", "n07"}
        assert len(found) == len(NODES)
        # A moment in the past knows nothing of what came after.
        assert named({n.node: n for n in node_health(store, "c", NOW - 3 * DAY)}) == set()
        assert node_health(store, "elsewhere", NOW) == ()


PARTITIONS = [Partition(cluster="c", name="main", is_default=True, nodes="n[01-12]")]


def machine(**states: str) -> list[Node]:
    return [Node(cluster="c", name=n, cpus=8, memory=1 << 35, state=states.get(n, "IDLE")) for n in NODES]


def sick(*names: str, health: Health = Health.SICK) -> list[NodeHealth]:
    return [NodeHealth(cluster="c", node=name, health=health, in_service=True) for name in names]


def test_fitness_counts_what_can_take_it() -> None:
    job = Job(cluster="c", job_id="1", submit=0, nodes_asked=3, cpus_asked=24)
    nodes_fit = fitness(
        job,
        machine(n12="DOWN"),
        PARTITIONS,
        [*sick("n03", "n04", "n07"), *sick("n09", health=Health.SUSPECT)],
    )
    assert (nodes_fit.fit, nodes_fit.needed) == (8, 3)  # the one that is down takes nothing, the suspect may
    assert (nodes_fit.sick, nodes_fit.suspect) == (("n03", "n04", "n07"), ("n09",))
    assert nodes_fit.exclude == "--exclude=n[03-04,07]"
    # Without enough others there is no line: it would keep the job off for ever.
    wide = replace(job, nodes_asked=10, cpus_asked=80)
    assert fitness(wide, machine(), PARTITIONS, sick("n03", "n04", "n07")).exclude is None
    assert fitness(replace(job, cpus_asked=80), machine(), PARTITIONS, sick("n03")).fit == 0
    # A sick node elsewhere is no concern of this job.
    others = [Partition(cluster="c", name="main", is_default=True, nodes="n[01-02]")]
    assert fitness(replace(job, nodes_asked=1, cpus_asked=1), machine(), others, sick("n07")).exclude is None


def test_exclude_is_read_back() -> None:
    line = exclude_line(["n07", "n03", "login", "n04", "gpu1"])
    assert line is not None
    assert set(expand_nodes(line.removeprefix("--exclude="))) == {"n07", "n03", "login", "n04", "gpu1"}


# --- the arithmetic ------------------------------------------------------------------------------


def test_chances_add_up_and_the_tail_is_what_chance_gives() -> None:
    random = np.random.default_rng(3)
    n = random.integers(1, 11, 30)
    a, b = random.gamma(1, 1, 30) + 0.05, random.gamma(2, 2, 30) + 0.05
    healthy, score = scores(n, a, b, np.ones(30))
    np.testing.assert_allclose(healthy.sum(axis=1), 1)
    # Sick is a distribution, too: the mean likelihood ratio of a healthy cell is 1, up to the grid.
    np.testing.assert_allclose((healthy * np.exp(score)).sum(axis=1), 1, atol=0.02)
    drawn = random.binomial(n, random.beta(a, b, (20_000, 30)))
    totals = score[np.arange(30), drawn].sum(axis=1)
    for share in (0.5, 0.1, 0.02):
        seen = float(np.quantile(totals, 1 - share))
        assert tail(healthy, score, seen) == pytest.approx((totals >= seen - 1e-9).mean(), rel=0.15)


def test_a_beta_binomial_with_sure_parameters_is_a_binomial() -> None:
    got = probability(np.array([3]), np.array([2]), np.array([2e9]), np.array([8e9]))
    assert got[0] == pytest.approx(3 * 0.2**2 * 0.8)


def test_what_is_expected_leaves_the_node_itself_out() -> None:
    rows = [
        run(i, NOW - DAY + i, "n01" if i < 8 else f"n{2 + i % 4:02}", "u", 1 if i < 8 else 0)
        for i in range(48)
    ]
    others = cluster(days=5)
    runs = runs_of(complete(pl.DataFrame([*rows, *others], infer_schema_length=None)))
    table = expect(runs, "broke").table.with_columns(
        rate=pl.col("alpha") / (pl.col("alpha") + pl.col("beta"))
    )
    own = table.join(runs.filter(user="u").select("cell").unique(), on="cell", how="semi")
    # On n01 the cell is expected to fare as it did elsewhere: well.
    assert own.filter(node="n01")["rate"].max() < 0.2  # type: ignore[operator]
    assert own.filter(node="n01")["rate"].mean() < own.filter(node="n02")["rate"].mean()  # type: ignore[operator]


def test_failures_on_several_nodes_at_once_are_left_out() -> None:
    rows = [run(i, NOW + i, f"n{1 + i % 2:02}", code=107) for i in range(4)]
    alone = [run(9, NOW - DAY, "n01", code=107), run(10, NOW - DAY + 120, "n01", code=107)]
    runs = runs_of(complete(pl.DataFrame([*rows, *alone], infer_schema_length=None)))
    left = without_bursts(runs)
    assert left.height == 2
    assert left.sort("end")["again"].to_list() == [False, True]


def test_benjamini_hochberg_names_few_where_there_is_nothing() -> None:
    random = np.random.default_rng(5)
    named_in = [min(benjamini_hochberg(random.random(50).tolist())) <= 0.05 for _ in range(2_000)]
    assert np.mean(named_in) == pytest.approx(0.05, abs=0.02)


def test_health_that_was_kept_is_read_again_until_it_is_old(tmp_path: Path) -> None:
    until = 10_000
    evidence = NodeEvidence(what="it lost jobs", health=Health.SICK, source="jobs", until=until)
    sick = NodeHealth(cluster="c", node="n1", health=Health.SICK, in_service=True, evidence=(evidence,))
    with open_store(Config(home=tmp_path)) as store:
        assert cached_health(store, "c", 0) is None
        with store.writing() as writer:
            cache_health(writer, "c", (sick,), 0)
        assert cached_health(store, "c", 100) == (sick,)
        (well,) = cached_health(store, "c", until + 1) or ()
        assert (well.health, well.evidence) == (Health.HEALTHY, ()), "its evidence has expired"
        assert cached_health(store, "c", 86_400) is None
        assert cached_health(store, "other", 100) is None


def test_without_counts_the_verdict_stays() -> None:
    job_evidence = NodeEvidence(what="3 of 9 jobs of 1 user", health=Health.SUSPECT, source="jobs", until=9)
    by_slurm = NodeEvidence(what="is DOWN", health=Health.SICK, source="slurm")
    shown = NodeHealth(
        cluster="c",
        node="n1",
        health=Health.SICK,
        in_service=False,
        evidence=(by_slurm, job_evidence),
        jobs=9,
        failed=3,
        expected=0.2,
        q=0.01,
    ).without_counts()
    assert (shown.health, shown.jobs, shown.failed, shown.expected, shown.q) == (
        "sick",
        None,
        None,
        None,
        None,
    )
    assert [one.what for one in shown.evidence] == ["is DOWN", "more jobs failed there than expected"]
    assert shown.evidence[1].until == 9
