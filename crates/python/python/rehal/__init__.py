"""rehal records, replays, profiles and tunes the work that a program gives to an accelerator.

``rehal.open(path)`` opens a capture. What runs captured code runs in another process, so that a kernel that
crashes is an exception.
"""

from __future__ import annotations

import functools as _functools
import inspect as _inspect
import json as _json
import os as _os
from collections.abc import Callable as _Callable
from collections.abc import Mapping as _Mapping
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Concatenate as _Concatenate
from typing import ParamSpec as _ParamSpec
from typing import TypeVar as _TypeVar
from typing import Union as _Union

from . import _options, _tool, executors
from ._buffers import Buffer
from ._capture import Capture, diff, path_of
from ._columns import Records
from ._errors import Crash, Error
from ._judge import Judgment, judge
from ._program import Function, Program, load, record, run
from ._replay import Dispatch, Executable, HostRead, State
from ._report import (
    Benchmark,
    Comparison,
    Diff,
    Executables,
    Info,
    Kernels,
    Node,
    Profile,
    Races,
    Redaction,
    Reduction,
    Report,
    Substitution,
    Verification,
)
from ._sweep import Regressions, Sweep, Task, sweep
from ._tune import Trial, Tuner, Tuning, tune

if _TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _flags

_P = _ParamSpec("_P")
_R = _TypeVar("_R")

__version__ = "0.1.0"

__all__ = [
    "Benchmark",
    "Buffer",
    "Capture",
    "Comparison",
    "Crash",
    "Diff",
    "Dispatch",
    "Error",
    "Executable",
    "Executables",
    "Function",
    "HostRead",
    "Info",
    "Judgment",
    "Kernels",
    "Node",
    "Profile",
    "Program",
    "Races",
    "Records",
    "Redaction",
    "Reduction",
    "Regressions",
    "Report",
    "State",
    "Substitution",
    "Sweep",
    "Task",
    "Trial",
    "Tuner",
    "Tuning",
    "Verification",
    "benchmark",
    "compare",
    "diff",
    "dump",
    "executables",
    "executors",
    "info",
    "judge",
    "kernels",
    "load",
    "open",
    "profile",
    "races",
    "record",
    "redact",
    "reduce",
    "replay",
    "run",
    "slice",
    "substitute",
    "sweep",
    "tune",
    "verify",
]


def open(path: _tool.StrPath, *, recover: bool = False) -> Capture:
    """Opens a capture. With ``recover``, one that is truncated or damaged, of which it reads the rest."""
    return Capture(path, recover=recover)


def _opened(capture: _tool.StrPath | Capture) -> Capture:
    return capture if isinstance(capture, Capture) else Capture(capture)


def _of_capture(
    method: _Callable[_Concatenate[Capture, _P], _R],
) -> _Callable[_Concatenate[_Union[_tool.StrPath, Capture], _P], _R]:
    """The function that is the method of a capture, or of a path."""

    @_functools.wraps(method)
    def function(capture: _Union[_tool.StrPath, Capture], /, *arguments: _P.args, **options: _P.kwargs) -> _R:
        return method(_opened(capture), *arguments, **options)

    signature = _inspect.signature(method)
    first, *others = signature.parameters.values()
    capture = _inspect.Parameter(
        "capture", _inspect.Parameter.POSITIONAL_ONLY, annotation="str | PathLike | Capture"
    )
    function.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[capture, *others]
    )
    function.__qualname__ = function.__name__
    function.__module__ = __name__
    return function


info = _of_capture(Capture.info)
replay = _of_capture(Capture.replay)
kernels = _of_capture(Capture.kernels)
slice = _of_capture(Capture.slice)
compare = _of_capture(Capture.compare)
verify = _of_capture(Capture.verify)
redact = _of_capture(Capture.redact)
races = _of_capture(Capture.races)
reduce = _of_capture(Capture.reduce)
benchmark = _of_capture(Capture.benchmark)
dump = _of_capture(Capture.dump)


@_options.of("executables")
def executables(
    path: _tool.StrPath | Capture,
    *,
    timeout: float | None = None,
    **flags: Unpack[_flags.Executables],
) -> Executables:
    """The executables of a program (``.mlir``), a module or a capture, with their functions. With
    ``binaries_to``, their code is written to files: as ``rehal executables``."""
    arguments = ["executables", *_tool.to_flags(flags), "--", path_of(path)]
    return Executables(*_tool.report(arguments, timeout=timeout))


@_options.of("substitute")
def substitute(
    module: _tool.StrPath,
    executables: _Mapping[str, _tool.StrPath],
    output: _tool.StrPath,
    *,
    timeout: float | None = None,
    **flags: Unpack[_flags.Substitute],
) -> Substitution:
    """Writes a compiled module with other code: for each executable or function, by its name, a file. As
    ``rehal substitute``."""
    replaced = [f"{name}={_os.fspath(path)}" for name, path in executables.items()]
    given = {"executable": replaced, "output": output, **flags}
    arguments = ["substitute", *_tool.to_flags(given), "--", path_of(module)]
    return Substitution(*_tool.report(arguments, timeout=timeout))


@_options.of("profile")
def profile(
    path: _tool.StrPath,
    command: str = "statistics",
    *,
    timeout: float | None = None,
    **flags: Unpack[_flags.Profile],
) -> Profile:
    """A report of a device profile (``.ireeprof``): as ``rehal profile``, whose commands name the reports."""
    path = path_of(path)
    arguments = ["profile", "--format=jsonl", *_tool.to_flags(flags), "--", command, path]
    stdout, _ = _tool.succeed(arguments, timeout=timeout)
    return Profile(path, [_json.loads(line) for line in stdout.splitlines()])
