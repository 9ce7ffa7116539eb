"""A CA and the certificates that it signs, as a site has its own."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

HOUR = timedelta(hours=1)


@dataclass(frozen=True)
class CertificateFiles:
    """A certificate and its key."""

    certificate: Path
    key: Path


class CertificateAuthority:
    """A CA that signs certificates for servers."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _common_name(name)
        now = datetime.now(UTC)
        own = (
            _builder(self._name, self._name, self._key, now - 24 * HOUR, now + 24 * HOUR)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.pem"
        self.file.write_bytes(own.public_bytes(serialization.Encoding.PEM))

    def sign(
        self,
        file_name: str,
        host: str = "127.0.0.1",
        *,
        lasts: timedelta = HOUR,
        passphrase: bytes | None = None,
    ) -> CertificateFiles:
        """Sign a certificate of a host, and write it with its key; `lasts` may be negative."""
        key = ec.generate_private_key(ec.SECP256R1())
        now = datetime.now(UTC)
        named = x509.IPAddress(ip_address(host)) if host[0].isdigit() else x509.DNSName(host)
        signed = (
            _builder(_common_name(host), self._name, key, now - 12 * HOUR, now + lasts)
            .add_extension(x509.SubjectAlternativeName([named]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
            .sign(self._key, hashes.SHA256())
        )
        files = CertificateFiles(self._folder / f"{file_name}.pem", self._folder / f"{file_name}.key")
        files.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
        encryption = (
            serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
        )
        files.key.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return files


def _common_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )
