"""`forewarn models`, as its user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from forewarn.errors import BundleError, RegistryError, UsageError
from forewarn.learn.registry.manifest import Manifest
from forewarn.learn.registry.registry import Registry
from tests.learn.bundles import make_bundle, tiny_bundle
from tests.serve.conftest import Forewarn

pytestmark = pytest.mark.slow

ALPS = "alps.submit.generic"


@pytest.fixture
def home(registry_home: Path) -> Path:
    return registry_home


@pytest.fixture
def three(home: Path, tmp_path: Path) -> Registry:
    """Three versions of one model, the first the champion."""
    registry = Registry(home)
    for number in (1, 2, 3):
        registry.record(make_bundle(tmp_path / str(number), 1_700_000_000 + number))
    return registry


def test_an_empty_home_is_reported_without_mlflow(tmp_path: Path) -> None:
    code = (
        "import sys; from forewarn.serve.cli.main import cli\n"
        f"cli(['models', 'list', '--home', {str(tmp_path / 'new')!r}], standalone_mode=False)\n"
        "assert 'mlflow' not in sys.modules\n"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout == ""
    assert "no models yet; run `forewarn train`" in process.stderr
    assert not (tmp_path / "new").exists()


def test_list(forewarn: Forewarn, three: Registry) -> None:
    result = forewarn("models", "list")
    heading, *rows = [line.split() for line in result.out.splitlines()]
    assert heading == [
        "model",
        "version",
        "alias",
        "created",
        "population",
        "ROC-AUC",
        "PR-AUC",
        "F1",
        "ECE",
        "id",
    ]
    assert [row[0] for row in rows] == [ALPS] * 3
    assert [row[1:3] for row in rows] == [["3", "challenger"], ["2", "2023-11-14"], ["1", "champion"]]
    assert rows[0][-5:-1] == ["0.810", "n/a", "0.600", "n/a"]
    assert result.err == ""
    listed = forewarn("models", "list", "--json").json
    assert [(v["version"], v["aliases"]) for v in listed] == [(3, ["challenger"]), (2, []), (1, ["champion"])]
    assert listed[0]["metrics"] == {"roc_auc": 0.81, "f1": 0.6}
    assert listed[0]["id"] == three.versions()[0].id


def test_show(forewarn: Forewarn, three: Registry) -> None:
    shown = forewarn("models", "show", ALPS).out
    assert shown.startswith(f"{ALPS} version 1\n")
    for part in ("champion", "1,234 jobs, 20.0% failed", "100% xgboost (2 features)", "f1: 0.400"):
        assert part in shown
    value = forewarn("models", "show", ALPS, "challenger", "--json").json
    assert value["version"] == 3
    assert value["manifest"]["id"] == value["id"]
    assert value["manifest"]["settings"]["trials"] == 20
    assert value["model"]["jobs"] == 1234


def test_promote_and_rollback(forewarn: Forewarn, three: Registry) -> None:
    assert "version 3 is the champion" in forewarn("models", "promote", ALPS).err
    assert "version 2 is the champion" in forewarn("models", "promote", ALPS, 2).err
    assert "former champions  3, 1" in forewarn("models", "show", ALPS).out
    assert "version 3 is the champion again" in forewarn("models", "rollback", ALPS).err
    assert "version 1 is the champion again" in forewarn("models", "rollback", ALPS).err
    result = forewarn("models", "rollback", ALPS)
    assert (result.code, result.out) == (RegistryError.exit_code, "")
    assert "no champion before version 1" in result.err


def test_export_and_import(forewarn: Forewarn, home: Path, tmp_path: Path) -> None:
    manifest = tiny_bundle().save(tmp_path / "bundle")
    assert "version 1 champion" in forewarn("models", "import", tmp_path / "bundle").err
    for target in (tmp_path / "out", tmp_path / "out.tar.gz"):
        assert forewarn("models", "export", ALPS, "-o", target).code == 0
        assert "version 1 champion" in forewarn("models", "import", target).err  # known already
    assert Manifest.verify(tmp_path / "out") == manifest
    assert len(Registry(home).versions()) == 1
    again = forewarn("models", "export", ALPS, "-o", tmp_path / "out")
    assert (again.code, "is there already" in again.err) == (UsageError.exit_code, True)
    (tmp_path / "out" / "model.json").write_text("{}")
    refused = forewarn("models", "import", tmp_path / "out")
    assert (refused.code, "model.json: was changed" in refused.err) == (BundleError.exit_code, True)


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (("show", "bern.submit.generic"), RegistryError.exit_code, "`forewarn models list`"),
        (("show", ALPS, "9"), RegistryError.exit_code, "Its versions are: 3 challenger, 2, 1 champion"),
        (("show", ALPS, "best"), UsageError.exit_code, "number, champion or challenger"),
        (("promote", "alps"), UsageError.exit_code, "CLUSTER.PHASE.FEATURES"),
        (("export", ALPS), 2, "--output"),
        (("import", "nowhere"), BundleError.exit_code, "nowhere: neither a folder nor an archive"),
    ],
)
def test_wrong_calls(
    args: tuple[str, ...], code: int, message: str, forewarn: Forewarn, three: Registry
) -> None:
    result = forewarn("models", *args)
    assert result.code == code
    assert message in result.err
    assert "Traceback" not in result.err


@pytest.mark.filterwarnings("default")  # the command prints it
def test_a_server_that_is_down(forewarn: Forewarn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_bundle().save(tmp_path / "bundle")
    monkeypatch.setenv("FOREWARN_TRACKING", "http://127.0.0.1:1")
    result = forewarn("models", "import", tmp_path / "bundle")
    assert result.code == 0
    warning = "forewarn: warning: http://127.0.0.1:1: cannot be reached: Connection refused."
    assert result.err.startswith(warning)
    assert "Not registered, but kept" in result.err
    assert forewarn("models", "list").code == RegistryError.exit_code
    still = forewarn("models", "sync", "--json")
    assert next(iter(still.json["waiting"].values())).startswith("http://127.0.0.1:1")
    assert still.code == RegistryError.exit_code
    monkeypatch.delenv("FOREWARN_TRACKING")
    listed = forewarn("models", "list")
    assert "1 model not registered yet; run `forewarn models sync`" in listed.err
    synced = forewarn("models", "sync")
    assert f"{ALPS}: registered version 1 champion" in synced.err
    assert "nothing to do" in forewarn("models", "sync").err


def test_the_list_says_when_this_home_is_behind(forewarn: Forewarn, three: Registry, home: Path) -> None:
    three.promote(three.versions()[0].name)
    pointer = home / "models" / "serving" / f"{ALPS}.json"
    value = json.loads(pointer.read_text())
    pointer.write_text(json.dumps(value | {"version": 1, "id": three.versions()[2].id}))
    assert "version 1 still serves in this home; run `forewarn models sync`" in forewarn("models", "list").err
    assert "version 3 serves now" in forewarn("models", "sync").err
    assert forewarn("models", "list").err == ""


def test_a_wrong_tracking_uri_is_named(forewarn: Forewarn, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FOREWARN_TRACKING", "mlflow.example.org")
    result = forewarn("models", "list")
    assert result.code == UsageError.exit_code
    assert "FOREWARN_TRACKING: tracking: 'mlflow.example.org' is not an MLflow tracking URI" in result.err
