"""The files and folders that a script reads and writes, as far as its text shows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from posixpath import join
from types import MappingProxyType

from forewarn.job.sbatch.calls import Call
from forewarn.job.sbatch.shell import Command


class Use(StrEnum):
    """The ways in which a script uses a file."""

    READ = "read"
    WRITE = "write"
    RUN = "run"  # started as a program
    SOURCE = "source"  # a script that an interpreter or the shell reads
    ENTER = "enter"  # a folder it changes to
    MAKE = "make"  # a folder it creates


@dataclass(frozen=True, slots=True)
class FileUse:
    """A file or folder that a command uses."""

    use: Use
    path: str  # as written, after the folder that the script has changed to
    line: int
    sure: bool  # the command always runs
    program: str = ""


# Interpreters, with those of their options that take a value, before the script.
_READS_SCRIPT: Mapping[str, str] = MappingProxyType(
    {
        **{
            "python": "-W -X",
            "python2": "-W -X",
            "python3": "-W -X",
            "Rscript": "-e",
            "julia": "-t -p -L -J",
        },
        **{"perl": "-I -M -e", "ruby": "-I -r -e", "bash": "-c -o -O", "sh": "-c -o", "node": "-r -e"},
    }
)
_NO_SCRIPT = {"-c", "-m", "-e", "-E", "-", "--version", "-V", "-h", "--help"}
_ENDINGS = (".py", ".R", ".r", ".jl", ".pl", ".rb", ".sh", ".js", ".m")
# Options that name an input in many programs.
_INPUT_OPTIONS_WORDS = """
    -i -in --in --input --input-file --input_file --infile --config --config-file --config_file
    --configfile --conf --params-file --param-file --data --data-dir --dataset --reference --ref --genome
    -params-file --checkpoint-in --restart-from --inp
"""
_INPUT_OPTIONS = frozenset(_INPUT_OPTIONS_WORDS.split())
_READERS = frozenset({"cat", "head", "tail", "wc", "sort", "gunzip", "zcat", "md5sum", "sha256sum", "less"})
_COPIES = frozenset({"cp", "mv", "rsync", "ln", "scp"})


def files_of(commands: Sequence[Command], calls: Sequence[Call]) -> Iterator[FileUse]:
    """Yield the files and folders used, in the script's order."""
    by_command = {id(call.command): call for call in calls}
    folder = ""
    for command in commands:
        call = by_command.get(id(command))
        sure = command.depth == 0 and not command.tested
        for use, path in _used(command, call):
            if path and path != "-":
                yield FileUse(use, _placed(folder, path), command.line, sure, call.program if call else "")
        if call is not None and call.program in ("cd", "pushd") and command.words[0] == call.program:
            target = next((word for word in call.arguments if word != "--"), "~")
            # After a `cd` in a loop or an if the folder is unknown.
            folder = _placed(folder, target) if command.depth == 0 and len(folder) < 4096 else "$UNKNOWN"


def _placed(folder: str, path: str) -> str:
    return path if path.startswith(("/", "~", "$")) or not folder else join(folder, path)


def _used(command: Command, call: Call | None) -> Iterator[tuple[Use, str]]:
    for redirect in command.redirects:
        yield (Use.WRITE if redirect.writes else Use.READ), redirect.target
    if call is None or call.image is not None:
        if call is not None and call.image and call.image.endswith((".sif", ".simg", ".img", ".sqsh")):
            yield Use.READ, call.image
        return  # a container has its own files
    name, words = call.name, call.arguments
    if call.program in ("source", "."):
        yield from ((Use.SOURCE, word) for word in words[:1])
        return
    if call.program in ("cd", "pushd"):
        yield from ((Use.ENTER, word) for word in words[:1] if word not in ("-", "--"))
        return
    if name == "mkdir":
        yield from ((Use.MAKE, word) for word in words if not word.startswith("-"))
        return
    if "/" in call.program:
        yield Use.RUN, call.program
    if (script := script_of(call)) is not None:
        yield Use.SOURCE, script
    yield from _named(name, words)


def script_of(call: Call) -> str | None:
    """Find the script that an interpreter runs."""
    name = call.name.rstrip("0123456789.") if call.name.startswith("python") else call.name
    if name == "java":
        words = call.arguments
        return words[words.index("-jar") + 1] if "-jar" in words[:-1] else None
    if name in ("torchrun", "accelerate", "deepspeed"):
        return next((word for word in call.arguments if word.endswith(".py")), None)
    if name not in _READS_SCRIPT:
        return None
    at = 0
    while at < len(call.arguments) and call.arguments[at].startswith("-"):
        if call.arguments[at] in _NO_SCRIPT:
            return None
        at += 2 if call.arguments[at] in _READS_SCRIPT[name].split() else 1
    return call.arguments[at] if at < len(call.arguments) else None


def _named(name: str, words: tuple[str, ...]) -> Iterator[tuple[Use, str]]:
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if option in _INPUT_OPTIONS:
            path = value if equals else "".join(words[at + 1 : at + 2])
            if _looks_like_file(path):
                yield Use.READ, path
    plain = [word for word in words if not word.startswith("-")]
    if name in _READERS:
        yield from ((Use.READ, word) for word in plain if _looks_like_file(word))
    elif name in _COPIES and len(plain) > 1:
        if not {"-t", "-s"} & set(words):
            yield from ((Use.READ, word) for word in plain[:-1] if ":" not in word)
        if ":" not in plain[-1]:  # host:path is on another host
            yield Use.WRITE, plain[-1]
    elif name == "tee" or name == "touch":
        yield from ((Use.WRITE, word) for word in plain)
    elif name in ("tar", "unzip"):
        yield from _archive(name, words, plain)


def _archive(name: str, words: tuple[str, ...], plain: list[str]) -> Iterator[tuple[Use, str]]:
    if name == "unzip":
        yield from ((Use.READ, word) for word in plain[:1])
        return
    flags = words[0].lstrip("-") if words and not words[0].startswith("--") else ""
    if "f" in flags and len(words) > 1 and flags.endswith("f"):
        yield (Use.WRITE if "c" in flags else Use.READ), words[1]


def _looks_like_file(text: str) -> bool:
    """Check for a name with a folder or an ending: `--data imagenet` may be anything."""
    return "/" in text or ("." in text.strip(".") and not text.replace(".", "").isdecimal())
