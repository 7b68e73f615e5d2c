"""The ``timing`` slot of this machine, which one process has at a time."""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Iterator

from ._errors import Error

if sys.platform != "win32":
    import fcntl

#: The file that is locked. Its path depends on nothing in the environment: the sweeps of a terminal, of a
#: daemon and of another user must find the same file.
PATH = "/tmp/rehal-timing.lock"


@contextlib.contextmanager
def timing() -> Iterator[None]:
    """Waits for the slot, and has it until the end of the block or of this process."""
    if sys.platform == "win32":
        raise Error("UNIMPLEMENTED", "sweeps are not in this build for Windows")
    slot = _locked()
    try:
        with contextlib.suppress(OSError):
            # Programs that clean /tmp remove what is old.
            os.utime(slot)
        yield
    finally:
        # A child that was forked meanwhile has the file, too.
        fcntl.flock(slot, fcntl.LOCK_UN)
        os.close(slot)


def _locked() -> int:
    """The file, locked. Another one, if it was removed meanwhile: the next process would lock that."""
    while True:
        slot = _open()
        try:
            fcntl.flock(slot, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say_that_it_waits()
            fcntl.flock(slot, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(slot), os.stat(PATH, follow_symlinks=False)):
                return slot
        os.close(slot)


def _open() -> int:
    """Opens the file. A lock needs no more than reading, so that other users' files will do."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        while True:
            with contextlib.suppress(FileNotFoundError):
                return os.open(PATH, flags)
            with contextlib.suppress(FileExistsError):
                slot = os.open(PATH, flags | os.O_CREAT | os.O_EXCL)
                # Whatever the umask is.
                os.fchmod(slot, 0o666)
                return slot
    except OSError as error:
        message = f"no lock for the timing slot of this machine: {error.strerror}"
        raise Error("UNAVAILABLE", message, [PATH], "make the file readable") from None


# Two sweeps take turns: one would say it for each task.
@functools.cache
def _say_that_it_waits() -> None:
    print("rehal: waiting until no other process times kernels on this machine", file=sys.stderr)
