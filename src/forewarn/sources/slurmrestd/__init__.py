"""The source of answers of slurmrestd saved to a file, API v0.0.36 to v0.0.45 and similar later ones.

Jobs of the controller (`/slurm/vX/jobs`, `/slurm/vX/job/N`, `squeue --json`, `scontrol show job --json`) and
of the database (`/slurmdb/vX/jobs`, `sacct --json`), nodes and partitions are recognised by their content. An
answer of the controller that has its time (since v0.0.39) was observed then; others are reconstructed like
every file.
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
        """Yield its jobs, nodes or partitions."""
        with open_file(self.path) as stream:
            yield from self.read(stream)

    def read(self, stream: IO[bytes], seen_at: int | None = None) -> Iterator[Batch]:
        """Read an answer from a stream; `seen_at`, when it was received, is used where it has no time."""
        return answer_batches(self, stream, seen_at)
