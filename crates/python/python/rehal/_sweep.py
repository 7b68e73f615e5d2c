"""Sweeps: many comparisons of kernels, which can be resumed."""

from __future__ import annotations

import collections
import hashlib
import html
import itertools
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from . import _options, _slot, _tool
from ._capture import Capture, path_of
from ._errors import Crash, Error
from ._report import Node, _page_of, _rows_of
from .executors import Executor, local

if TYPE_CHECKING:
    import pandas
    from typing_extensions import Unpack

    from . import _flags

#: Outcomes after which the next sweep tries a task again.
_AGAIN = ("crashed", "lost")

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
    #: The label of the nodes that it may run on; ``None`` for any.
    label: str | None = None


def perform(task: Task) -> dict[str, Any]:
    """Performs a task in the ``timing`` slot of this machine: its result, or its error. It can be sent to
    another process."""
    with _slot.timing():
        return _perform(task)


def _perform(task: Task) -> dict[str, Any]:
    row: dict[str, Any] = asdict(task)
    for attempt in range(1, _ATTEMPTS + 1):
        row["attempts"] = attempt
        try:
            report = Capture(task.capture).compare(
                task.function, task.candidate, device=task.device, **task.flags
            )
        except Crash as crash:
            row.update(outcome="crashed", error=str(crash))
        except Error as error:
            row.update(outcome="failed", error=str(error))
            break
        else:
            row.update(outcome=report.verdict, error=None, report=report.to_dict())
            break
    return row


#: A device, or a device and the label of the nodes whose devices are meant.
Device = Union[str, tuple[str, str]]


class Regressions(Sequence[Node]):
    """Results that are worse than they should be: ``change`` says how, ``before`` is the outcome before."""

    def __init__(self, rows: Sequence[Node]) -> None:
        self.rows = list(rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    @property
    def status(self) -> int:
        """An exit status for CI, as that of ``rehal compare``: 2 if a candidate is wrong, 1 if one could not
        be compared, 3 if one is slower, 4 if that cannot be told of one, else 0."""
        found = {_STATUS.get(row.change, 1) for row in self.rows}
        return next((status for status in (2, 1, 3, 4) if status in found), 0)

    def __repr__(self) -> str:
        return f"Regressions({len(self.rows)} rows, status {self.status})"

    def _repr_html_(self) -> str:
        return _rows_of(
            [{**_flat(row.to_dict()), "change": row.change, "before": row.before} for row in self.rows]
        )


class Sweep:
    """The results of a sweep, in the order of its plan."""

    def __init__(self, plan: Sequence[Task], rows: dict[str, dict[str, Any]]) -> None:
        #: The tasks.
        self.plan = list(plan)
        #: A result for each task.
        self.rows = [Node(rows[task.id]) for task in plan]

    @classmethod
    def open(cls, directory: _tool.StrPath) -> Sweep:
        """The results that a directory has: those of an interrupted sweep, too."""
        path = Path(os.fspath(directory)) / "plan.json"
        try:
            plan = [Task(**task) for task in json.loads(path.read_text(encoding="utf-8"))]
        except OSError as error:
            raise Error(
                "NOT_FOUND", f"not a sweep: {error.strerror}", [str(path)], "name the directory of a sweep"
            ) from None
        except (TypeError, ValueError) as error:
            raise Error(
                "DATA_LOSS", f"not the plan of a sweep: {error}", [str(path)], "sweep again"
            ) from None
        rows = {row["id"]: row for row in _read(path.with_name("results.jsonl"))}
        return cls([task for task in plan if task.id in rows], rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.rows)

    def regressions(self, against: Sweep | _tool.StrPath | None = None) -> Regressions:
        """The results that are wrong, slower, crashed, failed or lost, or of which it cannot be told whether
        they are slower.

        With ``against``, an earlier sweep or its directory, those that are worse than they were there:
        results are matched by device, label, function, and the file names of capture and candidate. A
        candidate is slower if the intervals of both ratios prove that it has become slower by more than
        ``fail_if_slower``. Results that were not there are judged by themselves.
        """
        before: dict[tuple[str, ...], Node] = {}
        if against is not None:
            self._by_names()
            before = (against if isinstance(against, Sweep) else Sweep.open(against))._by_names()
        found = []
        for row in self.rows:
            earlier = before.get(_names(row))
            change = _change(row, earlier)
            if _STATUS.get(change, 1) != 0:
                found.append(Node({**row.to_dict(), "change": change, "before": earlier and earlier.outcome}))
        return Regressions(found)

    def _by_names(self) -> dict[tuple[str, ...], Node]:
        rows: dict[tuple[str, ...], Node] = {}
        for row in self.rows:
            names = _names(row)
            if rows.setdefault(names, row).id != row.id:
                message = f"two tasks of a sweep have the same names: {', '.join(filter(None, names))}"
                raise Error(
                    "INVALID_ARGUMENT", message, [], "give captures and candidates names of their own"
                )
        return rows

    @property
    def status(self) -> int:
        """That of :meth:`regressions`: 0 if no candidate is wrong or slower."""
        return self.regressions().status

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame, without the reports."""
        import pandas

        return pandas.DataFrame(self._table())

    def to_parquet(self, path: _tool.StrPath) -> None:
        """Writes the results; ``flags`` and ``report`` are JSON. Needs pyarrow or polars."""
        rows = [{**_flat(row.to_dict()), **_nested(row.to_dict())} for row in self.rows]
        types = {**_COLUMNS, "flags": str, "report": str}
        columns = {name: [row[name] for row in rows] for name in types}
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            try:
                import polars
            except ImportError:
                raise ImportError("Parquet needs pyarrow or polars: pip install pyarrow") from None
            names = {str: polars.String, int: polars.Int64, float: polars.Float64}
            frame = polars.DataFrame(columns, schema={name: names[it] for name, it in types.items()})
            frame.write_parquet(os.fspath(path))
            return
        names = {str: pyarrow.string(), int: pyarrow.int64(), float: pyarrow.float64()}
        schema = pyarrow.schema([(name, names[it]) for name, it in types.items()])
        parquet.write_table(pyarrow.table(columns, schema=schema), os.fspath(path))

    def report(self, path: _tool.StrPath, *, against: Sweep | _tool.StrPath | None = None) -> None:
        """Writes a page that needs no other file: what :meth:`regressions` finds, and all results."""
        regressions = self.regressions(against)
        counts = collections.Counter(row.outcome for row in self.rows)
        summary = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items())) or "no tasks"
        parts = [f"<p>{html.escape(summary)}; status {regressions.status}</p>"]
        if regressions:
            parts.append(f"<h2>Regressions</h2>{regressions._repr_html_()}")
        parts.append(f"<h2>Results</h2>{_rows_of(self._table(), limit=len(self.rows))}")
        Path(os.fspath(path)).write_text(_page_of("Sweep", "".join(parts)), encoding="utf-8")

    def _table(self) -> list[dict[str, Any]]:
        return [_flat(row.to_dict()) for row in self.rows]

    def __repr__(self) -> str:
        return f"Sweep({len(self.rows)} tasks, {len(self.regressions())} regressions)"

    def _repr_html_(self) -> str:
        return _rows_of(self._table())


#: The exit status of ``rehal compare`` for an outcome; 1 for others.
_STATUS = {"not slower": 0, "unchanged": 0, "wrong": 2, "slower": 3, "cannot tell": 4}

#: The outcomes of candidates that were timed.
_TIMED = ("not slower", "slower", "cannot tell")

#: The columns of a table of results. A ratio is the time of the candidate as a fraction of the captured.
_COLUMNS: dict[str, type] = {
    **{
        name: str
        for name in ("id", "capture", "function", "candidate", "device", "label", "host", "outcome", "error")
    },
    "attempts": int,
    **{f"{cache}_ratio{end}": float for cache in ("warm", "cold") for end in ("", "_low", "_high")},
}


def _timings(row: Mapping[str, Any]) -> dict[str, Any]:
    """The timings of the candidate by cache."""
    candidates = (row.get("report") or {}).get("candidates") or [{}]
    return {timing["cache"]: timing for timing in candidates[0].get("timings") or []}


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """A result as a row of a table."""
    flat = {name: row.get(name) for name in _COLUMNS}
    flat["host"] = (row.get("report") or {}).get("header", {}).get("host")
    for cache, timing in _timings(row).items():
        # Too few batches have no interval.
        low, high = timing["ratio_interval"] or (None, None)
        flat.update(
            {f"{cache}_ratio": timing["ratio"], f"{cache}_ratio_low": low, f"{cache}_ratio_high": high}
        )
    return flat


def _nested(row: dict[str, Any]) -> dict[str, str | None]:
    return {
        name: json.dumps(row[name]) if row.get(name) is not None else None for name in ("flags", "report")
    }


def _names(row: Node) -> tuple[str, ...]:
    """What results of two sweeps are matched by: the paths may be those of two machines."""
    files = os.path.basename(row.capture), os.path.basename(row.candidate)
    return (*files, row.function, row.device, row.get("label") or "")


def _change(row: Node, before: Node | None) -> str:
    """What has become of a result: an outcome, or ``unchanged`` for one that is as bad as it was."""
    if before is None:
        return str(row.outcome)
    if row.outcome not in _TIMED:
        return "unchanged" if row.outcome == before.outcome else str(row.outcome)
    if before.outcome not in _TIMED:
        return str(row.outcome)
    now, then = _timings(row.to_dict()), _timings(before.to_dict())
    caches = now.keys() & then.keys()
    change = "not slower" if caches else "cannot tell"
    for cache in caches:
        if not (now[cache]["ratio_interval"] and then[cache]["ratio_interval"]):
            change = "cannot tell"
            continue
        # The time now as a fraction of that before: both are fractions of the captured kernel's time.
        limit = 1 + now[cache]["margin"]
        (now_low, now_high), (then_low, then_high) = (
            now[cache]["ratio_interval"],
            then[cache]["ratio_interval"],
        )
        if now_low / then_high > limit:
            return "slower"
        if now_high / then_low > limit:
            change = "cannot tell"
    return change


@_options.of("compare")
def sweep(
    captures: Union[_tool.StrPath, Capture, Iterable[Union[_tool.StrPath, Capture]]],
    functions: Union[str, Iterable[str]],
    candidates: Union[_tool.StrPath, Iterable[_tool.StrPath]],
    devices: Union[str, Iterable[Device]] = "local-task",
    *,
    out: _tool.StrPath = "sweep",
    executor: Executor | None = None,
    **flags: Unpack[_flags.Compare],
) -> Sweep:
    """Compares each candidate with each function of each capture on each device, as :meth:`Capture.compare`.
    One alone need not be a list.

    The directory ``out`` gets ``plan.json``, and ``results.jsonl`` with a line per result, as soon as it is
    there. A task whose result is there is skipped, unless it crashed or was lost: so a sweep that was
    interrupted continues, and a candidate that has changed is compared again. Flags are those of ``rehal
    compare``.

    ``executor`` is one of :mod:`rehal.executors`, by default ``local()``. A device may be a pair with a
    label, such as ``("vulkan", "gfx942")``, by which the others place tasks.
    """
    directory = Path(os.fspath(out))
    executor = executor or local()
    directory.mkdir(parents=True, exist_ok=True)
    plan = list(_plan(captures, functions, candidates, devices, flags))
    (directory / "plan.json").write_text(json.dumps([asdict(task) for task in plan], indent=1) + "\n")
    results = directory / "results.jsonl"
    _repair(results)
    rows = {row["id"]: row for row in _read(results) if row["outcome"] not in _AGAIN}
    missing = list({task.id: task for task in plan if task.id not in rows}.values())
    with open(results, "a", encoding="utf-8") as file:
        for row in executor(perform, missing):
            file.write(json.dumps(row) + "\n")
            file.flush()
            rows[row["id"]] = row
    return Sweep(plan, rows)


def _plan(
    captures: Any,
    functions: Any,
    candidates: Any,
    devices: Any,
    flags: Mapping[str, Any],
) -> Iterator[Task]:
    opened = [Capture(path_of(capture)) for capture in _listed(captures)]
    digests = {capture.path: capture.digest() for capture in opened}
    paths = [Path(os.fspath(path)).absolute() for path in _listed(candidates)]
    named = [(str(path), hashlib.blake2b(path.read_bytes()).hexdigest()) for path in paths]
    given = {name: _plain(it) for name, it in flags.items() if it is not None}
    placed = [(device, None) if isinstance(device, str) else device for device in _listed(devices)]
    tasks = itertools.product(opened, _listed(functions), named, placed)
    for capture, function, (path, code), (device, label) in tasks:
        inputs = json.dumps([digests[capture.path], function, code, device, label, given], sort_keys=True)
        id = hashlib.blake2b(inputs.encode(), digest_size=16).hexdigest()
        yield Task(id, capture.path, function, path, device, given, label)


def _plain(value: Any) -> Any:
    """An option as JSON has it."""
    if isinstance(value, (list, tuple)):
        return [_plain(it) for it in value]
    return os.fspath(value) if isinstance(value, os.PathLike) else _tool.plain(value)


def _listed(values: Any) -> list[Any]:
    """What is given as one or several."""
    return [values] if isinstance(values, (str, os.PathLike, Capture)) else list(values)


def _repair(results: Path) -> None:
    """Removes an incomplete last line, of a sweep that was killed."""
    if results.exists():
        text = results.read_text(encoding="utf-8")
        if not text.endswith("\n"):
            results.write_text(text[: text.rfind("\n") + 1], encoding="utf-8")


def _read(results: Path) -> list[dict[str, Any]]:
    """The results that are there, without an incomplete last line."""
    if not results.exists():
        return []
    text = results.read_text(encoding="utf-8")
    rows = []
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        try:
            row = json.loads(line)
            row["id"], row["outcome"]
        except (KeyError, TypeError, ValueError) as error:
            raise Error(
                "DATA_LOSS", f"line {number} is not a result: {error}", [str(results)], "remove the line"
            ) from None
        rows.append(row)
    return rows
