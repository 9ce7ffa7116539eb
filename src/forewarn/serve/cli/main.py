"""The `forewarn` command: dispatches to the subcommands and turns errors into one line and an exit code.

Commands are imported when they are called: `forewarn --help` imports none of them.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Any, NoReturn

import click

from forewarn import __version__
from forewarn.errors import ForewarnError
from forewarn.serve.cli.terminal.safe_text import echo
from forewarn.sharing import private_files

# Purpose of each command; its function is `command` in forewarn.serve.cli.commands.<command>.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "ingest": "Read job records from files into the store.",
        "collect": "Collect jobs, nodes and partitions from a running Slurm, continuously.",
        "jobs": "List, filter and count the jobs in the store.",
        "simulate": "Simulate the job history of a cluster, with the true cause of every failure.",
        "features": "Write the features of each job at submit or start to a Parquet file.",
        "profiles": "Cluster jobs into a few profiles and describe them.",
        "compare": "Compare methods for imbalanced classes: few failures among many jobs.",
        "train": "Train, evaluate and register a model of job failure.",
        "evaluate": "Evaluate registered models on later jobs that were not used in training.",
        "check": "Check batch scripts before submission: will they fail, why, and what to change.",
        "predict": "Predict failure of pending and running jobs: probability, cause, node hours at risk.",
        "runtime": "Predict run time and resource use of pending and running jobs.",
        "advise": "Suggest changes to a pending job, with their effect on its risk.",
        "health": "List sick and suspect nodes, by their Slurm state and by the outcomes of their jobs.",
        "explain": "Explain why a job failed or is pending, with the evidence and what to do.",
        "retry": "Say whether a failed job is worth another attempt, with which options, and why.",
        "serve": "Serve predictions over HTTP (REST), and collect from Slurm in the same process.",
        "notices": "List, silence and try out notices by mail and webhook.",
        "tokens": "Create, list and revoke tokens with which programs use the service.",
        "audit": "Show the audit log: who did what, when, from where, with what result.",
        "models": "List, promote, export and roll back trained models.",
        "thresholds": "List, set and reset the probability of failure from which a job gets an alert.",
        "store": "Show, prune, back up, restore and upgrade the store; erase a user.",
        "bench": "Benchmark failure prediction on one log, beside simple rules.",
        "config": "Show the configuration and where each value comes from.",
        "doctor": "Check Slurm, the store, the models and the service, and say how to fix problems.",
    }
)
INTERRUPTED = 130  # as a shell reports SIGINT
BROKEN_PIPE = 141  # as a shell reports SIGPIPE: the reader (head, less) has closed the pipe


class Commands(click.Group):
    """The group of subcommands, each imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """List the commands in the order in which a new user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command and return it."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"forewarn.serve.cli.commands.{cmd_name}")
        # Once imported, Polars makes a blocking read of a pipe continue after Ctrl-C.
        signal.siginterrupt(signal.SIGINT, True)
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command and exit quietly if the reader of the output has closed the pipe."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # Without this, Python fails at exit to flush what is left in the buffer.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        return result


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("-v", "--verbose", "verbosity", count=True, help="Log progress; -vv: in detail.")
def cli(verbosity: int) -> None:
    """Predict failure of Slurm jobs before they waste resources, explain why, and suggest changes.

    Forewarn learns from a cluster's own job history. Typical steps:

    \b
      sacct -aPD -S 2024-01-01 -E now -o ALL > history.txt   export history (on the cluster)
      forewarn ingest sacct:history.txt                      read it into the store
      forewarn jobs -s failed -S now-7days                   list failed jobs
      forewarn train                                         train a model, with a report
      forewarn models list                                   list models and which one serves
      forewarn check job.sbatch                              check a script before submission
      forewarn explain 123456                                explain why a job failed or is pending

    Without a cluster, `forewarn simulate --ingest` simulates one.

    All state is kept in one folder: --home, else FOREWARN_HOME, else ~/.local/share/forewarn.
    """
    from forewarn.serve.cli.terminal.logs import show_logs

    show_logs(verbosity)


def main() -> NoReturn:
    """Run the command line and exit: 0, or a code of `docs/exit-codes.md`."""
    warnings.showwarning = _show_warning
    sys.excepthook = _show_bug
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without arrows is no reason to crash
    # Idle threads of the learners release their core: on a busy machine, such as a login node, a fit is ten
    # times faster.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        with private_files():
            code = cli.main(prog_name="forewarn", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        code = error.exit_code
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        hint = f"\nSee '{context.command_path} --help'." if context is not None else ""
        code = _report(error.format_message() + hint, error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        code = _report("interrupted", INTERRUPTED)
    except (ForewarnError, OSError) as error:
        if os.environ.get("FOREWARN_DEBUG"):
            raise
        code = _report(*_message_and_code(error))
    sys.exit(code if isinstance(code, int) else 0)


def _message_and_code(error: ForewarnError | OSError) -> tuple[str, int]:
    if isinstance(error, ForewarnError):
        return str(error), error.exit_code
    place = f"{error.filename}: " if error.filename else ""
    # `exit_status.py` has set the exit code of a check.
    return f"{place}{error.strerror or error}", getattr(error, "exit_code", ForewarnError.exit_code)


def _report(message: str, code: int) -> int:
    echo(f"forewarn: error: {message}", err=True)
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    echo(f"forewarn: warning: {message}", err=True)


def _show_bug(error_type: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback as Python does: its message may hold anybody's text."""
    echo("".join(traceback.format_exception(error_type, error, trace)), err=True, end="")
