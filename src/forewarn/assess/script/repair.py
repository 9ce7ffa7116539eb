"""Repairs of a script that need no decision: line ends, and the first line."""

from __future__ import annotations

from forewarn.assess.assessment import Finding

SHEBANG = "#!/bin/bash"
REPAIRED = frozenset({"windows-line-ends", "missing-shebang"})  # the rules whose findings it resolves


def repaired(text: str) -> str:
    r"""Return the script in a form that sbatch accepts; a later `#!` line moves to the top.

    >>> repaired("#!/bin/sh\r\ntrue\r\n"), repaired("\n#!/bin/sh\ntrue\n"), repaired("true\n")
    ('#!/bin/sh\ntrue\n', '#!/bin/sh\n\ntrue\n', '#!/bin/bash\ntrue\n')
    """
    if "\r\n" in text or "\r" in text.partition("\n")[0]:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.startswith("#!") or not text.strip() or "\0" in text:
        return text
    lines = text.split("\n")
    at = next((full_path for full_path, line in enumerate(lines) if line.lstrip().startswith("#!")), None)
    above = lines[:at] if at is not None else []
    if at is None or any(line.strip() and not line.lstrip().startswith("#") for line in above):
        return f"{SHEBANG}\n{text}"
    return "\n".join([lines[at].lstrip(), *above, *lines[at + 1 :]])


def is_repaired(finding: Finding) -> bool:
    """Check whether the repair resolves a finding."""
    return finding.about == "submission" and finding.rule in REPAIRED
