"""The settings of the service, in the table ``[serve]``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from forewarn.config.values import (
    as_count,
    as_flag,
    as_listen,
    as_names,
    as_path,
    as_seconds,
    as_url,
    one_of,
    setting,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServeConfig:
    """Where `forewarn serve` listens, what it runs, and its limits."""

    listen: str = field(
        default="127.0.0.1:8765",
        metadata=setting(as_listen, "address and port; beyond this machine only with access configured"),
    )
    socket: Path | None = field(
        default=None,
        metadata=setting(
            as_path, "unix socket to listen on too, for programs on this machine", "/run/forewarn/api.sock"
        ),
    )
    datagram_socket: Path | None = field(
        default=None,
        metadata=setting(
            as_path, "unix datagram socket for notices that never wait", "/run/forewarn/notice.sock"
        ),
    )
    socket_mode: str = field(
        default="0660",
        metadata=setting(
            one_of("0600", "0660", "0666"), "permissions of the unix sockets: 0600, 0660 or 0666"
        ),
    )
    url: str | None = field(
        default=None,
        metadata=setting(
            as_url, "address by which browsers reach the service", "https://forewarn.example.org"
        ),
    )
    tls_certificate: Path | None = field(
        default=None, metadata=setting(as_path, "certificate chain for TLS", "/etc/forewarn/tls.pem")
    )
    tls_key: Path | None = field(
        default=None, metadata=setting(as_path, "private key of the certificate", "/etc/forewarn/tls.key")
    )
    behind_proxy: bool = field(
        default=False,
        metadata=setting(as_flag, "whether a reverse proxy does TLS and sets X-Forwarded-For and -Proto"),
    )
    trusted_proxies: tuple[str, ...] = field(
        default=("127.0.0.1", "::1"),
        metadata=setting(as_names, "addresses of proxies whose headers are believed"),
    )
    collect: str = field(
        default="auto",
        metadata=setting(
            one_of("auto", "never"),
            "whether the service collects from Slurm itself: auto (where one is configured and no other "
            "process collects) or never",
        ),
    )
    interval: int = field(
        default=30, metadata=setting(as_count, "seconds between two rounds of the service's collector")
    )
    body_limit: int = field(default=8 << 20, metadata=setting(as_count, "largest request body, in bytes"))
    request_timeout: int = field(
        default=60, metadata=setting(as_seconds, "seconds after which a request is answered with 503")
    )
    rate_limit: int = field(
        default=600, metadata=setting(as_count, "requests a minute of one caller; a batch counts as one")
    )
    gather: int = field(
        default=3,
        metadata=setting(as_seconds, "milliseconds for which single requests wait to share a model call"),
    )
