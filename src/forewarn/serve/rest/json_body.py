"""Bodies that are read by hand, for speed and for exact messages: JSON in, JSON out."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NoReturn

import orjson
from fastapi import Request
from starlette.responses import Response

from forewarn.errors import BadField, BadFieldsError


async def read_json(request: Request) -> Any:
    """Read the body as JSON; `BadFieldsError` says where it is not JSON."""
    return parse_json(await request.body())


def parse_json(raw: bytes) -> Any:
    """Parse JSON strictly: UTF-8, no NaN, no half characters.

    orjson reads it in a quarter of the time; what it refuses, Python's own decoder reads or explains. The one
    difference is a whole number beyond 64 bits, which becomes a float; no field may hold either.

    >>> parse_json(b'{"a": 1}')
    {'a': 1}
    >>> parse_json(b'{"a": NaN}')
    Traceback (most recent call last):
    forewarn.errors.BadFieldsError: the body has 1 wrong field:
      /: not JSON: NaN is not a number of JSON
    """
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return _parse_by_python(raw)


def _parse_by_python(raw: bytes) -> Any:
    try:
        text = raw.decode("utf-8")
        value = _DECODER.decode(text)
        if "\\u" in text:  # an escaped half of a surrogate pair can be stored nowhere
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _bad("a text contains half of a surrogate pair") from None
    except UnicodeDecodeError as error:
        raise _bad(f"not UTF-8 at byte {error.start}") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno}, column {error.colno}"
        raise _bad(f"not JSON: {error.msg} at {where}" if raw else "the body is empty") from None
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise _bad(f"not JSON: {reason}") from None
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not a number of JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def _bad(reason: str) -> BadFieldsError:
    return BadFieldsError("the body", [BadField("", reason)])


def json_response(value: Any, status: int = 200) -> Response:
    """Return a value as JSON, without pydantic's passage through every field."""
    return json_bytes_response(to_bytes(value), status)


def json_bytes_response(body: bytes, status: int = 200) -> Response:
    """Return what is JSON already."""
    return Response(body, status_code=status, media_type="application/json")


def to_bytes(value: Any, default: Callable[[Any], Any] = str) -> bytes:
    """Write JSON by orjson, in a tenth of the time; by Python's own where that is stricter.

    `default` converts what JSON has no form for.

    >>> to_bytes({"p": 0.1, "text": "\u00e4"}).decode(), to_bytes({7: 2**70}).decode()
    ('{"p":0.1,"text":"\u00e4"}', '{"7":1180591620717411303424}')
    """
    try:
        return orjson.dumps(value, default=default, option=_OPTIONS)
    except orjson.JSONEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=default).encode()


_OPTIONS = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
