"""Searches that really run, under Ray: one Ray for most, and real processes to kill and to connect to."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from forewarn.errors import LearningError, UsageError
from forewarn.learn.data.selection import rankings
from forewarn.learn.search.ray_actor import fit_choice
from forewarn.learn.search.ray_cluster import _connect, _short_folder, ray_cluster
from forewarn.learn.search.search import SearchProgress, SearchResult, SearchSettings, search
from tests.learn.conftest import make_sample
from tests.learn.search_process import toy_search
from tests.learn.toy_family import TOYS, Toy

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
TRAIN, VALIDATION = make_sample(600, 0), make_sample(300, 1)


@pytest.fixture(scope="module")
def local_ray() -> Iterator[None]:
    with ray_cluster(None, 2, 10**6):
        yield


@pytest.fixture
def toys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("forewarn.learn.search.search.family", TOYS.__getitem__)


def same(result: SearchResult) -> list[dict[str, Any]]:
    """Return the trials without their durations."""
    return [{**trial.to_json(), "seconds": None} for trial in result.trials]


def choice(**params: Any) -> dict[str, Any]:
    return {"features": TRAIN.matrix.names, "params": {**Toy.defaults, **params}}


def test_a_fit_tells_its_curve_and_is_stopped_where_others_were_better() -> None:
    free = fit_choice(Toy(), choice(), {}, TRAIN, VALIDATION, seed=0, threads=1)
    assert free["status"] == "completed"
    assert free["rounds"] == 60
    at, losses = zip(*free["curve"], strict=True)
    assert at == (2, 4, 8, 16)  # 60 rounds at a rate of 0.5 come as far as 30
    assert [*losses] == sorted(losses, reverse=True)
    lax = fit_choice(Toy(), choice(), {2: losses[0], 8: losses[2]}, TRAIN, VALIDATION, seed=0, threads=1)
    assert lax["status"] == "completed"
    strict = fit_choice(Toy(), choice(), {8: losses[2] - 1e-6}, TRAIN, VALIDATION, seed=0, threads=1)
    assert strict["status"] == "stopped"
    assert strict["rounds"] == 16
    assert strict["curve"] == free["curve"][:3]


@pytest.mark.usefixtures("local_ray")
def test_trials_are_as_nice_as_whoever_starts_them() -> None:
    import ray

    @ray.remote
    def niceness() -> int:
        return os.nice(0)

    assert ray.get(niceness.remote()) == os.nice(0)


@pytest.mark.usefixtures("local_ray", "toys")
def test_a_search_goes_on_past_trials_that_fail_or_die(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    reports: list[SearchProgress] = []
    settings = SearchSettings(folder=tmp_path, families=("toy", "broken", "deadly"), trials=4, threads=2)
    result = toy_search(settings, progress=reports.append)
    by_family = {trial.family: trial for trial in reversed(result.trials)}
    assert by_family["toy"].status == "completed"
    assert by_family["broken"].error == "ValueError: this family fits nothing"
    assert by_family["deadly"].status == "failed"
    assert "its process was killed" in by_family["deadly"].error
    best = result.best()
    assert best is not None
    assert best.family == "toy"
    assert best.loss == min(t.loss for t in result.trials if t.loss is not None and t.status == "completed")
    assert (reports[-1].done, reports[-1].total, reports[-1].running) == (4, 4, 0)
    assert reports[-1].best == best.loss
    assert result.resumed == 0
    assert json.loads(json.dumps(result.to_json(), allow_nan=False))["best"] == best.number
    assert capfd.readouterr() == ("", "")  # none of Ray's own words

    again = toy_search(settings)  # complete: nothing runs
    assert same(again) == same(result)
    assert again.resumed == 4


@pytest.mark.usefixtures("local_ray", "toys")
def test_deterministic_gives_the_same_trials_even_when_it_was_interrupted(tmp_path: Path) -> None:
    def run(name: str, progress: Callable[[SearchProgress], None] = lambda _: None) -> SearchResult:
        settings = SearchSettings(
            folder=tmp_path / name, families=("toy",), trials=16, seed=5, deterministic=True
        )
        return toy_search(settings, progress=progress)

    def interrupt(now: SearchProgress) -> None:
        if now.done == 5:
            signal.raise_signal(signal.SIGINT)

    whole = run("whole")
    assert {trial.status for trial in whole.trials} == {"completed", "stopped"}
    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        run("again", interrupt)
    assert signal.getsignal(signal.SIGINT) is handler
    again = run("again")
    assert 5 <= again.resumed < 16
    assert same(again) == same(whole)


@pytest.mark.usefixtures("local_ray")
def test_real_families_are_searched(tmp_path: Path) -> None:
    families = ("xgboost", "lightgbm", "catboost", "forest")
    train, validation = make_sample(1500, 0), make_sample(500, 1)
    settings = SearchSettings(folder=tmp_path, families=families, trials=4, threads=2, metric="pr_auc")
    result = search(train, validation, rankings(train, seed=0, threads=1), settings)
    assert [trial.error for trial in result.trials] == [""] * 4
    for name in families:
        best = result.best(name)
        assert best is not None
        assert best.roc_auc is not None
        assert best.roc_auc > 0.7
        assert best.rounds > 0


def start(folder: Path, *more: str, **env: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.learn.search_process", str(folder / "search"), *more]
    command += ["--fits", str(folder / "fits")]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True)


def test_a_killed_search_goes_on_where_it_was(tmp_path: Path) -> None:
    killed = start(tmp_path, "--trials", "8")
    assert killed.stdout is not None
    for line in killed.stdout:
        if int(line) == 3:
            break
    os.kill(killed.pid, signal.SIGKILL)
    killed.communicate()
    deadline = time.monotonic() + 30
    while left := ray_processes(killed.pid):
        assert time.monotonic() < deadline, f"Ray outlived its driver: {left}"
        time.sleep(0.2)
    for session in Path(_short_folder()).glob(f"forewarn-ray-*/r/session_*_{killed.pid}"):
        shutil.rmtree(session.parents[1])  # what only a kill leaves behind
    finished = len((tmp_path / "search" / "trials.jsonl").read_text().splitlines()) - 1
    assert finished >= 3
    begun = len((tmp_path / "fits").read_text().splitlines())

    again = start(tmp_path, "--trials", "8")
    output, _ = again.communicate(timeout=120)
    result = json.loads(output.splitlines()[-1])
    assert result["resumed"] == finished
    assert {trial["status"] for trial in result["trials"]} <= {"completed", "stopped"}
    assert len(result["trials"]) == 8
    assert len((tmp_path / "fits").read_text().splitlines()) - begun == 8 - finished


def ray_processes(pid: int) -> list[str]:
    """List the command lines of the Ray processes of a driver: their session's name ends with its id."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = one.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if f"_{pid}/" in command and "session_" in command:
            found.append(command[:200])
    return found


@pytest.fixture
def second_ray(tmp_path: Path) -> Iterator[str]:
    """Start a Ray head, as a site has one; only processes that were started here are ended."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # its sockets need short names
    command = [str(Path(sys.executable).parent / "ray"), "start", "--head", "--block", f"--port={port}"]
    command += ["--node-ip-address=127.0.0.1", f"--temp-dir={folder}", "--num-cpus=2"]
    command += ["--include-dashboard=false", f"--object-store-memory={100 * 2**20}", "--disable-usage-stats"]
    env = {**os.environ, "RAY_AUTH_MODE": "disabled"}
    log = tmp_path / "head.txt"
    with log.open("w") as out:
        head = subprocess.Popen(command, env=env, stdout=out, stderr=out, start_new_session=True)
    try:
        while "Ray runtime started" not in log.read_text():
            assert head.poll() is None, log.read_text()
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        head.terminate()  # it takes its processes with it
        try:
            head.wait(30)
        finally:
            with suppress(ProcessLookupError):
                os.killpg(head.pid, signal.SIGKILL)
            shutil.rmtree(folder, ignore_errors=True)


def test_a_search_runs_on_a_cluster_that_is_there(tmp_path: Path, second_ray: str) -> None:
    run = start(tmp_path, "--trials", "4", "--ray-address", second_ray, RAY_AUTH_MODE="disabled")
    output, _ = run.communicate(timeout=120)
    assert run.returncode == 0
    result = json.loads(output.splitlines()[-1])
    assert len(result["trials"]) == 4
    assert len((tmp_path / "fits").read_text().splitlines()) == 4
    host, port = second_ray.split(":")
    with socket.create_connection((host, int(port))):  # the cluster is not ours to stop
        pass


@pytest.mark.parametrize(
    "answer", [None, b"HTTP/1.1 400 Bad Request\r\n\r\n", b"SSH-2.0-OpenSSH_9.6\r\n", b""]
)
def test_a_missing_ray_cluster_is_an_error_within_seconds(answer: bytes | None) -> None:
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def reply() -> None:
            with server.accept()[0] as started:
                started.recv(100)
                started.sendall(answer or b"")

        other = threading.Thread(target=reply)
        if answer is None:
            server.close()  # nobody
        else:
            other.start()
        with pytest.raises(LearningError, match=f"no Ray cluster answers at {address}.*omit --ray-addr"):
            _connect(address)
        if answer is not None:
            other.join()
    assert time.monotonic() - began < 10


@pytest.mark.parametrize("address", ["", "nohost", "host:", ":6379", "ray://host:10001", "host:port"])
def test_a_malformed_ray_address_is_an_error(address: str) -> None:
    with pytest.raises(UsageError, match="is no address of a Ray cluster: give HOST:PORT"):
        _connect(address)
