"""Simulated jobs in the formats that sources read, each written as it comes, in constant memory."""

from forewarn.sources.simulator.writers.base import FileWriter
from forewarn.sources.simulator.writers.parquet import ParquetWriter
from forewarn.sources.simulator.writers.sacct import SacctWriter
from forewarn.sources.simulator.writers.slurmrestd import SlurmrestdWriter
from forewarn.sources.simulator.writers.swf import SwfWriter

WRITERS: dict[str, type[FileWriter]] = {
    writer.name: writer for writer in (ParquetWriter, SacctWriter, SlurmrestdWriter, SwfWriter)
}

__all__ = ["WRITERS", "FileWriter", "ParquetWriter", "SacctWriter", "SlurmrestdWriter", "SwfWriter"]
