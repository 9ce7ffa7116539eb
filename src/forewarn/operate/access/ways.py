"""English for how a caller proves who it is, by the methods that a site configures."""

from __future__ import annotations

from collections.abc import Sequence

_HOW = {
    "slurm": "send a token of Slurm (X-SLURM-USER-TOKEN with X-SLURM-USER-NAME, or Authorization: Bearer …, "
    "for commands SLURM_JWT)",
    "service-token": "send a service token (Authorization: Bearer fwt_…, for commands FOREWARN_TOKEN)",
    "oidc": "log in at /auth/login, or send the provider's token (Authorization: Bearer …)",
    "proxy": "come through the site's proxy",
    "peer": "use the unix socket",
}
_TOKENS = {"slurm": "Slurm's", "service-token": "service tokens", "oidc": "the OIDC provider's"}


def ways_to_prove(methods: Sequence[str]) -> str:
    """Say what a caller can do.

    >>> ways_to_prove(("proxy", "peer"))
    "come through the site's proxy; or use the unix socket"
    """
    return "; or ".join(_HOW[method] for method in methods)


def accepted_tokens(methods: Sequence[str]) -> str:
    """Name the kinds of token that are accepted.

    >>> accepted_tokens(("slurm", "oidc")), accepted_tokens(("peer",))
    ("accepted: Slurm's, the OIDC provider's", 'no tokens are: use the unix socket')
    """
    kinds = [_TOKENS[method] for method in methods if method in _TOKENS]
    return f"accepted: {', '.join(kinds)}" if kinds else f"no tokens are: {ways_to_prove(methods)}"
