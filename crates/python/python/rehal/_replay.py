"""Replays that Python sees and steers.

A replay runs on a thread that is not Python's, and usually in another process. It asks; this thread answers,
and calls the callbacks.
"""

from __future__ import annotations

import contextlib
import json
import operator
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal, SupportsIndex, Union

from . import _rehal, _tool
from ._buffers import Buffer, SharedMemory, shared_directory
from ._errors import Error

Isolation = Literal["process", "none"]
Order = Literal["serialized", "captured"]
#: What replaces an executable: its code, the path of a file that has it or of CUDA C, or nothing.
Substitute = Union[bytes, str, "os.PathLike[str]", None]


class Dispatch:
    """A dispatch, as a callback sees it. Its buffers can be looked at until the callback returns."""

    def __init__(self, source: Any, asked: dict[str, Any]) -> None:
        #: The ordinal of its record.
        self.record: int = asked["record"]
        #: The ordinal of the record of its submission.
        self.submission: int = asked["submission"]
        #: How often its record has been performed before.
        self.occurrence: int = asked["occurrence"]
        #: The innermost open scope.
        self.scope: str | None = asked["scope"]
        #: The id of the executable.
        self.executable: int = asked["executable"]
        #: The name of the function.
        self.function: str = asked["function"]
        #: The number of workgroups in x, y and z.
        self.workgroup_count: tuple[int, int, int] = tuple(asked["workgroup_count"])
        #: The 32-bit constants.
        self.constants: list[int] = asked["constants"]
        #: The bindings, by ordinal.
        self.bindings = [Buffer(source, it["buffer"], it["offset"], it["length"]) for it in asked["bindings"]]
        self._source = source

    def buffer(self, id: SupportsIndex) -> Buffer:
        """All of a buffer, also one that is not bound."""
        return Buffer(self._source, ordinal("buffer", id), 0, -1)

    def __repr__(self) -> str:
        return f"Dispatch(record={self.record}, function={self.function!r}, bindings={len(self.bindings)})"


class HostRead(Buffer):
    """Bytes that the program read: its results. They can be looked at until the callback returns."""

    def __init__(self, source: Any, asked: dict[str, Any]) -> None:
        super().__init__(source, asked["buffer"], asked["offset"], asked["length"])
        #: The ordinal of its record.
        self.record: int = asked["record"]
        #: The innermost open scope.
        self.scope: str | None = asked["scope"]

    def __repr__(self) -> str:
        return f"HostRead(record={self.record}, scope={self.scope!r}, buffer={self.id}, nbytes={self.nbytes})"


class Executable:
    """An executable that a callback may replace."""

    def __init__(self, capture: _rehal.Capture, asked: dict[str, Any]) -> None:
        #: Its id in the capture.
        self.id: int = asked["id"]
        #: The format of its code.
        self.format: str = asked["format"]
        #: The names of its functions.
        self.functions: list[str] = asked["functions"]
        #: The size of its code in bytes.
        self.size_bytes: int = asked["code_bytes"]
        self._capture = capture

    @property
    def code(self) -> bytes:
        """Its code."""
        return self._capture.code(self.id)

    def __repr__(self) -> str:
        return f"Executable(id={self.id}, format={self.format!r}, functions={self.functions!r})"


class _Source:
    """Fetches bytes while a question waits for its answer."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation: Conversation | None = conversation

    def fetch(self, id: int, offset: int, length: int) -> tuple[Any, int]:
        conversation = self._conversation
        if conversation is not None:
            with conversation.turn():
                # Another thread may have waited until the question was answered.
                if self._conversation is not None:
                    return conversation.fetch(id, offset, length)
        raise Error(
            "FAILED_PRECONDITION",
            "the replay has gone on",
            [f"buffer {id}"],
            "look at a buffer within its callback, or before its state is closed",
        )

    def close(self) -> None:
        """Waits for a fetch of another thread: no other question may be answered during it."""
        conversation = self._conversation
        if conversation is not None and conversation.is_own:
            with conversation.turn():
                self._conversation = None


class Conversation:
    """Work that asks this process. ``result`` is what the work returned."""

    def __init__(self, work: _rehal.Conversation, verb: str = "") -> None:
        self.result: Any = None
        #: The verb of a worker, for errors.
        self.verb = verb
        self._work = work
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._ended = False

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """What a thread has while it answers and waits for the next question, which is an answer to it."""
        self._check_process()
        with self._lock:
            yield

    @property
    def is_own(self) -> bool:
        """Whether this process began it: not if it was forked since."""
        return self._process == os.getpid()

    def _check_process(self) -> None:
        if not self.is_own:
            raise Error("FAILED_PRECONDITION", "it belongs to the process that this one was forked from")

    def next(self) -> dict[str, Any] | None:
        """The next question; ``None`` at the end of the work, whose error is raised."""
        self._check_process()
        if self._ended:
            return None
        try:
            question = self._work.next()
            if question is not None:
                asked: dict[str, Any] = json.loads(question)
                return asked
            self._ended = True
            self.result = self._outcome()
            return None
        except BaseException:
            # What comes now would be taken for an answer to something else.
            self.cancel(wait=False)
            raise

    def _outcome(self) -> Any:
        outcome = self._work.outcome()
        if outcome is None:
            return None
        (how, number, _, stderr), answer = outcome
        if how == "interrupt":
            return None
        crashed = _tool.crash(how, number, stderr, self.verb)
        if crashed is not None:
            raise crashed
        document = None if answer is None else json.loads(answer)
        if number != 0 and (document is None or "code" in document):
            if document is not None:
                raise Error._of_json(document, self.verb)
            raise Error._of_report(stderr.decode(errors="replace"), self.verb)
        return None if document is None else (document, number)

    def answer(self, answer: Any) -> None:
        self._work.answer(json.dumps(answer, default=_tool.plain))

    def fetch(self, id: int, offset: int, length: int) -> tuple[Any, int]:
        memory = SharedMemory()
        try:
            wanted = None if length < 0 else length
            self.answer({"read": {"buffer": id, "offset": offset, "length": wanted, "to": memory.path}})
            question = self.next()
            if question is None:
                raise Error("ABORTED", "the replay has ended", [f"buffer {id}"])
            if "refused" in question:
                refused = question["refused"]
                raise Error(refused["code"], refused["message"])
            copied: int = question["copied"]["length"]
            return memory.map(copied), copied
        finally:
            memory.close()

    def cancel(self, wait: bool = True) -> None:
        """Ends the work, and waits for its end unless ``wait`` is false."""
        if not self.is_own:
            return
        self._ended = True
        self._work.cancel()
        if wait:
            self._work.join()


@contextlib.contextmanager
def _interrupted_at(deadline: float | None) -> Iterator[None]:
    """Raises the error of a timeout within a callback, as Ctrl-C raises one. It needs the main thread, and a
    program without a use of its own for SIGALRM; elsewhere the error follows when the callback returns."""
    if (
        deadline is None
        or threading.current_thread() is not threading.main_thread()
        or not hasattr(signal, "SIGALRM")
        or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL
        or signal.getitimer(signal.ITIMER_REAL) != (0.0, 0.0)
    ):
        yield
        return

    def raise_late(*_: object) -> None:
        raise _tool.late()

    signal.signal(signal.SIGALRM, raise_late)
    try:
        # A time of zero would be none.
        signal.setitimer(signal.ITIMER_REAL, max(deadline - time.monotonic(), 1e-6))
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def check(order: str, isolation: str) -> None:
    if isolation not in ("process", "none"):
        raise ValueError(f"isolation={isolation!r} (expected 'process' or 'none')")
    if order not in ("serialized", "captured"):
        raise ValueError(f"order={order!r} (expected 'serialized' or 'captured')")


def arguments_of(path: str, options: dict[str, Any]) -> list[str]:
    """The arguments of the tool that replays a capture."""
    flags = {name: options[name] for name in ("device", "recover")}
    return [
        "run",
        *_tool.to_flags({**flags, "replay_order": options["order"], **options["flags"]}),
        "--",
        path,
    ]


def begin(
    path: str,
    request: dict[str, Any],
    *,
    device: str | None,
    order: Order,
    recover: bool,
    isolation: Isolation,
    timeout: float | None,
    is_whole: bool,
    flags: dict[str, Any],
) -> Conversation:
    check(order, isolation)
    if isolation == "none":
        if flags or timeout is not None:
            raise ValueError("a replay in this process has no timeout, and takes no options of the tool")
        is_captured = order == "captured"
        return Conversation(
            _rehal.Conversation.with_replay(path, recover, device, is_captured, json.dumps(request))
        )
    arguments = arguments_of(path, {"device": device, "order": order, "recover": recover, "flags": flags})
    return converse(arguments, request, timeout, is_whole=is_whole)


def converse(
    arguments: list[str], request: Any, timeout: float | None, *, is_whole: bool = False
) -> Conversation:
    """A worker of the tool, which asks. The timeout is that of the whole, with the answers, or of what
    follows each answer."""
    text = json.dumps(request)
    # The worker confines itself at its start.
    shared_directory()
    return Conversation(
        _rehal.Conversation.with_worker(_tool.binary(), arguments, text, timeout, is_whole), arguments[0]
    )


def _replaced(
    substitute: Callable[[Executable], Substitute], executable: Executable
) -> tuple[Any, SharedMemory | None]:
    chosen = substitute(executable)
    if chosen is None:
        return "continue", None
    if isinstance(chosen, (bytes, bytearray, memoryview)):
        memory = SharedMemory()
        memory.write(bytes(chosen))
        return {"replace": {"path": memory.path, "format": None}}, memory
    path = os.fspath(chosen)
    is_source = os.path.splitext(path)[1] == ".cu"
    with tempfile.TemporaryDirectory() as directory:
        if is_source:
            path = os.path.join(directory, "kernel.ptx")
            _tool.succeed(["kernel", "build", f"--output={path}", "--", os.fspath(chosen)])
        # A worker that is confined cannot open a file that was not named at its start.
        memory = SharedMemory(os.path.splitext(path)[1])
        with open(path, "rb") as file:
            memory.write(file.read())
    return {"replace": {"path": memory.path, "format": None, "keeps_missing": is_source}}, memory


def replay(
    path: str,
    capture: _rehal.Capture,
    *,
    on_dispatch: Callable[[Dispatch], object] | None,
    before_dispatch: Callable[[Dispatch], object] | None,
    function: str,
    on_host_read: Callable[[HostRead], object] | None,
    substitute: Callable[[Executable], Substitute] | None,
    **options: Any,
) -> None:
    request = {
        "before": None if before_dispatch is None else function,
        "after": None if on_dispatch is None else function,
        "host_reads": on_host_read is not None,
        "executables": substitute is not None,
    }
    if options["isolation"] == "process" and not any(request.values()):
        # The tool itself, which need not ask.
        check(options["order"], options["isolation"])
        _tool.succeed(arguments_of(path, options), timeout=options["timeout"])
        return
    timeout = options["timeout"]
    deadline = None if timeout is None else time.monotonic() + timeout
    conversation = begin(path, request, is_whole=True, **options)
    memory: SharedMemory | None = None
    try:
        while (question := conversation.next()) is not None:
            if memory is not None:
                memory.close()
                memory = None
            ((kind, asked),) = question.items()
            answer: Any = "continue"
            source = _Source(conversation)
            try:
                with _interrupted_at(deadline):
                    if kind == "before" and before_dispatch is not None:
                        before_dispatch(Dispatch(source, asked))
                    elif kind == "after" and on_dispatch is not None:
                        on_dispatch(Dispatch(source, asked))
                    elif kind == "host_read" and on_host_read is not None:
                        on_host_read(HostRead(source, asked))
                    elif kind == "executable" and substitute is not None:
                        answer, memory = _replaced(substitute, Executable(capture, asked))
            finally:
                source.close()
            conversation.answer(answer)
            if deadline is not None and time.monotonic() >= deadline:
                raise _tool.late()
    finally:
        conversation.cancel()
        if memory is not None:
            memory.close()


class _Held(_Source):
    """The source of a state and of its buffers, which holds the process of the replay."""

    def __del__(self) -> None:
        # Garbage is collected anywhere: this does not wait for the replay.
        if self._conversation is not None:
            self._conversation.cancel(wait=False)


class State:
    """A replay just before a record. Its process ends when it is closed, which a ``with`` statement does, or
    when neither the state nor a buffer that has not been looked at is used any more."""

    def __init__(self, conversation: Conversation, record: int, buffers: list[tuple[int, int]]) -> None:
        self._conversation = conversation
        self._source = _Held(conversation)
        #: The ordinal of the record.
        self.record = record
        #: The buffers that exist, by id.
        self.buffers = {id: Buffer(self._source, id, 0, size) for id, size in buffers}

    def buffer(self, id: SupportsIndex) -> Buffer:
        """A buffer, by its id in the capture."""
        try:
            return self.buffers[ordinal("buffer", id)]
        except KeyError:
            message = f"buffer {id} does not exist before record {self.record}"
            raise Error("NOT_FOUND", message, [], "State.buffers has those that exist") from None

    def close(self) -> None:
        """Ends the replay."""
        self._source.close()
        self._conversation.cancel()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"State(record={self.record}, buffers={len(self.buffers)})"


def at(path: str, record: SupportsIndex, occurrence: SupportsIndex, **options: Any) -> State:
    place = {"record": ordinal("record", record, 32), "occurrence": ordinal("occurrence", occurrence)}
    conversation = begin(path, {"at": place}, is_whole=False, **options)
    try:
        question = conversation.next()
    except BaseException:
        conversation.cancel()
        raise
    if question is None:
        raise Error("INTERNAL", "the replay ended before the record")
    return State(conversation, place["record"], question["at"]["buffers"])


def ordinal(name: str, value: SupportsIndex, bits: int = 64) -> int:
    """An integer from 0, also one of numpy, such as those of columns."""
    number = operator.index(value)
    if not 0 <= number < 1 << bits:
        raise ValueError(f"{name}: {number} (expected an integer from 0 to 2**{bits} - 1)")
    return number


def absolute(path: _tool.StrPath) -> str:
    return str(Path(os.fspath(path)).absolute())
