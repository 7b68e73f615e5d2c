"""Sweeps: many comparisons of kernels, which can be resumed."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _tool
from ._capture import Capture, path_of
from ._errors import Crash, Error
from ._report import Node, _rows_of

if TYPE_CHECKING:
    import pandas

#: Times that a task is tried whose process ended by itself, such as one that was killed.
_ATTEMPTS = 2


@dataclass(frozen=True)
class Task:
    """A comparison: its id is the digest of all that its result depends on, but the machine."""

    id: str
    capture: str
    function: str
    candidate: str
    device: str
    flags: dict[str, Any] = field(default_factory=dict)


#: Performs tasks, and yields each result when there is one, in any order.
Executor = Callable[[Callable[[Task], "dict[str, Any]"], Sequence[Task]], Iterable["dict[str, Any]"]]


def local(perform: Callable[[Task], dict[str, Any]], tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
    """Performs tasks on this machine, one after the other: two that are timed at once would disturb each
    other. Each runs kernels in processes of its own."""
    for task in tasks:
        yield perform(task)


def perform(task: Task) -> dict[str, Any]:
    """Performs a task: its result, or its error. It can be sent to another process."""
    row: dict[str, Any] = asdict(task)
    for attempt in range(1, _ATTEMPTS + 1):
        row["attempts"] = attempt
        try:
            report = Capture(task.capture).compare(task.function, task.candidate, device=task.device, **task.flags)
        except Crash as crash:
            row.update(outcome="crashed", error=str(crash))
        except Error as error:
            row.update(outcome="failed", error=str(error))
            break
        else:
            row.update(outcome=report.verdict, error=None, report=report.to_dict())
            break
    return row


class Sweep:
    """The results of a sweep, in the order of its plan."""

    def __init__(self, plan: Sequence[Task], rows: dict[str, dict[str, Any]]) -> None:
        #: The tasks.
        self.plan = list(plan)
        #: A result for each task.
        self.rows = [Node(rows[task.id]) for task in plan]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.rows)

    def regressions(self) -> list[Node]:
        """The results that are wrong, slower, crashed or failed."""
        return [row for row in self.rows if row.outcome not in ("not slower", "cannot tell")]

    @property
    def status(self) -> int:
        """0 without regressions, 1 with some: an exit status for CI."""
        return 1 if self.regressions() else 0

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame, without the reports."""
        import pandas

        return pandas.DataFrame(self._table())

    def _table(self) -> list[dict[str, Any]]:
        left_out = ("report", "flags")
        return [{name: value for name, value in row.to_dict().items() if name not in left_out} for row in self.rows]

    def __repr__(self) -> str:
        return f"Sweep({len(self.rows)} tasks, {len(self.regressions())} regressions)"

    def _repr_html_(self) -> str:
        return _rows_of(self._table())


def sweep(
    captures: Iterable[Union[_tool.StrPath, Capture]],
    functions: Iterable[str],
    candidates: Iterable[_tool.StrPath],
    devices: Iterable[str] = ("local-task",),
    *,
    out: _tool.StrPath,
    executor: Executor = local,
    **flags: Any,
) -> Sweep:
    """Compares each candidate with each function of each capture on each device, as :meth:`Capture.compare`.

    The directory ``out`` gets ``plan.json``, and ``results.jsonl`` with a line per result, as soon as it is
    there. A task whose result is there is skipped, unless it crashed: so a sweep that was interrupted continues,
    and a candidate that has changed is compared again. Flags are those of ``rehal compare``.
    """
    directory = Path(os.fspath(out))
    directory.mkdir(parents=True, exist_ok=True)
    plan = list(_plan(captures, functions, candidates, devices, flags))
    (directory / "plan.json").write_text(json.dumps([asdict(task) for task in plan], indent=1) + "\n")
    results = directory / "results.jsonl"
    rows = {row["id"]: row for row in _read(results) if row["outcome"] != "crashed"}
    missing = list({task.id: task for task in plan if task.id not in rows}.values())
    with open(results, "a", encoding="utf-8") as file:
        for row in executor(perform, missing):
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows[row["id"]] = row
    return Sweep(plan, rows)


def _plan(
    captures: Iterable[Union[_tool.StrPath, Capture]],
    functions: Iterable[str],
    candidates: Iterable[_tool.StrPath],
    devices: Iterable[str],
    flags: dict[str, Any],
) -> Iterator[Task]:
    opened = [Capture(path_of(capture)) for capture in captures]
    digests = {capture.path: capture.digest() for capture in opened}
    named = [(os.path.abspath(path), hashlib.blake2b(Path(os.fspath(path)).read_bytes()).hexdigest()) for path in candidates]
    given = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in flags.items()}
    for capture, function, (path, code), device in itertools.product(opened, list(functions), named, list(devices)):
        inputs = json.dumps([digests[capture.path], function, code, device, given], sort_keys=True)
        id = hashlib.blake2b(inputs.encode(), digest_size=16).hexdigest()
        yield Task(id, capture.path, function, path, device, given)


def _read(results: Path) -> list[dict[str, Any]]:
    """The results that are there. An incomplete last line, of a sweep that was killed, is removed."""
    if not results.exists():
        return []
    text = results.read_text(encoding="utf-8")
    complete = text[: text.rfind("\n") + 1]
    if complete != text:
        results.write_text(complete, encoding="utf-8")
    return [json.loads(line) for line in complete.splitlines()]
