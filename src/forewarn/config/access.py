"""The settings of who may use the service, in the table ``[access]``."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from forewarn.config.values import as_count, as_flag, as_names, as_path, as_seconds, as_text, one_of, setting


def _is_private(url: str) -> bool:
    """Check that nobody on the way can change the answer of an address: https, or this machine."""
    parts = urlsplit(url)
    return bool(parts.hostname) and (
        parts.scheme == "https"
        or (parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost"))
    )


def as_place(value: object) -> str:
    """Read the place of a key set: an https address, or a file.

    >>> as_place("https://idp.example.org/jwks"), as_place("/etc/slurm/jwks.json")
    ('https://idp.example.org/jwks', '/etc/slurm/jwks.json')
    """
    place = str(value) if isinstance(value, Path) else as_text(value)
    if "://" in place and not _is_private(place):
        raise ValueError("a file, or an address that begins with https://")
    return place


def as_issuer(value: object) -> str:
    """Read the address of an OIDC provider: its tokens and keys are believed, so it must be https.

    >>> as_issuer("https://login.example.org/realms/hpc")
    'https://login.example.org/realms/hpc'
    """
    issuer = as_text(value)
    if not _is_private(issuer):
        raise ValueError("an address that begins with https://")
    return issuer


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessConfig:
    """How callers prove who they are, and which roles they have."""

    slurm_tokens: str = field(
        default="never",
        metadata=setting(
            one_of("never", "jwks", "slurmrestd", "key"),
            "how Slurm's own tokens are verified: never (not accepted), jwks (by public keys), slurmrestd "
            "(by asking it), or key (HS256, a last resort: who holds that key can be anyone)",
        ),
    )
    slurm_jwks: str | None = field(
        default=None,
        metadata=setting(
            as_place, "file or address of the public keys of Slurm's tokens", "/etc/slurm/jwks.json"
        ),
    )
    slurm_jwks_ca_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path,
            "CA certificates for the address of slurm_jwks; default: the system's",
            "/etc/ssl/site-ca.pem",
        ),
    )
    slurm_key_file: Path | None = field(
        default=None,
        metadata=setting(as_path, "Slurm's HS256 key; prefer jwks or slurmrestd", "/etc/slurm/jwt_hs256.key"),
    )
    slurm_user_claim: str = field(
        default="sun",
        metadata=setting(as_text, "claim of Slurm's tokens that names the user (Slurm's userclaimfield)"),
    )
    service_tokens: bool = field(
        default=False,
        metadata=setting(as_flag, "whether tokens of `forewarn tokens create` are accepted"),
    )
    unix_peers: bool = field(
        default=False,
        metadata=setting(
            as_flag, "whether callers of the unix socket are known by their user id on this machine"
        ),
    )
    oidc_issuer: str | None = field(
        default=None,
        metadata=setting(
            as_issuer, "OpenID Connect provider, exactly as its tokens name it", "https://login.example.org"
        ),
    )
    oidc_client_id: str | None = field(
        default=None, metadata=setting(as_text, "client id of Forewarn at the provider", "forewarn")
    )
    oidc_client_secret_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path, "file with the client's secret; none for a public client", "/etc/forewarn/oidc"
        ),
    )
    oidc_audience: str | None = field(
        default=None,
        metadata=setting(
            as_text, "audience that bearer tokens must have; default: the client id", "forewarn-api"
        ),
    )
    oidc_scopes: tuple[str, ...] = field(
        default=("openid", "profile"), metadata=setting(as_names, "scopes that a login asks for")
    )
    oidc_user_claim: str = field(
        default="preferred_username",
        metadata=setting(
            as_text, "claim with the user name as Slurm has it; users must not be able to choose it"
        ),
    )
    oidc_user_suffix: str | None = field(
        default=None,
        metadata=setting(as_text, "end that is required of that claim and removed", "@example.org"),
    )
    oidc_groups_claim: str = field(
        default="groups",
        metadata=setting(as_text, "claim with the groups, for roles such as oidc:hpc-support"),
    )
    oidc_ca_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path, "CA certificates for the provider; default: the system's", "/etc/ssl/site-ca.pem"
        ),
    )
    proxy_header: str | None = field(
        default=None,
        metadata=setting(as_text, "header in which a trusted proxy names the user", "X-Remote-User"),
    )
    proxy_secret_file: Path | None = field(
        default=None,
        metadata=setting(
            as_path,
            "file with the secret that this proxy sends in X-Forewarn-Proxy-Secret",
            "/etc/forewarn/proxy-secret",
        ),
    )
    helpers: tuple[str, ...] = field(
        default=(),
        metadata=setting(
            as_names, "who may view all jobs: names, group:UNIXGROUP, oidc:GROUP", "group:support"
        ),
    )
    operators: tuple[str, ...] = field(
        default=(), metadata=setting(as_names, "who may also set thresholds and handle notices", "ann")
    )
    admins: tuple[str, ...] = field(
        default=(), metadata=setting(as_names, "who may do everything", "group:wheel")
    )
    coordinators: bool = field(
        default=True,
        metadata=setting(as_flag, "whether Slurm's account coordinators see the jobs of their accounts"),
    )
    slurm_admins: bool = field(
        default=False,
        metadata=setting(as_flag, "whether Slurm's AdminLevel gives the role operator or admin"),
    )
    roles_refresh: int = field(
        default=300, metadata=setting(as_count, "seconds after which coordinators are read from Slurm again")
    )
    session_idle: int = field(
        default=8 * 3600, metadata=setting(as_count, "seconds without a request after which a session ends")
    )
    session_length: int = field(
        default=24 * 3600, metadata=setting(as_count, "seconds after which a session ends in any case")
    )
    clock_skew: int = field(
        default=30,
        metadata=setting(as_seconds, "seconds by which clocks may differ from those that issue tokens"),
    )

    @property
    def methods(self) -> tuple[str, ...]:
        """The configured ways to prove who is calling."""
        configured = {
            "slurm": self.slurm_tokens != "never",
            "service-token": self.service_tokens,
            "oidc": self.oidc_issuer is not None,
            "proxy": self.proxy_header is not None,
            "peer": self.unix_peers,
        }
        return tuple(name for name, on in configured.items() if on)
