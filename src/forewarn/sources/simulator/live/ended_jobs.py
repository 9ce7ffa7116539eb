"""Jobs of the simulated cluster that have ended, as small as they can be kept."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forewarn.sources.simulator.columns import Numbers
from forewarn.sources.simulator.kernel.layout import JOB, Records

# Half of the kernel's size: its times as seconds since the beginning, which fit for 68 years.
_SMALL = np.dtype([(name, "i4") for name in JOB.names or ()])
_TIMES = ("submit", "changed_at", "start", "end")


@dataclass(frozen=True, slots=True)
class KernelJobs:
    """Some jobs in the kernel's numbers, with the nodes that each holds and its place in the order."""

    jobs: Records
    placed: Numbers
    seqs: Numbers

    def __len__(self) -> int:
        return len(self.seqs)

    def where(self, mask: NDArray[np.bool_]) -> KernelJobs:
        """Select some of them."""
        return KernelJobs(self.jobs[mask], self.placed[mask], self.seqs[mask])


def joined(parts: list[KernelJobs], widest: int) -> KernelJobs:
    """Join parts, in the order of submission."""
    if not parts:
        return KernelJobs(np.zeros(0, JOB), np.zeros((0, widest), np.int64), np.zeros(0, np.int64))
    return KernelJobs(
        np.concatenate([part.jobs for part in parts]),
        np.concatenate([part.placed for part in parts]),
        np.concatenate([part.seqs for part in parts]),
    )


@dataclass(slots=True)
class _Chunk:
    jobs: Records
    placed: NDArray[np.int16]
    seqs: Numbers
    first_end: int
    last_end: int


class EndedJobs:
    """An archive in the order of submission, in chunks that are dropped as a whole when they are old."""

    def __init__(self, begin: int) -> None:
        self._begin = begin
        self._chunks: list[_Chunk] = []

    def add(self, part: KernelJobs) -> None:
        """Keep some more jobs, submitted after those before."""
        if not len(part):
            return
        small = np.empty(len(part), _SMALL)
        for name in _SMALL.names or ():
            values = part.jobs[name]
            small[name] = np.where(values >= 0, values - self._begin, -1) if name in _TIMES else values
        ends = part.jobs["end"]
        self._chunks.append(
            _Chunk(small, part.placed.astype(np.int16), part.seqs, int(ends.min()), int(ends.max()))
        )

    def ended_between(self, since: int, until: int) -> list[KernelJobs]:
        """Return those that ended from `since` to before `until`."""
        found = []
        for chunk in self._chunks:
            if chunk.last_end >= since and chunk.first_end < until:
                ends = chunk.jobs["end"] + np.int64(self._begin)
                found.append(self._restored(chunk, (ends >= since) & (ends < until)))
        return found

    def matching(self, **values: int) -> list[KernelJobs]:
        """Return those whose fields have these values."""
        found = []
        for chunk in self._chunks:
            mask = np.logical_and.reduce([chunk.jobs[name] == value for name, value in values.items()])
            if mask.any():
                found.append(self._restored(chunk, mask))
        return found

    def first_seq(self, otherwise: int) -> int:
        """Return the oldest job that is kept."""
        return int(self._chunks[0].seqs[0]) if self._chunks else otherwise

    def drop_before(self, moment: int) -> None:
        """Drop chunks whose jobs all ended before a moment, as slurmdbd purges old jobs."""
        self._chunks = [chunk for chunk in self._chunks if chunk.last_end >= moment]

    def _restored(self, chunk: _Chunk, mask: NDArray[np.bool_]) -> KernelJobs:
        jobs = chunk.jobs[mask].astype(JOB)
        for name in _TIMES:
            jobs[name] = np.where(jobs[name] >= 0, jobs[name] + self._begin, -1)
        return KernelJobs(jobs, chunk.placed[mask].astype(np.int64), chunk.seqs[mask])
