"""Logs of the standard library, as JSON lines or as text for a terminal.

Every line names its object (`extra={"object": "namespace/name"}`).
"""

from __future__ import annotations

import json
import logging
import re
import sys
from datetime import UTC, datetime
from typing import TextIO

from machinery.clock import microtime

ROOTS = ("crds", "machinery", "controller", "propagator", "stowage")
DEBUG_VERBOSITY = 4
"""From this verbosity on, as in klog, debug lines are shown."""

_SECRETS = re.compile(
    r"-----BEGIN [A-Z ]+-----.*?(?:-----END [A-Z ]+-----|\Z)"
    r"|LS0tLS1CRUdJTi[A-Za-z0-9+/=]*"  # the same in base64, as kubeconfigs and Secrets hold it
    r"|(?<=(?i:bearer) )[A-Za-z0-9._~+/=-]{8,}"
    r"|(?<=(?i:authorization: basic) )[A-Za-z0-9+/=]+"
    r"|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*",
    re.DOTALL,
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")


_encode = json.JSONEncoder(ensure_ascii=False).encode


def get(name: str) -> logging.Logger:
    return logging.getLogger(name)


def configure(
    level: int = logging.INFO, *, stream: TextIO | None = None, as_json: bool = True
) -> None:
    """Send our lines to a stream, standard error by default. The last call counts."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if as_json else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for name in ROOTS:
        logging.getLogger(name).setLevel(level)


def set_verbosity(n: int) -> None:
    """Set the verbosity as in klog: below 4 information, from 4 on everything."""
    level = logging.DEBUG if n >= DEBUG_VERBOSITY else logging.INFO
    for name in ROOTS:
        logging.getLogger(name).setLevel(level)


def redacted(text: str) -> str:
    return _SECRETS.sub("[redacted]", text)


def _escaped(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line: time, level, logger, message, object and error if any."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": microtime(datetime.fromtimestamp(record.created, UTC)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        about = getattr(record, "object", None)
        if about is not None:
            line["object"] = redacted(str(about))
        if record.exc_info:
            line["error"] = redacted(self.formatException(record.exc_info))
        text = _CONTROLS.sub(_escaped, _encode(line))
        # Lone surrogates, as in file names that are not UTF-8, cannot be written to the stream.
        return text.encode(errors="backslashreplace").decode()


class TextFormatter(logging.Formatter):
    """`12:30:01 INFO namespace/name: message` for people."""

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created).astimezone()
        about = getattr(record, "object", None)
        subject = f"{about}: " if about else ""
        line = f"{moment:%H:%M:%S} {record.levelname} {subject}{record.getMessage()}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return _CONTROLS.sub(_escaped, redacted(line))
