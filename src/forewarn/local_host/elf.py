"""Programs in the ELF format: for what processor, and which libraries they need. Nothing is run.

`ldd` would tell the same, but it starts the program's own loader: not for a file that somebody else wrote.
Layout: the System V ABI's object file format, and glibc's `ldconfig` for the cache.
Why no library: `docs/decisions/0004-libraries-scripts.md`.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass

_MACHINES = {3: "i386", 20: "ppc", 21: "ppc64le", 22: "s390x", 40: "arm", 62: "x86_64", 183: "aarch64"}
_MACHINES |= {243: "riscv64", 258: "loongarch64", 8: "mips"}
_LOAD, _DYNAMIC, _INTERPRETER = 1, 2, 3
_NEEDED, _STRINGS, _RPATH, _RUNPATH = 1, 5, 15, 29
_CACHE = b"glibc-ld.so.cache1.1"
_MOST = 4096  # headers, entries


@dataclass(frozen=True, slots=True)
class Program:
    """What its header says."""

    machine: str
    interpreter: str | None  # its loader: /lib64/ld-linux-x86-64.so.2; None: linked statically
    needed: tuple[str, ...]
    folders: tuple[str, ...]  # where it looks first: RPATH or RUNPATH


def is_elf(head: bytes | None) -> bool:
    """Tell whether a file begins as a program does."""
    return head is not None and head.startswith(b"\x7fELF")


def read_program(data: bytes) -> Program | None:
    """Read a program, from its first bytes on; None where it is none, or the bytes do not hold it all."""
    try:
        return _read(data) if is_elf(data) else None
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _read(data: bytes) -> Program:
    wide, order = data[4] == 2, "<" if data[5] == 1 else ">"
    (machine,) = struct.unpack_from(f"{order}H", data, 18)
    name = _MACHINES.get(machine, f"machine {machine}")
    if name == "ppc64le" and order == ">":
        name = "ppc64"
    first, size, count = _headers_at(data, wide, order)
    headers = [_header(data, first + place * size, wide, order) for place in range(min(count, _MOST))]
    loader = next((_text(data, at) for header_type, at, _, _ in headers if header_type == _INTERPRETER), None)
    # A program has one dynamic segment; a file that names thousands of them must not cost their product.
    dynamic = next(((at, length) for header_type, at, _, length in headers if header_type == _DYNAMIC), None)
    needed, folders = list[str](), list[str]()
    entries = _entries(data, *dynamic, wide, order) if dynamic else []
    strings = next((_offset(value, headers) for tag, value in entries if tag == _STRINGS), None)
    if strings is not None:
        needed += [_text(data, strings + value) for tag, value in entries if tag == _NEEDED]
        for tag, value in entries:
            if tag in (_RPATH, _RUNPATH):
                folders += _text(data, strings + value).split(":")
    return Program(name, loader, tuple(needed), tuple(folders))


def _headers_at(data: bytes, wide: bool, order: str) -> tuple[int, int, int]:
    if wide:
        (first,) = struct.unpack_from(f"{order}Q", data, 32)
        size, count = struct.unpack_from(f"{order}HH", data, 54)
    else:
        (first,) = struct.unpack_from(f"{order}I", data, 28)
        size, count = struct.unpack_from(f"{order}HH", data, 42)
    return first, size, count


def _header(data: bytes, at: int, wide: bool, order: str) -> tuple[int, int, int, int]:
    """Read a header: its kind, place in the file, address in memory, length in the file."""
    if wide:
        header_type, _, offset, address, _, length = struct.unpack_from(f"{order}IIQQQQ", data, at)
    else:
        header_type, offset, address, _, length = struct.unpack_from(f"{order}IIIII", data, at)
    return header_type, offset, address, length


def _entries(data: bytes, at: int, length: int, wide: bool, order: str) -> list[tuple[int, int]]:
    form, size = (f"{order}qQ", 16) if wide else (f"{order}iI", 8)
    found = list[tuple[int, int]]()
    for place in range(at, at + min(length, _MOST * size), size):
        tag, value = struct.unpack_from(form, data, place)
        if tag == 0:
            break
        found.append((tag, value))
    return found


def _offset(address: int, headers: list[tuple[int, int, int, int]]) -> int | None:
    for header_type, offset, begin, length in headers:
        if header_type == _LOAD and begin <= address < begin + length:
            return offset + address - begin
    return None


def _text(data: bytes, at: int) -> str:
    end = data.index(b"\0", at) if 0 <= at < len(data) and b"\0" in data[at : at + 4096] else -1
    if end < 0:
        raise IndexError(at)
    return data[at:end].decode()


def loader_cache(data: bytes) -> Collection[str] | None:
    """Read the names of libraries in /etc/ld.so.cache; None where it is of an unknown kind."""
    begin = data.find(_CACHE)
    if begin < 0:
        return None
    try:
        (count,) = struct.unpack_from("=I", data, begin + len(_CACHE))
        keys = [struct.unpack_from("=iI", data, begin + 48 + 24 * n)[1] for n in range(count)]
        return {_text(data, begin + key) for key in keys}
    except (struct.error, IndexError, UnicodeDecodeError):
        return None
