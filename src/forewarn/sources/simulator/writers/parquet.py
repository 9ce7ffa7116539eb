"""Our own columns in Parquet: nothing is lost, and observations of pending jobs are kept."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import ClassVar

import polars as pl

from forewarn.files import writing
from forewarn.sources.parquet import ZONE
from forewarn.sources.simulator.writers.base import FileWriter


class ParquetWriter(FileWriter):
    """A writer that saves frames as parts in a folder beside the file and streams them into one."""

    name: ClassVar[str] = "parquet"

    def open(self) -> None:
        """Create the folder of parts."""
        self._parts = Path(tempfile.mkdtemp(prefix=f"{self.path.name}.", dir=self.path.parent))
        self._count = 0

    def write(self, frame: pl.DataFrame) -> None:
        """Add one part."""
        with writing(self.path):
            frame.write_parquet(self._parts / f"{self._count:08}.parquet", compression="lz4")
        self._count += 1

    def close(self) -> None:
        """Stream the parts into the partial file."""
        try:
            parts = [self._parts / f"{i:08}.parquet" for i in range(self._count)]
            pl.scan_parquet(parts, glob=False).sink_parquet(
                self.partial, compression="zstd", metadata={ZONE: self.scenario.cluster.timezone}
            )
        finally:
            self.drop()

    def drop(self) -> None:
        """Remove the parts."""
        shutil.rmtree(self._parts, ignore_errors=True)
