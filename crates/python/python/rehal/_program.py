"""Programs: compiled modules, which are called and recorded."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Union

from . import _options, _rehal, _replay, _tool, _values
from ._buffers import SharedMemory
from ._capture import Capture
from ._errors import Error
from ._replay import Isolation

if TYPE_CHECKING:
    import numpy.typing as npt
    from typing_extensions import Unpack

    from . import _flags

#: A result: an array, a scalar of the VM, or ``None``.
Result = Any

#: A module: its path or its bytes, or several, each after those that it imports from.
Module = Union[_tool.StrPath, bytes, Sequence[Union[_tool.StrPath, bytes]]]

#: Parameters by scope: the path of a file that has them, or arrays by name.
Parameters = Mapping[str, Union[_tool.StrPath, Mapping[str, Any]]]

#: The offsets of results in their file are multiples of it.
_ALIGNMENT = 64


class Function:
    """A function of a loaded program. Calling it returns a list of its results: numpy arrays, numbers for
    scalars of the VM, and ``None``.

    Numbers and lists become tensors of the declared element types. Arrays keep theirs, except that integers
    have no sign in programs. Elements of bf16 and f8 are those of ml_dtypes; without that package they are
    unsigned integers that have their bits. Packed elements, such as those of i4, are bytes.
    """

    def __init__(
        self, work: _Work, name: str, declaration: str | None, inputs: list[str], results: list[str]
    ) -> None:
        self._work = work
        #: Its name.
        self.name = name
        #: Its declaration, such as ``sync func @add(%input0: tensor<4xf32>) -> (%output0: tensor<4xf32>)``.
        self.declaration = declaration
        self._kinds = inputs
        self._result_kinds = results
        named = _values.declared_types(declaration, len(inputs), of_results=False)
        #: The types of its inputs, such as ``4xf32``; ``None`` if a type is not known.
        self.inputs = [it for _, it in named]
        #: The types of its results.
        self.results = [it for _, it in _values.declared_types(declaration, len(results), of_results=True)]
        self.__name__ = name
        self.__doc__ = declaration
        self.__signature__ = inspect.Signature(
            [
                inspect.Parameter(it, inspect.Parameter.POSITIONAL_ONLY, annotation=kind or "array")
                for it, kind in named
            ],
            return_annotation=list,
        )

    def __call__(self, *arguments: npt.ArrayLike | None) -> list[Result]:
        if len(arguments) != len(self._kinds):
            message = f"{self.name} takes {len(self._kinds)} inputs, found {len(arguments)}"
            raise Error("INVALID_ARGUMENT", message, [], self.declaration)
        inputs = []
        for index, (argument, kind, declared) in enumerate(zip(arguments, self._kinds, self.inputs)):
            try:
                inputs.append(_passed(argument, kind, declared))
            except (TypeError, ValueError, OverflowError, struct.error) as error:
                kind_of_error = next(
                    (it for it in (OverflowError, ValueError) if isinstance(error, it)), TypeError
                )
                raise kind_of_error(f"input {index} of {self.name}: {error}") from None
        return [
            None
            if value is None
            else _values.array_of_bytes(*value)
            if kind == "ref"
            else _values.number_of_bytes(value[1], kind)
            for kind, value in zip(self._result_kinds, self._work.call(self.name, inputs))
        ]

    def __repr__(self) -> str:
        return f"Function({self.declaration or self.name!r})"


def _passed(argument: Any, kind: str, declared: str | None) -> _values.Passed | None:
    if kind != "ref":
        return _values.number_to_bytes(argument, kind)
    return None if argument is None else _values.array_to_bytes(argument, declared)


class _Work(Protocol):
    """Where a program is loaded."""

    def functions(self) -> list[tuple[str, str | None, list[str], list[str]]]: ...

    def call(self, function: str, inputs: list[_values.Passed | None]) -> list[_values.Passed | None]: ...

    def close(self) -> None: ...


class _Here:
    """In this process."""

    def __init__(self, program: _rehal.Program) -> None:
        self._program = program

    def functions(self) -> list[tuple[str, str | None, list[str], list[str]]]:
        return self._program.functions()

    def call(self, function: str, inputs: list[_values.Passed | None]) -> list[_values.Passed | None]:
        given = [None if it is None else (it[0], bytes(it[1])) for it in inputs]
        return list(self._program.call(function, given))

    def close(self) -> None:
        self._program.close()


class _There:
    """In a worker of the tool, which asks for calls."""

    def __init__(self, conversation: _replay.Conversation) -> None:
        self._conversation = conversation
        with conversation.turn():
            self._declared = self._next()["loaded"]

    def functions(self) -> list[tuple[str, str | None, list[str], list[str]]]:
        return [(it["name"], it["declaration"], it["inputs"], it["results"]) for it in self._declared]

    def call(self, function: str, inputs: list[_values.Passed | None]) -> list[_values.Passed | None]:
        given, returned = SharedMemory(), SharedMemory()
        try:
            given.write(*(it[1] for it in inputs if it is not None))
            types = [None if it is None else (it[0], len(it[1])) for it in inputs]
            call = {"function": function, "inputs": types, "from": given.path, "to": returned.path}
            with self._conversation.turn():
                self._conversation.answer({"call": call})
                question = self._next()
            if "failed" in question:
                raise Error._of_json(question["failed"], "run-module")
            return list(_results(question["returned"], returned))
        finally:
            given.close()
            returned.close()

    def _next(self) -> dict[str, Any]:
        question = self._conversation.next()
        if question is None:
            raise Error("FAILED_PRECONDITION", "the program has ended", [], "load it again")
        return question

    def close(self) -> None:
        with self._conversation.turn():
            self._conversation.answer("stop")
            while self._conversation.next() is not None:
                self._conversation.answer("stop")

    def cancel(self) -> None:
        self._conversation.cancel()


def _results(returned: list[tuple[str, int] | None], memory: SharedMemory) -> Iterator[_values.Passed | None]:
    mapped = memory.map()
    at = 0
    for it in returned:
        if it is None:
            yield None
            continue
        name, length = it
        yield name, b"" if mapped is None else memoryview(mapped)[at : at + length]
        at = -(-(at + length) // _ALIGNMENT) * _ALIGNMENT


class Program:
    """A loaded program: its initializers have run, and its functions can be called any number of times, by
    several threads as well. :func:`rehal.load` makes one. It ends when it is closed, which a ``with``
    statement does, or is not used any more."""

    def __init__(self, work: _Work) -> None:
        self._work = work
        self._closed = False
        #: Its functions by name.
        self.functions = {it[0]: Function(work, *it) for it in work.functions()}

    def __getitem__(self, name: str) -> Function:
        if name not in self.functions:
            has = ", ".join(self.functions) or "none"
            raise Error("NOT_FOUND", f"the module has no function '{name}'", [], f"the module has: {has}")
        return self.functions[name]

    def __getattr__(self, name: str) -> Function:
        if name.startswith("_") or name not in self.functions:
            raise AttributeError(f"the program has no function {name!r}; it has {', '.join(self.functions)}")
        return self.functions[name]

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self.functions])

    def close(self) -> None:
        """Ends the program, and the capture that it records."""
        if not self._closed:
            self._closed = True
            self._work.close()

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None and isinstance(self._work, _There):
            self._closed = True
            self._work.cancel()
        self.close()

    def __repr__(self) -> str:
        return f"Program({', '.join(self.functions)})"


@_options.of("run-module")
def load(
    module: Module,
    *,
    device: str | Sequence[str] | None = None,
    parameters: Parameters | None = None,
    isolation: Isolation = "process",
    timeout: float | None = None,
    **flags: Unpack[_flags.RunModule],
) -> Program:
    """Loads a compiled module (``.vmfb``), from a file or from bytes.

    Flags are those of ``rehal run-module``. Kernels run in another process, which stays until the program is
    closed; with ``isolation="none"`` in this one, which ends if one crashes. ``device`` is one, or a list for
    a program of several devices. ``parameters`` has the parameters of each scope: a file, or arrays by name.
    ``timeout`` limits loading, and each call.
    """
    return _load(module, device, parameters, isolation, timeout, flags, is_whole=False)


def _load(
    module: Module,
    device: str | Sequence[str] | None,
    parameters: Any,
    isolation: Isolation,
    timeout: float | None,
    flags: Mapping[str, Any],
    *,
    is_whole: bool,
) -> Program:
    _replay.check("serialized", isolation)
    modules = [module] if isinstance(module, (str, bytes, os.PathLike)) else list(module)
    with _parameter_files(parameters) as files:
        if isolation == "none":
            if flags or timeout is not None or not isinstance(files, list):
                raise ValueError("a program in this process has no timeout, and takes no options of the tool")
            paths = [it if isinstance(it, bytes) else os.fspath(it) for it in modules]
            devices = [device] if isinstance(device, str) else list(device or [])
            return Program(_Here(_rehal.Program(paths, devices, files)))
        with contextlib.ExitStack() as stack:
            given = {
                "module": [_path_of(it, stack) for it in modules],
                "device": device,
                "parameters": [f"{scope}={path}" for scope, path in files]
                if isinstance(files, list)
                else files,
                **flags,
            }
            arguments = ["run-module", *_tool.to_flags(given)]
            conversation = _replay.converse(arguments, {"calls": True}, timeout, is_whole=is_whole)
            try:
                return Program(_There(conversation))
            except BaseException:
                conversation.cancel()
                raise


def _path_of(module: _tool.StrPath | bytes, stack: contextlib.ExitStack) -> str:
    if not isinstance(module, bytes):
        return os.fspath(module)
    memory = SharedMemory()
    stack.callback(memory.close)
    memory.write(module)
    return memory.path


@contextlib.contextmanager
def _parameter_files(parameters: Any) -> Iterator[Any]:
    """The scopes and paths of parameters, of which arrays are in files that are removed once the program has
    opened them. Anything but a mapping is passed on as flags."""
    import tempfile

    if not isinstance(parameters, Mapping):
        yield parameters if parameters is not None else []
        return
    with tempfile.TemporaryDirectory(prefix="rehal-") as directory:
        files = []
        for index, (scope, values) in enumerate(parameters.items()):
            if isinstance(values, Mapping):
                path = os.path.join(directory, f"{index}.safetensors")
                _write_arrays(path, values)
                files.append((scope, path))
            else:
                files.append((scope, os.fspath(values)))
        yield files


def _write_arrays(path: str, arrays: Mapping[str, Any]) -> None:
    """A file of safetensors. Programs find parameters by name, and know their types."""
    parts = {name: _values.array_to_bytes(array, None)[1] for name, array in arrays.items()}
    header, at = {}, 0
    for name, part in parts.items():
        header[name] = {"dtype": "U8", "shape": [len(part)], "data_offsets": [at, at + len(part)]}
        at += len(part)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts.values():
            file.write(part)


@_options.of("run-module")
def run(
    module: Module,
    function: str,
    *arrays: npt.ArrayLike | None,
    device: str | Sequence[str] | None = None,
    parameters: Parameters | None = None,
    timeout: float | None = None,
    **flags: Unpack[_flags.RunModule],
) -> list[Result]:
    """Loads a compiled module (``.vmfb``) in another process, and calls a function once, as :func:`load`
    does. Returns its results: numpy arrays, and numbers where a function returns scalars."""
    with _load(module, device, parameters, "process", timeout, flags, is_whole=True) as program:
        return program[function](*arrays)


@_options.of("run-module")
def record(
    module: Module,
    function: str,
    *arrays: npt.ArrayLike | None,
    out: _tool.StrPath,
    device: str | Sequence[str] | None = None,
    parameters: Parameters | None = None,
    timeout: float | None = None,
    **flags: Unpack[_flags.RunModule],
) -> Capture:
    """Calls a function as :func:`run` does, records its device work to ``out``, and opens that capture. The
    results are in it, as host reads."""
    import tempfile

    target = Path(os.fspath(out)).absolute()
    # Two recorders of one path would write into one file: each has its own, and the last to end has the name.
    descriptor, temporary = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    os.close(descriptor)
    given = {**flags, "device_replay_output": temporary}
    try:
        with _load(module, device, parameters, "process", timeout, given, is_whole=True) as program:
            program[function](*arrays)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return Capture(target)
