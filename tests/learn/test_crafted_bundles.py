"""Crafted bundles and folders: refused before they cost memory or write outside of their folder."""

from __future__ import annotations

import gzip
import io
import os
import stat
import tarfile
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import xgboost

from forewarn import compiled
from forewarn.assess.champions import Champions
from forewarn.config import Config
from forewarn.errors import BundleError, StoreError, UnfitFileSystemError
from forewarn.files import is_ours
from forewarn.learn.families.xgboost_native import XgboostTrees
from forewarn.learn.heads.usage.hazard import Hazard
from forewarn.learn.registry.archive import pack, unpack
from forewarn.learn.registry.manifest import MANIFEST, Manifest
from forewarn.operate import one_shot as once
from tests.learn.bundles import make_bundle, tiny_bundle

MIB = 1 << 20


def headers(path: Path, kind: bytes, size: int, count: int = 1) -> Path:
    """Write an archive that begins with large headers, which tarfile holds in memory."""
    entry = tarfile.TarInfo("header")
    entry.type, entry.size = kind, size
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(count):
            packed.write(entry.tobuf(tarfile.GNU_FORMAT))
            for _ in range(-(-size // MIB)):
                packed.write(bytes(min(MIB, size)))
            packed.write(bytes(-size % 512))
        packed.write(tarfile.TarInfo("file").tobuf() + bytes(1024))
    return path


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME])
def test_a_large_header_is_not_read(tmp_path: Path, kind: bytes) -> None:
    """1.4 MB of archive took 900 MB of memory."""
    path = headers(tmp_path / "bomb.tar.gz", kind, 64 * MIB)
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match="a header of more than"):
            unpack(path, tmp_path / "out")
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


def test_a_chain_of_headers_is_refused(tmp_path: Path) -> None:
    path = headers(tmp_path / "chain.tar.gz", tarfile.GNUTYPE_LONGNAME, 512, count=5000)
    with pytest.raises(BundleError, match="not an archive that"):
        unpack(path, tmp_path / "out")


def unpack_refused(path: Path, why: str, most: int) -> None:
    """Check that an archive is refused with at most so many bytes of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(BundleError, match=why):
            unpack(path, path.parent / "out")
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def test_headers_are_limited_in_total(tmp_path: Path) -> None:
    """Each of them is small enough, and 1,500 took 86 MB."""
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT, compresslevel=1) as tar:
        for number in range(150):
            entry = tarfile.TarInfo(f"file{number}")
            entry.pax_headers = {"comment": "x" * 60_000}
            tar.addfile(entry)
    unpack_refused(tmp_path / "a.tar.gz", "headers of more than 1,048,576 bytes in total", 4 * MIB)


def test_headers_of_all_files_are_not_kept_for_each(tmp_path: Path) -> None:
    """A header of 60 kB for all files that follow is copied for each of them."""
    everywhere = {f"{number:x}": "" for number in range(6000)}
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT, pax_headers=everywhere) as tar:
        for number in range(150):
            tar.addfile(tarfile.TarInfo(f"file{number}"))
    unpack_refused(path, "manifest", 8 * MIB)


def test_many_files_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as tar:
        for number in range(201):
            tar.addfile(tarfile.TarInfo(f"file{number}"))
    unpack_refused(tmp_path / "a.tar.gz", "more than 200 files", 4 * MIB)


def test_a_file_with_holes_in_new_headers_is_refused(tmp_path: Path) -> None:
    """Its type is that of a plain file, and its map may say more bytes than its size."""
    entry = tarfile.TarInfo("sparse")
    entry.pax_headers = {"GNU.sparse.map": "0,512", "GNU.sparse.size": "512"}
    entry.size = 512
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(entry, io.BytesIO(bytes(512)))
    unpack_refused(tmp_path / "a.tar.gz", "is no plain file", 4 * MIB)


def test_a_file_with_holes_is_refused(tmp_path: Path) -> None:
    entry = tarfile.TarInfo("sparse")
    entry.type = tarfile.GNUTYPE_SPARSE
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as tar:
        tar.addfile(entry, io.BytesIO())
    with pytest.raises(BundleError, match="not an archive that"):
        unpack(tmp_path / "a.tar.gz", tmp_path / "out")


def test_an_honest_archive_with_long_names_is_read(tmp_path: Path) -> None:
    folder = make_bundle(tmp_path / "bundle")
    facts = Manifest.read(folder).facts
    (folder / MANIFEST).unlink()
    (folder / ("n" * 120)).write_bytes(os.urandom(300_000))
    Manifest.seal(folder, facts)
    pack(folder, tmp_path / "a.tar.gz")
    assert unpack(tmp_path / "a.tar.gz", tmp_path / "out") == Manifest.verify(folder)


def test_a_large_manifest_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / MANIFEST).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BundleError, match="was changed"):
        Manifest.read(tmp_path)


def test_a_bundle_names_no_file_outside(tmp_path: Path) -> None:
    matrix = xgboost.DMatrix(np.zeros((4, 2)), np.zeros(4))
    trees = XgboostTrees(bytes(xgboost.train({}, matrix, 1).save_raw("ubj")))
    hazard = Hazard(np.array([0.0, 1.0]), np.zeros(1, np.float32), trees)
    (tmp_path / "bundle").mkdir()
    facts = hazard.save(tmp_path / "bundle/run_time.ubj")
    hazard.save(tmp_path / "elsewhere.ubj")
    inside = tmp_path / "bundle/run_time.ubj"
    assert Hazard.load(inside, facts, 2).trees.features == 2
    for name in ("../elsewhere.ubj", str(tmp_path / "elsewhere.ubj")):
        with pytest.raises(BundleError, match="names the file"):
            Hazard.load(inside, facts | {"file": name}, 2)


def test_a_bundle_of_another_cluster_is_refused_unless_asked_for(tmp_path: Path) -> None:
    tiny_bundle().save(tmp_path / "bundle")
    bundles = (tmp_path / "bundle",)
    assert Champions("alps", None, bundles).get("submit", "generic")
    message = r"cluster 'alps', but the jobs are from 'dora'.*model_cluster = 'alps'"
    with pytest.raises(BundleError, match=message):
        Champions("dora", None, bundles)
    assert Champions("dora", None, bundles, bundles_of="alps").get("submit", "generic")
    with pytest.raises(BundleError, match="model_cluster"):
        Champions("alps", None, bundles, bundles_of="dora")


def unfit(*_: object, **__: object) -> None:
    raise UnfitFileSystemError("a network")


def test_the_folder_on_the_node_is_not_a_link(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    monkeypatch.setattr(once, "open_store", unfit)
    (tmp_path / "run").mkdir()
    local = tmp_path / "run" / f"forewarn-{os.getuid()}"
    assert once._own_home(Config(home=tmp_path / "home")) == local
    assert stat.S_IMODE(local.stat().st_mode) == 0o700
    local.chmod(0o777)
    with pytest.raises(StoreError, match="others can write to"):
        once._own_home(Config(home=tmp_path / "home"))
    local.rmdir()
    (tmp_path / "victim").mkdir()
    local.symlink_to(tmp_path / "victim")
    with pytest.raises(StoreError, match="is a link"):
        once._own_home(Config(home=tmp_path / "home"))


def test_no_compiled_code_of_others_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba's cache holds machine code and pickles: who can write to it can run code as its user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel = Path(compiled.__file__).parent / "features" / "kernel"

    def folder() -> Path:
        compiled._cache_folder.cache_clear()
        return Path(compiled._cache_folder(kernel))

    try:
        mine = folder()
        assert mine.is_relative_to(tmp_path)
        mine.chmod(0o777)
        assert not folder().is_relative_to(tmp_path), "others can write to it"
        mine.rmdir()
        (tmp_path / "planted").mkdir()
        mine.symlink_to(tmp_path / "planted")
        assert not folder().is_relative_to(tmp_path), "it is a link"
        assert not is_ours(tmp_path / "nothing")
    finally:
        compiled._cache_folder.cache_clear()
