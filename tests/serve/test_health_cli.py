"""`forewarn health` as operators and monitors meet it: a verdict, or 3."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click
import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.job.columns import complete
from forewarn.serve.cli.commands.exit_status import StatusCommand
from forewarn.store.base import ClusterFacts
from forewarn.store.opening import open_store
from tests.assess.test_node_health import NODES, NOW, cluster, struck
from tests.serve.conftest import Forewarn

SINCE = int(time.time()) - 600  # what NOW of the examples becomes
THREE_DAYS = 3 * 86400


def keep(home: Path, rows: list[dict[str, Any]], nodes: dict[str, str], shift: int = SINCE - NOW) -> None:
    """Jobs and states of nodes into a store, as if they had just been seen."""
    jobs = (
        pl.DataFrame(rows, infer_schema_length=None)
        .with_columns(pl.col("submit", "start", "end") + shift)
        .with_columns(seen_at=pl.col("end"), source=pl.lit("s"), reconstructed=pl.lit(False))
    )
    states = pl.DataFrame(
        [
            {
                "cluster": "c",
                "name": name,
                "state": nodes.get(name, "IDLE"),
                "reason": "fan broken" if name in nodes else None,
                "partitions": "main" if name < "n07" else "long",
                "seen_at": NOW + shift,
                "source": "s",
                "reconstructed": False,
            }
            for name in NODES
        ],
        infer_schema_length=None,
    )
    with open_store(Config(home=home)) as store, store.writing() as writer:
        writer.describe_cluster("c", ClusterFacts())
        writer.observe("job", complete(jobs))
        writer.observe("node", complete(states, "node"))


@pytest.fixture
def sick(home: Path) -> None:
    """n05 fails jobs, n09 is down."""
    keep(home, struck(cluster(), "n05", 0.6, since=NOW - THREE_DAYS), {"n09": "DOWN"})


@pytest.mark.usefixtures("sick")
def test_sick_nodes_are_critical(forewarn: Forewarn) -> None:
    result = forewarn("health")
    assert result.code == 2, result.err
    lines = result.out.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [["n05", "sick"], ["n09", "sick"]]
    assert "expected from the same work on other nodes" in lines[1]
    assert "fan broken" in lines[2]
    assert "the other 10 nodes are healthy" in result.err
    assert "--exclude=n[05,09]" in result.err


@pytest.mark.usefixtures("sick")
def test_for_programs_and_for_one_node(forewarn: Forewarn) -> None:
    result = forewarn("health", "--json")
    assert result.code == result.json["exit_code"] == 2
    assert (result.json["nodes"], [node["node"] for node in result.json["judged"]]) == (12, ["n05", "n09"])
    assert result.json["judged"][0]["until"] > time.time()
    assert forewarn("health", "n[01-04]", "n06").code == 0
    everything = forewarn("health", "n[01-04]", "--all", "--json").json
    assert [node["health"] for node in everything["judged"]] == ["healthy"] * 4
    assert [node["node"] for node in forewarn("health", "-p", "main", "--json").json["judged"]] == ["n05"]


@pytest.mark.usefixtures("sick")
def test_the_line_to_exclude(forewarn: Forewarn) -> None:
    result = forewarn("health", "--exclude")
    assert result.out == "--exclude=n[05,09]\n"
    assert forewarn("health", "--exclude", "n01").out == "\n"


@pytest.mark.usefixtures("sick")
def test_for_monitors(forewarn: Forewarn) -> None:
    result = forewarn("health", "--nagios")
    assert result.code == 2
    assert result.out == (
        "FOREWARN CRITICAL - 12 nodes, 2 sick, 0 suspect: n[05,09] | sick=2 suspect=0 out_of_service=1\n"
    )
    fine = forewarn("health", "--nagios", "n01")
    assert (fine.code, fine.out.split(" - ")[0]) == (0, "FOREWARN OK")


def test_suspects_are_a_warning(home: Path, forewarn: Forewarn) -> None:
    keep(home, cluster(days=2), {"n02": "IDLE+DRAIN"})
    result = forewarn("health", "--nagios")
    # Drained for a broken fan is sick; so the reason is taken away.
    assert result.code == 2
    with open_store(Config(home=home)) as store, store.writing() as writer:
        row = {
            "cluster": "c",
            "name": "n02",
            "state": "IDLE+DRAIN",
            "reason": "ask Ann",
            "seen_at": SINCE + 5,
        }
        writer.observe(
            "node", complete(pl.DataFrame([{**row, "source": "s", "reconstructed": False}]), "node")
        )
    result = forewarn("health", "--nagios")
    assert (result.code, result.out.split(" - ")[0]) == (1, "FOREWARN WARNING")


@pytest.mark.parametrize(
    "args",
    [
        ("--nope",),
        ("n99",),
        ("n[3-1]",),
        ("-p", "nowhere"),
        ("-M", "elsewhere"),
        ("--at", "whenever"),
        ("--json", "--nagios"),
    ],
)
@pytest.mark.usefixtures("sick")
def test_every_error_is_unknown(args: tuple[str, ...], forewarn: Forewarn) -> None:
    result = forewarn("health", *args)
    assert result.code == 3
    assert result.err.startswith("forewarn: error: ")


def test_no_store_and_old_records_are_unknown(home: Path, forewarn: Forewarn) -> None:
    result = forewarn("health", "--nagios")
    assert (result.code, result.out.split(" - ")[0]) == (3, "FOREWARN UNKNOWN")
    keep(home, struck(cluster(), "n05", 0.6, since=NOW - THREE_DAYS), {}, shift=0)
    result = forewarn("health")
    assert result.code == 3
    assert "--at last" in result.err
    then = forewarn("health", "--at", "last", "--exclude")
    assert (then.code, then.out) == (2, "--exclude=n05\n")
    before = forewarn("health", "--at", str(NOW - THREE_DAYS))
    assert before.code == 0, before.out


@pytest.mark.parametrize(
    "error", [UsageError("no"), OSError(28, "No space left", "/x"), ZeroDivisionError("0")]
)
def test_a_check_that_breaks_is_unknown(
    error: Exception, monkeypatch: pytest.MonkeyPatch, forewarn: Forewarn
) -> None:
    @click.command("health", cls=StatusCommand)
    def broken() -> None:
        raise error

    monkeypatch.setattr("forewarn.serve.cli.commands.health.command", broken)
    result = forewarn("health")
    assert result.code == 3
    assert "forewarn: error: " in result.err


def test_other_commands_keep_their_codes(forewarn: Forewarn) -> None:
    assert forewarn("jobs", "--nope").code == UsageError.exit_code
