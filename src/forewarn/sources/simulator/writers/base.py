"""The contract of a writer: frames of observations in, one file out, complete or not at all.

What is written lies beside the file that was asked for, and takes its name when it is whole (see
`forewarn.files`). A name that ends in `.gz` is gzipped.
"""

from __future__ import annotations

import gzip
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, ClassVar, Self, cast

import polars as pl

from forewarn.files import PartialFile, writing
from forewarn.sources.simulator.scenario import Scenario

_GZIP_LEVEL = 4  # half the time of the usual 6 for a few per cent more bytes


class FileWriter(ABC):
    """One file being written, as a context: an error inside leaves no file."""

    name: ClassVar[str]

    def __init__(self, path: Path, scenario: Scenario) -> None:
        self.path = path
        self.scenario = scenario

    @abstractmethod
    def open(self) -> None:
        """Begin the partial file."""

    @abstractmethod
    def write(self, frame: pl.DataFrame) -> None:
        """Add observations."""

    @abstractmethod
    def close(self) -> None:
        """Complete the partial file."""

    @abstractmethod
    def drop(self) -> None:
        """Release what is open, whether or not the write succeeded."""

    def __enter__(self) -> Self:
        with writing(self.path):
            self._partial_file = PartialFile(self.path)
            self.partial = self._partial_file.path
            try:
                self.open()
            except BaseException:
                self._partial_file.drop()
                raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                with writing(self.path):
                    self.close()
                    self._partial_file.put_in_place()
        finally:
            self.drop()
            self._partial_file.drop()


class TextWriter(FileWriter):
    """A file of text: a head, what each frame becomes, a foot."""

    _plain: IO[bytes]
    _stream: IO[bytes]  # the same, or what gzips into it

    @abstractmethod
    def body(self, frame: pl.DataFrame) -> pl.Series:
        """Return the text of each ended job, without the line end."""

    def head(self) -> str:
        """Return the text before the first job."""
        return ""

    def foot(self) -> str:
        """Return the text after the last job."""
        return ""

    separator: ClassVar[str] = "\n"  # between jobs

    def open(self) -> None:
        """Create the file; the head goes before the first job."""
        plain = self.partial.open("wb")
        zipped = self.path.suffix == ".gz"
        self._stream = cast(IO[bytes], gzip.GzipFile("", "wb", _GZIP_LEVEL, plain)) if zipped else plain
        self._plain = plain
        self._before = self.head()

    def write(self, frame: pl.DataFrame) -> None:
        """Add the ended jobs of a frame: these formats have no others."""
        ended = frame.filter(pl.col("outcome").is_not_null())
        if ended.is_empty():
            return
        text = self.body(ended).str.join(self.separator).item()
        with writing(self.path):
            self._stream.write((self._before + text).encode())
        self._before = self.separator

    def close(self) -> None:
        """Write the foot and close."""
        no_job = self._before != self.separator
        with self._plain, self._stream:
            self._stream.write(f"{self._before if no_job else ''}\n{self.foot()}".encode())

    def drop(self) -> None:
        """Close what is open."""
        for stream in (self._stream, self._plain):
            with suppress(OSError):  # a full disk is reported once
                stream.close()
