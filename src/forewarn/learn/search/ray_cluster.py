"""Ray for one search: started on this machine, or a running cluster to connect to."""

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
from forewarn.learn.search.ray_address import INSTEAD, check_ray_address, first_sentence, no_cluster_message

SMALLEST_STORE = 100 * 2**20  # Ray refuses less than 75 MiB
LONGEST_PATH = 18  # characters of the temporary folder's path: a socket's path has at most 107 bytes
_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",  # no telemetry
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output cannot be turned off
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # `trials.Journal` records the trials
    # Ray would run trials at nice 15, which nearly stops a search on a busy machine. The user who starts a
    # training decides its priority.
    "RAY_worker_niceness": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "86400",  # Ray's own checkpoints are pickles, and are never read
}


@contextmanager
def ray_cluster(address: str | None, cores: int, data_bytes: int) -> Iterator[Path]:
    """Provide Ray and a private folder for its files while the block runs.

    If this process has initialised Ray already, that one is used. Without `address`, Ray is started here.
    """
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    with writing(Path("a temporary folder")):
        folder = Path(tempfile.mkdtemp(prefix="forewarn-ray-", dir=_short_folder()))
    ours = not ray.is_initialized()
    log = logging.getLogger("ray")
    level = log.level
    log.setLevel(logging.CRITICAL)  # real problems are raised, or are failed trials
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)
    }
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
            for number, handler in handlers.items():  # Ray and Tune install their own, and do not remove them
                signal.signal(number, handler)
        log.setLevel(level)
        shutil.rmtree(folder, ignore_errors=True)


def _start(folder: Path, cores: int, data_bytes: int) -> None:
    token_folder = Path.home() / ".ray"
    if not os.access(token_folder if token_folder.exists() else token_folder.parent, os.W_OK):
        # Ray's processes authenticate by a token in the home folder. Here it cannot be written: use the
        # environment instead.
        os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        ray.init(
            address="local",  # ignore RAY_ADDRESS: a cluster is used only with --ray-address
            num_cpus=cores,
            num_gpus=0,
            include_dashboard=False,
            object_store_memory=SMALLEST_STORE + data_bytes * 5 // 4,
            log_to_driver=False,
            configure_logging=False,
            _temp_dir=str(folder / "r"),  # Ray makes it readable for all; the folder around it stays private
        )
    except Exception as error:
        raise LearningError(
            "Ray, which runs the search, could not start on this machine: "
            f"{first_sentence(error)}. It needs about "
            f"{(SMALLEST_STORE + data_bytes) // 2**20} MiB in /dev/shm (or {folder.parent}), room for its "
            f"sockets and logs in {folder.parent} (TMPDIR names another place), and ports on 127.0.0.1"
        ) from None


def _connect(address: str) -> None:
    check_ray_address(address)
    try:
        ray.init(address=address, log_to_driver=False, configure_logging=False)
    except Exception as error:
        raise LearningError(f"{no_cluster_message(address)}: {first_sentence(error)}; {INSTEAD}") from None


def _short_folder() -> str:
    usual = tempfile.gettempdir()
    return usual if len(usual) <= LONGEST_PATH else "/tmp"
