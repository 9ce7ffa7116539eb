"""Every error that Forewarn raises on purpose.

    ForewarnError              something a person can act on; exit code 1
    ├── UsageError             the call itself is wrong (a flag, a value, a config key); exit code 2
    ├── SourceError            a source cannot be read at all (missing, empty, not its format); exit code 3
    │   ├── CutShortError      it ends in the middle of a record; exit code 3
    │   ├── BadRowError        a row in it is wrong: file, line and field are named; exit code 4
    │   └── NoGoodRowError     all its rows are wrong: with `--skip-bad` nothing was left; exit code 4
    ├── StoreError             the store cannot be opened, read or written; exit code 5
    │   ├── StoreBusyError     another process is writing and did not finish in time; exit code 5
    │   ├── OldStoreError      an older version wrote it, and it may only be read here; exit code 5
    │   └── UnfitFileSystemError    the folder's file system cannot hold the store; exit code 5
    ├── MissingExtraError      an optional part is not installed; the message is the line to type; exit code 6
    ├── LearningError          a model cannot be made, kept or used; exit code 7
    │   ├── NotEnoughError     the history is too little or too one-sided to learn from; exit code 7
    │   ├── BundleError        a bundle is incomplete, changed, or not one; exit code 7
    │   └── RegistryError      the model registry cannot be reached, or has no such model; exit code 7
    └── SchedulerError         Slurm cannot be asked, or says no; exit code 8
        ├── UnreachableError   nothing answers there: wrong URL or socket, or not running; exit code 8
        │   └── NoAccessError  the socket is there, and this user may not open it; exit code 8
        ├── LostAnswerError    the connection ended before the answer did: did the server die? exit code 8
        ├── SlowAnswerError    no answer in time; exit code 8
        ├── LargeAnswerError   an answer larger than we are willing to take; exit code 8
        ├── MalformedAnswerError     an answer that is cut short, empty, or not Slurm's; exit code 8
        ├── NoRoomError        the temporary folder has no room for an answer; exit code 8
        ├── PausedError        it failed so often that it is left alone for a while; exit code 8
        ├── TokenError         no token, or one that Slurm does not accept; exit code 8
        │   ├── ExpiredTokenError    its time is over; exit code 8
        │   ├── WrongUserError       it was made for another user; exit code 8
        │   └── ClockSkewError       our clock and the scheduler's differ; exit code 8
        ├── DatabaseDownError  slurmdbd, which has the history, does not answer; exit code 8
        ├── NoAccountingError  this Slurm keeps no accounting: there is no history to read; exit code 8
        ├── ControllerDownError      slurmctld, which has the live jobs, does not answer; exit code 8
        ├── VersionGoneError   it serves no version of the API that we read; exit code 8
        ├── RefusedError       Slurm understood, and says no: its code and words; exit code 8
        └── CommandError       a Slurm command is missing, or failed; exit code 8

An error says what was wrong, where, and what to do. The exit codes are one table for all
commands, in `docs/exit-codes.md`.
"""

from __future__ import annotations

from dataclasses import dataclass


class ForewarnError(Exception):
    """The root: whatever is below it is printed as one line, without a traceback."""

    exit_code = 1


class UsageError(ForewarnError):
    """The call is wrong: a flag, a value or a config key."""

    exit_code = 2


class SourceError(ForewarnError):
    """A source cannot be read at all: missing, empty, truncated, or not in its format."""

    exit_code = 3


class CutShortError(SourceError):
    """A source ends in the middle of a record."""


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot become a record: where it stands, which field, and why."""

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
        super().__init__(f"{row}\n(with --skip-bad such rows go to a rejects file and the rest is read)")
        self.row = row


class NoGoodRowError(SourceError):
    """A source of which `--skip-bad` left nothing."""

    exit_code = 4


class StoreError(ForewarnError):
    """The store cannot be opened, read or written."""

    exit_code = 5


class OldStoreError(StoreError):
    """The store was written by an older version, and who asks may only read it."""


class StoreBusyError(StoreError):
    """Another process is writing to the store and did not finish in time."""


class UnfitFileSystemError(StoreError):
    """The folder lies on a file system whose locks the store cannot rely on."""


class MissingExtraError(ForewarnError):
    """An optional part of Forewarn is not installed."""

    exit_code = 6


class LearningError(ForewarnError):
    """A model cannot be made, kept or used."""

    exit_code = 7


class NotEnoughError(LearningError):
    """The history is too little or too one-sided to learn from."""


class BundleError(LearningError):
    """A bundle is incomplete, was changed, or is none."""


class RegistryError(LearningError):
    """The model registry cannot be reached, or has no such model."""


class SchedulerError(ForewarnError):
    """Slurm cannot be asked, or says no.

    `passing` errors may be over by themselves a little later: a call that changes nothing is tried again.
    """

    exit_code = 8
    passing = False


class UnreachableError(SchedulerError):
    """Nothing answers at the scheduler's address."""

    passing = True


class NoAccessError(UnreachableError):
    """The socket is there, and this user may not open it."""

    passing = False


class LostAnswerError(SchedulerError):
    """The connection ended before the answer did."""

    passing = True


class SlowAnswerError(SchedulerError):
    """No answer in time."""

    passing = True


class LargeAnswerError(SchedulerError):
    """An answer larger than we are willing to take."""


class MalformedAnswerError(SchedulerError):
    """An answer that is cut short, empty, or not Slurm's: a proxy's page, or a server that is restarting."""

    passing = True


class NoRoomError(SchedulerError):
    """The temporary folder has no room for an answer."""

    passing = True


class PausedError(SchedulerError):
    """It failed so often that it is left alone for some seconds more."""

    def __init__(self, message: str, seconds: float) -> None:
        super().__init__(message)
        self.seconds = seconds


class TokenError(SchedulerError):
    """There is no token, or Slurm does not accept it."""


class ExpiredTokenError(TokenError):
    """The token's time is over."""


class WrongUserError(TokenError):
    """The token was made for another user."""


class ClockSkewError(TokenError):
    """Our clock and the scheduler's differ by too much."""


class DatabaseDownError(SchedulerError):
    """slurmdbd, which has the history, does not answer."""

    passing = True


class NoAccountingError(SchedulerError):
    """This Slurm keeps no accounting: only the controller can be asked."""


class ControllerDownError(SchedulerError):
    """slurmctld, which has the live jobs, does not answer."""

    passing = True


class VersionGoneError(SchedulerError):
    """It serves no version of the API that we read."""


class RefusedError(SchedulerError):
    """Slurm understood, and says no."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code  # Slurm's error number: 2002 denied, 2017 no such job


class CommandError(SchedulerError):
    """A Slurm command is missing, or failed."""

    def __init__(self, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code  # of its exit; None where it is not there
