"""Whether the service may listen where it is configured to, and what its owner should know."""

from __future__ import annotations

import ipaddress
from functools import lru_cache

from forewarn.config import Config
from forewarn.errors import UsageError


def check_bind(config: Config) -> tuple[str, ...]:
    """Return warnings for the start; raise `UsageError` if anyone elsewhere could come in without proof."""
    serve, access = config.serve, config.access
    methods = access.methods
    from_elsewhere = not is_loopback(serve.listen) or serve.behind_proxy or not _is_local_url(serve.url)
    if from_elsewhere and not methods:
        where = serve.listen if not is_loopback(serve.listen) else "a proxy"
        raise UsageError(
            f"serve: {where} can be reached from other machines, and nothing proves who is calling: set one "
            "or more of access.slurm_tokens, access.service_tokens, access.oidc_issuer, access.proxy_header "
            "(docs/access.md), or listen on 127.0.0.1"
        )
    if from_elsewhere and methods == ("peer",):
        raise UsageError(
            f"serve: {serve.listen} can be reached from other machines, and access.unix_peers works for the "
            "unix socket only: configure another method, or listen on 127.0.0.1"
        )
    _check_whole(config)
    warnings = []
    if not methods:
        warnings.append(
            "no authentication is configured: every user of this machine may see all jobs and set "
            "thresholds. For trying it out only; see docs/access.md"
        )
    if access.slurm_tokens == "key":
        warnings.append(
            "access.slurm_tokens is key: the service holds Slurm's HS256 key, and whoever reads its memory "
            "or that file can act as any user of the cluster. Prefer jwks or slurmrestd"
        )
    slurmrestd = config.slurmrestd or ""
    sends_plainly = slurmrestd.startswith("http://") and not _is_local_url(slurmrestd)
    if access.slurm_tokens == "slurmrestd" and sends_plainly:
        warnings.append("users' tokens are sent to slurmrestd unencrypted: use https:// or a unix socket")
    if not is_loopback(serve.listen) and serve.tls_certificate is None and not serve.behind_proxy:
        warnings.append(
            "tokens and cookies arrive unencrypted: set serve.tls_certificate and serve.tls_key, or "
            "serve.behind_proxy with a proxy that does TLS"
        )
    return tuple(warnings)


def _check_whole(config: Config) -> None:
    """Refuse methods of which only a part is configured."""
    access = config.access
    if (access.oidc_issuer is None) != (access.oidc_client_id is None):
        raise UsageError("access.oidc_issuer and access.oidc_client_id are needed together")
    if access.proxy_header is not None and access.proxy_secret_file is None:
        raise UsageError(
            "access.proxy_header needs access.proxy_secret_file: without a secret every user of the proxy's "
            "machine could send that header"
        )
    if access.unix_peers and config.serve.socket is None:
        raise UsageError("access.unix_peers needs the unix socket: serve.socket")


@lru_cache(maxsize=1000)
def is_loopback(listen: str) -> bool:
    """Check whether an address can be reached from this machine only.

    >>> [is_loopback(one) for one in ("127.0.0.1:80", "[::1]:80", "localhost:80", "0.0.0.0:80", "[::]:80")]
    [True, True, True, False, False]
    """
    host = listen.rpartition(":")[0].strip("[]") if ":" in listen else listen
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _is_local_url(url: str | None) -> bool:
    if url is None:
        return True
    authority = url.partition("://")[2].partition("/")[0]
    return is_loopback(authority if authority.rpartition(":")[2].isdigit() else f"{authority}:0")
