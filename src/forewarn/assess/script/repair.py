"""What can be put right in a script without asking anybody: line ends, and the first line."""

from __future__ import annotations

from forewarn.assess.assessment import Finding

SHEBANG = "#!/bin/bash"
REPAIRED = frozenset({"windows-line-ends", "missing-shebang"})  # the rules whose findings go by it


def repaired(text: str) -> str:
    r"""The script as sbatch takes it; a `#!` line that stands further down moves to the top.

    >>> repaired("#!/bin/sh\r\ntrue\r\n"), repaired("\n#!/bin/sh\ntrue\n"), repaired("true\n")
    ('#!/bin/sh\ntrue\n', '#!/bin/sh\n\ntrue\n', '#!/bin/bash\ntrue\n')
    """
    if "\r\n" in text or "\r" in text.partition("\n")[0]:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith("#!") or not text.strip() or "\0" in text:
        return text
    lines = text.split("\n")
    at = next((place for place, line in enumerate(lines) if line.lstrip().startswith("#!")), None)
    above = lines[:at] if at is not None else []
    if at is None or any(line.strip() and not line.lstrip().startswith("#") for line in above):
        return f"{SHEBANG}\n{text}"
    return "\n".join([lines[at].lstrip(), *above, *lines[at + 1 :]])


def is_repaired(finding: Finding) -> bool:
    """Whether a finding is gone from the repaired script."""
    return finding.about == "submission" and finding.rule in REPAIRED
