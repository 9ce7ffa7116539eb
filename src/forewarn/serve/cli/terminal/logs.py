"""What the modules log, shown on stderr: warnings always, with -v more."""

from __future__ import annotations

import logging

from forewarn.serve.cli.terminal.safe_text import echo

_LEVELS = (logging.WARNING, logging.INFO, logging.DEBUG)


class TerminalHandler(logging.Handler):
    """Shows records through the one gate for all output: their text may be anybody's."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        try:
            line = f"forewarn: {record.levelname.lower()}: {record.name}: {record.getMessage()}"
            echo(line, err=True)
        except Exception:
            self.handleError(record)


def show_logs(verbosity: int) -> None:
    """Show what is logged from a level on: 0 warnings, 1 information, 2 everything."""
    logger = logging.getLogger("forewarn")
    logger.setLevel(_LEVELS[min(verbosity, len(_LEVELS) - 1)])
    logger.propagate = False
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    logger.addHandler(TerminalHandler())
