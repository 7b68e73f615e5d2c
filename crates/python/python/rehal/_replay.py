"""Replays that Python sees and steers.

A replay runs on a thread, and usually in another process. It asks; this thread answers, and calls the
callbacks.
"""

from __future__ import annotations

import json
import operator
import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, SupportsIndex, Union

from . import _rehal, _tool
from ._buffers import Buffer, SharedMemory
from ._errors import Error

Isolation = Literal["process", "none"]
Order = Literal["serialized", "captured"]
#: What replaces an executable: its code, the path of a file that has it, or nothing.
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
        return Buffer(self._source, operator.index(id), 0, -1)

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
        if self._conversation is None:
            raise Error(
                "FAILED_PRECONDITION",
                "the replay has gone on",
                [f"buffer {id}"],
                "look at a buffer within its callback, or before its state is closed",
            )
        return self._conversation.fetch(id, offset, length)

    def close(self) -> None:
        self._conversation = None


class Conversation:
    """Work on a thread that asks this one. ``result`` is what the work returned."""

    def __init__(self, run: Callable[[Callable[[str], str], _rehal.Cancellation], Any]) -> None:
        self.result: Any = None
        self._process = os.getpid()
        self._questions: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._cancellation = _rehal.Cancellation()
        self._raised: BaseException | None = None
        self._ended = False
        self._cancelled = False
        self._thread = threading.Thread(target=self._run, args=(run,), name="rehal replay", daemon=True)
        self._thread.start()

    def _run(self, run: Callable[[Callable[[str], str], _rehal.Cancellation], Any]) -> None:
        def reply(question: str) -> str:
            # What is asked after the end was requested is answered here: no one waits for it.
            if self._cancelled:
                return '"continue"'
            self._questions.put(json.loads(question))
            return self._answers.get()

        try:
            self.result = run(reply, self._cancellation)
        except BaseException as raised:  # noqa: BLE001: it is raised in the thread that waits
            self._raised = raised
        finally:
            self._questions.put(None)

    def next(self) -> dict[str, Any] | None:
        """The next question; ``None`` at the end of the replay, whose error is raised."""
        if self._process != os.getpid():
            raise Error(
                "FAILED_PRECONDITION", "the replay belongs to the process that this one was forked from"
            )
        if self._ended:
            return None
        question = self._questions.get()
        if question is None:
            self._ended = True
            self._thread.join()
            if self._raised is not None:
                raise self._raised
        return question

    def answer(self, answer: Any) -> None:
        self._answers.put(json.dumps(answer))

    def fetch(self, id: int, offset: int, length: int) -> tuple[Any, int]:
        memory = SharedMemory()
        try:
            wanted = None if length < 0 else length
            self.answer({"read": {"buffer": id, "offset": offset, "length": wanted, "to": memory.path}})
            question = self.next()
            if question is None:
                raise Error("ABORTED", "the replay has ended")
            if "refused" in question:
                refused = question["refused"]
                raise Error(refused["code"], refused["message"])
            copied: int = question["copied"]["length"]
            return memory.map(copied), copied
        finally:
            memory.close()

    def cancel(self, wait: bool = True) -> None:
        """Ends the replay, and waits for its end unless ``wait`` is false."""
        if self._process != os.getpid() or self._ended:
            return
        self._cancelled = True
        self._cancellation.cancel()
        self._answers.put('"continue"')
        if wait:
            self._thread.join()
        self._ended = True


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
    flags: dict[str, Any],
) -> Conversation:
    check(order, isolation)
    text = json.dumps(request)
    if isolation == "none":
        if flags or timeout is not None:
            raise ValueError("a replay in this process has no timeout, and takes no flags of the tool")

        def here(reply: Callable[[str], str], cancellation: _rehal.Cancellation) -> None:
            _rehal.replay_here(path, recover, device, order == "captured", text, reply, cancellation)

        return Conversation(here)
    arguments = arguments_of(path, {"device": device, "order": order, "recover": recover, "flags": flags})
    return converse(arguments, text, timeout)


def converse(arguments: list[str], request: str, timeout: float | None) -> Conversation:
    """A worker of the tool, which asks."""
    binary = _tool.binary()

    def there(reply: Callable[[str], str], cancellation: _rehal.Cancellation) -> Any:
        ended, answer = _rehal.converse(binary, arguments, request, reply, cancellation, timeout)
        how, number, _, stderr = ended
        if how == "interrupt":
            return None
        crashed = _tool.crash(how, number, stderr)
        if crashed is not None:
            raise crashed
        document = None if answer is None else json.loads(answer)
        if number != 0 and (document is None or "code" in document):
            if document is not None:
                raise Error._of_json(document)
            raise Error._of_report(stderr.decode(errors="replace"))
        return None if document is None else (document, number)

    return Conversation(there)


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
    return {"replace": {"path": os.path.abspath(chosen), "format": None}}, None


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
    conversation = begin(path, request, **options)
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
            return self.buffers[operator.index(id)]
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
    # Those of columns are numpy's.
    place = {"record": operator.index(record), "occurrence": operator.index(occurrence)}
    conversation = begin(path, {"at": place}, **options)
    try:
        question = conversation.next()
    except BaseException:
        conversation.cancel()
        raise
    if question is None:
        raise Error("INTERNAL", "the replay ended before the record")
    return State(conversation, place["record"], question["at"]["buffers"])


def absolute(path: _tool.StrPath) -> str:
    return str(Path(os.fspath(path)).absolute())
