"""The machine that the check runs on: a login node, mostly, which sees the file systems that jobs see."""

from __future__ import annotations

import os
import platform
import shutil
import stat
from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from forewarn.files import head_of
from forewarn.local_host.elf import loader_cache
from forewarn.local_host.python_packages import missing_packages
from forewarn.local_host.sbatch import slurm_version

_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
_RENAMES = (".modulerc", ".modulerc.lua", ".version")
CONDA_ROOTS = (
    "miniconda3",
    "anaconda3",
    "miniforge3",
    "mambaforge",
    "micromamba",
    ".conda",
    ".local/share/mamba",
)


class LocalHost:
    """The real one."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = dict(os.environ if environment is None else environment)

    @property
    def environment(self) -> Mapping[str, str]:
        """As the check was called."""
        return self._environment

    @property
    def architecture(self) -> str | None:
        """Of this machine."""
        return platform.machine() or None

    @cached_property
    def slurm(self) -> tuple[int, int] | None:
        """As its sbatch says."""
        return slurm_version(self._environment)

    def same_disk(self, path: str, other: str) -> bool | None:
        """By the number of the device."""
        devices = [_device(Path(place)) for place in (path, other)]
        return None if None in devices else devices[0] == devices[1]

    def kind(self, path: str) -> str | None:
        """By a look at it; a folder that may not be entered hides what is in it."""
        try:
            mode = Path(path).stat().st_mode
        except (FileNotFoundError, NotADirectoryError):
            return "nothing"
        except (OSError, ValueError):
            return None
        return "folder" if stat.S_ISDIR(mode) else "file"

    def may(self, path: str, how: str) -> bool | None:
        """By access(2), which knows file systems that are read-only, too."""
        try:
            return os.access(path, {"r": os.R_OK, "w": os.W_OK, "x": os.X_OK}[how])
        except (OSError, ValueError):
            return None

    def head(self, path: str, length: int) -> bytes | None:
        """Of plain files only: a pipe would wait."""
        return head_of(Path(path), length)

    def which(self, program: str) -> str | None:
        """On PATH."""
        return shutil.which(program, path=self._environment.get("PATH", os.defpath))

    def has_module(self, name: str, folders: Sequence[str]) -> bool | None:
        """By its file below MODULEPATH; None where there are no modules, or a file gives them other names."""
        places = self._module_places(folders)
        if not places:
            return None
        for place in places:
            if (place / name).exists() or place.joinpath(f"{name}.lua").exists():
                return True
        family = name.partition("/")[0]
        named = (folder / other for p in places for folder in (p, p / family) for other in _RENAMES)
        return None if any(file.exists() for file in named) else False

    def modules_beside(self, name: str, folders: Sequence[str]) -> Collection[str]:
        """The versions of the same program where there is one, else all programs."""
        places = self._module_places(folders)
        family = name.partition("/")[0]
        versions = {f"{family}/{version}" for place in places for version in _names(place / family)}
        return versions or {program for place in places for program in _names(place)}

    def _module_places(self, folders: Sequence[str]) -> list[Path]:
        told = [place for place in self._environment.get("MODULEPATH", "").split(":") if place]
        return [Path(place) for place in (*told, *folders)] if told else []

    def environments(self, name: str) -> str | None:
        """In the places where conda and its kin keep them."""
        home, said = self._environment.get("HOME", ""), self._environment
        roots = [f"{home}/{root}" for root in CONDA_ROOTS]
        roots += [said[v] for v in ("MAMBA_ROOT_PREFIX", "CONDA_PREFIX", "CONDA_ROOT") if said.get(v)]
        if said.get("CONDA_EXE"):
            roots.insert(0, str(Path(said["CONDA_EXE"]).parent.parent))
        if name == "base":
            return next((root for root in roots if (Path(root) / "conda-meta").is_dir()), None)
        places = [p for v in ("CONDA_ENVS_PATH", "CONDA_ENVS_DIRS") for p in said.get(v, "").split(":") if p]
        places += [f"{root}/envs" for root in roots]
        there = next((f"{p}/{name}" for p in places if (Path(p) / name / "bin").is_dir()), None)
        own = next((root for root in roots if (Path(root) / "conda-meta").is_dir()), None)
        return there or (f"{own}/envs/{name}" if own else None)

    def missing_packages(self, python: str, names: Sequence[str]) -> Collection[str] | None:
        """By reading its folders: it is not started, and nothing that lies there is run."""
        return missing_packages(python, names, self._environment)

    def has_library(self, name: str, folders: Sequence[str]) -> bool | None:
        """Where the loader looks: the folders given, its cache, the folders that it knows."""
        if any(Path(folder, name).exists() for folder in (*folders, *_FOLDERS)):
            return True
        return None if self._cache is None else name in self._cache

    @cached_property
    def _cache(self) -> Collection[str] | None:
        try:
            return loader_cache(Path("/etc/ld.so.cache").read_bytes())
        except OSError:
            return None


def _device(path: Path) -> int | None:
    for place in (path, *path.parents):
        try:
            return place.stat().st_dev
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return None
    return None


def _names(folder: Path) -> list[str]:
    try:
        return [p.name.removesuffix(".lua") for p in folder.iterdir() if not p.name.startswith(".")]
    except OSError:
        return []
