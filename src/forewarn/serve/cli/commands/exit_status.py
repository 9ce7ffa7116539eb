"""Commands whose exit code is a verdict, as in monitoring systems: 0 fine, 1 warning, 2 critical.

Without a verdict it is 3, unknown: a wrong flag, a missing store, a bug. With the exit codes of the other
commands a monitoring system would take a usage error (2) for critical.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from forewarn.errors import ForewarnError
from forewarn.serve.cli.terminal.safe_text import echo

UNKNOWN = 3


class StatusCommand(click.Command):
    """A command that ends with ``ctx.exit(code)``: ``@click.command("health", cls=StatusCommand)``."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line."""
        with _or_unknown():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _or_unknown():
            return super().invoke(ctx)


@contextmanager
def _or_unknown() -> Iterator[None]:
    try:
        yield
    except (click.exceptions.Exit, click.Abort, BrokenPipeError):  # a verdict, Ctrl-C, a closed pipe
        raise
    except (ForewarnError, click.ClickException, OSError) as error:
        setattr(error, "exit_code", UNKNOWN)  # noqa: B010 - an OSError has none of its own
        raise
    except Exception as error:
        echo(traceback.format_exc(), err=True, end="")  # Python's own exit code would be 1, a warning
        bug = ForewarnError(f"a bug in Forewarn, please report it: {type(error).__name__}: {error}")
        setattr(bug, "exit_code", UNKNOWN)  # noqa: B010
        raise bug from error
