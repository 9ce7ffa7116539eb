"""MLflow's client with short timeouts, retries for a locked database, and no output or telemetry."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from forewarn.errors import MissingExtraError, RegistryError
from forewarn.files import open_no_link

# Variables that a site sets itself take precedence. With these, a server that is down costs two tries of six
# seconds instead of four minutes.
ENVIRONMENT = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "DO_NOT_TRACK": "true",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "6",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "1",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
    "GIT_PYTHON_REFRESH": "quiet",
}
LOCKED = "database is locked"
LOCK_SECONDS = 120.0  # to wait for another process
WAITS = (0.1, 0.2, 0.5, 1.0, 2.0)  # seconds between tries of a locked database
LONG_TRY = 10.0  # seconds of one try after which not to retry: MLflow itself has waited for the lock


class Tracking:
    """MLflow's client: the same methods, with every failure raised as a `RegistryError`."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._client = self._with_retries(lambda: _client(uri))

    @property
    def has_server(self) -> bool:
        """Whether a server stores the artifacts, and not this process."""
        return self.uri.startswith(("http://", "https://"))

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            return self._with_retries(lambda: getattr(self._client, method)(*args, **kwargs))

        return call

    def _with_retries(self, ask: Callable[[], Any]) -> Any:
        for wait in (*WAITS, None):
            begun = time.monotonic()
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # MLflow's and SQLAlchemy's, about their own code
                    return ask()
            except MissingExtraError:
                raise
            # Any exception: there is no list of those that a server, a database or an artifact store may
            # raise, and a model that was just trained must not be lost.
            except Exception as error:
                # SQLite does not wait for the lock where two transactions have read and both want to write.
                is_final = LOCKED not in str(error) or time.monotonic() - begun > LONG_TRY
                if wait is None or is_final:
                    raise RegistryError(
                        f"{without_password(self.uri)}: {without_password(_cause_of(error))}"
                    ) from error
            time.sleep(wait)
        raise AssertionError("the last try returns or raises")


@contextmanager
def exclusive_lock(lock: Path) -> Iterator[None]:
    """Hold a lock file while the block runs, after waiting for another process that holds it."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    until = time.monotonic() + LOCK_SECONDS
    with open(lock, "w", opener=open_no_link) as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise RegistryError(
                        f"{lock}: another process has been changing the registry for {LOCK_SECONDS:.0f} s. "
                        "Try again"
                    ) from None
            time.sleep(0.05)
        yield


def embedded_uri(database: Path) -> str:
    """Return the tracking URI of a local database."""
    return f"sqlite:///{database.absolute()}"


def without_password(text: str) -> str:
    """Remove user name and password from URIs in a text.

    >>> without_password("no answer from https://ml:secret@mlflow.example.org:5000/x")
    'no answer from https://mlflow.example.org:5000/x'
    """
    return re.sub(r"(?<=://)[^/\s]*@", "", text)


def _client(uri: str) -> Any:
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        from mlflow import MlflowClient
    except ImportError:
        raise MissingExtraError(
            "the model registry needs MLflow, which is not installed: pip install 'forewarn[train]'"
        ) from None
    for name in ("mlflow", "alembic", "sqlalchemy", "urllib3"):  # errors are raised as well
        logging.getLogger(name).setLevel(logging.CRITICAL)
    return MlflowClient(tracking_uri=uri, registry_uri=uri)


def _cause_of(error: Exception) -> str:
    """Extract the cause from an error's message: MLflow wraps it in long lines of its own.

    >>> _cause_of(OSError("Max retries exceeded with url: /x (… [Errno 111] Connection refused'))"))
    'cannot be reached: Connection refused. Is it running, and is the setting `tracking` right?'
    """
    text = str(error)
    if "Max retries exceeded" in text:
        reason = re.search(r"\[Errno -?\d+\] ([\w ]+)|(timed out)", text)
        why = (reason[1] or reason[2]) if reason else text.partition("\n")[0]
        return f"cannot be reached: {why}. Is it running, and is the setting `tracking` right?"
    return next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
