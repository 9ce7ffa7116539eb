"""Show the log of the modules on stderr: warnings always, more with -v."""

from __future__ import annotations

import logging

from forewarn.serve.cli.terminal.safe_text import echo

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class TerminalHandler(logging.Handler):
    """A handler that prints through the one gate for all output: a message may contain anybody's text."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a record as one line."""
        try:
            line = f"forewarn: {record.levelname.lower()}: {record.name}: {record.getMessage()}"
            echo(line, err=True)
        except Exception:
            self.handleError(record)


def show_logs(verbosity: int) -> None:
    """Show log records: 0 from warnings, 1 from information, 2 everything."""
    logger = logging.getLogger("forewarn")
    logger.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.addHandler(TerminalHandler())
