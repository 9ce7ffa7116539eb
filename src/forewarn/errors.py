"""Every exception that Forewarn raises on purpose, with its exit code.

    ForewarnError                   A failure that the user can act on (exit code 1).
    ├── UsageError                  A flag, an argument or a config key is wrong (exit code 2).
    │   ├── BadFieldsError          A document in JSON has wrong fields: the message names each (exit code 2).
    │   └── UnknownJobError         Neither the store nor Slurm knows the job (exit code 2).
    ├── SourceError                 A source is missing, empty or not in its format (exit code 3).
    │   ├── CutShortError           A source ends in the middle of a record (exit code 3).
    │   ├── BadRowError             A row is bad: the message names file, line and field (exit code 4).
    │   └── NoGoodRowError          With `--skip-bad`, every row of a source was bad (exit code 4).
    ├── StoreError                  The store cannot be opened, read or written (exit code 5).
    │   ├── StoreBusyError          Another process did not finish writing to the store in time (exit code 5).
    │   │   └── CollectedElsewhereError  Another process collects the cluster into this store (exit code 5).
    │   ├── OldStoreError           An older version wrote the store, and it is read-only here (exit code 5).
    │   ├── UnfitFileSystemError    The file system of the folder cannot hold the store (exit code 5).
    │   └── BackupError             A backup is damaged, incomplete or not one (exit code 5).
    ├── MissingExtraError           A package is missing: the message is the command to run (exit code 6).
    ├── LearningError               A model cannot be trained, stored or used (exit code 7).
    │   ├── NotEnoughError          The history has too few jobs or failures to train on (exit code 7).
    │   ├── BundleError             A bundle is incomplete, was modified, or is not a bundle (exit code 7).
    │   └── RegistryError           The model registry cannot be reached or has no such model (exit code 7).
    ├── AccessError                 The service does not serve this caller (exit code 9).
    │   ├── UnauthenticatedError    Nothing, or nothing valid, proves who is calling (exit code 9).
    │   ├── ForbiddenError          The caller's role does not allow it (exit code 9).
    │   │   ├── SlurmTokenNeededError  To act on Slurm needs the caller's own Slurm token (exit code 9).
    │   ├── UnknownNoticeError      No such notice or silence, or the caller may not see it (exit code 9).
    │   │   └── CrossSiteError      A page of another site may have caused the request (exit code 9).
    │   └── RateLimitError          The caller sent too many requests in a short time (exit code 9).
    │       └── OverloadedError     All callers together ask more than the service can answer (exit code 9).
    ├── ServiceError                The service failed, or its answer cannot be understood (exit code 10).
    │   └── ServiceAwayError        Nothing answers at the service's address, or too late (exit code 10).
    ├── DeliveryError               A mail server or webhook does not take a notice (exit code 1).
    └── SchedulerError              Slurm cannot be queried or rejects the request (exit code 8).
        ├── UnreachableError        Nothing answers: wrong URL or socket, or the server is down (exit code 8).
        │   └── NoAccessError       The socket exists and this user may not open it (exit code 8).
        ├── LostAnswerError         The connection closed before the response was complete (exit code 8).
        ├── SlowAnswerError         The request timed out (exit code 8).
        ├── LargeAnswerError        The response exceeds the size limit (exit code 8).
        ├── MalformedAnswerError    The response is truncated, empty or not Slurm's (exit code 8).
        ├── NoRoomError             The temporary folder has no space for a response (exit code 8).
        ├── PausedError             Requests are paused after repeated failures (exit code 8).
        ├── TokenError              The token is missing or Slurm rejects it (exit code 8).
        │   ├── ExpiredTokenError   The token has expired (exit code 8).
        │   ├── WrongUserError      The token belongs to another user (exit code 8).
        │   └── ClockSkewError      The local clock and the scheduler's differ too much (exit code 8).
        ├── DatabaseDownError       slurmdbd, which serves the job history, does not respond (exit code 8).
        ├── NoAccountingError       This Slurm has no accounting, so there is no job history (exit code 8).
        ├── ControllerDownError     slurmctld, which serves the live jobs, does not respond (exit code 8).
        ├── VersionGoneError        slurmrestd serves no API version that Forewarn supports (exit code 8).
        ├── RefusedError            Slurm rejected the request: the message is Slurm's (exit code 8).
        │   └── ScriptUnknownError  Slurm no longer has the script of a job to submit again (exit code 8).
        └── CommandError            A Slurm command is missing or failed (exit code 8).

An error message says what was wrong, where, and what to do. `docs/exit-codes.md` has one table of exit codes
for all commands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BAD_FIELDS_SHOWN = 20  # in one message: a wrong document may have thousands


class ForewarnError(Exception):
    """Base class of all errors; the command line prints them as one line, without a traceback."""

    exit_code = 1


class UsageError(ForewarnError):
    """A wrong flag, argument or config key."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class BadField:
    """A field of a JSON document that is wrong: its JSON pointer (``/jobs/3/submit``) and the reason."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path or '/'}: {self.reason}"


class BadFieldsError(UsageError):
    """A JSON document, such as a job or an event, with wrong fields; `fields` has them all."""

    def __init__(self, document: str, fields: Sequence[BadField]) -> None:
        shown, left = fields[:BAD_FIELDS_SHOWN], len(fields) - BAD_FIELDS_SHOWN
        lines = [*map(str, shown), *([f"and {left} more"] if left > 0 else [])]
        number = "1 wrong field" if len(fields) == 1 else f"{len(fields)} wrong fields"
        super().__init__(f"{document} has {number}:\n  " + "\n  ".join(lines))
        self.fields = tuple(fields)


class UnknownJobError(UsageError):
    """A job that neither the store nor Slurm knows, or that the caller may not see."""


class SourceError(ForewarnError):
    """A source that cannot be read: missing, empty, truncated, or not in its format."""

    exit_code = 3


class CutShortError(SourceError):
    """A source that ends in the middle of a record."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be parsed: its file and line, the field, and the reason."""

    file: str
    line: int
    field: str
    reason: str
    text: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.field}: {self.reason}"


class BadRowError(SourceError):
    """The first bad row of a source that is read without `--skip-bad`."""

    exit_code = 4

    def __init__(self, row: BadRow) -> None:
        super().__init__(f"{row}\n(--skip-bad writes bad rows to a rejects file and reads the rest)")
        self.row = row


class NoGoodRowError(SourceError):
    """A source in which every row is bad, read with `--skip-bad`."""

    exit_code = 4


class StoreError(ForewarnError):
    """A store that cannot be opened, read or written."""

    exit_code = 5


class OldStoreError(StoreError):
    """A store that an older version wrote and this user may only read, so that it cannot be migrated."""


class StoreBusyError(StoreError):
    """A store that another process was still writing to when the wait timed out."""


class CollectedElsewhereError(StoreBusyError):
    """A cluster that another process collects into this store."""

    def __init__(self, message: str, cluster: str) -> None:
        super().__init__(message)
        self.cluster = cluster


class UnfitFileSystemError(StoreError):
    """A folder on a file system whose locks the store cannot rely on."""


class BackupError(StoreError):
    """A damaged or incomplete backup, or a file that is not a backup."""


class MissingExtraError(ForewarnError):
    """An optional package that is not installed; the message is the command to run."""

    exit_code = 6


class LearningError(ForewarnError):
    """A model that cannot be trained, stored or used."""

    exit_code = 7


class NotEnoughError(LearningError):
    """A history with too few jobs, or too few of one class, to train on."""


class BundleError(LearningError):
    """A bundle that is incomplete or was modified, or a path that holds no bundle."""


class RegistryError(LearningError):
    """A model registry that cannot be reached or has no such model."""


class AccessError(ForewarnError):
    """A request that the service does not serve to this caller; `status` is HTTP's, `code` for programs."""

    exit_code = 9
    status = 403
    code = "access_denied"


class UnauthenticatedError(AccessError):
    """A request without a valid proof of who is calling."""

    status = 401
    code = "unauthenticated"


class ForbiddenError(AccessError):
    """A request that the role of the caller does not allow."""

    code = "forbidden"


class SlurmTokenNeededError(ForbiddenError):
    """A request to act on Slurm by a caller whose Slurm token the service does not have."""

    code = "slurm_token_needed"


class UnknownNoticeError(AccessError):
    """A notice or a silence that is not there, or that this caller may not see."""

    status = 404
    code = "unknown_notice"


class CrossSiteError(ForbiddenError):
    """A request that a page of another site may have caused, in a browser that is logged in here."""

    code = "cross_site"


class RateLimitError(AccessError):
    """A request beyond the caller's limit; the next one is served after `retry_after` seconds."""

    status = 429
    code = "rate_limited"

    def __init__(self, message: str, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class OverloadedError(RateLimitError):
    """A request that finds the queue of the service full, through no fault of this caller."""

    status = 503
    code = "overloaded"


class ServiceError(ForewarnError):
    """An error of a service that a client asked, as its problem+json describes it.

    Where the library has an error of its own for the problem, a client raises that one, and this is its
    cause: ``error.__cause__.status``. `errors` are the wrong fields, `request_id` finds it in the log.
    """

    exit_code = 10

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        detail: str = "",
        errors: Sequence[BadField] = (),
        request_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.code, self.detail = status, code, detail
        self.errors, self.request_id = tuple(errors), request_id


class ServiceAwayError(ServiceError):
    """A service that does not answer: wrong address, not running, or too slow."""


class DeliveryError(ForewarnError):
    """A notice that a mail server or webhook did not take.

    `transient`: another try may succeed. `uncertain`: the server may have taken it, and a second try might
    send it twice. `whole_channel`: others would fail too.
    """

    def __init__(
        self,
        message: str,
        *,
        transient: bool = False,
        uncertain: bool = False,
        whole_channel: bool = False,
        wait: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.transient, self.uncertain, self.whole_channel = transient, uncertain, whole_channel
        self.wait = wait  # seconds after which the server wants the next try


class SchedulerError(ForewarnError):
    """A request that Slurm did not answer or rejected.

    `transient` errors may go away without intervention, so read-only requests are retried.
    """

    exit_code = 8
    transient = False


class UnreachableError(SchedulerError):
    """An address of the scheduler at which nothing answers."""

    transient = True


class NoAccessError(UnreachableError):
    """A socket that exists and that this user may not open."""

    transient = False


class LostAnswerError(SchedulerError):
    """A connection that closed before the response was complete."""

    transient = True


class SlowAnswerError(SchedulerError):
    """A request that timed out."""

    transient = True


class LargeAnswerError(SchedulerError):
    """A response that exceeds the size limit."""


class MalformedAnswerError(SchedulerError):
    """A response that is truncated, empty or not Slurm's: a proxy's page, or a server that is restarting."""

    transient = True


class NoRoomError(SchedulerError):
    """A temporary folder without space for a response."""

    transient = True


class PausedError(SchedulerError):
    """A request that is not sent: after repeated failures requests are paused for `seconds` more."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class TokenError(SchedulerError):
    """A token that is missing or that Slurm rejects."""


class ExpiredTokenError(TokenError):
    """An expired token."""


class WrongUserError(TokenError):
    """A token that belongs to another user."""


class ClockSkewError(TokenError):
    """A local clock that differs too much from the scheduler's."""


class DatabaseDownError(SchedulerError):
    """A slurmdbd, which serves the job history, that does not respond."""

    transient = True


class NoAccountingError(SchedulerError):
    """A Slurm without accounting: only the controller can be queried."""


class ControllerDownError(SchedulerError):
    """A slurmctld, which serves the live jobs, that does not respond."""

    transient = True


class VersionGoneError(SchedulerError):
    """A slurmrestd that serves no API version that Forewarn supports."""


class RefusedError(SchedulerError):
    """A request that Slurm understood and rejected."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code  # Slurm's error number, such as 2002 access denied, 2017 invalid job id


class ScriptUnknownError(RefusedError):
    """A job to submit again whose script Slurm no longer has: it must be sent."""


class CommandError(SchedulerError):
    """A Slurm command that is missing or failed."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code  # exit code; None where the command is missing
