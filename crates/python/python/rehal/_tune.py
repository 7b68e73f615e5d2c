"""Searches for the fastest variant of a kernel."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Union

from . import _options, _replay, _tool
from ._capture import Capture, path_of
from ._errors import Error
from ._report import Node, Report

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from . import _flags

#: The outcomes of variants that are right.
_RIGHT = ("faster", "not_slower", "cannot_tell", "slower")


class Trial(Node):
    """A variant that was tried: a line of ``rehal tune --output``."""

    @property
    def is_right(self) -> bool:
        """Whether it computes the same as the captured kernel. Others were not timed."""
        return self._json["outcome"] in _RIGHT


class Tuning(Report):
    """The result of a search."""

    @property
    def best(self) -> Trial | None:
        """The best trial; ``None`` if no variant is right."""
        return next((Trial(it) for it in self._json["trials"] if it["trial"] == self._json["best"]), None)

    @property
    def verdict(self) -> str:
        """``faster``, ``wrong``, ``slower``, or ``cannot tell``: the best beside the captured kernel."""
        return {0: "faster", 2: "wrong", 3: "slower", 4: "cannot tell"}.get(self.status, "failed")


@_options.of("tune")
def tune(
    capture: Union[_tool.StrPath, Capture],
    function: str,
    space: _tool.StrPath,
    *,
    device: str | None = None,
    timeout: float | None = None,
    **flags: Unpack[_flags.Tune],
) -> Tuning:
    """Tries the points of a space, for which a sampler of the tool chooses the order: as ``rehal tune``."""
    given = {"device": device, "function": function, "space": space, **flags}
    return Tuning(*_tool.report(["tune", *_tool.to_flags(given), "--", path_of(capture)], timeout=timeout))


class Tuner:
    """A search whose points the program chooses: :meth:`run` tries one. It holds a process until it is
    closed; a ``with`` statement closes it.

    Flags are those of ``rehal tune``, with underscores. A study of Optuna asks for points, and
    receives ``trial.ratio``.
    """

    @_options.of("tune")
    def __init__(
        self,
        capture: Union[_tool.StrPath, Capture],
        function: str,
        space: _tool.StrPath,
        *,
        device: str | None = None,
        timeout: float | None = None,
        **flags: Unpack[_flags.Tune],
    ) -> None:
        given = {"device": device, "function": function, "space": os.path.abspath(space), **flags}
        arguments = ["tune", *_tool.to_flags(given), "--", path_of(capture)]
        self._result: Tuning | None = None
        self._conversation = _replay.converse(arguments, {"asks": True}, timeout)
        #: The values of each axis of the space, by its name.
        self.axes: dict[str, list[Any]] = {it["name"]: it["values"] for it in self._next()["axes"]}
        #: The trials, in order.
        self.trials: list[Trial] = []

    def _next(self) -> dict[str, Any]:
        question = self._conversation.next()
        if question is None:
            raise Error("FAILED_PRECONDITION", "the search has ended", [], "make another tuner")
        return question

    def run(self, point: Mapping[str, Any]) -> Trial:
        """Tries a point, which has a value of each axis. The result of one that was tried before is known."""
        if self._result is not None:
            raise Error("FAILED_PRECONDITION", "the search was closed", [], "make another tuner")
        with self._conversation.turn():
            self._conversation.answer({"point": dict(point)})
            question = self._next()
        if "refused" in question:
            raise Error._of_json(question["refused"], "tune")
        trial = Trial(question["trial"])
        self.trials.append(trial)
        return trial

    def close(self) -> Tuning:
        """Ends the search: compares the best with the captured kernel and with the second once more."""
        if self._result is None:
            with self._conversation.turn():
                self._conversation.answer("stop")
                while self._conversation.next() is not None:
                    self._conversation.answer("stop")
            if self._conversation.result is None:
                raise Error("ABORTED", "the search ended without a result")
            document, status = self._conversation.result
            self._result = Tuning(document, status)
        return self._result

    def __enter__(self) -> Tuner:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._conversation.cancel()

    def __del__(self) -> None:
        # Garbage is collected anywhere: this does not wait for the process.
        if hasattr(self, "_conversation"):
            self._conversation.cancel(wait=False)

    def __repr__(self) -> str:
        return f"Tuner(axes={list(self.axes)}, {len(self.trials)} trials)"
