"""Answers of slurmrestd saved to file, API v0.0.36 to v0.0.45 and, as far as they resemble it, later ones.

Jobs of the controller (`/slurm/vX/jobs`, `/slurm/vX/job/N`, `squeue --json`, `scontrol show job --json`) and
of the database (`/slurmdb/vX/jobs`, `sacct --json`), nodes and partitions: told apart by what is in
them. An answer of the controller that says when it was given (since v0.0.39) was seen then; others
are reconstructed like every file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, ClassVar

from forewarn.sources.base import Batch, Source, open_file
from forewarn.sources.slurmrestd.answers import answer_batches

__all__ = ["SlurmrestdSource", "answer_batches"]


class SlurmrestdSource(Source):
    """One saved answer."""

    name: ClassVar[str] = "slurmrestd"

    def batches(self) -> Iterator[Batch]:
        """Its jobs, nodes or partitions."""
        with open_file(self.path) as stream:
            yield from self.read(stream)

    def read(self, stream: IO[bytes], seen_at: int | None = None) -> Iterator[Batch]:
        """The same of an answer that is at hand; `seen_at` is when it was given, where it does not say so."""
        return answer_batches(self, stream, seen_at)
