"""What times prove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from . import _rehal


class Judgment(NamedTuple):
    """How two versions compare."""

    #: The median after, as a fraction of that before.
    ratio: float
    #: Its interval, with 95 %: ``None`` with too few processes.
    interval: tuple[float, float] | None
    #: ``faster``, ``not slower``, ``slower`` or ``cannot tell``.
    verdict: str


def judge(
    before: Iterable[float], after: Iterable[float], *, margin: float = 0.05, comparisons: int = 1
) -> Judgment:
    """Judges the times of processes of two versions, in any unit.

    Each is the median of one process, since the memory that a process happens to get may make it slower by
    some percent: one process of each proves nothing, and four are the fewest. ``not slower`` is proved if the
    interval ends below 1 plus ``margin``. ``comparisons`` is how many such judgments a report has, such
    as one for each function: their intervals are wider, so that all contain their ratios.
    """
    return Judgment(*_rehal.judge(list(before), list(after), margin, comparisons))
