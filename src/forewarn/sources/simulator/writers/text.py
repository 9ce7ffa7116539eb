"""Values as Slurm writes them, column by column."""

from __future__ import annotations

import polars as pl


def clock(seconds: str, zone: str) -> pl.Expr:
    """Write a time on the zone's clock with its offset from UTC; `None` if there is none.

    >>> pl.DataFrame({"at": [1719828000]}).select(clock("at", "Europe/Berlin")).item()
    '2024-07-01T12:00:00+0200'
    """
    moment = pl.from_epoch(pl.col(seconds)).dt.replace_time_zone("UTC").dt.convert_time_zone(zone)
    return moment.dt.strftime("%Y-%m-%dT%H:%M:%S%z").fill_null("None")


def duration(seconds: pl.Expr) -> pl.Expr:
    """Write days, hours, minutes, seconds.

    >>> pl.select(duration(pl.lit(93784))).item(), pl.select(duration(pl.lit(62))).item()
    ('1-02:03:04', '00:01:02')
    """

    def two(amount: pl.Expr) -> pl.Expr:
        return amount.cast(pl.String).str.zfill(2)

    days = seconds // 86400
    parts = (two(seconds // 3600 % 24), two(seconds // 60 % 60), two(seconds % 60))
    day = pl.when(days > 0).then(days.cast(pl.String) + "-").otherwise(pl.lit(""))
    return pl.concat_str(day, pl.concat_str(*parts, separator=":"))


def fine_duration(seconds: pl.Expr) -> pl.Expr:
    """Write a duration with milliseconds, as CPU time is shown."""
    thousandths = (seconds * 1000).round().cast(pl.Int64)
    return pl.concat_str(
        duration(thousandths // 1000), pl.lit("."), (thousandths % 1000).cast(pl.String).str.zfill(3)
    )


def number_in(name: str) -> pl.Expr:
    """Return the number that is part of a name: 22 of user0022."""
    return pl.col(name).str.extract(r"(\d+)$").cast(pl.Int64)


def uid(user: str = "user") -> pl.Expr:
    """Return the simulated user's number on the system."""
    return 20_000 + number_in(user)


def gid() -> pl.Expr:
    """Return the simulated group's number on the system."""
    return 30_000 + number_in("group")
