"""Bytes of a replay, which another process wrote into a file that both share."""

from __future__ import annotations

import atexit
import contextlib
import math
import mmap
import os
import shutil
import tempfile
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import _rehal
from ._errors import Error

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

_directories: dict[int, str] = {}


def shared_directory() -> str:
    """The directory of shared files of this process, which its workers find by a variable. A confined worker
    cannot open the memory of this process by way of its descriptors."""
    process = os.getpid()
    if process not in _directories:
        directory = tempfile.mkdtemp(prefix="rehal-python-")
        _directories[process] = directory
        atexit.register(_remove, process, directory)
    os.environ["REHAL_SHARED_DIRECTORY"] = _directories[process]
    return _directories[process]


def _remove(process: int, directory: str) -> None:
    if process == os.getpid():
        shutil.rmtree(directory, ignore_errors=True)


class SharedMemory:
    """A file that the process of a replay writes, and that is read here afterwards."""

    def __init__(self, suffix: str = "") -> None:
        self._fd, self.path = tempfile.mkstemp(suffix, dir=shared_directory())

    def write(self, *parts: Any) -> None:
        with open(self._fd, "wb", closefd=False) as file:
            for part in parts:
                file.write(part)

    def map(self, length: int = -1) -> mmap.mmap | None:
        """Its bytes. Mapping it would let its writer, which may be a hostile kernel, cut it under a view."""
        length = os.fstat(self._fd).st_size if length < 0 else length
        if length == 0:
            return None
        memory = mmap.mmap(-1, length)
        with open(self._fd, "rb", closefd=False) as file:
            file.seek(0)
            if file.readinto(memory) != length:
                raise Error("DATA_LOSS", "a file that a worker shares is too short", [], "run it again")
        return memory

    def close(self) -> None:
        os.close(self._fd)
        with contextlib.suppress(OSError):
            os.unlink(self.path)


class Buffer(_rehal.Exporter):
    """A range of a buffer of a replay. Its bytes are fetched once, when they are first looked at, also
    through the buffer protocol, as by ``memoryview``."""

    def __init__(self, source: Any, id: int, offset: int, length: int) -> None:
        self._source = source
        self._bytes: npt.NDArray[np.uint8] | None = None
        self._lock = threading.Lock()
        #: The id of the buffer in the capture.
        self.id = id
        #: The first byte in the buffer.
        self.offset = offset
        # Of a whole buffer, it is negative until the bytes have been fetched.
        self._length = length

    @property
    def nbytes(self) -> int:
        """The number of bytes."""
        return self._fetch().size if self._length < 0 else self._length

    def view(
        self, dtype: npt.DTypeLike = "uint8", shape: int | Iterable[int] | None = None
    ) -> npt.NDArray[Any]:
        """The bytes as an array. All arrays of a buffer are views of the same bytes, which are this process's
        own: what is written to them does not change the replay.

        Without a shape, it has one dimension. A shape may have fewer bytes than the buffer: the first ones. A
        dimension of -1 is inferred, as by ``reshape``.
        """
        import numpy as np

        all_bytes = self._fetch()
        kind = np.dtype(dtype)
        wanted_shape = tuple(shape) if isinstance(shape, Iterable) else (-1 if shape is None else shape,)
        if -1 in wanted_shape:
            if kind.itemsize == 0 or all_bytes.size % kind.itemsize:
                message = f"{all_bytes.size} bytes are not a multiple of the {kind.itemsize} bytes of {kind}"
                raise Error(
                    "INVALID_ARGUMENT", message, [], "name a shape, of which the first bytes are taken"
                )
            return all_bytes.view(kind).reshape(wanted_shape)
        wanted = math.prod(wanted_shape) * kind.itemsize
        if any(size < 0 for size in wanted_shape) or wanted > all_bytes.size:
            message = f"shape {wanted_shape} of {kind} needs {wanted} bytes, found {all_bytes.size}"
            raise Error("OUT_OF_RANGE", message)
        return all_bytes[:wanted].view(kind).reshape(wanted_shape)

    def _exported(self) -> npt.NDArray[np.uint8]:
        """What the buffer protocol exports."""
        return self._fetch()

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> npt.NDArray[Any]:
        return self.view().astype("uint8" if dtype is None else dtype, copy=bool(copy))

    def __dlpack__(self, **arguments: Any) -> Any:
        return self.view().__dlpack__(**arguments)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __bytes__(self) -> bytes:
        return self.view().tobytes()

    def __len__(self) -> int:
        return self.nbytes

    def __repr__(self) -> str:
        size = "" if self._length < 0 else f", nbytes={self._length}"
        return f"Buffer(id={self.id}, offset={self.offset}{size})"

    def _fetch(self) -> npt.NDArray[np.uint8]:
        # Two threads get the same array.
        with self._lock:
            if self._bytes is None:
                import numpy as np

                mapped, self._length = self._source.fetch(self.id, self.offset, self._length)
                self._bytes = np.zeros(0, np.uint8) if mapped is None else np.frombuffer(mapped, np.uint8)
                # It holds the process of a state.
                self._source = None
            return self._bytes
