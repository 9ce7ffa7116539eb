"""Bundles: a loaded bundle equals the saved one, and a changed one is refused."""

from __future__ import annotations

import gzip
import io
import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from forewarn.errors import BundleError, ForewarnError, UsageError
from forewarn.learn.data.assembly import Assembly
from forewarn.learn.data.table import JobTable
from forewarn.learn.fitting.abstention import Abstention
from forewarn.learn.fitting.calibration import calibrate
from forewarn.learn.fitting.ensemble import Recipe, fit_ensemble
from forewarn.learn.fitting.thresholds import choose_threshold
from forewarn.learn.heads.causes import Causes
from forewarn.learn.heads.oddness import IsolationForest
from forewarn.learn.heads.profiles import Profiles
from forewarn.learn.registry import archive
from forewarn.learn.registry.bundle import Bundle
from forewarn.learn.registry.manifest import Facts, Manifest, json_text
from forewarn.learn.registry.registry import Registry

pytestmark = pytest.mark.slow

FACTS = Facts(
    cluster="small",
    phase="submit",
    feature_set="generic",
    population="papers",
    data="0" * 32,
    created=1_700_000_000,
    seed=1,
    settings={"trials": 3},
    metrics={"roc_auc": 0.8},
)


@pytest.fixture(scope="module")
def full_bundle(table: JobTable) -> Bundle:
    """Build a bundle with all parts, and members of different columns."""
    rows = np.flatnonzero(table.labelled)
    train, apart = rows[:2500], rows[2500:]
    profiles = Profiles.fit(table, train, seed=1)
    assembly = Assembly.fit(table, train, "generic", profiles)
    sample = assembly.sample(table, train)
    names = sample.matrix.names
    recipes = [
        (0.5, Recipe("xgboost", {"max_depth": 3}, names, 10)),
        (0.3, Recipe("lightgbm", {"num_leaves": 7}, names[3:20], 10)),
        (0.2, Recipe("online", {}, ("online",), 0)),
    ]
    ensemble = fit_ensemble(recipes, sample, seed=1, threads=1)
    margins = ensemble.margins(assembly.matrix(table, apart))
    calibration = calibrate(margins, table.fails[apart])
    p = calibration(margins)
    hours = table.about["node_hours"].to_numpy()[apart]
    return Bundle(
        facts=FACTS,
        assembly=assembly,
        ensemble=ensemble,
        calibration=calibration,
        thresholds={r: choose_threshold(r, p, table.fails[apart], hours) for r in ("precision=0.5", "f1")},
        abstention=Abstention.fit(table, apart, p),
        base_rate=float(table.fails[train].mean()),
        jobs=len(train),
        causes=Causes.fit(
            sample.matrix, table.about[train], table.fails[train], np.ones(len(train)), seed=1, threads=1
        ),
        profiles=profiles,
        oddness=IsolationForest.fit(table, train, seed=1),
    )


@pytest.fixture(scope="module")
def saved(full_bundle: Bundle, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "bundle"

    def report(inside: Path, files: object) -> None:
        (inside / "report.json").write_text(json_text({"files": sorted(dict(files))}))  # type: ignore[call-overload]
        (inside / "report.html").write_text("<p>report</p>")

    full_bundle.save(folder, report)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    """Copy the saved bundle, to damage the copy."""
    return Path(shutil.copytree(saved, tmp_path / "bundle"))


def test_what_is_loaded_is_what_was_saved(full_bundle: Bundle, saved: Path, table: JobTable) -> None:
    loaded = Bundle.load(saved)
    matrix, again = full_bundle.assembly.matrix(table), loaded.assembly.matrix(table)
    assert again.names == matrix.names
    np.testing.assert_array_equal(again.values, matrix.values)
    np.testing.assert_array_equal(loaded.margins(again), full_bundle.margins(matrix))
    np.testing.assert_array_equal(loaded.probability(again), full_bundle.probability(matrix))
    np.testing.assert_array_equal(loaded.contributions(again), full_bundle.contributions(matrix))
    rows = np.arange(len(table.values))
    risk, then = (
        full_bundle.risk(matrix, full_bundle.excess(table, rows)),
        loaded.risk(again, loaded.excess(table, rows)),
    )
    np.testing.assert_array_equal(then.probability, risk.probability)
    np.testing.assert_array_equal(then.by_cause, risk.by_cause)
    assert loaded.thresholds == full_bundle.thresholds
    assert loaded.chosen.rule == full_bundle.chosen.rule == "precision=0.5"
    columns = {name: table.column(name) for name in table.names}
    assert loaded.abstention.why(columns) == full_bundle.abstention.why(columns)
    assert loaded.oddness is not None
    assert full_bundle.oddness is not None
    np.testing.assert_array_equal(loaded.oddness.rarer_than(table), full_bundle.oddness.rarer_than(table))
    assert (loaded.facts, loaded.base_rate, loaded.jobs) == (
        full_bundle.facts,
        full_bundle.base_rate,
        full_bundle.jobs,
    )


def test_contributions_of_all_members_add_up_to_the_margin(full_bundle: Bundle, table: JobTable) -> None:
    matrix = full_bundle.assembly.matrix(table).rows(np.arange(200))
    brought = full_bundle.contributions(matrix)
    assert brought.shape == (200, len(matrix.names) + 1)
    np.testing.assert_allclose(brought.sum(axis=1), full_bundle.margins(matrix), atol=1e-5)


def test_it_is_native_files_and_json_and_saves_the_same_again(
    saved: Path, full_bundle: Bundle, tmp_path: Path
) -> None:
    manifest = Manifest.verify(saved)
    assert {name.partition("/")[0] for name in manifest.files} == {
        "model.json",
        "members",
        "causes",
        "profiles.json",
        "oddness.json",
        "report.json",
        "report.html",
    }
    assert json.loads((saved / "report.json").read_text())["files"] == sorted(
        manifest.files.keys() - {"report.json", "report.html"}
    )
    for name in manifest.files:
        assert not (saved / name).read_bytes().startswith(b"\x80"), f"{name} looks pickled"
    assert Bundle.load(saved).save(tmp_path / "again").files == {
        name: file for name, file in manifest.files.items() if not name.startswith("report")
    }
    assert replace(
        full_bundle, profiles=None, assembly=replace(full_bundle.assembly, profiles=None), causes=None
    ).save(tmp_path / "less")
    assert Bundle.load(tmp_path / "less").causes is None


def test_a_flipped_bit_in_any_file_is_refused(folder: Path) -> None:
    names = ["manifest.json", *Manifest.verify(folder).files]
    assert len(names) > 8
    for name in names:
        path = folder / name
        content = path.read_bytes()
        for place in {0, len(content) // 3, len(content) // 2, len(content) - 1}:
            path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
            with pytest.raises(BundleError, match=name) as refused:
                Bundle.load(folder)
            assert "train" in str(refused.value)
        path.write_bytes(content)
    Bundle.load(folder)


def test_every_byte_of_the_manifest_counts(folder: Path) -> None:
    path = folder / "manifest.json"
    content = path.read_bytes()
    for place in range(len(content)):
        path.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        with pytest.raises(BundleError):
            Manifest.read(folder)


def _rewrite(folder: Path, change: Callable[[dict[str, object]], object]) -> None:
    path = folder / "manifest.json"
    value = json.loads(path.read_text())
    change(value)
    path.write_text(json_text(value))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "model.json").unlink(), r"model\.json: is missing"),
        (lambda f: (f / "manifest.json").unlink(), r"not a bundle: there is no manifest\.json"),
        (lambda f: (f / "extra.txt").write_text("x"), r"extra\.txt: is no part of the bundle"),
        (lambda f: (f / "members" / "x.pkl").write_text("x"), r"x\.pkl: is no part of the bundle"),
        (lambda f: (f / "link").symlink_to("/etc/passwd"), "link: is no plain file"),
        (lambda f: (f / "folder").symlink_to("/etc"), "folder: is no plain file"),
        (lambda f: _rewrite(f, lambda m: m.update(format=2)), "format 2, and this Forewarn .* reads 1"),
        (lambda f: _rewrite(f, lambda m: m.pop("seed")), r"manifest\.json: was changed"),
        (lambda f: _rewrite(f, lambda m: m.update(cluster="other")), r"manifest\.json: was changed"),
        (lambda f: (f / "manifest.json").write_text("[" * 100_000), r"manifest\.json: was changed"),
        (shutil.rmtree, "not a bundle"),
    ],
)
def test_what_is_not_whole_is_refused(damage: Callable[[Path], object], message: str, folder: Path) -> None:
    damage(folder)
    with pytest.raises(BundleError, match=message):
        Bundle.load(folder)


def test_a_file_in_place_of_another_by_a_link_is_refused(folder: Path, tmp_path: Path) -> None:
    (folder / "model.json").rename(tmp_path / "elsewhere.json")
    (folder / "model.json").symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(BundleError, match=r"model\.json: is no plain file"):
        Bundle.load(folder)


def test_right_hashes_over_nonsense_are_refused(folder: Path) -> None:
    model = json.loads((folder / "model.json").read_text())
    for change in ({"members": [{"weight": 1.0, "recipe": {"family": "../../x"}}]}, {"thresholds": 3}):
        (folder / "model.json").write_text(json_text(model | change))
        Manifest.seal(folder, FACTS)
        with pytest.raises(ForewarnError):
            Bundle.load(folder)
    (folder / "model.json").write_text("{}")
    Manifest.seal(folder, FACTS)
    with pytest.raises(BundleError, match=r"model\.json: not in Forewarn's format .*'assembly'"):
        Bundle.load(folder)


def test_a_save_that_fails_leaves_nothing(full_bundle: Bundle, tmp_path: Path) -> None:
    def report(inside: Path, _: object) -> None:
        raise OSError(28, "No space left on device")

    with pytest.raises(ForewarnError, match="cannot be written: No space left"):
        full_bundle.save(tmp_path / "bundle", report)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "bundle").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        full_bundle.save(tmp_path / "bundle")


# --- archives ---------------------------------------------------------------------------------------


def test_an_archive_comes_back_and_is_the_same_each_time(saved: Path, tmp_path: Path) -> None:
    archive.pack(saved, tmp_path / "a.tar.gz")
    archive.pack(saved, tmp_path / "b.tgz")
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tgz").read_bytes()
    with tarfile.open(tmp_path / "a.tar.gz") as tar:
        assert all(entry.isreg() for entry in tar)
    assert archive.unpack(tmp_path / "a.tar.gz", tmp_path / "out") == Manifest.verify(saved)


def _tar(path: Path, *entries: tarfile.TarInfo, content: bytes = b"") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for entry in entries:
            tar.addfile(entry, io.BytesIO(content))
    return path


def _entry(name: str, **values: object) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    for key, value in values.items():
        setattr(entry, key, value)
    return entry


@pytest.mark.parametrize(
    "entry",
    [
        _entry("../out"),
        _entry("/etc/out"),
        _entry("link", type=tarfile.SYMTYPE, linkname="/etc/passwd"),
        _entry("hard", type=tarfile.LNKTYPE, linkname="/etc/passwd"),
        _entry("device", type=tarfile.CHRTYPE),
        _entry("pipe", type=tarfile.FIFOTYPE),
    ],
    ids=lambda entry: entry.name,
)
def test_archives_that_lead_elsewhere_are_refused(entry: tarfile.TarInfo, tmp_path: Path) -> None:
    path = _tar(tmp_path / "x.tar.gz", _entry("good"), entry)
    (tmp_path / "in" / "deeper").mkdir(parents=True)
    with pytest.raises(BundleError):
        archive.unpack(path, tmp_path / "in" / "deeper")
    assert [p.name for p in (tmp_path / "in").iterdir()] == ["deeper"]
    assert not Path("/etc/out").exists()  # an absolute name counts from the folder
    assert not any(p.is_symlink() for p in (tmp_path / "in").rglob("*"))


def test_archives_that_are_too_large_are_refused_before_they_fill_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive, "LARGEST", 1000)
    monkeypatch.setattr(archive, "MOST", 5)
    big = _tar(tmp_path / "big.tar.gz", _entry("a", size=600), _entry("b", size=600), content=bytes(600))
    many = _tar(tmp_path / "many.tar.gz", *(_entry(str(n)) for n in range(7)))
    for path in (big, many):
        with pytest.raises(BundleError, match="more than 5 files or"):
            archive.unpack(path, tmp_path / path.stem)
    assert not (tmp_path / "big.tar" / "b").exists()


def test_what_is_no_archive_is_refused(saved: Path, tmp_path: Path) -> None:
    archive.pack(saved, tmp_path / "good.tar.gz")
    whole = (tmp_path / "good.tar.gz").read_bytes()
    for name, content in {
        "text": b"hello",
        "empty": b"",
        "cut": whole[: len(whole) // 2],
        "gzip": gzip.compress(b"hello"),
    }.items():
        (tmp_path / f"{name}.tar.gz").write_bytes(content)
        with pytest.raises(BundleError, match=name):
            archive.unpack(tmp_path / f"{name}.tar.gz", tmp_path / name)
    with pytest.raises(BundleError, match="no such file"):
        archive.unpack(tmp_path / "nowhere.tar.gz", tmp_path / "x")


# --- in and out of a registry -----------------------------------------------------------------------


def test_a_model_is_carried_to_another_home(
    saved: Path, registry_home: Path, registry_template: Path, tmp_path: Path
) -> None:
    registry = Registry(registry_home)
    version = registry.record(saved)
    assert version is not None
    for target in (tmp_path / "model.tar.gz", tmp_path / "folder"):
        registry.export(version, target)
        other = tmp_path / f"home-of-{target.name}"
        (other / "models").mkdir(parents=True)
        shutil.copy(registry_template, other / "models")
        there = Registry(other)
        found = there.import_(target)
        assert found is not None
        assert found.id == version.id
        assert Bundle.load(there.champion("small", "submit", "generic")).jobs == 2500


def test_imports_are_verified_first(folder: Path, registry_home: Path, tmp_path: Path) -> None:
    registry = Registry(registry_home)
    (folder / "model.json").write_text("{}")
    with pytest.raises(BundleError, match=r"model\.json: was changed"):
        registry.import_(folder)
    Manifest.seal(folder, FACTS)
    archive.pack(folder, tmp_path / "nonsense.tar.gz")
    with pytest.raises(BundleError, match="not in Forewarn's format"):
        registry.import_(tmp_path / "nonsense.tar.gz")
    with pytest.raises(BundleError, match="neither a folder nor an archive"):
        registry.import_(tmp_path / "nowhere.zip")
    assert (registry.versions(), registry.waiting()) == ([], [])
