"""Learning as its user meets it, with real parts: one trained home, which every test gets a copy of."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from forewarn.errors import BundleError, LearningError, NotEnoughError, RegistryError, UsageError
from forewarn.learn.registry.manifest import MANIFEST, Manifest
from forewarn.serve.cli.main import INTERRUPTED
from tests.serve.conftest import Forewarn, swf_line, write_swf

EXECUTABLE = Path(sys.executable).parent / "forewarn"
MODEL = "small.submit.generic"
SEARCHED = (
    "train",
    "--family",
    "xgboost",
    "--family",
    "online",
    "--trials",
    "4",
    "--deterministic",
    "--json",
)
QUICK = ("train", "--family", "online", "--json")

# One worker of pytest-xdist makes the trained home, not each.
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("learning_cli")]


@dataclass(frozen=True)
class Trained:
    """A home with two versions of a model, and what was said of each when it was trained."""

    home: Path
    first: dict[str, Any]
    second: dict[str, Any]


def environment(home: Path) -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if "FOREWARN" not in k} | {"FOREWARN_HOME": str(home)}


def run(home: Path, *args: object) -> str:
    done = subprocess.run(
        [EXECUTABLE, *map(str, args)], env=environment(home), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def trained(registry_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    home = tmp_path_factory.mktemp("trained") / "home"
    (home / "models").mkdir(parents=True)
    shutil.copy(registry_template, home / "models")
    run(home, "simulate", "--scenario", "small", "--jobs", 5000, "--ingest")
    return Trained(home, json.loads(run(home, *SEARCHED)), json.loads(run(home, *QUICK)))


@pytest.fixture
def home(trained: Trained, tmp_path: Path) -> Path:
    return shutil.copytree(trained.home, tmp_path / "home")


@pytest.fixture
def elsewhere(registry_template: Path, tmp_path: Path) -> Path:
    """Another home, in which nothing was trained."""
    (tmp_path / "elsewhere" / "models").mkdir(parents=True)
    shutil.copy(registry_template, tmp_path / "elsewhere" / "models")
    return tmp_path / "elsewhere"


def files_of(home: Path) -> dict[str, bytes]:
    """All that the models of a home consist of, but for locks."""
    paths = (path for path in (home / "models").rglob("*") if path.is_file() and path.suffix != ".lock")
    return {str(path.relative_to(home)): path.read_bytes() for path in paths}


def folders_of(home: Path) -> set[str]:
    return {path.name for path in (home / "models").iterdir() if path.is_dir()}


# --- what a training leaves --------------------------------------------------------------------------


def test_the_report_is_there_and_agrees_with_the_output(trained: Trained) -> None:
    for result in (trained.first, trained.second):
        bundle = Path(result["bundle"])
        report = json.loads((bundle / "report.json").read_text())
        page = (bundle / "report.html").read_text()
        assert result["report"] == str(bundle / "report.html")
        assert result["metrics"].items() >= {**report["evaluation"]["ranking"]}.items()
        assert result["evaluation"]["at_threshold"] == report["evaluation"]["at_threshold"]
        assert f"{result['metrics']['roc_auc']:.3f}" in page
        assert f"{result['metrics']['f1']:.3f}" in page
        assert report["model"]["cluster"] == "small"
        Manifest.verify(bundle)
    searched = json.loads((Path(trained.first["bundle"]) / "report.json").read_text())["search"]
    assert [trial["number"] for trial in searched["trials"]] == [0, 1, 2, 3]
    assert {trial["family"] for trial in searched["trials"]} == {"xgboost"}


def test_nothing_else_is_left(trained: Trained) -> None:
    assert folders_of(trained.home) == {"artifacts", "cache", "pending", "searches", "serving"}
    assert not list((trained.home / "models" / "pending").iterdir())
    assert not list((trained.home / "models" / "searches").iterdir())


def test_the_first_serves_and_the_second_challenges(forewarn: Forewarn, trained: Trained) -> None:
    assert (trained.first["version"], trained.first["aliases"]) == (1, ["champion"])
    assert (trained.second["version"], trained.second["aliases"]) == (2, ["challenger"])
    listed = forewarn("models", "list", "--json").json
    assert [(v["model"], v["version"], v["aliases"]) for v in listed] == [
        (MODEL, 2, ["challenger"]),
        (MODEL, 1, ["champion"]),
    ]
    assert listed[1]["metrics"] == trained.first["metrics"]
    shown = forewarn("models", "show", MODEL, "--json").json
    assert {member["recipe"]["family"] for member in shown["model"]["members"]} <= {"xgboost", "online"}
    assert shown["manifest"]["settings"]["trials"] == 4
    assert shown["manifest"]["settings"]["deterministic"] is True


def test_promote_and_rollback(forewarn: Forewarn) -> None:
    assert "version 2 is the champion" in forewarn("models", "promote", MODEL).err
    assert forewarn("models", "show", MODEL, "--json").json["version"] == 2
    assert "version 1 is the champion again" in forewarn("models", "rollback", MODEL).err
    assert forewarn("models", "show", MODEL, "--json").json["version"] == 1


def test_evaluate_judges_both_on_the_same_jobs(forewarn: Forewarn, trained: Trained) -> None:
    found = forewarn("evaluate", MODEL, "--json").json
    first, second = found["versions"]["version 1"], found["versions"]["version 2"]
    # The jobs after those learnt from are those of the test block.
    assert first["ranking"].items() <= trained.first["metrics"].items()
    assert second["ranking"].items() <= trained.second["metrics"].items()
    assert first["baselines"] == second["baselines"]
    assert found["f1_above_first"]["f1"] == pytest.approx(
        second["at_threshold"]["f1"] - first["at_threshold"]["f1"]
    )
    for judged in (first, second):
        assert judged["hours"].keys() >= {"asked_alone", "best_rule", *RANKED_BY_HOURS}
        assert judged["by_decision"]["decisions"] <= found["jobs"]
        shares = sum(cause["base_rate"] for cause in judged["causes"].values())
        assert shares == pytest.approx(judged["ranking"]["base_rate"])
    shown = forewarn("evaluate", MODEL, 2, 1).out
    assert shown.count("By decision") == shown.count("By CPU hours") == 2
    assert f"jobs  {found['jobs']:,}, " in shown
    assert "F1 gain of version 1 champion over version 2 challenger" in shown
    assert "F1 gain of version" not in forewarn("evaluate", MODEL, 1, "champion").out  # one and the same


@pytest.mark.parametrize(
    ("args", "error", "message"),
    [
        ((MODEL, "-S", "now"), NotEnoughError, "0 jobs with a known outcome"),
        ((MODEL, "-S", "2024-01-02"), UsageError, "the model was trained on jobs submitted before"),
        ((MODEL, "best"), UsageError, "'best': expected a number, champion or challenger"),
        ((MODEL, "7"), RegistryError, "has no version 7"),
        (("small.start.generic",), RegistryError, "no model small.start.generic"),
        (("small",), UsageError, "CLUSTER.PHASE.FEATURES"),
    ],
)
def test_evaluate_says_what_it_lacks(
    args: tuple[str, ...], error: type[LearningError | UsageError], message: str, forewarn: Forewarn
) -> None:
    result = forewarn("evaluate", *args)
    assert (result.code, result.out) == (error.exit_code, "")
    assert message in result.err


def test_a_model_moves_to_another_home(
    forewarn: Forewarn, trained: Trained, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert forewarn("models", "export", MODEL, "-o", tmp_path / "model.tar.gz").code == 0
    monkeypatch.setenv("FOREWARN_HOME", str(elsewhere))
    assert f"{MODEL}: version 1 champion" in forewarn("models", "import", tmp_path / "model.tar.gz").err
    shown = forewarn("models", "show", MODEL, "--json").json
    assert shown["metrics"] == trained.first["metrics"]
    assert Manifest.verify(Path(shown["bundle"])).id == Manifest.verify(Path(trained.first["bundle"])).id


# --- the benchmark -----------------------------------------------------------------------------------

MEASURES = {"accuracy", "precision", "recall", "f1"}
FIGURES = {"n", "base_rate", "roc_auc", "pr_auc", "brier", "ece", "at_validation", "at_0_5", "baselines"}
RANKED_BY_HOURS = ("roc_auc", "pr_auc", "top_5", "top_10", "top_20")
PAPERS_MEASURES = ("accuracy", "precision", "recall", "f1")
BASELINES = {
    *("majority", "last_user", "last_user_name", "last_user_request"),
    *("last_user_request_else_user", "last_user_name_else_user"),
    *("last_request", "last_array", "last_array_else_request"),
}


def test_bench_gives_the_figures_that_were_agreed_on(forewarn: Forewarn, home: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.swf"
    forewarn("simulate", "--scenario", "small", "--jobs", 4000, "--format", "swf", "-o", log)
    before = files_of(home)
    bench = ("bench", f"swf:{log}", "--family", "online")
    found = forewarn(*bench, "--phases", "posthoc,submit,start", "--json").json
    assert found["features"] == "swf"  # as an SWF file has no more
    assert found["log"] == "log"
    assert list(found["phases"]) == ["submit", "start", "posthoc"]
    for phase, figures in found["phases"].items():
        assert figures.keys() >= FIGURES
        assert figures["baselines"].keys() == BASELINES
        assert figures["at_validation"].keys() == figures["at_0_5"].keys() == {"threshold", *MEASURES}
        assert all(rule.keys() == MEASURES for rule in figures["baselines"].values())
        numbers = [figures[name] for name in ("base_rate", "roc_auc", "pr_auc", "brier", "ece")]
        numbers += [row[name] for row in (figures["at_validation"], figures["at_0_5"]) for name in row]
        numbers += [rule[name] for rule in figures["baselines"].values() for name in rule]
        assert all(0 <= number <= 1 for number in numbers)
        assert ("papers' protocol" in figures.get("protocol", "")) == (phase == "posthoc")
        by_decision, hours, causes = (figures[part] for part in ("by_decision", "hours", "causes"))
        assert by_decision["blocks"].keys() == {"train", "search", "calibrate", "test"}
        assert 1 <= by_decision["effective"] <= by_decision["decisions"] <= figures["n"]
        assert by_decision["effective"] == by_decision["blocks"]["test"]["effective"]
        for ranked in (hours, hours["asked_alone"], hours["best_rule"]):
            assert all(0 <= ranked[name] <= 1 for name in RANKED_BY_HOURS)
            assert ranked["top_5"] <= ranked["top_10"] <= ranked["top_20"]
        assert causes["timeout"].keys() >= {"n", "base_rate", "roc_auc", "pr_auc", "hours"}
        shares = sum(cause["base_rate"] for cause in causes.values())
        assert shares == pytest.approx(figures["base_rate"])
        assert ("published" in figures) == (phase == "posthoc")
    published = {row["log"]: row for row in found["phases"]["posthoc"]["published"]}
    assert [published["Netbatch"][name] for name in PAPERS_MEASURES] == [0.979, 0.974, 0.897, 0.933]
    assert "not run here" in published["Netbatch"]["note"]
    assert [published["CTC-SP2"][name] for name in PAPERS_MEASURES] == [0.937, 0.942, 0.744, 0.833]
    assert [published["SDSC-BLUE"][name] for name in PAPERS_MEASURES] == [0.943, 0.896, 0.855, 0.862]
    assert found["phases"]["submit"]["n"] >= found["phases"]["start"]["n"]
    assert files_of(home) == before  # nothing was registered
    shown = forewarn(*bench, "--phases", "posthoc")
    assert "log at posthoc" in shown.out
    assert "the papers' protocol" in shown.out
    for part in (
        "By decision",
        "By CPU hours",
        "requested CPU hours alone",
        "top 10%",
        "cause",
        "time limit",
    ):
        assert part in shown.out
    assert "published: Netbatch, not run here" in shown.out


def test_what_is_known_only_at_the_end_is_never_registered(
    forewarn: Forewarn, home: Path, trained: Trained, tmp_path: Path
) -> None:
    result = forewarn("train", "--phase", "posthoc")
    assert (result.code, "'posthoc' is not one of" in result.err) == (UsageError.exit_code, True)
    bundle = shutil.copytree(trained.second["bundle"], tmp_path / "bundle")
    facts = Manifest.verify(bundle).facts
    (bundle / MANIFEST).unlink()
    Manifest.seal(bundle, replace(facts, phase="posthoc"))
    before = files_of(home)
    result = forewarn("models", "import", bundle)
    assert (result.code, "never registered" in result.err) == (LearningError.exit_code, True)
    assert files_of(home) == before


# --- what goes wrong ---------------------------------------------------------------------------------


def test_an_interrupted_search_goes_on_and_ends_as_if_it_had_not_been(home: Path, trained: Trained) -> None:
    searches = home / "models" / "searches"
    with subprocess.Popen(
        [EXECUTABLE, *SEARCHED], env=environment(home), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        while process.poll() is None and not any(
            path.read_bytes().count(b"\n") > 1 for path in searches.glob("*/trials.jsonl")
        ):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    assert (process.returncode, out) == (INTERRUPTED, b""), err
    last_lines = [line for line in err.decode().splitlines() if line][-2:]
    assert last_lines == [
        "note: run the same command again to continue this search",
        "forewarn: error: interrupted",
    ]
    assert folders_of(home) == folders_of(trained.home)
    again = json.loads(run(home, *SEARCHED))
    report = json.loads((Path(again["bundle"]) / "report.json").read_text())
    assert report["search"]["resumed"] >= 1
    assert (again["version"], again["aliases"]) == (3, ["challenger"])
    # The same seed, the same figures: `--deterministic`.
    assert again["metrics"] == trained.first["metrics"]
    assert again["evaluation"] == trained.first["evaluation"]
    assert not list(searches.iterdir())


@pytest.mark.filterwarnings("default")  # the command prints it
def test_a_tracking_server_that_is_down(
    forewarn: Forewarn, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREWARN_TRACKING", "http://127.0.0.1:1")
    result = forewarn(*QUICK, "--seed", 1)
    assert result.code == 0
    assert "127.0.0.1:1: cannot be reached" in result.err
    assert "Not registered, but kept" in result.err
    answer = result.json
    assert (answer["model"], answer["version"]) == (None, None)
    assert Path(answer["report"]).is_file()
    assert Path(answer["bundle"]).parent == home / "models" / "pending"
    monkeypatch.delenv("FOREWARN_TRACKING")
    assert f"{MODEL}: registered version 3 challenger" in forewarn("models", "sync").err
    listed = forewarn("models", "list", "--json").json
    assert [v["version"] for v in listed] == [3, 2, 1]
    assert listed[0]["metrics"] == answer["metrics"]
    assert not Path(answer["bundle"]).exists()


def test_a_corrupt_bundle(
    forewarn: Forewarn, trained: Trained, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREWARN_HOME", str(elsewhere))
    bundle = shutil.copytree(trained.first["bundle"], tmp_path / "bundle")
    model = bundle / "model.json"
    model.write_text(model.read_text().replace("0.", "1.", 1))
    before = files_of(elsewhere)
    refused = forewarn("models", "import", bundle)
    assert (refused.code, "model.json: was changed" in refused.err) == (BundleError.exit_code, True)
    assert files_of(elsewhere) == before

    assert forewarn("models", "import", trained.first["bundle"]).code == 0
    for path in (elsewhere / "models").rglob("model.json"):  # the copy that serves and the registry's own
        path.write_bytes(path.read_bytes()[:-1])
    before = files_of(elsewhere)
    for args in (("evaluate", MODEL), ("models", "show", MODEL)):
        refused = forewarn(*args)
        assert (refused.code, refused.out) == (BundleError.exit_code, ""), refused.err
        assert "model.json: was changed" in refused.err
    assert files_of(elsewhere) == before


def labels(rows: int, seed: int = 0) -> Iterable[bool]:
    failed: list[bool] = (np.random.default_rng(seed).random(rows) < 0.3).tolist()
    return failed


def swf(folder: Path, *, rows: int = 400, run_time: int = 600, fails: Iterable[bool] | None = None) -> str:
    lines = [
        swf_line(n, submit=n * 900, run_time=run_time, status=0 if failed else 1, user=n % 7)
        for n, failed in enumerate(labels(rows) if fails is None else fails, 1)
    ]
    return f"swf:{write_swf(folder / 'log.swf', *lines)}"


def ids_and_states(folder: Path, *, ends: bool) -> str:
    """A source that tells nothing of its jobs but what became of them."""
    lines = ["JobID|Cluster|Submit|State|End" if ends else "JobID|Cluster|Submit|State"]
    for number, failed in enumerate(labels(400), 1):
        submit = datetime(2024, 1, 1) + timedelta(minutes=37 * number)
        state = "FAILED" if failed else "COMPLETED"
        line = f"{number}|bare|{submit.isoformat()}|{state}"
        lines.append(f"{line}|{(submit + timedelta(minutes=30)).isoformat()}" if ends else line)
    (folder / "bare.txt").write_text("\n".join(lines) + "\n")
    return f"sacct:{folder / 'bare.txt'}"


CASES: dict[str, tuple[Callable[[Path], tuple[str, ...]], type[Exception], str]] = {
    "one class only": (
        lambda f: (swf(f, fails=[False] * 400),),
        NotEnoughError,
        "ended well in the population `wasted`: a model needs both outcomes",
    ),
    "ten jobs": (lambda f: (swf(f, rows=10),), NotEnoughError, "6 with a known outcome in the block `train`"),
    "nothing but ids and states": (
        lambda f: (ids_and_states(f, ends=False),),
        NotEnoughError,
        "bare: none of the 400 jobs is in the population `wasted` and has a known end and outcome",
    ),
    "all features missing": (
        lambda f: (ids_and_states(f, ends=True),),
        NotEnoughError,
        "the feature set `generic` is empty here",
    ),
    "a feature set that the source cannot fill": (
        lambda f: (ids_and_states(f, ends=True), "--features", "restricted"),
        NotEnoughError,
        "the feature set `restricted` is empty here",
    ),
    "a family that the feature set cannot fill": (
        lambda f: (swf(f), "--features", "restricted", "--family", "online"),
        UsageError,
        "the family `online` needs features of history, and the feature set `restricted` has none",
    ),
    "a population that leaves nothing": (
        lambda f: (swf(f, run_time=60), "--population", "papers-2min"),
        NotEnoughError,
        "none of the 400 jobs is in the population `papers-2min`",
    ),
    "a Ray cluster that is not there": (
        lambda _: ("swf:none.swf", "--family", "xgboost", "--ray-address", "127.0.0.1:1"),
        LearningError,
        "no Ray cluster answers at 127.0.0.1:1",
    ),
    "no address": (
        lambda _: ("swf:none.swf", "--family", "xgboost", "--ray-address", "here"),
        UsageError,
        "'here' is no address of a Ray cluster",
    ),
    "balancing of what does not train": (
        lambda f: (swf(f), "--family", "online", "--imbalance", "smote"),
        UsageError,
        "there is no train block to balance",
    ),
    "a cluster that is not there": (lambda _: ("-M", "alps"), UsageError, "no cluster 'alps' in the store"),
    # A file that is not there is found out after it.
    "a wrong threshold": (
        lambda _: ("swf:none.swf", "--threshold", "precison=0.8"),
        UsageError,
        "unknown threshold rule 'precison=0.8'",
    ),
    "no threshold": (
        lambda _: ("swf:none.swf", "--threshold", "recall=60"),
        UsageError,
        "'recall=60': recall must be above 0 and at most 1",
    ),
    "an unknown family": (lambda _: ("--family", "svm"), UsageError, "'svm' is not one of"),
    "no trials": (lambda _: ("--trials", "0"), UsageError, "--trials"),
    "a status without a log": (
        lambda _: ("--status", "exit-code"),
        UsageError,
        "--status: applies to SWF files only",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_bad_input_gives_one_error_line_and_changes_nothing(
    case: str, forewarn: Forewarn, home: Path, tmp_path: Path
) -> None:
    arguments, error, message = CASES[case]
    before, folders = files_of(home), folders_of(home)
    result = forewarn("train", *arguments(tmp_path))
    assert (result.code, result.out) == (error.exit_code, ""), result.err  # type: ignore[attr-defined]
    messages = [line for line in result.err.splitlines() if line.startswith("forewarn: error: ")]
    assert len(messages) == 1
    assert message in messages[0]
    assert "Traceback" not in result.err
    assert (files_of(home), folders_of(home)) == (before, folders)
    assert not list((home / "models" / "searches").iterdir())


def test_a_model_that_is_mere_chance_does_not_serve(
    forewarn: Forewarn, elsewhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FOREWARN_HOME", str(elsewhere))
    chance = swf(tmp_path, rows=1500, fails=(np.random.default_rng(5).random(1500) < 0.4).tolist())
    result = forewarn("train", chance, "--family", "online", "--population", "papers", "--json")
    assert result.code == 0
    assert result.json["aliases"] == ["challenger"]
    assert result.json["warnings"][0]["level"] == "bad"
    assert "no better than chance" in result.json["verdict"]


def test_the_choices_of_the_options_are_those_there_are() -> None:
    """They are written down twice, so that `--help` need not import what it lists."""
    from forewarn.learn.data import imbalance, population
    from forewarn.learn.fitting.fit_settings import ALL_FAMILIES
    from forewarn.serve.cli.commands import learning

    assert learning.FAMILIES == ALL_FAMILIES
    assert set(learning.POPULATIONS) == set(population.POPULATIONS)
    assert set(learning.BALANCINGS) == {*imbalance.BALANCINGS, "active"}
