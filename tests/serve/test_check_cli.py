"""`forewarn check` as its user meets it: a script, a small simulated cluster behind it, verdicts as codes."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest
from jsonschema import Draft202012Validator

from forewarn.assess.assessment import Assessment
from forewarn.assess.json_schema import schema
from forewarn.config import Config
from forewarn.formatting import percent
from forewarn.job.sbatch.script import read_script
from forewarn.job.units import format_duration
from forewarn.learn.data.population import POPULATIONS
from forewarn.learn.data.table import read_table
from forewarn.learn.fitting.fit_settings import FitSettings
from forewarn.learn.fitting.train import train
from forewarn.learn.registry.registry import Registry
from forewarn.operate.ingest_file import ingest, review_missing_fields
from forewarn.sources.base import open_source
from forewarn.sources.simulator import simulate
from forewarn.sources.simulator.scenario import load_scenario
from forewarn.sources.simulator.writers.machine import write_machine
from forewarn.store.opening import open_store
from tests.serve.conftest import Forewarn, Result

pytestmark = pytest.mark.slow

SCRIPT = """#!/bin/bash
#SBATCH --job-name={name}
#SBATCH --partition={partition}
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={cpus}
#SBATCH --mem={mem}
#SBATCH --time={time}
{body}
"""


@dataclass(frozen=True)
class Site:
    """A home with a history and a model that serves, somebody of whom much is known, and the last moment."""

    home: Path
    user: str
    name: str
    partition: str
    cpus: int
    memory: int  # MiB
    limit: int  # seconds
    at: int
    users: frozenset[str]

    def script(self, mem: str | None = None, body: str = "hostname") -> str:
        """As they have written many."""
        return SCRIPT.format(
            name=self.name,
            partition=self.partition,
            cpus=self.cpus,
            mem=mem or f"{self.memory}M",
            time=format_duration(self.limit),
            body=body,
        )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, registry_template: Path) -> Site:
    folder = tmp_path_factory.mktemp("site")
    home = folder / "home"
    (home / "models").mkdir(parents=True)
    shutil.copy(registry_template, home / "models" / registry_template.name)
    simulate("small", 5_000, 5, folder / "jobs.parquet", "parquet")
    plain = pl.read_parquet(folder / "jobs.parquet").with_columns(application=None, script_hash=None)
    plain.write_parquet(folder / "jobs.parquet")
    machine = write_machine(load_scenario("small"), folder)
    with open_store(Config(home=home)) as store:
        for source in (f"parquet:{folder / 'jobs.parquet'}", *(f"slurmrestd:{part}" for part in machine)):
            review_missing_fields(store, ingest(store, open_source(source)).clusters)
        table = read_table(store, "small", "submit", POPULATIONS["wasted"])
        settings = FitSettings(trials=1, families=("lightgbm",), threads=1)
        trained = train(table, settings, searches=folder / "searches", at=1_700_000_000)
        jobs = pl.concat(store.scan())
    trained.save(folder / "bundle")
    registry = Registry(home)
    version = registry.record(folder / "bundle")
    assert version
    if "champion" not in version.aliases:
        registry.promote(version.name, version.version)
    one = (pl.col("nodes_asked") == 1) & (pl.col("tasks_asked") == 1) & (pl.col("memory_per") == "node")
    whole = one & (pl.col("gpus_asked").fill_null(0) == 0)
    kinds = jobs.filter(whole & (pl.col("memory_asked") > 0)).group_by(
        "user", "name", "partition", "cpus_asked", "memory_asked", "time_limit"
    )
    common = kinds.len().sort("len", "user").tail(1).to_dicts()[0]
    return Site(
        home=home,
        user=common["user"],
        name=common["name"],
        partition=common["partition"],
        cpus=common["cpus_asked"],
        memory=common["memory_asked"] >> 20,
        limit=common["time_limit"],
        at=int(jobs["end"].max()) + 3600,  # type: ignore[arg-type]
        users=frozenset(jobs["user"].unique()),
    )


@pytest.fixture
def home(site: Site) -> Path:
    return site.home


@pytest.fixture
def script(tmp_path: Path, site: Site) -> Path:
    path = tmp_path / "job.sbatch"
    path.write_text(site.script())
    return path


@pytest.fixture
def check(forewarn: Forewarn, site: Site, script: Path) -> Forewarn:
    def run(*args: object) -> Result:
        known = ("-u", site.user, "--at", site.at, "--no-test-only")
        return forewarn("check", script, *known, *args)

    return run


def test_the_json_has_the_whole_assessment(check: Forewarn, site: Site) -> None:
    result = check("--json")
    assessment = result.json
    assert result.code == ["fine", "warning", "likely_to_fail", "cannot_say"].index(assessment["verdict"]) < 3
    assert (assessment["cluster"], assessment["user"], assessment["name"], assessment["job_id"]) == (
        "small",
        site.user,
        site.name,
        None,
    )
    Draft202012Validator(schema()).validate(assessment)
    assert Assessment.from_json(assessment).to_json().items() <= assessment.items(), "a check adds its script"
    assert assessment["route"]["model"] == "small.submit.generic"
    assert 0 < assessment["failure"]["probability"] < 1
    assert sum(c["probability"] for c in assessment["failure"]["causes"]) == pytest.approx(
        assessment["failure"]["probability"]
    )
    run = assessment["run_time"]
    assert run["limit"] == site.limit
    assert run["seconds"]["low"] <= run["seconds"]["median"] <= run["seconds"]["high"]
    assert assessment["resources"]["memory_asked"] == site.memory << 20
    assert 0 <= assessment["resources"]["over_memory"] <= 1
    assert 0 <= assessment["oddness"]["rarer_than"] <= 1
    assert assessment["nodes"]["needed"] == 1
    assert assessment["nodes"]["fit"] > 0
    assert assessment["hours_at_risk"] > 0
    assert assessment["hours_at_risk_by"]["values"]["nodes"] == 1
    assert assessment["reasons"]
    assert assessment["reasons"][-1]["risk_after"] == pytest.approx(assessment["failure"]["probability"])
    assert assessment["similar"]
    assert assessment["profile"]


def test_for_people(check: Forewarn, script: Path) -> None:
    result = check("--diff")
    assert result.out.startswith(f"{script}: ")
    for part in ("run time", "memory", "risk", "nodes", "model", "Why", "Similar earlier jobs"):
        assert part in result.out, part


def test_little_memory_is_found_advised_and_fixed(check: Forewarn, script: Path, site: Site) -> None:
    script.write_text(site.script("16M"))
    before = script.read_text()
    result = check("--fix", "--json")
    assessment = result.json
    assert (result.code, assessment["verdict"]) == (2, "likely_to_fail")
    assert assessment["resources"]["over_memory"] > 0.9
    first = assessment["advice"][0]
    assert first["risk_before"] == assessment["failure"]["probability"], "one risk on one page"
    assert first["risk_after"] < first["risk_before"] - 0.3
    assert "-#SBATCH --mem=16M" in first["diff"]
    fixed = script.with_name("job.fixed.sbatch")
    assert f"wrote {fixed}" in result.err
    assert script.read_text() == before, "the script itself is left alone"
    assert assessment["fixed"]["path"] == str(fixed)
    assert assessment["fixed"]["risk"] == pytest.approx(first["risk_after"]), (
        "what was written was checked again"
    )
    script.write_text(fixed.read_text())
    again = check("--json").json
    assert again["failure"]["probability"] == pytest.approx(first["risk_after"]), "and by its user"
    assert again["resources"]["over_memory"] < assessment["resources"]["over_memory"] - 0.2


def test_the_reasons_as_a_figure(check: Forewarn, tmp_path: Path) -> None:
    result = check("--figure", tmp_path / "why.svg")
    assert "wrote" in result.err
    assert (tmp_path / "why.svg").read_text().startswith("<svg")


def test_the_command_line_goes_over_the_script(check: Forewarn) -> None:
    assessment = check("--json", "--", "--mem=20G", "-t", "30").json
    assert assessment["resources"]["memory_asked"] == 20 << 30
    assert assessment["run_time"]["limit"] == 1800


def test_what_no_node_has(check: Forewarn, script: Path, site: Site) -> None:
    script.write_text(site.script("2T"))
    result = check()
    assert result.code == 2
    assert "This job cannot run" in result.out


def test_a_finding_has_its_line(check: Forewarn, script: Path, site: Site) -> None:
    script.write_text(site.script(body="./no-such-program input.dat"))
    result = check("--json")
    assert result.code == 2
    (finding,) = (f for f in result.json["findings"] if f["severity"] == "error")
    assert finding["line"] == 8
    assert "no-such-program" in finding["what"]


def test_somebody_of_whom_nothing_is_known(forewarn: Forewarn, site: Site, script: Path) -> None:
    result = forewarn("check", script, "-u", "stranger", "--at", site.at, "--no-test-only", "--json")
    assert result.json["route"]["passed"], "the generic model passes on"
    assert result.code == 3
    assert result.json["advice"] == [], "nobody has evidence for any"


def test_without_a_history_only_the_script_is_looked_at(
    forewarn: Forewarn, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREWARN_HOME", str(tmp_path / "nowhere"))
    result = forewarn("check", script, "--no-test-only")
    assert result.code == 3
    assert "only the script" in result.out
    assert "risk" not in result.out, "without a model there is no number"
    script.write_text("#!/bin/bash\n#SBATCH --tiem=1\n./missing\n")
    assert forewarn("check", script, "--no-test-only").code == 2


def test_an_untrained_estimate_is_labelled(
    forewarn: Forewarn, site: Site, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script.write_text(site.script("16M"))
    known = ("-u", site.user, "--at", site.at, "--no-test-only")
    assert forewarn("check", script, *known, "--json").json["advice"], "a trained model advises more memory"
    shutil.copytree(site.home, tmp_path / "untrained", ignore=shutil.ignore_patterns("models"))
    monkeypatch.setenv("FOREWARN_HOME", str(tmp_path / "untrained"))
    assessment = forewarn("check", script, *known, "--json").json
    assert assessment["route"]["model"] == "online"
    assert "no trained model" in assessment["summary"]
    assert (assessment["advice"], assessment["savings"]) == ([], []), "it tells nothing of causes: no promise"
    assert "not a trained model" in forewarn("check", script, *known).out


def test_without_a_model_nothing_is_promised(
    forewarn: Forewarn, script: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the output was "risk 100% → 0%", for each of two errors."""
    monkeypatch.setenv("FOREWARN_HOME", str(tmp_path / "nowhere"))
    script.write_bytes(b"#SBATCH --tiem=1\r\nhostname\r\n")
    result = forewarn("check", script, "--no-test-only", "--json")
    fixes = result.json["advice"]
    assert len(fixes) >= 2
    assert {(advice["risk_before"], advice["risk_after"]) for advice in fixes} == {(None, None)}


def test_errors_of_the_script_and_the_risk_once_they_are_fixed(check: Forewarn, script: Path) -> None:
    script.write_bytes(script.read_bytes().replace(b"\n", b"\r\n"))
    assessment = check("--json", "--fix").json
    assert assessment["verdict"] == "likely_to_fail"
    assert assessment["advice"][0]["risk_after"] is None
    assert (
        f"once that is fixed: {percent(assessment['failure']['probability'])} risk" in assessment["summary"]
    )
    assert assessment["fixed"]["risk"] == pytest.approx(
        next(
            (a["risk_after"] for a in assessment["advice"] if a["changes"]),
            assessment["failure"]["probability"],
        )
    )


@pytest.mark.parametrize("more", ["", "#SBATCH --array=0-9\n", "#SBATCH hetjob\n#SBATCH -n 2 --mem=1G\n"])
@pytest.mark.parametrize("first", ["#!/bin/bash\n", ""])
def test_fix_fixes_what_it_says(check: Forewarn, script: Path, site: Site, first: str, more: str) -> None:
    """Arrays, heterogeneous jobs, a script without a first line: what is written is what is advised."""
    text = site.script("16M").removeprefix("#!/bin/bash\n")
    script.write_text(first + text.replace("\nhostname", f"\n{more}hostname"))
    assessment = check("--fix", "--json").json
    advice = next(a for a in assessment["advice"] if a["changes"])
    fixed = script.with_name("job.fixed.sbatch").read_text()
    assert fixed.startswith("#!/bin/bash\n")
    component = read_script(fixed).components[0]
    for change in advice["changes"]:
        assert component.value(change["option"]) == change["after"]
    assert fixed.count("#SBATCH") == (first + text + more).count("#SBATCH")
    assert assessment["fixed"]["risk"] == pytest.approx(advice["risk_after"])
    assert assessment["fixed"]["verdict"] != "likely_to_fail"


def test_a_fixed_script_keeps_the_jobs_name(forewarn: Forewarn, script: Path, site: Site) -> None:
    """Else Slurm would call the job after the new file, and its history would be lost."""
    named = script.with_name(site.name)  # Slurm calls a job after its file where it has no other name
    named.write_text(site.script("16M").replace(f"#SBATCH --job-name={site.name}\n", ""))
    known = ("-u", site.user, "--at", site.at, "--no-test-only")
    assessment = forewarn("check", named, *known, "--fix", "--json").json
    fixed = Path(assessment["fixed"]["path"])
    assert fixed.name != site.name
    assert read_script(fixed.read_text()).options.value("job-name") == site.name
    assert assessment["fixed"]["risk"] == pytest.approx(
        next(a for a in assessment["advice"] if a["changes"])["risk_after"]
    )


def test_several_scripts(check: Forewarn, script: Path, site: Site, tmp_path: Path) -> None:
    """`check a b` checked only a."""
    other = tmp_path / "other.sbatch"
    other.write_text(site.script("2T"))
    one = check().code
    both = check(other)
    assert both.code == 2 > one, "the worst"
    assert f"{script}: " in both.out
    assert f"{other}: likely to fail" in both.out
    results = check(other, "--json").json
    assert [one["script"] for one in results] == [str(script), str(other)]
    options = check(other, "--json", "--", "--mem=20G").json
    assert [one["resources"]["memory_asked"] for one in options] == [20 << 30] * 2
    gone = check(tmp_path / "gone", other)
    assert (gone.code, "no such file" in gone.err) == (2, True)
    assert check(tmp_path / "gone").code == max(one, 3 if one == 0 else one)


def test_a_script_by_standard_input(forewarn: Forewarn, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    class Piped:
        buffer = io.BytesIO(site.script("2T").encode())

    monkeypatch.setattr(sys, "stdin", Piped)
    result = forewarn("check", "-", "-u", site.user, "--at", site.at, "--no-test-only")
    assert result.code == 2
    assert result.out.startswith("standard input: likely to fail")
    assert forewarn("check", "-", "--fix").code == 3


def test_line_ends_are_mended_byte_for_byte(check: Forewarn, script: Path, site: Site) -> None:
    raw = site.script("16M", body="echo caf\u00e9").encode("latin-1").replace(b"\n", b"\r\n")
    script.write_bytes(raw)
    result = check("--fix")
    assert result.code == 2
    fixed = script.with_name("job.fixed.sbatch").read_bytes()
    assert b"\r" not in fixed
    assert b"caf\xe9" in fixed
    assert b"--mem=16M" not in fixed


@pytest.mark.parametrize(
    ("directive", "shown"),
    [("-o out[/b]/y.txt", "[/b]"), ("-J [bold]x", "[bold]x"), ("-p \x1b[2J", "x1b[2J")],
)
def test_what_a_script_says_steers_no_terminal(
    check: Forewarn, script: Path, directive: str, shown: str
) -> None:
    script.write_text(f"#!/bin/sh\n#SBATCH {directive}\nhostname\n")
    result = check("--diff")
    # Of a new name and request nobody can say anything, which is 3 as well.
    assert result.code < 3 or "job.sbatch: cannot say" in result.out, result.err
    assert "\x1b" not in result.out
    assert (shown in result.out) == ("-J" not in directive), "a job's name is not shown"


@pytest.mark.parametrize("text", ["", "\x00\x01\x02", "just words", "#!/bin/sh\n#SBATCH -J \udce9\n"])
def test_what_is_no_script(check: Forewarn, script: Path, text: str) -> None:
    script.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = check("--json")
    assert result.code < 3 or result.json["verdict"] == "cannot_say", result.err
    if not text.strip() or "\0" in text:
        assert not any(advice["changes"] for advice in result.json["advice"])


def test_what_cannot_run_gets_no_advice_on_its_request(check: Forewarn) -> None:
    assessment = check("--json", "--", "--nodes=500", "--ntasks=500", "--mem=16M").json
    assert assessment["verdict"] == "likely_to_fail"
    assert not any(advice["changes"] for advice in assessment["advice"])


def test_arrays_and_components_have_notes(check: Forewarn, script: Path) -> None:
    script.write_text(
        "#!/bin/sh\n#SBATCH --array=0-9\n#SBATCH -n 1\n#SBATCH hetjob\n#SBATCH -n 2\nhostname\n"
    )
    notes = check("--json").json["notes"]
    assert any("first is assessed" in note for note in notes)
    assert any("array" in note for note in notes)


def test_a_moment_of_long_ago_and_a_history_that_is_old(forewarn: Forewarn, site: Site, script: Path) -> None:
    for at, expected in (
        (site.at - 40 * 86400, "continues after that"),
        (site.at + 40 * 86400, "days earlier"),
    ):
        assessment = forewarn("check", script, "-u", site.user, "--at", at, "--no-test-only", "--json").json
        assert any(expected in note for note in assessment["notes"]), assessment["notes"]


@pytest.mark.parametrize(
    "args",
    [("no/such/file",), ("{script}", "--no-such-flag"), ("{script}", "--at", "whenever"), (), ("/etc",)],
)
def test_every_error_is_3(forewarn: Forewarn, script: Path, args: tuple[str, ...]) -> None:
    result = forewarn("check", *(arg.format(script=script) for arg in args))
    assert result.code == 3
    assert result.err


def test_it_needs_no_learner_but_those_of_the_model(site: Site, script: Path) -> None:
    """What makes a start slow, counted in modules, since a clock depends on who else is at work."""
    code = (
        "import sys\nfrom forewarn.serve.cli.main import cli\n"
        f"try: cli(['check', {str(script)!r}, '-u', {site.user!r}, '--at', '{site.at}', '--json'])\n"
        "except SystemExit: pass\n"
        "heavy = ('sklearn', 'pandas', 'mlflow', 'ray', 'catboost', 'matplotlib')\n"
        "print([name for name in heavy if name in sys.modules], file=sys.stderr)"
    )
    env = os.environ | {"FOREWARN_HOME": str(site.home), "OMP_WAIT_POLICY": "PASSIVE"}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines()[-1] == "[]"
    assert json.loads(done.stdout)["failure"]


def test_an_exported_bundle_names_nobody(forewarn: Forewarn, site: Site, tmp_path: Path) -> None:
    assert forewarn("models", "export", "small.submit.generic", "-o", tmp_path / "bundle").code == 0
    texts = [path.read_bytes() for path in (tmp_path / "bundle").rglob("*") if path.is_file()]
    assert len(site.users) > 10
    for user in site.users:
        assert not any(user.encode() in text for text in texts), user


def test_explaining_asks_the_forecast_for_memory(
    site: Site, forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of jobs that ran out of memory: what such jobs need, and not twice what it had."""
    monkeypatch.setenv("FOREWARN_HOME", str(site.home))
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("FOREWARN_SLURMRESTD", raising=False)
    killed = forewarn("jobs", "-s", "OOM", "-n", "8", "--json").lines
    advice = [forewarn("explain", row["job_id"], "--json").json["what_to_do"][0] for row in killed]
    assert any("sufficient for 95% of jobs like this: `#SBATCH --mem" in text for text in advice), advice
