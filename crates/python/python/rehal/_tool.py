"""Runs the ``rehal`` binary of this package, in which captured code runs."""

from __future__ import annotations

import functools
import json
import os
import signal
import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Union

from . import _rehal
from ._errors import Crash, Error

StrPath = Union[str, "os.PathLike[str]"]

#: The exit status of a tool after a crash in a kernel.
_CRASHED = 86


def binary() -> str:
    """The path of the ``rehal`` binary: of ``REHAL_BINARY``, or the one that this package has installed."""
    return os.environ.get("REHAL_BINARY") or _installed_binary()


# Looking for it takes as long as a third of a short replay.
@functools.cache
def _installed_binary() -> str:
    directories = []
    for scheme in (None, "posix_user", "posix_prefix", "venv"):
        try:
            names = () if scheme is None else (scheme,)
            directories.append(sysconfig.get_path("scripts", *names))
        except KeyError:
            pass
    # `pip install --target DIR` puts scripts into DIR/bin.
    directories.append(str(Path(__file__).parent.parent / "bin"))
    directories.append(str(Path(sys.executable).parent))
    for directory in directories:
        path = os.path.join(directory, "rehal")
        if os.access(path, os.X_OK):
            return path
    raise Error(
        "NOT_FOUND",
        "the rehal binary of this package is missing",
        [", ".join(dict.fromkeys(directories))],
        "install the package again, or name the binary in REHAL_BINARY",
    )


def flag_name(name: str) -> str:
    return "--" + name.rstrip("_")


def to_flags(flags: Mapping[str, Any]) -> list[str]:
    """Flags of a tool: ``True`` is a switch, a list is the flag once for each value, ``None`` is left out."""
    arguments: list[str] = []
    for name, value in flags.items():
        value = plain(value) if getattr(value, "ndim", 0) == 0 else value.tolist()
        values: Iterable[Any] = value if isinstance(value, (list, tuple)) else [value]
        for one in map(plain, values):
            if one is None:
                continue
            if isinstance(one, bool):
                arguments.append(f"{flag_name(name)}={'true' if one else 'false'}")
            else:
                arguments.append(
                    f"{flag_name(name)}={os.fspath(one) if isinstance(one, os.PathLike) else one}"
                )
    return arguments


def late() -> Error:
    """The error after a timeout."""
    return Error("DEADLINE_EXCEEDED", "rehal did not end within its time", [], "give it more time")


def plain(value: Any) -> Any:
    """A scalar of numpy as one of Python; others as they are."""
    if type(value).__module__ == "numpy" and hasattr(value, "item"):
        return value.item()
    return value


def crash(how: str, number: int, stderr: bytes, verb: str) -> Error | None:
    """The exception for a process that did not end as a tool ends; ``None`` for one that did."""
    said = stderr.decode(errors="replace").strip()
    if how == "time":
        return late()
    if how == "signal":
        name = signal.Signals(number).name if number in signal.valid_signals() else str(number)
        message = f"the process of the kernels was ended by signal {number} ({name})"
        return Crash("ABORTED", f"{message}\n{said}" if said else message, status=-number)
    if how == "exit" and number == _CRASHED:
        error = Error._of_report(said, verb)
        return Crash(error.code, error.message, error.context, error.advice, status=number)
    return None


def run_tool(arguments: list[str], *, timeout: float | None = None) -> tuple[int, bytes, bytes]:
    """Runs a verb in a process of its own. Returns its exit status and its output."""
    how, number, stdout, stderr = _rehal.run_job(binary(), arguments, timeout)
    crashed = crash(how, number, stderr, arguments[0])
    if crashed is not None:
        raise crashed
    return number, stdout, stderr


def report(
    arguments: list[str], *, timeout: float | None = None, format: str = "--format=json"
) -> tuple[dict[str, Any], int]:
    """The JSON that a verb prints, and its exit status. An error that it prints is raised."""
    status, stdout, stderr = run_tool([*arguments[:1], format, *arguments[1:]], timeout=timeout)
    try:
        document = json.loads(stdout)
    except ValueError:
        raise Error._of_report(stderr.decode(errors="replace"), arguments[0]) from None
    if "error" in document and len(document) == 2:
        raise Error._of_json(document["error"], arguments[0])
    return document, status


def succeed(arguments: list[str], *, timeout: float | None = None) -> tuple[bytes, bytes]:
    """Runs a verb that prints no JSON."""
    status, stdout, stderr = run_tool(arguments, timeout=timeout)
    if status != 0:
        raise Error._of_report(stderr.decode(errors="replace"), arguments[0])
    return stdout, stderr
