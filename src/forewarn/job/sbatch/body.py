"""The content of a script: language, launchers, modules, environments, and the files that it uses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from posixpath import basename, dirname
from types import MappingProxyType

from forewarn.job.sbatch.calls import Call, call_of
from forewarn.job.sbatch.files import FileUse, files_of
from forewarn.job.sbatch.shell import Command, commands
from forewarn.job.sbatch.sized_memory import SizedMemory, sized_by_variables, sized_memory

SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh", "csh", "tcsh"})
_SHEBANG = re.compile(r"#!\s*(?:\S*/)?env\s+(?:-S\s+)?(\S+)|#!\s*(\S+)")
_PYTHON = re.compile(r"(?:i?python|pypy)(?:\d[\d.]*)?")
LANGUAGES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("jupyter", "torchrun", "accelerate", "deepspeed", "snakemake", "pytest"), "python"),
        **{"R": "r", "Rscript": "r", "matlab": "matlab", "octave": "matlab", "julia": "julia"},
        **{"java": "java", "perl": "perl", "ruby": "ruby", "node": "javascript", "nextflow": "groovy"},
    }
)
_LOADS = frozenset({"load", "add", "try-load", "switch", "swap"})
_OTHER_VERBS_WORDS = """
    purge avail av list unload del rm spider show help use unuse save restore reset keyword whatis
    is-loaded is-avail refresh update overview describe disable -t
"""
_OTHER_VERBS = frozenset(_OTHER_VERBS_WORDS.split())


@dataclass(frozen=True, slots=True)
class Module:
    """A module that the script loads."""

    name: str
    line: int


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python or conda environment that the script activates."""

    tool: str  # conda, venv, uv
    name: str  # as written: a name, or a folder
    line: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """The script without its options."""

    interpreter: str | None  # of the first line; None where there is none
    language: str
    launchers: tuple[str, ...]  # in order
    modules: tuple[Module, ...]
    module_folders: tuple[str, ...]  # of `module use`
    environments: tuple[Environment, ...]
    commands: tuple[Command, ...]
    calls: tuple[Call, ...]
    files: tuple[FileUse, ...]
    memory: SizedMemory | None  # the largest that it sets for a program
    submits: tuple[str, ...]  # scripts that it submits itself

    @property
    def is_shell(self) -> bool:
        """Whether a shell runs it, so that its commands can be read."""
        return self.interpreter is None or basename(self.interpreter) in SHELLS


def read_body(script: str) -> Body:
    r"""Read the body of a script.

    >>> body = read_body("#!/bin/bash\nmodule load gcc/12\nsource venv/bin/activate\nsrun python3 a.py\n")
    >>> body.language, body.launchers, body.modules[0].name, body.environments[0].name
    ('python', ('srun',), 'gcc/12', 'venv')
    """
    interpreter = _interpreter(script)
    is_shell = interpreter is None or basename(interpreter) in SHELLS
    found = tuple(commands(script)) if is_shell else ()
    calls = tuple(call for command in found if (call := call_of(command)) is not None)
    variables = [(command.line, name, value) for command in found for name, value in command.variables]
    amounts = [*sized_by_variables(variables)]
    if (largest := sized_memory(calls)) is not None:
        amounts.append(largest)
    return Body(
        interpreter=interpreter,
        language=_language(interpreter, calls),
        launchers=tuple(dict.fromkeys(name for call in calls for name in call.launchers)),
        modules=tuple(_modules(calls)),
        module_folders=tuple(_module_folders(calls)),
        environments=tuple(_environments(calls)),
        commands=found,
        calls=calls,
        files=tuple(files_of(found, calls)),
        memory=max(amounts, key=lambda amount: (amount.bytes, -amount.line), default=None),
        submits=tuple(_submitted(calls)),
    )


def _interpreter(script: str) -> str | None:
    match = _SHEBANG.match(script.partition("\n")[0])
    return (match[1] or match[2]).rstrip("\r") if match else None


def language_of(program: str) -> str | None:
    """Return the language that a program runs, None for one that is compiled or unknown."""
    name = basename(program)
    return "python" if _PYTHON.fullmatch(name) else LANGUAGES.get(name)


def _language(interpreter: str | None, calls: tuple[Call, ...]) -> str:
    name = basename(interpreter) if interpreter else "sh"
    if name not in SHELLS:
        return language_of(name) or name or "sh"
    # The first program that a shell script starts says more than the shell.
    return next((language for call in calls if (language := language_of(call.program))), name)


def _modules(calls: tuple[Call, ...]) -> Iterator[Module]:
    for call in calls:
        words = [word for word in call.arguments if not word.startswith("-") and word != "~"]
        if call.program == "module" and words and words[0] in _LOADS:
            words = words[2:] if words[0] in ("switch", "swap") and len(words) > 2 else words[1:]
        elif call.program != "ml" or not words:
            continue
        elif words[0] in _LOADS:
            words = words[1:]
        elif words[0] in _OTHER_VERBS:
            continue
        yield from (Module(name, call.line) for name in words)


def _module_folders(calls: tuple[Call, ...]) -> Iterator[str]:
    for call in calls:
        words = [word for word in call.arguments if not word.startswith("-")]
        if call.program in ("module", "ml") and words[:1] == ["use"]:
            yield from words[1:]


def _environments(calls: tuple[Call, ...]) -> Iterator[Environment]:
    for call in calls:
        words = call.command.words
        name, rest = basename(words[0]) if words else "", [w for w in words[1:] if not w.startswith("-")]
        if name in ("conda", "mamba", "micromamba") and rest[:1] == ["activate"]:
            yield Environment("conda", "".join(rest[1:2]) or "base", call.line)
        elif name in ("conda", "mamba", "micromamba", "pixi") and rest[:1] == ["run"]:
            names = [v for o, v in pairwise(words) if o in ("-n", "--name", "-p", "--prefix")]
            yield Environment("conda", names[0] if names else "base", call.line)
        elif name == "uv" and rest[:1] == ["run"]:
            yield Environment("uv", ".venv", call.line)
        elif name in ("source", ".") and rest and basename(rest[0]) in ("activate", "activate.sh"):
            folder = dirname(dirname(rest[0]))
            # conda's own `activate NAME` is not an environment by itself.
            yield (
                Environment("conda", rest[1], call.line)
                if rest[1:]
                else Environment("venv", folder, call.line)
            )


def _submitted(calls: tuple[Call, ...]) -> Iterator[str]:
    for call in calls:
        if call.name == "sbatch":
            yield from [word for word in call.arguments if not word.startswith("-")][-1:]
