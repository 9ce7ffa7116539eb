"""The fields that `sacct` can print: the format of each, its unit, and the column that it becomes.

One table, `FIELDS`. Where several fields become the same column, the first in the table that has a value is
used.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import polars as pl

from forewarn.errors import UsageError
from forewarn.job.exit_codes import PRINTED_BARE, from_sacct_text
from forewarn.job.units import MOST_COUNT, check_nodes, parse_duration, parse_memory
from forewarn.sources.slurm import unit_columns as units

ColumnReader = Callable[[pl.Expr], pl.Expr]


@dataclass(frozen=True, slots=True)
class FieldFormat:
    """The format of a field's text, which shows where values belong in a row with shifted columns."""

    pattern: re.Pattern[str]
    free: bool = False  # written by people: may hold the separator
    lines: bool = False  # may hold line ends

    def fits(self, text: str) -> bool:
        """Check whether a text has this format."""
        return self.pattern.fullmatch(text) is not None


def _form(pattern: str, *, free: bool = False, lines: bool = False) -> FieldFormat:
    return FieldFormat(re.compile(pattern, re.DOTALL if lines else 0), free, lines)


_TIME = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*|\d{9,}|Unknown|None|N/A"
JOB_ID = r"[0-9]{1,15}(?:_[0-9]{1,15}|_\[[^\]|]*\]|\+[0-9]{1,15})?"

ID = _form(JOB_ID + r"(?:\.[^\s|]+)?")
SUBMIT = _form(_TIME)
TIME = _form(rf"(?:{_TIME})?")
DURATION = _form(r"(?:(?:\d+-)?\d+(?::\d+){0,2}(?:\.\d+)?|UNLIMITED|Partition_Limit|INVALID)?")
NUMBER = _form(r"[0-9]*|Unknown|UNLIMITED|Partition_Limit|INVALID")
SIZE = _form(r"[0-9.]*[KMGTP?]?[cn]?")
EXIT = _form(r"(?:\d+:\d+)?")
STATE = _form(r"[A-Z_]+\+?(?: by \S+)?")
TRES = _form(r"(?:[\w/:.-]+=[^,|\s]*(?:,[\w/:.-]+=[^,|\s]*)*)?")
WORD = _form(r"[^\s|]*")
NODES = _form(r"None assigned|[^\s|]*")
PHRASE = _form(r"[^|\n]*")  # written by Slurm: spaces, but no separator
NAME = _form(r"[^\n]*", free=True)
PATH = _form(r"(?:/[^\n]*)?", free=True)
COMMENT = _form(r".*", free=True, lines=True)
COMMAND = _form(r"(?:[^\s|]*(?:sbatch|srun|salloc|scrontab|sattach)\b.*)?", free=True, lines=True)


@dataclass(frozen=True, slots=True)
class SacctField:
    """One field: its format, and, if a job's record has a column for it, how it is read."""

    form: FieldFormat
    column: str | None = None
    read: ColumnReader | None = None  # None for a time, which needs the zone, too
    partial: bool = False  # only part of the text is read, and it may not be there

    @property
    def is_time(self) -> bool:
        """Whether it is a local time of the cluster."""
        return self.column is not None and self.read is None


def _text(text: pl.Expr) -> pl.Expr:
    """Read a text written by people: `None` is a name like any other."""
    bare = text.str.strip_chars()
    return pl.when(bare != "").then(bare)


def _slurm_text(text: pl.Expr) -> pl.Expr:
    """Read a text written by Slurm: some of its words stand for a missing value."""
    return pl.when(~text.is_in(["Unknown", "None", "N/A", "(null)", "INVALID"])).then(text)


def _node_list(text: pl.Expr) -> pl.Expr:
    """Read a list of nodes, null where it is none; most name one node, and need no check."""

    def is_list(item: str) -> bool:
        check_nodes(item)
        return True

    brackets = text.str.contains(r"[\[\]]")
    right = units.map_distinct(pl.when(brackets).then(text), is_list, pl.Boolean)
    return pl.when(~brackets | right).then(_slurm_text(text))


_RESTORED_CODES = {code: from_sacct_text(code, 0) for code in PRINTED_BARE}


def _exit_code(text: pl.Expr) -> pl.Expr:
    """Read the code, with 128 added back where sacct subtracted it."""
    code, signal = units.exit_code(text), units.exit_signal(text)
    return pl.when(signal == 0).then(code.replace(_RESTORED_CODES)).otherwise(code)


def _seconds(text: pl.Expr) -> pl.Expr:
    return units.duration(text, bare=1)


def _limit(text: pl.Expr) -> pl.Expr:
    """Read a time limit; a lone number is minutes. Few limits are distinct, so each is read once."""
    return units.map_distinct(text, parse_duration, pl.Int64)


def _bytes(text: pl.Expr) -> pl.Expr:
    return units.memory(text, bare="B")


MEMORY = pl.Struct({"bytes": pl.Int64, "per": pl.String})


def _requested_memory(text: pl.Expr) -> pl.Expr:
    def read(item: str) -> dict[str, object] | None:
        # 21.08 and later print ``16?`` for a job without a memory request: INFINITE64 bytes.
        memory = None if item.endswith("?") else parse_memory(item)
        return None if memory is None else {"bytes": memory.bytes, "per": memory.per}

    return units.map_distinct(text, read, MEMORY)


def _disk(text: pl.Expr) -> pl.Expr:
    """Read the bytes of all tasks, exact, unlike AveDiskRead, which rounds to 0.01M."""
    return _bytes(text.str.extract(r"\bfs/disk=([^,]+)"))


def _joules(text: pl.Expr) -> pl.Expr:
    """Read energy, which is shown in thousands (``1.21K``), unlike memory."""
    number, unit = text.str.extract(r"^([0-9.]+)"), text.str.extract(r"([KMGTP])$")
    scale = unit.replace_strict({u: 10 ** (3 * n) for n, u in enumerate("KMGTP", 1)}, default=1)
    joules = number.cast(pl.Float64, strict=False) * scale
    return pl.when(joules <= MOST_COUNT).then(joules).round().cast(pl.Int64)


# Columns with a leading underscore are not in the record; `jobs.py` computes the record's from them.
FIELDS: Mapping[str, SacctField] = MappingProxyType(
    {
        # identity
        "JobID": SacctField(ID, "_id", _text),
        "JobIDRaw": SacctField(ID, "_raw_id", _text),  # as JobID, with Slurm's internal number
        "Cluster": SacctField(WORD, "cluster", _slurm_text),
        # who
        "User": SacctField(WORD, "user", _slurm_text),
        "UID": SacctField(NUMBER, "user", _slurm_text),
        "Group": SacctField(WORD, "group", _slurm_text),
        "GID": SacctField(NUMBER, "group", _slurm_text),
        "Account": SacctField(WORD, "account", _slurm_text),
        # what and where
        "JobName": SacctField(NAME, "name", _text),
        "WorkDir": SacctField(PATH, "work_dir", _text),
        "SubmitLine": SacctField(COMMAND, "submit_line", _text),
        "Partition": SacctField(WORD, "partition", _slurm_text),
        "QOS": SacctField(WORD, "qos", _slurm_text),
        "QOSREQ": SacctField(WORD, "_qos_asked", _slurm_text),  # 24.11: empty where the user requested none
        "Reservation": SacctField(WORD, "reservation", _slurm_text),
        "Constraints": SacctField(NAME, "constraint", _slurm_text),
        "NodeList": SacctField(NODES, "nodes", _node_list),
        # requested
        "ReqNodes": SacctField(NUMBER, "nodes_asked", units.whole_number),
        "ReqCPUS": SacctField(NUMBER, "cpus_asked", units.whole_number),
        "ReqMem": SacctField(SIZE, "_memory_asked", _requested_memory),  # MiB where it names no unit
        "ReqTRES": SacctField(TRES, "_tres_asked", units.tres),
        "TimelimitRaw": SacctField(NUMBER, "time_limit", _limit),
        "Timelimit": SacctField(DURATION, "time_limit", _limit),
        "Priority": SacctField(NUMBER, "priority", units.whole_number),
        # allocated
        "AllocNodes": SacctField(NUMBER, "nodes_given", units.whole_number),
        "NNodes": SacctField(NUMBER, "nodes_given", units.whole_number),
        "AllocCPUS": SacctField(NUMBER, "cpus_given", units.whole_number),
        "NCPUS": SacctField(NUMBER, "cpus_given", units.whole_number),
        "AllocTRES": SacctField(TRES, "_tres_given", units.tres),
        # when
        "Submit": SacctField(SUBMIT, "submit"),
        "Eligible": SacctField(TIME, "eligible"),
        "Start": SacctField(TIME, "start"),
        "End": SacctField(TIME, "end"),
        "ElapsedRaw": SacctField(NUMBER, "_elapsed", units.whole_number),
        "Elapsed": SacctField(DURATION, "_elapsed", _seconds),
        "Suspended": SacctField(DURATION, "suspended", _seconds),
        "Restarts": SacctField(NUMBER, "restarts", units.whole_number),
        # result
        "State": SacctField(STATE, "_state", _text),
        "Reason": SacctField(PHRASE, "reason", _slurm_text),
        "ExitCode": SacctField(EXIT, "exit_code", _exit_code),
        "DerivedExitCode": SacctField(EXIT, "derived_exit_code", _exit_code),
        # used: of steps, except TotalCPU and energy, which a job's own line has too
        "TotalCPU": SacctField(DURATION, "cpu_time", units.fine_duration),
        "MaxRSS": SacctField(SIZE, "max_memory", _bytes),
        "TRESUsageInTot": SacctField(TRES, "_read_total", _disk, partial=True),
        "TRESUsageOutTot": SacctField(TRES, "_written_total", _disk, partial=True),
        "AveDiskRead": SacctField(SIZE, "_read_mean", _bytes),  # per task
        "AveDiskWrite": SacctField(SIZE, "_written_mean", _bytes),
        "MaxDiskRead": SacctField(SIZE, "_read_max", _bytes),  # of one task: the step read at least this
        "MaxDiskWrite": SacctField(SIZE, "_written_max", _bytes),
        "NTasks": SacctField(NUMBER, "_tasks", units.whole_number),
        "ConsumedEnergyRaw": SacctField(NUMBER, "energy", units.whole_number),
        "ConsumedEnergy": SacctField(SIZE, "energy", _joules),
        # known, but not in a job's record
        **dict.fromkeys(("AdminComment", "Comment", "SystemComment", "Extra"), SacctField(COMMENT)),
        **dict.fromkeys(("Container", "Licenses", "McsLabel", "WCKey"), SacctField(NAME)),
        **dict.fromkeys(("StdErr", "StdIn", "StdOut"), SacctField(NAME)),
        **dict.fromkeys(("AveCPU", "CPUTime", "MinCPU", "SystemCPU", "UserCPU"), SacctField(DURATION)),
        **dict.fromkeys(("Planned", "PlannedCPU", "Reserved", "ResvCPU"), SacctField(DURATION)),
        **dict.fromkeys(("AveRSS", "AveVMSize", "MaxVMSize", "AveCPUFreq"), SacctField(SIZE)),
        **dict.fromkeys(("AvePages", "MaxPages", "AssocID", "CPUTimeRAW", "DBIndex"), SacctField(NUMBER)),
        **dict.fromkeys(
            ("PlannedCPURAW", "ResvCPURAW", "QOSRAW", "ReservationId", "WCKeyID"), SacctField(NUMBER)
        ),
        **dict.fromkeys(("BlockID", "Exclusive", "FailedNode", "Flags", "Layout"), SacctField(WORD)),
        **dict.fromkeys(("OriginalSLUID", "SLUID", "OverSubscribe", "SegmentSize"), SacctField(WORD)),
        **dict.fromkeys(("ReqReservation", "ReqGRES", "AllocGRES"), SacctField(WORD)),
        **dict.fromkeys((f"ReqCPUFreq{part}" for part in ("", "Gov", "Max", "Min")), SacctField(WORD)),
        **{
            f"{what}{where}": SacctField(WORD)
            for what in ("MaxDiskRead", "MaxDiskWrite", "MaxPages", "MaxRSS", "MaxVMSize", "MinCPU")
            for where in ("Node", "Task")
        },
        **{
            f"TRESUsage{way}{what}": SacctField(TRES)
            for way in ("In", "Out")
            for what in ("Ave", "Max", "MaxNode", "MaxTask", "Min", "MinNode", "MinTask")
        },
    }
)
_BY_LOWER_CASE = {name.lower(): name for name in FIELDS}


def field_name(text: str) -> str | None:
    """Find the field that a word of a header or of ``--format`` names, whatever its case and width.

    >>> field_name("state%30"), field_name("JobID"), field_name("977669")
    ('State', 'JobID', None)
    """
    return _BY_LOWER_CASE.get(text.partition("%")[0].strip().lower())


def check_names(fields: Iterable[str]) -> tuple[str, ...]:
    """Check the names that a person gave to the columns of a text without a header."""
    names = []
    for text in fields:
        name = field_name(text)
        if name is None:
            near = difflib.get_close_matches(text.partition("%")[0].lower(), _BY_LOWER_CASE, 1)
            hint = f" (is it {_BY_LOWER_CASE[near[0]]}?)" if near else ""
            raise UsageError(f"sacct has no field {text!r}{hint}; `sacct --helpformat` lists them")
        names.append(name)
    return tuple(names)
