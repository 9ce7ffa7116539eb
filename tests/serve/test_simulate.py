"""`forewarn simulate` and `forewarn features`, from nothing to a table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from forewarn.config import Config
from forewarn.errors import UsageError
from forewarn.sources.simulator import WRITERS
from forewarn.store.opening import open_store
from tests.serve.conftest import Forewarn


@pytest.mark.parametrize("form", WRITERS)
def test_every_format_it_writes_is_read(form: str, forewarn: Forewarn, tmp_path: Path) -> None:
    path = tmp_path / "simulated"
    summary = forewarn(
        "simulate", "-o", path, "--format", form, "--scenario", "small", "--jobs", 400, "--json"
    ).json
    assert summary["jobs"] == 400
    assert pl.read_parquet(summary["truth_path"]).height == 400
    read = forewarn(
        "ingest", "--json", "-M", summary["cluster"], "--timezone", summary["timezone"], f"{form}:{path}"
    )
    assert read.code == 0, read.err
    assert read.json["files"][0]["bad"] == 0
    assert forewarn("jobs", "--count").out == "400\n"


def test_the_same_seed_gives_the_same_jobs(forewarn: Forewarn, tmp_path: Path) -> None:
    texts = []
    for name, seed in [("a", 1), ("b", 1), ("c", 2)]:
        path = tmp_path / name
        assert (
            forewarn(
                "simulate",
                "-o",
                path,
                "--format",
                "swf",
                "--scenario",
                "small",
                "--jobs",
                300,
                "--seed",
                seed,
            ).code
            == 0
        )
        texts.append(path.read_text())
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("phase", ["submit", "start"])
@pytest.mark.parametrize("feature_set", ["generic", "restricted", "swf"])
def test_from_nothing_to_a_table_of_features(
    phase: str, feature_set: str, forewarn: Forewarn, tmp_path: Path, home: Path
) -> None:
    result = forewarn("simulate", "--ingest", "--scenario", "small", "--jobs", 300)
    assert result.code == 0, result.err
    assert "300 jobs" in result.out
    assert (home / "simulated" / "small-1.parquet.truth.parquet").exists()
    out = tmp_path / "table.parquet"
    assert forewarn("features", "--phase", phase, "--features", feature_set, "-o", out).code == 0
    table = pl.read_parquet(out)
    jobs = forewarn("jobs", "--json", "-n", 0).lines
    expected = {
        (j["cluster"], j["job_id"], j["submit"]) for j in jobs if phase == "submit" or j["start"] is not None
    }
    assert table.columns[:3] == ["cluster", "job_id", "submit"]
    assert set(table.select("cluster", "job_id", "submit").iter_rows()) == expected
    assert table.height == len(expected)
    truth = pl.read_parquet_schema(home / "simulated" / "small-1.parquet.truth.parquet")
    hidden = {"cause", "need_memory", "need_time", "sick_node", "outage_after"}
    assert hidden <= set(truth)
    assert not hidden & set(table.columns)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("", "--output"),
        ("-o no/such/folder/x", "does not exist"),
        ("-o x --scenario nowhere", "nowhere"),
        ("-o x --jobs 0", "0"),
        ("-o x --format xml", "xml"),
    ],
)
def test_wrong_calls(
    flags: str, message: str, forewarn: Forewarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = forewarn("simulate", *flags.split())
    assert result.code == UsageError.exit_code
    assert message in result.err
    assert not list(tmp_path.glob("x*"))


def test_parquet_carries_the_zone(forewarn: Forewarn, tmp_path: Path) -> None:
    """To simulate and then ingest gives what `simulate --ingest` does; what the site says goes before."""
    path, flags = tmp_path / "simulated.parquet", ("--scenario", "small", "--jobs", 50)
    zones = []
    for home, zone in (("one", None), ("two", None), ("three", "Asia/Tokyo")):
        into = ("--home", tmp_path / home)
        if home == "one":
            assert forewarn("simulate", *into, "--ingest", *flags).code == 0
        else:
            assert forewarn("simulate", *into, "-o", path, *flags).code == 0
            option = ("--timezone", zone) if zone else ()
            assert forewarn("ingest", *into, *option, f"parquet:{path}").code == 0
        with open_store(Config(home=tmp_path / home), read_only=True) as store:
            zones += [facts.timezone for facts in store.clusters().values()]
    assert zones == ["Europe/Berlin", "Europe/Berlin", "Asia/Tokyo"]
