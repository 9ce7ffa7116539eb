"""The check that notices can be sent; nothing is sent."""

from __future__ import annotations

from collections.abc import Iterator

from forewarn.config import NoticesConfig
from forewarn.errors import DeliveryError, UsageError
from forewarn.operate.doctor.findings import DoctorFinding, Severity

TIMEOUT = 5.0  # seconds for each answer of the mail server


def notices(config: NoticesConfig) -> Iterator[DoctorFinding]:
    """Connect to the mail server, with TLS and a login as configured."""
    if config.smtp is None and config.sender is None:
        return
    from forewarn.operate.notices.mail import MailChannel

    try:
        channel = MailChannel(config, timeout=TIMEOUT)
        try:
            channel.open()
        finally:
            channel.close()
    except (DeliveryError, UsageError) as error:
        yield DoctorFinding("notices", Severity.PROBLEM, str(error))
    else:
        message = f"{config.smtp}: takes mail from here; `forewarn notices test` sends one"
        yield DoctorFinding("notices", Severity.FINE, message)
