"""Backup and restore: consistent while others write, whole or not at all, and safe with crafted archives."""

from __future__ import annotations

import getpass
import gzip
import hashlib
import io
import json
import secrets
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from forewarn.config import Config
from forewarn.errors import BackupError, StoreBusyError, UsageError
from forewarn.operate.access.audit import audit_lines
from forewarn.operate.upkeep.backup import backup
from forewarn.operate.upkeep.restore import restore
from forewarn.operate.workspace import Workspace
from forewarn.store.opening import location_of, open_people_store, open_store
from tests.operate.upkeep.homes import answer, make_home
from tests.store.samples import many

pytestmark = pytest.mark.slow


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return make_home(tmp_path / "home")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup for tests that change none."""
    folder = tmp_path_factory.mktemp("saved")
    return backup(make_home(folder / "home"), folder / "b.tar.gz").file


def jobs_of(config: Config) -> pl.DataFrame:
    with open_store(config, read_only=True) as store:
        return pl.concat(store.scan())


def test_a_restored_home_gives_the_same_answer(config: Config, tmp_path: Path) -> None:
    with open_store(config) as store:
        expected = answer(store, config.home)
    result = backup(config, tmp_path / "b.tar.gz", at=1_900_000_000)
    assert result.file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], (
        "nothing is left beside"
    )
    other = Config(home=tmp_path / "other")
    done = restore(other, result.file)
    assert (done.made_at, done.moved_aside, done.files) == (1_900_000_000, None, result.files)
    with open_store(other) as store:
        assert answer(store, other.home) == expected
        assert store.assessments().height == 400
        assert store.cursors() == {"collect alps": "17", "collect alps of zoe": "17"}
    assert_frame_equal(jobs_of(other), jobs_of(config))
    with location_of(other).open_people() as people:
        assert len(people.entries("audit")) == 3
        (line,) = audit_lines(people, actions=["store.restore"])
    assert (line.user, line.subject, line.method) == (getpass.getuser(), str(result.file), "command")
    assert line.details == {"made_at": 1_900_000_000, "forewarn": done.forewarn}
    modes = {path.stat().st_mode & 0o777 for path in other.home.rglob("*") if path.is_file()}
    folders = {path.stat().st_mode & 0o777 for path in [other.home, *other.home.rglob("*")] if path.is_dir()}
    assert (modes, folders) == ({0o600}, {0o700})
    assert not (other.home / "rejects").exists(), "raw rows are not saved"


def test_a_backup_while_another_writes_is_of_one_moment(config: Config, tmp_path: Path) -> None:
    stopped, first = threading.Event(), threading.Event()

    def write() -> None:
        number = 0
        with open_store(config) as store:
            while not stopped.is_set():
                with store.writing() as writer:
                    writer.observe("job", many(500, first=10**9 + 500 * number, cluster="alps"))
                    number += 1
                    writer.set_cursor("written", str(number))
                first.set()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        first.wait()
        archives = [backup(config, tmp_path / f"{n}.tar.gz").file for n in range(4)]
    finally:
        stopped.set()
        thread.join()
    counts = []
    for archive in archives:
        other = Config(home=tmp_path / f"of {archive.name}")
        restore(other, archive)
        with open_store(other) as store:
            written = int(store.cursor("written") or 0)
            counts.append(written)
            assert store.count() == 400 + 500 * written == jobs_of(other).height
    assert counts == sorted(counts)
    assert counts[0] < counts[-1], "it wrote meanwhile"


def test_sessions_do_not_come_back_and_tokens_are_counted(config: Config, tmp_path: Path) -> None:
    with open_people_store(config) as people:
        before = len(list(people.entries("token")))
        people.put("session", "a", {"user": "ann"}, at=1_900_000_000)
        people.put("token", "t", {"name": "revoked later"}, at=1_900_000_000)
    saved = backup(config, tmp_path / "b.tar.gz").file
    other = Config(home=tmp_path / "other")
    result = restore(other, saved)
    assert result.tokens == before + 1
    assert result.to_json()["tokens"] == result.tokens
    with open_people_store(other) as people:
        assert list(people.entries("session")) == []
        assert people.get("token", "t") is not None


def test_a_home_is_moved_aside_and_never_deleted(config: Config, tmp_path: Path) -> None:
    archive = backup(config, tmp_path).file
    assert archive.name.startswith("forewarn-2")
    with open_store(config) as store, store.writing() as writer:
        writer.set_cursor("later", "1")
    with pytest.raises(UsageError, match=r"not empty.*--replace"):
        restore(config, archive)
    result = restore(config, archive, replace=True)
    assert result.moved_aside is not None
    for home, cursor in ((config.home, None), (result.moved_aside, "1")):
        with open_store(Config(home=home)) as store:
            assert store.cursor("later") == cursor


def test_a_home_in_use_is_not_replaced(config: Config, tmp_path: Path) -> None:
    archive = backup(config, tmp_path / "b.tar.gz").file
    with open_store(config) as store:
        claim = store.claim("collect alps")
        assert claim is not None
        with claim, pytest.raises(StoreBusyError, match="cluster alps"):
            restore(config, archive, replace=True)
    restore(config, archive, replace=True)


def test_secrets_are_not_saved_and_those_in_the_home_stay(config: Config, tmp_path: Path) -> None:
    text = 'cluster = "alps"\nslurm_token = "eyJ-very-secret"\nknown_delay = 5\n'
    (config.home / "config.toml").write_text(text)
    result = backup(config, tmp_path / "b.tar.gz")
    assert any("secrets" in note for note in result.notes)
    assert b"very-secret" not in gzip.decompress(result.file.read_bytes())
    restore(Config(home=tmp_path / "other"), result.file)
    assert (tmp_path / "other" / "config.toml").read_text() == 'cluster = "alps"\nknown_delay = 5\n'
    restore(config, result.file, replace=True)
    assert (config.home / "config.toml").read_text() == text
    (config.home / "config.toml").write_text('slurm_token = """\neyJ-very-secret"""\n')
    result = backup(config, tmp_path / "c.tar.gz")
    assert b"very-secret" not in gzip.decompress(result.file.read_bytes())


@pytest.mark.parametrize("what", ["backup", "restore"])
def test_kill_9_leaves_no_half_result(config: Config, tmp_path: Path, what: str) -> None:
    archive = backup(config, tmp_path / "whole.tar.gz").file
    with open_store(config) as store, store.writing() as writer:
        writer.set_cursor("later", "1")
    before = jobs_of(config)
    stages = 0
    for kill_at in range(100):
        target = tmp_path / f"{kill_at}.tar.gz" if what == "backup" else archive
        command = [sys.executable, "-m", "tests.operate.upkeep.killed", what, str(config.home), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            lines = []
            for line in process.stdout:
                lines.append(line.strip())
                if len(lines) > kill_at or lines[-1] == "done":
                    break
            process.kill()
        if lines[-1] == "done":
            break
        stages += 1
        assert_frame_equal(jobs_of(config), before)
        with open_store(config, read_only=True) as store:
            assert store.cursor("later") == "1", "the home is as it was"
        if what == "backup" and target.exists():
            assert lines[-1].startswith("end writing")
            restore(Config(home=tmp_path / f"of {kill_at}"), target)
    assert stages >= 5
    with open_store(config, read_only=True) as store:
        assert store.cursor("later") == (None if what == "restore" else "1")


def entry(name: str, **fields: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(info, field, value)
    return info


Entries = list[tuple[tarfile.TarInfo, bytes]]
Change = Callable[[tarfile.TarInfo, bytes], Entries]


def rewritten(archive: Path, target: Path, change: Change) -> Path:
    """Copy an archive, with entries that `change` returns in the place of each."""
    with tarfile.open(archive) as old, tarfile.open(target, "w:gz") as new:
        for info in old:
            file = old.extractfile(info)
            assert file is not None
            for one, data in change(info, file.read()):
                one.size = len(data) if one.isreg() else 0
                new.addfile(one, io.BytesIO(data))
    return target


def with_file(name: str, size: int = 0) -> Change:
    """Add a file to the manifest, and to the archive if it is small."""
    facts = {"sha256": hashlib.sha256(b"").hexdigest(), "size": size}
    more = [(entry(name), b"")] if not size else []

    def change(info: tarfile.TarInfo, data: bytes) -> Entries:
        if info.name != "backup.json":
            return [(info, data)]
        value = json.loads(data)
        value["files"][name] = facts
        return [(info, json.dumps(value).encode()), *more]

    return change


def with_value(name: str, wrong: object) -> Change:
    """Replace a value of the manifest."""

    def change(info: tarfile.TarInfo, data: bytes) -> Entries:
        if info.name != "backup.json":
            return [(info, data)]
        return [(info, json.dumps(json.loads(data) | {name: wrong}).encode())]

    return change


def instead(name: str, *entries: tuple[tarfile.TarInfo, bytes]) -> Change:
    """Put other entries in the place of one."""
    return lambda info, data: list(entries) if info.name == name else [(info, data)]


def changed(name: str, change: Callable[[bytes], bytes], times: int = 1) -> Change:
    """Change the content of files whose names end so."""
    return lambda info, data: (
        [(info, change(data) if info.name.endswith(name) else data)]
        * (times if info.name.endswith(name) else 1)
    )


CRAFTED: dict[str, Change] = {
    "a path upwards": with_file("models/../../evil"),
    "an absolute path": with_file("/etc/evil"),
    "another file": with_file(".bashrc"),
    "a folder of the store's name": with_file("forewarn.db/x"),
    "a control character": with_file("models/a\nb"),
    "a huge size": with_file("models/huge", 1 << 60),
    "a file that is missing": with_file("models/more.json", 1),
    "another format": with_value("format", 99),
    "no files": with_value("files", None),
    "files that are none": with_value("files", {"people.db": "x"}),
    "a symbolic link": instead(
        "people.db", (entry("people.db", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b"")
    ),
    "a hard link": instead(
        "people.db", (entry("people.db", type=tarfile.LNKTYPE, linkname="backup.json"), b"")
    ),
    "a device": instead("people.db", (entry("people.db", type=tarfile.CHRTYPE, devmajor=1, devminor=3), b"")),
    "a file that the manifest does not name": instead("people.db", (entry("models/x"), b"x")),
    "a long header": instead("people.db", (entry("people.db", pax_headers={"comment": "x" * 200_000}), b"x")),
    "changed content": changed("model.json", lambda data: data[:-1] + b"\x00"),
    "a longer file": changed("people.db", lambda data: data + b"x"),
    "a file twice": changed("people.db", lambda data: data, times=2),
    "no manifest": instead("backup.json"),
}


@pytest.mark.parametrize("what", CRAFTED)
def test_crafted_archives_are_refused(archive: Path, tmp_path: Path, what: str) -> None:
    crafted = rewritten(archive, tmp_path / "crafted.tar.gz", CRAFTED[what])
    there = set(tmp_path.iterdir())
    with pytest.raises(BackupError):
        restore(Config(home=tmp_path / "other"), crafted)
    assert set(tmp_path.iterdir()) == there, "nothing is left"
    assert not Path("/etc/evil").exists()


# With names of their own: gzip writes the moment into its head, and each worker collects at another one.
@pytest.mark.parametrize(
    "content",
    [b"", b"text", gzip.compress(b""), gzip.compress(b"x" * 2000), None],
    ids=["empty", "text", "empty-gzip", "gzip-of-text", "missing"],
)
def test_what_is_no_archive(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "x.tar.gz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BackupError, match=r"x\.tar\.gz"):
        restore(Config(home=tmp_path / "home"), file)
    assert not (tmp_path / "home").exists()


def test_an_unchanged_copy_is_restored(archive: Path, tmp_path: Path) -> None:
    copy = rewritten(archive, tmp_path / "copy.tar.gz", lambda info, data: [(info, data)])
    restore(Config(home=tmp_path / "other"), copy)
    assert jobs_of(Config(home=tmp_path / "other")).height == 400


def test_an_archive_that_is_cut_short_or_damaged(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    for place in (len(data) // 4, len(data) // 2, len(data) * 3 // 4):
        (tmp_path / "cut.tar.gz").write_bytes(data[:place])
        with pytest.raises(BackupError):
            restore(Config(home=tmp_path / "other"), tmp_path / "cut.tar.gz")
        flipped = bytearray(data)
        flipped[place - 200] ^= 0xFF
        (tmp_path / "cut.tar.gz").write_bytes(flipped)
        with pytest.raises(BackupError):
            restore(Config(home=tmp_path / "other"), tmp_path / "cut.tar.gz")


def test_where_a_backup_cannot_be_written(config: Config, tmp_path: Path) -> None:
    (tmp_path / "there.tar.gz").touch()
    for target, why in (
        (tmp_path / "there.tar.gz", "there already"),
        (tmp_path / "b.zip", r"\.tar\.gz"),
        (tmp_path / "no" / "b.tar.gz", "cannot be written"),
    ):
        with pytest.raises(UsageError, match=why):
            backup(config, target)
    with pytest.raises(UsageError, match="nothing to save"):
        backup(Config(home=tmp_path / "none"), tmp_path / "n.tar.gz")
    (tmp_path / "link").symlink_to(config.home)
    with pytest.raises(UsageError, match="link"):
        restore(Config(home=tmp_path / "link"), tmp_path / "there.tar.gz", replace=True)


def test_a_full_disk_leaves_nothing(config: Config, small_disk: Path) -> None:
    with open_store(config) as store, store.writing() as writer:
        names = pl.Series([secrets.token_hex(16) for _ in range(100_000)])  # 1.6 MB that nothing compresses
        writer.observe("job", many(100_000, cluster="alps").with_columns(name=names))
    with pytest.raises(Exception, match=r"full|No space|space"):
        backup(config, small_disk / "b.tar.gz")
    assert list(small_disk.iterdir()) == []
    with Workspace(config) as workspace:
        assert workspace.reading().count() == 100_400
