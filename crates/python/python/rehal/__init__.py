"""rehal records, replays, profiles and tunes the work that a program gives to an accelerator.

``rehal.open(path)`` opens a capture. What runs captured code runs in another process, so that a kernel that
crashes is an exception.
"""

from __future__ import annotations

import json as _json
from collections.abc import Sequence as _Sequence
from typing import Any

from . import _tool, executors
from ._buffers import Buffer
from ._capture import Capture, diff, path_of
from ._columns import Records
from ._errors import Crash, Error
from ._program import Function, Program, load, record, run
from ._replay import Dispatch, Executable, HostRead, State
from ._report import Comparison, Diff, Info, Kernels, Node, Profile, Redaction, Report, Verification
from ._sweep import Regressions, Sweep, Task, sweep
from ._tune import Trial, Tuner, Tuning, tune

__version__ = "0.1.0"

__all__ = [
    "Buffer",
    "Capture",
    "Comparison",
    "Crash",
    "Diff",
    "Dispatch",
    "Error",
    "Executable",
    "Function",
    "HostRead",
    "Info",
    "Kernels",
    "Node",
    "Profile",
    "Program",
    "Records",
    "Redaction",
    "Regressions",
    "Report",
    "State",
    "Sweep",
    "Task",
    "Trial",
    "Tuner",
    "Tuning",
    "Verification",
    "compare",
    "diff",
    "executors",
    "info",
    "kernels",
    "load",
    "open",
    "profile",
    "record",
    "redact",
    "replay",
    "run",
    "slice",
    "sweep",
    "tune",
    "verify",
]


def open(path: _tool.StrPath, *, recover: bool = False) -> Capture:
    """Opens a capture. With ``recover``, one that is truncated or damaged, of which it reads the rest."""
    return Capture(path, recover=recover)


def _opened(capture: _tool.StrPath | Capture) -> Capture:
    return capture if isinstance(capture, Capture) else Capture(capture)


def info(capture: _tool.StrPath | Capture, **options: Any) -> Info:
    """:meth:`Capture.info` of a capture or its path."""
    return _opened(capture).info(**options)


def replay(capture: _tool.StrPath | Capture, **options: Any) -> None:
    """:meth:`Capture.replay` of a capture or its path."""
    _opened(capture).replay(**options)


def kernels(capture: _tool.StrPath | Capture, **options: Any) -> Kernels:
    """:meth:`Capture.kernels` of a capture or its path."""
    return _opened(capture).kernels(**options)


def slice(capture: _tool.StrPath | Capture, output: _tool.StrPath, **options: Any) -> Capture:
    """:meth:`Capture.slice` of a capture or its path."""
    return _opened(capture).slice(output, **options)


def compare(
    capture: _tool.StrPath | Capture,
    function: str,
    candidate: _tool.StrPath | _Sequence[_tool.StrPath],
    **options: Any,
) -> Comparison:
    """:meth:`Capture.compare` of a capture or its path."""
    return _opened(capture).compare(function, candidate, **options)


def verify(capture: _tool.StrPath | Capture, **options: Any) -> Verification:
    """:meth:`Capture.verify` of a capture or its path."""
    return _opened(capture).verify(**options)


def redact(capture: _tool.StrPath | Capture, output: _tool.StrPath, **options: Any) -> Redaction:
    """:meth:`Capture.redact` of a capture or its path."""
    return _opened(capture).redact(output, **options)


def profile(
    path: _tool.StrPath, command: str = "statistics", *, timeout: float | None = None, **flags: Any
) -> Profile:
    """A report of a device profile (``.ireeprof``): as ``rehal profile``, whose commands name the reports."""
    path = path_of(path)
    arguments = ["profile", "--format=jsonl", *_tool.to_flags(flags), "--", command, path]
    stdout, _ = _tool.succeed(arguments, timeout=timeout)
    return Profile(path, [_json.loads(line) for line in stdout.splitlines()])
