"""The registry: registered versions, the champions that serve, and the state after a failed step."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from forewarn.errors import BundleError, LearningError, RegistryError, UsageError
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.registry import Registry
from forewarn.learn.registry.serving import UNUSED_FOR, ModelName, Serving
from forewarn.learn.registry.tracking import Tracking, embedded_uri
from forewarn.learn.registry.versions import Version
from tests.learn.bundles import make_bundle

pytestmark = pytest.mark.slow

ALPS = ModelName("alps", "submit", "generic")


@pytest.fixture
def registry(registry_home: Path) -> Registry:
    return Registry(registry_home)


def record(registry: Registry, folder: Path, created: int = 1, **facts: Any) -> Version:
    version = registry.record(make_bundle(folder, created, **facts))
    assert version is not None
    return version


def aliases(registry: Registry, name: ModelName = ALPS) -> dict[str, int]:
    return {alias: v.version for v in registry.versions(name) for alias in v.aliases}


def served(registry: Registry) -> str:
    return Manifest.verify(registry.champion("alps", "submit", "generic")).id


# --- names ------------------------------------------------------------------------------------------


@given(st.text(min_size=1), st.sampled_from(["submit", "start"]), st.sampled_from(["generic", "swf"]))
def test_any_cluster_has_a_name_that_comes_back(cluster: str, phase: str, feature_set: str) -> None:
    if any(0xD800 <= ord(letter) < 0xE000 for letter in cluster):
        return  # half a character: no cluster's name can be written so
    name = ModelName(cluster, phase, feature_set)
    assert ModelName.from_registered(name.registered) == name
    assert not set(name.quoted) & set("/: '\"\\\0")


def test_names_as_people_write_them() -> None:
    assert ModelName.parse("a.b.submit.generic") == ModelName("a.b", "submit", "generic")
    assert ModelName.parse("forewarn.alps.submit.generic") == ALPS
    for wrong in ("alps", "alps.submit", ".submit.generic"):
        with pytest.raises(UsageError, match=r"CLUSTER\.PHASE\.FEATURES"):
            ModelName.parse(wrong)


# --- champion and challenger ------------------------------------------------------------------------


def test_the_first_serves_and_later_ones_wait_to_be_promoted(registry: Registry, tmp_path: Path) -> None:
    first = record(registry, tmp_path / "1", 1)
    assert first.aliases == ("champion",)
    assert served(registry) == first.id
    second = record(registry, tmp_path / "2", 2)
    third = record(registry, tmp_path / "3", 3)
    assert aliases(registry) == {"champion": 1, "challenger": 3}
    assert served(registry) == first.id
    assert registry.promote(ALPS).version == 3
    assert aliases(registry) == {"champion": 3}
    assert served(registry) == third.id
    assert registry.promote(ALPS, 2).version == 2
    assert served(registry) == second.id
    assert registry.former_champions(ALPS) == [1, 3]
    assert [registry.rollback(ALPS).version, registry.rollback(ALPS).version] == [3, 1]
    assert served(registry) == first.id
    with pytest.raises(RegistryError, match="no champion before version 1"):
        registry.rollback(ALPS)


def test_versions_have_the_facts_of_the_bundle(registry: Registry, tmp_path: Path) -> None:
    version = record(registry, tmp_path / "1", 77)
    other = record(registry, tmp_path / "2", 78, cluster="a/b: c.d")
    assert version == registry.version(ALPS, 1) == registry.version(ALPS)
    assert (version.created, version.population, version.metrics["roc_auc"]) == (77, "wasted", 0.81)
    assert version.id == Manifest.read(tmp_path / "1").id
    assert registry.versions() == [other, version]
    assert other.name.cluster == "a/b: c.d"


def test_a_run_has_params_metrics_and_the_report(
    registry: Registry, registry_home: Path, tmp_path: Path
) -> None:
    version = record(registry, tmp_path / "1", settings={"search": {"method": "tpe"}, "x=y": "z" * 7000})
    tracking = Tracking(embedded_uri(registry_home / "models" / "mlflow.db"))
    run = tracking.get_run(version.run)
    assert run.info.status == "FINISHED"
    assert run.data.params["search.method"] == "tpe"
    assert len(run.data.params["x_y"]) == 6000
    assert run.data.metrics == {"roc_auc": 0.81, "f1": 0.6}
    assert "bundle/report.html" in {file.path for file in tracking.list_artifacts(version.run, "bundle")}


def test_the_same_bundle_twice_is_one_version(registry: Registry, tmp_path: Path) -> None:
    first = record(registry, tmp_path / "1")
    assert registry.record(tmp_path / "1") == first
    assert len(registry.versions()) == 1


def test_posthoc_is_never_registered(registry: Registry, tmp_path: Path) -> None:
    with pytest.raises(LearningError, match="never registered"):
        registry.record(make_bundle(tmp_path / "1", phase="posthoc"))
    assert (registry.versions(), registry.waiting()) == ([], [])


def test_an_unknown_model_or_version_is_an_error(registry: Registry, tmp_path: Path) -> None:
    for ask in (registry.version, registry.promote, registry.rollback):
        with pytest.raises(RegistryError, match=r"no model alps.submit.generic .*`forewarn models list`"):
            ask(ALPS)
    record(registry, tmp_path / "1")
    with pytest.raises(RegistryError, match=r"has no version 7\. Its versions are: 1 champion"):
        registry.promote(ALPS, 7)
    with pytest.raises(RegistryError, match="has no challenger"):
        registry.promote(ALPS)


def test_a_new_home_needs_no_mlflow_to_tell_that_it_is_empty(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from forewarn.learn.registry.registry import Registry\n"
        f"registry = Registry(Path({str(tmp_path / 'home')!r}))\n"
        "assert registry.versions() == [] and registry.sync().logged == ()\n"
        "assert 'mlflow' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


# --- what serves here -------------------------------------------------------------------------------


def test_serving_needs_no_mlflow(registry: Registry, registry_home: Path, tmp_path: Path) -> None:
    version = record(registry, tmp_path / "1")
    code = (
        "import sys; from pathlib import Path; from forewarn.learn.registry.registry import Registry\n"
        f"print(Registry(Path({str(registry_home)!r})).champion('alps', 'submit', 'generic').name)\n"
        "assert 'mlflow' not in sys.modules\n"
    )
    process = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert process.stdout.strip() == version.id


def test_a_damaged_copy_is_refused_and_fetched_again(
    registry: Registry, registry_home: Path, tmp_path: Path
) -> None:
    version = record(registry, tmp_path / "1")
    copy = registry.serving.copy_of(version.id)
    for damage in (
        lambda: (copy / "manifest.json").write_text("{}"),
        lambda: shutil.rmtree(copy),
        lambda: (registry_home / "models/serving/alps.submit.generic.json").write_text("{"),
    ):
        damage()
        with pytest.raises(BundleError, match="`forewarn models sync`"):
            registry.champion("alps", "submit", "generic")
        assert [v.version for v in registry.sync().served] == [1]
        assert served(registry) == version.id
    (copy / "report.html").write_text("better")  # found by Bundle.load, and by a sync
    assert [v.version for v in registry.sync().served] == [1]
    assert registry.sync().served == ()


def test_a_bundle_replaced_in_the_registry_is_refused(
    registry: Registry, registry_home: Path, tmp_path: Path
) -> None:
    record(registry, tmp_path / "1", 1)
    second = record(registry, tmp_path / "2", 2)
    stored = registry_home / "models" / "artifacts" / second.run / "artifacts" / "bundle"
    shutil.rmtree(registry.serving.copy_of(second.id))
    shutil.rmtree(stored)
    make_bundle(stored, 2)  # whole, with right hashes, and not the one that was registered
    with pytest.raises(BundleError, match="another bundle than the one that was registered"):
        registry.promote(ALPS)
    (stored / "model.json").write_text("{}")
    with pytest.raises(BundleError, match=r"model\.json: was changed"):
        registry.promote(ALPS)
    assert aliases(registry) == {"champion": 1, "challenger": 2}
    assert registry.former_champions(ALPS) == []


def test_another_home_of_the_same_registry_follows_its_champion(
    registry: Registry, registry_home: Path, tmp_path: Path
) -> None:
    record(registry, tmp_path / "1", 1)
    second = record(registry, tmp_path / "2", 2)
    other = Registry(tmp_path / "other", embedded_uri(registry_home / "models" / "mlflow.db"))
    assert served(other) == served(registry)
    registry.promote(ALPS)
    assert served(other) != second.id
    assert [v.version for v in other.sync().served] == [2]
    assert served(other) == second.id


def test_copies_that_serve_no_more_go_after_a_day(tmp_path: Path) -> None:
    serving = Serving(tmp_path)
    ids = [number * 64 for number in "abc"]
    for bundle_id in ids:
        serving.copy_of(bundle_id).mkdir(parents=True)
        os.utime(serving.copy_of(bundle_id), (0, 0))
    serving.point(ALPS, 1, ids[0])
    serving.point(ALPS, 2, ids[1])  # from now on the first is unused, however old its folder
    serving.tidy()
    assert [serving.copy_of(i).exists() for i in ids] == [True, True, False]
    serving.tidy(time.time() + UNUSED_FOR + 60)
    assert [serving.copy_of(i).exists() for i in ids] == [False, True, False]


# --- every step may fail ----------------------------------------------------------------------------


class Faulty:
    """A client whose n-th change to MLflow fails: before the change, or after it with the answer lost.

    Or from the n-th on nothing is answered any more. A read that fails leaves what the next change would
    have found, so they are not counted.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.set(-1)
        real = Tracking.__getattr__

        def faulty(tracking: Tracking, method: str) -> Callable[..., Any]:
            def call(*args: Any, **kwargs: Any) -> Any:
                is_change = not method.startswith(("search", "get", "list", "download"))
                fails = (is_change and self.changes == self.at) or (
                    self.how == "down" and self.changes > self.at >= 0
                )
                self.changes += is_change
                if fails and self.how != "after":
                    raise RegistryError(f"fault in {method}")
                result = real(tracking, method)(*args, **kwargs)
                if fails:
                    raise RegistryError(f"answer of {method} lost")
                return result

            return call

        monkeypatch.setattr(Tracking, "__getattr__", faulty)

    def set(self, at: int, how: str = "before") -> None:
        self.changes, self.at, self.how = 0, at, how


def check_nothing_is_half(registry: Registry, home: Path, name: ModelName = ALPS) -> None:
    """Check that every version has a whole bundle and a finished run, and every model a version."""
    tracking = Tracking(embedded_uri(home / "models" / "mlflow.db"))
    versions = registry.versions(name)
    for version in versions:
        run = tracking.get_run(version.run)
        assert (run.info.status, run.info.lifecycle_stage) == ("FINISHED", "active")
        stored = home / "models" / "artifacts" / version.run / "artifacts" / "bundle"
        assert Manifest.verify(stored).id == version.id
    models = tracking.search_registered_models(f"name='{name.registered}'")
    assert len(models) == (1 if versions else 0)


@pytest.mark.parametrize("how", ["before", "after", "down"])
def test_a_fault_at_any_step_leaves_nothing_half(
    how: str, registry: Registry, registry_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Faulty(monkeypatch)
    record(registry, tmp_path / "first", 0)
    steps = fault.changes
    assert steps == 9  # experiment, run, params, metrics, files, end of run, model, version, alias
    for step in range(steps):
        name = ModelName(f"c{step}", "submit", "generic")
        bundle = make_bundle(tmp_path / str(step), cluster=name.cluster)
        fault.set(step, how)
        with pytest.warns(UserWarning, match="kept"):
            assert registry.record(bundle) is None
        fault.set(-1)
        if how == "before":  # with a server that is down, a run or an empty name cannot be taken back yet
            check_nothing_is_half(registry, registry_home, name)
        done = registry.sync()
        assert (len(done.logged), done.waiting) == (1, {})
        check_nothing_is_half(registry, registry_home, name)
        assert aliases(registry, name) == {"champion": 1}
        folder = registry.champion(name.cluster, "submit", "generic")
        assert Manifest.verify(folder).id == Manifest.read(bundle).id


@pytest.mark.parametrize("how", ["before", "after"])
def test_a_fault_while_champions_change_can_be_done_again(
    how: str, registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault = Faulty(monkeypatch)
    first, second = record(registry, tmp_path / "1", 1), record(registry, tmp_path / "2", 2)

    def failed(change: Callable[[], Version], step: int) -> bool:
        fault.set(step, how)
        try:
            change()
        except RegistryError:
            return True
        finally:
            fault.set(-1)
        return False

    for step in range(100):
        one = failed(lambda: registry.promote(ALPS, 2), step)
        registry.promote(ALPS, 2)
        assert (aliases(registry), served(registry)) == ({"champion": 2}, second.id)
        assert registry.former_champions(ALPS) == [1]
        other = failed(lambda: registry.rollback(ALPS), step)
        if aliases(registry)["champion"] == 2:
            registry.rollback(ALPS)
        registry.sync()  # where only the pointer was not reached
        assert (aliases(registry), served(registry)) == ({"champion": 1}, first.id)
        if not (one or other):
            break
    assert step == 2  # the champion and the memory of it, of each


def test_one_bundle_that_cannot_be_registered_does_not_hold_up_the_others(
    registry: Registry, registry_home: Path, tmp_path: Path
) -> None:
    broken = make_bundle(registry_home / "models" / "pending" / "x")
    (broken / "model.json").write_text("{}")
    with pytest.warns(UserWarning, match=r"model\.json: was changed"):
        version = registry.record(make_bundle(tmp_path / "1"))
    assert version is not None
    assert registry.waiting() == [broken]


def test_a_locked_database_is_waited_for(registry: Registry, registry_home: Path, tmp_path: Path) -> None:
    code = (
        "import sqlite3, sys, time\n"
        f"db = sqlite3.connect({str(registry_home / 'models' / 'mlflow.db')!r}, isolation_level=None)\n"
        "db.execute('BEGIN EXCLUSIVE'); print('locked', flush=True); time.sleep(3)\n"
    )
    record(registry, tmp_path / "1", 1)
    holder = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        assert record(registry, tmp_path / "2", 2).version == 2


def test_a_database_locked_at_once_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    class Client:
        tries = 0

        def ask(self) -> str:
            self.tries += 1
            if self.tries < 3:
                raise OSError("(sqlite3.OperationalError) database is locked\n[SQL: …]")
            return "answer"

        def fail(self) -> None:
            raise OSError("(sqlite3.OperationalError) no such table\n[SQL: …]")

    monkeypatch.setattr("forewarn.learn.registry.tracking._client", lambda uri: Client())
    tracking = Tracking("sqlite:///x.db")
    assert tracking.ask() == "answer"
    with pytest.raises(
        RegistryError, match=r"^sqlite:///x\.db: \(sqlite3\.OperationalError\) no such table$"
    ):
        tracking.fail()


def test_two_processes_at_once_are_quiet_and_leave_nothing_where_they_stand(
    registry_home: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; from pathlib import Path; from forewarn.learn.registry.registry import Registry\n"
        "from tests.learn.bundles import make_bundle\n"
        f"registry = Registry(Path({str(registry_home)!r}))\n"
        "for number in range(2):\n"
        "    made = registry.record(make_bundle(Path(sys.argv[1]) / str(number), number))\n"
        "registry.export(made, Path(sys.argv[1]) / 'out')\n"
    )
    (tmp_path / "here").mkdir()
    root = str(Path(__file__).resolve().parents[2])
    both = [
        subprocess.Popen(
            [sys.executable, "-W", "always", "-c", code, tmp_path / part],
            cwd=tmp_path / "here",
            env=os.environ | {"PYTHONPATH": root},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for part in ("a", "b")
    ]
    assert [(process.communicate()[0], process.returncode) for process in both] == [(b"", 0), (b"", 0)]
    assert list((tmp_path / "here").iterdir()) == []
    registry = Registry(registry_home)
    assert [version.version for version in registry.versions()] == [4, 3, 2, 1]
    assert aliases(registry) == {"champion": 1, "challenger": 4}
    check_nothing_is_half(registry, registry_home)


# --- a real server ----------------------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path, registry_home: Path) -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """MLflow's own server, on a port that stays the same."""
    database = tmp_path / "server.db"
    shutil.copy(registry_home / "models" / "mlflow.db", database)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    started = []

    def start() -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
        command += ["--backend-store-uri", embedded_uri(database), "--workers", "1"]
        command += ["--artifacts-destination", str(tmp_path / "server-artifacts")]
        quiet = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
        with (tmp_path / "server.log").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=tmp_path, stdout=log, stderr=log, env=os.environ | quiet, start_new_session=True
            )
        started.append(process)
        process.port = port  # type: ignore[attr-defined]
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1).close()
                return process
            except OSError:
                time.sleep(0.1)
        raise AssertionError((tmp_path / "server.log").read_text())

    yield start
    for process in started:
        end(process)


def end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        os.killpg(process.pid, 9)  # the server and its worker: a group of its own
        process.wait()


def test_training_goes_on_without_the_server(
    server: Callable[[], subprocess.Popen[bytes]], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    process = server()
    uri = f"http://127.0.0.1:{process.port}"  # type: ignore[attr-defined]
    home = tmp_path / "home-of-server"
    registry = Registry(home, uri)
    first = record(registry, tmp_path / "1", 1)
    assert first.aliases == ("champion",)
    second = record(registry, tmp_path / "2", 2)
    shutil.rmtree(home / "models" / "cache")
    assert Manifest.verify(registry.bundle(second)).id == second.id  # through the server

    end(process)
    begun = time.monotonic()
    with pytest.warns(UserWarning, match=rf"127\.0\.0\.1(.|\n)*kept: {home}/models/pending/[0-9a-f]+"):
        assert registry.record(make_bundle(tmp_path / "3", 3)) is None
    with pytest.warns(UserWarning, match="`forewarn models sync`"):
        assert Registry(home, uri).record(make_bundle(tmp_path / "4", 4)) is None
    assert time.monotonic() - begun < 30
    assert len(registry.sync().waiting) == 2
    with pytest.raises(RegistryError, match=r"127\.0\.0\.1"):
        registry.promote(ALPS)

    process = server()
    assert [version.version for version in registry.sync().logged] == [3, 4]
    assert registry.waiting() == []
    assert aliases(registry) == {"champion": 1, "challenger": 4}
    assert registry.promote(ALPS).version == 4
    end(process)
    assert Manifest.verify(registry.champion("alps", "submit", "generic")).facts.created == 4  # serves on
    assert capfd.readouterr() == ("", "")


def test_a_server_that_never_answers_is_given_up_quickly(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        registry = Registry(tmp_path / "home", f"http://user:secret@127.0.0.1:{silent.getsockname()[1]}")
        begun = time.monotonic()
        with pytest.warns(UserWarning, match="kept") as warnings:
            assert registry.record(make_bundle(tmp_path / "1")) is None
    assert time.monotonic() - begun < 20
    assert "secret" not in str(warnings[0].message)
    assert len(registry.waiting()) == 1


def test_the_pointer_says_where_the_bundle_is(
    registry: Registry, registry_home: Path, tmp_path: Path
) -> None:
    version = record(registry, tmp_path / "1")
    pointer = json.loads((registry_home / "models" / "serving" / "alps.submit.generic.json").read_text())
    assert pointer == {
        "model": ["alps", "submit", "generic"],
        "version": 1,
        "id": version.id,
        "folder": f"cache/{version.id}",
    }


def test_a_first_model_that_may_not_serve_waits_for_a_person(registry: Registry, tmp_path: Path) -> None:
    poor = record(registry, tmp_path / "poor", may_serve=False)
    assert poor.aliases == ("challenger",)
    with pytest.raises(RegistryError, match="no champion"):
        registry.champion("alps", "submit", "generic")
    good = record(registry, tmp_path / "good", created=2)
    assert aliases(registry) == {"challenger": poor.version, "champion": good.version}
    assert registry.promote(ALPS).version == poor.version
    assert served(registry) == poor.id


def test_a_simple_rule_serves_until_a_model_beats_it(registry: Registry, tmp_path: Path) -> None:
    rule = {"rule": "last_user_request"}
    first = record(registry, tmp_path / "rule", settings=rule)
    assert first.aliases == ("champion",)
    assert first.rule == "last_user_request"
    again = record(registry, tmp_path / "again", created=2, settings=rule)
    assert again.aliases == ("challenger",)
    poor = record(registry, tmp_path / "poor", created=3, may_serve=False)
    assert poor.aliases == ("challenger",)
    assert served(registry) == first.id
    model = record(registry, tmp_path / "model", created=4)
    assert aliases(registry)["champion"] == model.version
    assert served(registry) == model.id
    later = record(registry, tmp_path / "later", created=5, settings=rule)
    assert later.aliases == ("challenger",)
    assert registry.rollback(ALPS).version == first.version


HIDDEN = {"dependency": "hidden"}


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (None, HIDDEN, "older version that did not record how fields were read"),
        ({}, HIDDEN, "dependency (then as it is, now hidden)"),
        (None, {}, None),
        (HIDDEN, HIDDEN, None),
        (HIDDEN, None, None),
    ],
)
def test_a_champion_that_reads_fields_otherwise_is_replaced(
    before: dict[str, str] | None,
    after: dict[str, str] | None,
    why: str | None,
    registry: Registry,
    tmp_path: Path,
) -> None:
    first = record(registry, tmp_path / "1", 1, reading=before)
    assert first.reading == before
    poor = record(registry, tmp_path / "2", 2, reading=after, may_serve=False)
    assert poor.aliases == ("challenger",)
    new = record(registry, tmp_path / "3", 3, reading=after)
    assert registry.version(ALPS, 3) == new
    if why is None:
        assert (new.aliases, new.promoted_because) == (("challenger",), None)
        assert served(registry) == first.id
        return
    assert why in str(new.promoted_because)
    assert new.aliases == ("champion",)
    assert served(registry) == new.id
    assert registry.rollback(ALPS).version == first.version


def test_an_older_bundle_that_is_imported_replaces_no_champion(registry: Registry, tmp_path: Path) -> None:
    champion = record(registry, tmp_path / "1", 2, reading=HIDDEN)
    older = record(registry, tmp_path / "2", 1, reading={})
    assert older.aliases == ("challenger",)
    assert served(registry) == champion.id


def test_another_machine_follows_what_it_never_served(registry: Registry, tmp_path: Path) -> None:
    version = record(registry, tmp_path / "bundle")
    elsewhere = Registry(tmp_path / "elsewhere", registry.uri)
    assert elsewhere.sync().served == (version,)
    assert served(elsewhere) == version.id
    assert elsewhere.sync().served == ()
