"""Ray, started on this machine for one search, or found where it runs already."""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import ray

from forewarn.errors import LearningError
from forewarn.files import writing
from forewarn.learn.search.ray_address import INSTEAD, greet, nobody, reason

SMALLEST_STORE = 100 * 2**20  # Ray refuses less than 75 MiB
LONGEST_PATH = 18  # of the folder for temporary files: Ray's sockets in it may have names of 107 bytes
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # nothing is sent home
    "RAY_AIR_NEW_OUTPUT": "0",  # the other output cannot be turned off
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the journal is ours
    # Ray would run trials at nice 15, which nearly stops a search on a busy machine. Who starts a training
    # decides how nice it is.
    "RAY_worker_niceness": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # Ray's own checkpoints are pickles, and nobody reads them
}


@contextmanager
def ray_cluster(address: str | None, cores: int, data_bytes: int) -> Iterator[Path]:
    """Ray for a while, and a private folder for what it writes. What this process has already is used."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with writing(Path("a temporary folder")):
        folder = Path(tempfile.mkdtemp(prefix="forewarn-ray-", dir=_short_folder()))
    ours = not ray.is_initialized()
    log = logging.getLogger("ray")
    level = log.level
    log.setLevel(logging.CRITICAL)  # what matters is raised, or a failed trial
    handlers = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not ours:
                pass
            elif address is None:
                _start(folder, cores, data_bytes)
            else:
                _connect(address)
        yield folder
    finally:
        if ours:
            ray.shutdown()
        if threading.current_thread() is threading.main_thread():
            for one, handler in handlers.items():  # Ray and Tune put theirs in place, and leave them there
                signal.signal(one, handler)
        log.setLevel(level)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, cores: int, data_bytes: int) -> None:
    kept = Path.home() / ".ray"
    if not os.access(kept if kept.exists() else kept.parent, os.W_OK):
        # Ray's processes know each other by a token in the home folder: here by one of this process.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        ray.init(
            address="local",  # not what RAY_ADDRESS names: a cluster is used when it is asked for
            num_cpus=cores,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=SMALLEST_STORE + data_bytes * 5 // 4,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=str(folder / "r"),  # which Ray opens to everybody; the folder around it stays ours
        )
    except Exception as error:
        raise LearningError(
            f"Ray, which runs the search, could not start on this machine: {reason(error)}. It needs about "
            f"{(SMALLEST_STORE + data_bytes) // 2**20} MiB in /dev/shm (or {folder.parent}), room for its "
            f"sockets and logs in {folder.parent} (TMPDIR names another place), and ports on 127.0.0.1"
        ) from None


def _connect(address: str) -> None:
    greet(address)
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise LearningError(f"{nobody(address)}: {reason(error)}; {INSTEAD}") from None


def _short_folder() -> str:
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_PATH else "/tmp"
