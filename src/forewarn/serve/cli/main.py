"""The `forewarn` command: finds the subcommand, and turns errors into one line and an exit code.

Commands are imported when they are called: `forewarn --help` needs none of them.
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

# Command to what it is for; its module is forewarn.serve.cli.commands.<command>, the function in it `command`.
COMMANDS: Mapping[str, str] = MappingProxyType(
    {
        "ingest": "Read job records from files into the store.",
        "collect": "Collect what Slurm knows, and go on collecting what is new.",
        "jobs": "List, filter and count the jobs in the store.",
        "simulate": "Make up a cluster's history in which every failure has a known cause.",
        "features": "Write what was knowable of each job at submit or start, as a Parquet table.",
        "profiles": "Find the few kinds of jobs that a cluster has, and describe them.",
        "compare": "Compare the ways to deal with few failures among many jobs.",
        "train": "Make a model from history: searched, calibrated, judged, registered.",
        "evaluate": "Judge registered models on jobs that none of them has learnt from.",
        "check": "Check batch scripts before they are submitted: will they fail, why, and what to change.",
        "predict": (
            "Predict failure of pending and running jobs: how likely, of what, and the node hours at risk."
        ),
        "runtime": (
            "Say how long jobs that wait or run will take and what they will use, beside what they asked for."
        ),
        "advise": "Say what to change of a job that waits, with what that does.",
        "health": "Say which nodes are sick or suspect, by Slurm's words and by how jobs fared there.",
        "explain": "Say why a job failed, or why it waits, with the evidence and what to do.",
        "models": "List, promote, carry and roll back trained models.",
        "bench": "Measure on one log how well failure can be predicted, beside simple rules.",
        "config": "Show what is configured, and where each value came from.",
        "doctor": "Look for what is wrong between Forewarn and Slurm, and say what to do.",
    }
)
INTERRUPTED = 130  # as a shell reports SIGINT
BROKEN_PIPE = 141  # as a shell reports SIGPIPE: the reader (head, less) had enough


class Commands(click.Group):
    """The subcommands, each imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """In the order in which a newcomer meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, imported now."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"forewarn.serve.cli.commands.{cmd_name}")
        # Polars, once imported, lets a read that waits for a pipe go on after Ctrl-C.
        signal.siginterrupt(signal.SIGINT, True)
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """Write the list without importing what is in it."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run it, and stop quietly where the reader of the output has gone."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except BrokenPipeError:
            # What is still in the buffer has nowhere to go: without this, Python complains at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            ctx.exit(BROKEN_PIPE)
        return result


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.option("-v", "--verbose", "verbosity", count=True, help="Show what is done; -vv: in detail.")
def cli(verbosity: int) -> None:
    """Tells, before an HPC job wastes its nodes, whether it will fail, why, and what to change.

    Forewarn learns from a cluster's own history. The road so far:

    \b
      sacct -aPD -S 2024-01-01 -E now -o ALL > history.txt   export (on the cluster)
      forewarn ingest sacct:history.txt                      read it into the store
      forewarn jobs -s failed -S now-7days                   look at it
      forewarn train                                         learn from it, with a report
      forewarn models list                                   what there is, and which one serves
      forewarn check job.sbatch                              will it fail, why, and what to change
      forewarn explain 123456                                why it failed, or waits

    No cluster at hand? `forewarn simulate --ingest` makes one up.

    All state lies in one folder: --home, or FOREWARN_HOME, or ~/.local/share/forewarn.
    """
    from forewarn.serve.cli.terminal.logs import show_logs

    show_logs(verbosity)


def main() -> NoReturn:
    """Run the command line and exit: 0, or a code of `docs/exit-codes.md`."""
    warnings.showwarning = _show_warning
    sys.excepthook = _show_bug
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that knows no arrows is no reason to crash
    # Threads of the learners that wait for each other give their core away meanwhile: on a machine that has
    # other work too, as a login node has, a fit is ten times as quick.
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
        code = _report(*_explained(error))
    sys.exit(code if isinstance(code, int) else 0)


def _explained(error: ForewarnError | OSError) -> tuple[str, int]:
    if isinstance(error, ForewarnError):
        return str(error), error.exit_code
    place = f"{error.filename}: " if error.filename else ""
    # A check (`checks.py`) has set one of its own.
    return f"{place}{error.strerror or error}", getattr(error, "exit_code", ForewarnError.exit_code)


def _report(message: str, code: int) -> int:
    echo(f"forewarn: error: {message}", err=True)
    return code


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    echo(f"forewarn: warning: {message}", err=True)


def _show_bug(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Print a traceback as Python does: its message may hold anybody's text."""
    echo("".join(traceback.format_exception(kind, error, trace)), err=True, end="")
