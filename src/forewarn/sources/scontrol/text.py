"""The text of scontrol: where a record begins, and which of its `Key=value` are keys.

Nothing is quoted: a job's name, its submit line and a node's reason may hold spaces and ``=``. Such a value
ends only where the key begins that Slurm prints after it; any other value ends at the first space.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

KINDS: Mapping[str, str] = MappingProxyType(
    {"JobId": "job", "NodeName": "node", "PartitionName": "partition"}
)
_BEGIN = re.compile(r"(?:JobId=\d|NodeName=\S|PartitionName=\S)")
_KEY = re.compile(r"(?:^|\s)([A-Za-z][\w:/.-]*)=")
_SPACE = re.compile(r"\s")
_ANY_KEY = r"[A-Z][A-Za-z]+"
_COMMENTS = "AdminComment|SystemComment|Comment|Extra|StdErr|StdIn|StdOut"


def _before(keys: str) -> re.Pattern[str]:
    return re.compile(rf"\s+(?:{keys})=")


# Free text, and the keys that can follow it, by the first key of the record. (In a job's reason Slurm
# writes underscores for spaces.)
_FREE: Mapping[str, Mapping[str, re.Pattern[str]]] = MappingProxyType(
    {
        "JobId": {
            "JobName": _before("SLUID|UserId"),
            "Command": _before("SubmitLine|WorkDir"),
            "SubmitLine": _before("WorkDir"),
            **dict.fromkeys(("WorkDir", "StdErr", "StdIn", "StdOut"), _before(_ANY_KEY)),
            **dict.fromkeys(("Comment", "AdminComment", "SystemComment", "Extra"), _before(_COMMENTS)),
        },
        "NodeName": {
            "OS": _before("RealMemory"),
            **dict.fromkeys(("Reason", "Comment", "Extra"), _before("Reason|Comment|Extra|ReservationName")),
        },
        "PartitionName": {},
    }
)


def records(blocks: Iterable[tuple[int, bytes]]) -> Iterator[tuple[int, str]]:
    """Yield the records, each with the line that it begins at; text before the first one counts as one, too.

    Records of several lines and the single lines of ``-o`` begin the same way; a value that contains a line
    end continues until the next record begins.
    """
    begin, lines = 1, list[str]()
    for before, block in blocks:
        for number, line in enumerate(block.decode().removesuffix("\n").split("\n"), before + 1):
            if _BEGIN.match(line):
                if any(map(str.strip, lines)):
                    yield begin, "\n".join(lines)
                begin, lines = number, []
            lines.append(line)
    if any(map(str.strip, lines)):
        yield begin, "\n".join(lines)


def fields(text: str) -> dict[str, str]:
    """Split a record into keys and values; of a key that is repeated, the first counts.

    >>> fields("JobId=7 JobName=a b=c UserId=ann(5)\\n   WorkDir=/my dir StdErr=")
    {'JobId': '7', 'JobName': 'a b=c', 'UserId': 'ann(5)', 'WorkDir': '/my dir', 'StdErr': ''}
    """
    found: dict[str, str] = {}
    free = _FREE.get(text.partition("=")[0], {})
    place = 0
    while key := _KEY.search(text, place):
        name, begin = key[1], key.end()
        after = free.get(name, _SPACE).search(text, begin)
        place = after.start() if after else len(text)
        found.setdefault(name, text[begin:place].strip())
    return found
