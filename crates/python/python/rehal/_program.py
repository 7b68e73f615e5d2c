"""Programs: compiled modules, which are called and recorded."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import _rehal, _tool
from ._capture import Capture

if TYPE_CHECKING:
    import numpy.typing as npt

#: A result: an array, or a scalar of the VM.
Result = Any


def run(
    module: _tool.StrPath,
    function: str,
    *arrays: npt.ArrayLike,
    device: str | None = None,
    timeout: float | None = None,
    **flags: Any,
) -> list[Result]:
    """Calls a function of a compiled module (``.vmfb``) in another process, and returns its results: numpy
    arrays, and numbers where a function returns scalars. Python numbers are scalars, other arguments arrays.
    Flags are those of ``rehal run-module``."""
    import tempfile

    import numpy as np

    module = os.fspath(module)
    kinds = _rehal.function_results(module, function)
    with tempfile.TemporaryDirectory(prefix="rehal-") as name:
        directory = Path(name)
        inputs = [_input(directory / f"input{index}.npy", array) for index, array in enumerate(arrays)]
        outputs = [
            directory / f"output{index}.npy" if kind == "ref" else None for index, kind in enumerate(kinds)
        ]
        targets = ["-" if path is None else f"@{path}" for path in outputs]
        given = {
            "module": module,
            "function": function,
            "device": device,
            "input": inputs,
            "output": targets,
            **flags,
        }
        stdout, _ = _tool.succeed(["run-module", *_tool.to_flags(given)], timeout=timeout)
        scalars = _scalars(stdout.decode())
        return [np.load(path) if path is not None else scalars[index] for index, path in enumerate(outputs)]


def record(
    module: _tool.StrPath,
    function: str,
    *arrays: npt.ArrayLike,
    out: _tool.StrPath,
    device: str | None = None,
    timeout: float | None = None,
    **flags: Any,
) -> Capture:
    """Calls a function as :func:`run` does, records its device work to ``out``, and opens that capture. The
    results are in it, as host reads."""
    import tempfile

    target = Path(os.fspath(out)).absolute()
    # Two recorders of one path would write into one file: each has its own, and the last to end has the name.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    try:
        run(
            module, function, *arrays, device=device, timeout=timeout, device_replay_output=temporary, **flags
        )
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Capture(target)


def _input(path: Path, value: npt.ArrayLike) -> str:
    if isinstance(value, (bool, int, float)):
        return str(value).lower()
    import numpy as np

    np.save(path, np.asarray(value), allow_pickle=False)
    return f"@{path}"


def _scalars(text: str) -> dict[int, int | float]:
    """The scalars that the tool prints, such as ``result[1]: i32=7``."""
    found: dict[int, int | float] = {}
    for line in text.splitlines():
        if line.startswith("result[") and "=" in line:
            place, value = line.split(": ", 1)
            kind, number = value.split("=", 1)
            found[int(place[7:-1])] = float(number) if kind.startswith("f") else int(number)
    return found
