"""Meanings of exit codes and signals, each with the family of causes that it points to.

An exit code is only what the last command of a script returned, so a meaning is a hint with a weight, which
`assess/post_mortem` sets against the job's record and its log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class ExitMeaning:
    """The meaning of an exit code or signal, and its weight as evidence (0: none, 1: certain)."""

    words: str
    family: str | None = None
    weight: float = 0.0


# Signals that end a program (signal(7) on Linux), and two numbers above them that Slurm uses in place of one.
SIGNALS: Mapping[int, tuple[str, ExitMeaning]] = MappingProxyType(
    {
        1: ("SIGHUP", ExitMeaning("its terminal or session was closed", "killed", 0.3)),
        2: ("SIGINT", ExitMeaning("it was interrupted, as by Ctrl-C", "killed", 0.4)),
        3: ("SIGQUIT", ExitMeaning("it was asked to quit", "killed", 0.3)),
        4: (
            "SIGILL",
            ExitMeaning("an instruction that this CPU does not support", "wrong_architecture", 0.75),
        ),
        5: ("SIGTRAP", ExitMeaning("a trap set by a debugger or a compiler's check", "crash", 0.4)),
        6: ("SIGABRT", ExitMeaning("it aborted itself: a failed assertion or a caught error", "crash", 0.5)),
        7: ("SIGBUS", ExitMeaning("a page of memory or of a mapped file was lost", "file_system", 0.5)),
        8: ("SIGFPE", ExitMeaning("a division by zero or an invalid number", "numerical", 0.75)),
        9: ("SIGKILL", ExitMeaning("it was killed from outside", "killed", 0.4)),
        10: (
            "SIGUSR1",
            ExitMeaning(
                "a signal sent by the user or by --signal, which the program did not catch", "killed", 0.4
            ),
        ),
        11: (
            "SIGSEGV",
            ExitMeaning("a segmentation fault: it used an invalid memory address", "crash", 0.75),
        ),
        12: (
            "SIGUSR2",
            ExitMeaning(
                "a signal sent by the user or by --signal, which the program did not catch", "killed", 0.4
            ),
        ),
        13: ("SIGPIPE", ExitMeaning("the reader of its output had ended", "killed", 0.3)),
        14: ("SIGALRM", ExitMeaning("an alarm timer set by the program itself", "killed", 0.3)),
        15: (
            "SIGTERM",
            ExitMeaning("it was asked to end: cancelled, preempted or at a limit", "killed", 0.3),
        ),
        24: ("SIGXCPU", ExitMeaning("it exceeded its limit of CPU time", "time_limit", 0.7)),
        25: ("SIGXFSZ", ExitMeaning("it exceeded its limit of file size", "disk_full", 0.7)),
        30: ("SIGPWR", ExitMeaning("the power of the node failed", "node_failure", 0.7)),
        31: ("SIGSYS", ExitMeaning("a system call that is not allowed", "crash", 0.5)),
        53: (
            "53",
            ExitMeaning(
                "Slurm could not start it: its output file or its folder cannot be opened", "launch", 0.8
            ),
        ),
        125: ("125", ExitMeaning("Slurm's code for out of memory", "out_of_memory", 0.95)),
    }
)

EXIT_CODES: Mapping[int, ExitMeaning] = MappingProxyType(
    {
        0: ExitMeaning("success"),
        1: ExitMeaning("a general error of the program"),
        2: ExitMeaning("wrong use of a command, or a missing file", "usage", 0.25),
        5: ExitMeaning(
            "an input or output error, where a program exits with the system's number", "file_system", 0.3
        ),
        12: ExitMeaning(
            "out of memory, where a program exits with the system's number", "out_of_memory", 0.2
        ),
        28: ExitMeaning(
            "no space left on the disk, where a program exits with the system's number", "disk_full", 0.25
        ),
        64: ExitMeaning("wrong use of a command, by sysexits.h", "usage", 0.3),
        65: ExitMeaning("wrong input data, by sysexits.h", "usage", 0.3),
        66: ExitMeaning("an input file is missing or cannot be read, by sysexits.h", "file_missing", 0.35),
        69: ExitMeaning("a service is not available, by sysexits.h", "network", 0.2),
        70: ExitMeaning("an internal error of the program, by sysexits.h", "crash", 0.25),
        71: ExitMeaning("an error of the operating system, by sysexits.h", "node_failure", 0.2),
        73: ExitMeaning("an output file cannot be created, by sysexits.h", "permission", 0.3),
        74: ExitMeaning("an input or output error, by sysexits.h", "file_system", 0.3),
        75: ExitMeaning("a temporary failure: trying again may help, by sysexits.h", "network", 0.2),
        77: ExitMeaning("no permission, by sysexits.h", "permission", 0.35),
        78: ExitMeaning("wrong configuration, by sysexits.h", "usage", 0.3),
        100: ExitMeaning(
            "the network is down, where a program exits with the system's number", "network", 0.3
        ),
        101: ExitMeaning(
            "the network is unreachable, where a program exits with the system's number", "network", 0.2
        ),
        104: ExitMeaning("the other side closed a connection", "network", 0.4),
        107: ExitMeaning("a connection was lost: transport endpoint is not connected", "file_system", 0.6),
        108: ExitMeaning("a connection was closed: transport endpoint shut down", "file_system", 0.5),
        110: ExitMeaning("a connection timed out", "network", 0.4),
        112: ExitMeaning("a host is down", "network", 0.4),
        113: ExitMeaning("there is no route to a host", "network", 0.4),
        116: ExitMeaning("a stale file handle: a file system was lost or remounted", "file_system", 0.6),
        120: ExitMeaning("Python could not write its output at exit", "disk_full", 0.2),
        121: ExitMeaning("a remote input or output error", "file_system", 0.5),
        122: ExitMeaning(
            "a disk quota is exceeded, where a program exits with the system's number", "disk_full", 0.4
        ),
        124: ExitMeaning("`timeout` ended a command that took too long", "own_time_limit", 0.6),
        125: ExitMeaning(
            "Slurm's code for out of memory, or a container that did not start", "out_of_memory", 0.4
        ),
        126: ExitMeaning("a command exists but cannot be executed", "not_executable", 0.7),
        127: ExitMeaning("a command was not found", "command_missing", 0.7),
        128: ExitMeaning(
            "an exit with an invalid number; git and some others for a fatal error", "usage", 0.2
        ),
        255: ExitMeaning("an exit with -1: ssh, MPI launchers and many programs for any fatal error"),
    }
)


# A shell reports a signal n as exit code 128 + n, and the text output of sacct subtracts 128 from every code
# of 128 and above: 137 is printed as 9:0 (slurmrestd, `sacct --json` and scontrol show 137). These printed
# codes are read as the shell's: signals that end programs, and codes that hardly any program returns itself.
PRINTED_BARE = frozenset({6, 9, 11, 15})
_SHELL = 128
_LAST_SIGNAL = 31


def from_sacct_text(exit_code: int, exit_signal: int) -> int:
    """Restore the exit code from one that sacct printed as text.

    >>> from_sacct_text(9, 0), from_sacct_text(0, 9), from_sacct_text(2, 0)
    (137, 0, 2)
    """
    return exit_code + _SHELL if exit_code in PRINTED_BARE and not exit_signal else exit_code


def signal_in(exit_code: int | None, exit_signal: int | None) -> int | None:
    """Return the signal that ended the job, recorded as such or as a shell reports it (128 + n).

    >>> signal_in(139, 0), signal_in(0, 9), signal_in(11, 0), signal_in(3, 0)
    (11, 9, None, None)
    """
    if exit_signal:
        return exit_signal
    number = (exit_code or 0) - _SHELL
    return number if 0 < number <= _LAST_SIGNAL else None


def meaning(exit_code: int | None, exit_signal: int | None) -> ExitMeaning | None:
    """Explain a job's exit code and signal; None where neither is known.

    >>> meaning(127, 0).words
    'exit code 127 (a command was not found)'
    >>> meaning(137, 0).words
    'exit code 137, which is signal 9 (SIGKILL: it was killed from outside)'
    """
    if exit_code is None and exit_signal is None:
        return None
    number = signal_in(exit_code, exit_signal)
    if number is not None:
        name, what = SIGNALS.get(number, (str(number), ExitMeaning("a signal that ended it", "killed", 0.2)))
        named = f"{name}: {what.words}" if name != str(number) else what.words
        how = f"signal {number} ({named})"
        if not exit_signal:
            how = f"exit code {exit_code}, which is {how}"
        return ExitMeaning(how, what.family, what.weight)
    code = exit_code or 0
    what = EXIT_CODES.get(code, ExitMeaning("a code of the program's own"))
    return ExitMeaning(f"exit code {code} ({what.words})", what.family, what.weight)
