"""Captures."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from . import _options, _rehal, _replay, _tool
from ._columns import Records
from ._errors import Error
from ._replay import Dispatch, Executable, HostRead, Isolation, Order, State, Substitute
from ._report import (
    Benchmark,
    Comparison,
    Diff,
    Info,
    Kernels,
    Node,
    Races,
    Redaction,
    Reduction,
    Verification,
    _rows_of,
    _table_of,
)

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _flags


class Capture:
    """An open capture: :func:`rehal.open` opens one. The file stays mapped until :meth:`close`, or the end of
    a ``with`` statement, so that it can be read after it has been deleted; what runs in another process opens
    it again, by its path. It can be pickled, by the path and the digest of the file."""

    def __init__(self, path: _tool.StrPath, *, recover: bool = False) -> None:
        self._path = _replay.absolute(path)
        self._recover = recover
        self._opened: _rehal.Capture | None = _rehal.Capture(self._path, recover)
        stat = os.stat(self._path)
        self._file = (stat.st_dev, stat.st_ino)

    def __reduce__(self) -> tuple[Callable[..., Capture], tuple[str, bool, str]]:
        return _unpickled, (self._path, self._recover, self.digest())

    def close(self) -> None:
        """Unmaps the file. Records that were read stay; all else of this object then raises an error."""
        self._opened = None

    @property
    def closed(self) -> bool:
        """Whether :meth:`close` has been called."""
        return self._opened is None

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _capture(self) -> _rehal.Capture:
        if self._opened is None:
            raise Error("FAILED_PRECONDITION", "the capture has been closed", [self._path], "open it again")
        return self._opened

    @property
    def path(self) -> str:
        """The path of the file."""
        return self._path

    @property
    def version(self) -> str:
        """The version of the format."""
        return self._capture.version

    @property
    def is_complete(self) -> bool:
        """Whether its program ended it: not if the program was killed meanwhile."""
        return self._capture.is_closed

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        return self._capture.size_bytes

    def digest(self) -> str:
        """The BLAKE3 of the file, as reports and ledgers have it."""
        return self._capture.digest()

    @property
    def scopes(self) -> dict[str, int]:
        """The number of entries of each scope."""
        return dict(self._capture.scopes())

    @property
    def executables(self) -> list[Node]:
        """The executables: id, format, size, functions."""
        return [Node(executable) for executable in self._capture.executables()]

    def code(self, executable: SupportsIndex) -> bytes:
        """The code of an executable, by its id."""
        return self._capture.code(_replay.ordinal("executable", executable))

    def records(
        self, kind: str | None = None, function: str | None = None, scope: str | None = None
    ) -> Records:
        """The records as columns, or those that match patterns with ``*`` and ``?``: of the type or the kind,
        such as ``operation`` or ``*.dispatch``; of the dispatched function; of a scope that is open."""
        return Records(self._capture.columns(kind, function, scope))

    def sql(self, query: str, connection: Any = None) -> Any:
        """The relation of a query of duckdb, in which :meth:`records` are the table ``records``."""
        return self.records().sql(query, connection)

    @_options.of("info")
    def info(
        self, device: str | None = None, timeout: float | None = None, **flags: Unpack[_flags.Info]
    ) -> Info:
        """What it contains, and whether it can be replayed here: as ``rehal info``."""
        return Info(*self._report("info", device, flags, timeout))

    @_options.of("run")
    def replay(
        self,
        *,
        on_dispatch: Callable[[Dispatch], object] | None = None,
        before_dispatch: Callable[[Dispatch], object] | None = None,
        function: str = "*",
        on_host_read: Callable[[HostRead], object] | None = None,
        substitute: Callable[[Executable], Substitute] | None = None,
        device: str | None = None,
        order: Order = "serialized",
        isolation: Isolation = "process",
        timeout: float | None = None,
        **flags: Unpack[_flags.Run],
    ) -> None:
        """Replays it once, and calls back. Callbacks run on this thread, and an exception of one ends the
        replay and is raised.

        ``on_dispatch`` and ``before_dispatch`` are called after and before each dispatch of the functions
        that match ``function``, ``on_host_read`` for each range that the program read. ``substitute`` returns
        the code that replaces an executable, the path of a file that has it, or of CUDA C, or ``None``. Flags
        are those of ``rehal run``, with underscores.

        Kernels run in another process; with ``isolation="none"`` in this one, which ends if one crashes.
        """
        self._check_file()
        _replay.replay(
            self._path,
            self._capture,
            on_dispatch=on_dispatch,
            before_dispatch=before_dispatch,
            function=function,
            on_host_read=on_host_read,
            substitute=substitute,
            device=device,
            order=order,
            recover=self._recover,
            isolation=isolation,
            timeout=timeout,
            flags=flags,
        )

    @_options.of("run")
    def at(
        self,
        record: SupportsIndex,
        *,
        occurrence: SupportsIndex = 0,
        device: str | None = None,
        isolation: Isolation = "process",
        timeout: float | None = None,
        **flags: Unpack[_flags.Run],
    ) -> State:
        """The state just before a record of an operation: a dispatch, fill, copy or update, or a queue
        operation. ``occurrence`` counts how often the record has been performed before. The error for another
        record names the next one that is an operation."""
        self._check_file()
        return _replay.at(
            self._path,
            record,
            occurrence,
            device=device,
            order="serialized",
            recover=self._recover,
            isolation=isolation,
            timeout=timeout,
            flags=flags,
        )

    @_options.of("kernels")
    def kernels(
        self, device: str | None = None, timeout: float | None = None, **flags: Unpack[_flags.Kernels]
    ) -> Kernels:
        """Its kernels, and what they cost: as ``rehal kernels``."""
        return Kernels(*self._report("kernels", device, flags, timeout))

    @_options.of("compare")
    def compare(
        self,
        function: str,
        candidate: _tool.StrPath | Sequence[_tool.StrPath],
        *,
        device: str | None = None,
        timeout: float | None = None,
        **flags: Unpack[_flags.Compare],
    ) -> Comparison:
        """Checks and times a replacement of a kernel, or several: as ``rehal compare``."""
        given = {"function": function, "with": candidate, **flags}
        return Comparison(*self._report("compare", device, given, timeout))

    @_options.of("verify")
    def verify(
        self, *, device: str | None = None, timeout: float | None = None, **flags: Unpack[_flags.Verify]
    ) -> Verification:
        """Finds the first dispatch of a replay that differs: as ``rehal verify``."""
        return Verification(*self._report("verify", device, flags, timeout))

    @_options.of("diff")
    def diff(
        self, after: _tool.StrPath | Capture, *, timeout: float | None = None, **flags: Unpack[_flags.Diff]
    ) -> Diff:
        """Tells what differs in another capture: as ``rehal diff``."""
        self._check_file()
        return diff(self, after, timeout=timeout, **flags)

    @_options.of("slice")
    def slice(
        self,
        output: _tool.StrPath,
        *,
        device: str | None = None,
        timeout: float | None = None,
        **flags: Unpack[_flags.Slice],
    ) -> Capture:
        """Cuts a dispatch or a scope out, and opens the result: as ``rehal slice``."""
        self._check_file()
        given = {"device": device, "recover": self._recover or None, "output": output, **flags}
        _tool.succeed(["slice", *_tool.to_flags(given), "--", self._path], timeout=timeout)
        return Capture(output)

    @_options.of("redact")
    def redact(
        self,
        output: _tool.StrPath,
        *,
        device: str | None = None,
        timeout: float | None = None,
        **flags: Unpack[_flags.Redact],
    ) -> Redaction:
        """Writes a capture without weights and inputs: as ``rehal redact``."""
        return Redaction(*self._report("redact", device, {"output": output, **flags}, timeout))

    @_options.of("races")
    def races(self, *, timeout: float | None = None, **flags: Unpack[_flags.Races]) -> Races:
        """Finds data races between its operations, without running it: as ``rehal races``."""
        return Races(*self._report("races", None, flags, timeout))

    @_options.of("reduce")
    def reduce(
        self,
        check: str,
        output: _tool.StrPath,
        *,
        device: str | None = None,
        timeout: float | None = None,
        **flags: Unpack[_flags.Reduce],
    ) -> Reduction:
        """Writes the smallest capture that still passes a check, which is ``crash``, ``wrong``, ``slow``, or
        a command: as ``rehal reduce``."""
        given = {"check": check, "output": output, **flags}
        return Reduction(*self._report("reduce", device, given, timeout))

    @_options.of("benchmark")
    def benchmark(
        self,
        *,
        device: str | None = None,
        timeout: float | None = None,
        **flags: Unpack[_flags.Benchmark],
    ) -> Benchmark:
        """Measures its replays, or with ``with_``, replays with a replacement and without it, by turns: as
        ``rehal benchmark``."""
        format = "--format=json" if flags.get("with_") is not None else "--benchmark_format=json"
        return Benchmark(*self._report("benchmark", device, flags, timeout, format))

    @_options.of("dump")
    def dump(self, *, timeout: float | None = None, **flags: Unpack[_flags.Dump]) -> list[Node]:
        """All of its records, with their payloads: as ``rehal dump``. :meth:`records` has what they have in
        common, and takes less memory."""
        self._check_file()
        given = {"format": "jsonl", "recover": self._recover or None, **flags}
        stdout, _ = _tool.succeed(["dump", *_tool.to_flags(given), "--", self._path], timeout=timeout)
        return [Node(json.loads(line)) for line in stdout.splitlines()]

    def __repr__(self) -> str:
        return f"Capture({self._path!r})"

    def _repr_html_(self) -> str:
        about = {
            "path": self._path,
            "version": self.version,
            "size_bytes": self.size_bytes,
            "scopes": self.scopes,
        }
        rows = [function for it in self.executables for function in it.to_dict()["functions"]]
        return _table_of(about) + _rows_of(rows)

    def _report(
        self,
        verb: str,
        device: str | None,
        flags: Mapping[str, Any],
        timeout: float | None = None,
        format: str = "--format=json",
    ) -> tuple[dict[str, Any], int]:
        self._check_file()
        given = {"device": device, "recover": self._recover or None, **flags}
        return _tool.report([verb, *_tool.to_flags(given), "--", self._path], timeout=timeout, format=format)

    def _check_file(self) -> None:
        """Another process opens the path: it must be that of this file."""
        _ = self._capture
        advice = "open the capture again; records() still reads the one that was opened"
        try:
            stat = os.stat(self._path)
        except OSError as error:
            message = f"the capture was removed: {error.strerror}"
            raise Error("NOT_FOUND", message, [self._path], advice) from None
        if (stat.st_dev, stat.st_ino) != self._file:
            raise Error("FAILED_PRECONDITION", "another file has replaced the capture", [self._path], advice)


def _unpickled(path: str, recover: bool, digest: str) -> Capture:
    """A capture that was pickled: by the path and the digest of its file."""
    capture = Capture(path, recover=recover)
    if capture.digest() != digest:
        message = "the capture has changed since it was pickled"
        advice = "restore the file, or open the capture and pickle it again"
        raise Error("FAILED_PRECONDITION", message, [path], advice)
    return capture


def path_of(capture: _tool.StrPath | Capture) -> str:
    return capture.path if isinstance(capture, Capture) else _replay.absolute(capture)


@_options.of("diff")
def diff(
    before: _tool.StrPath | Capture,
    after: _tool.StrPath | Capture,
    *,
    timeout: float | None = None,
    **flags: Unpack[_flags.Diff],
) -> Diff:
    """Tells what differs between two captures: as ``rehal diff``."""
    arguments = ["diff", *_tool.to_flags(flags), "--", path_of(before), path_of(after)]
    return Diff(*_tool.report(arguments, timeout=timeout))
