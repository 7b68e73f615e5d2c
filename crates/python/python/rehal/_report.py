"""Reports: what the tools print as JSON, as objects."""

from __future__ import annotations

import html
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import _tool

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes


def _wrap(value: Any) -> Any:
    if isinstance(value, dict):
        return Node(value)
    if isinstance(value, list):
        return [_wrap(item) for item in value]
    return value


class Node(Mapping[str, Any]):
    """An object of JSON: its members are attributes, and items."""

    def __init__(self, json: dict[str, Any]) -> None:
        self._json = json

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return _wrap(self._json[name])
        except KeyError:
            raise AttributeError(
                f"{type(self).__name__} has no {name!r}; it has {', '.join(self._json)}"
            ) from None

    def __getitem__(self, name: str) -> Any:
        return _wrap(self._json[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._json)

    def __len__(self) -> int:
        return len(self._json)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._json])

    def to_dict(self) -> dict[str, Any]:
        """The JSON itself."""
        return self._json

    def __repr__(self) -> str:
        members = ", ".join(
            f"{name}={_short(value)}" for name, value in self._json.items() if name != "header"
        )
        return f"{type(self).__name__}({members})"

    def _repr_html_(self) -> str:
        return _table_of(self._json)


class Report(Node):
    """A report of a tool. ``status`` is the exit status, ``header`` says what it was made on."""

    def __init__(self, json: dict[str, Any], status: int = 0) -> None:
        super().__init__(json)
        self._status = status

    @property
    def status(self) -> int:
        """The exit status of the tool."""
        return self._status

    def plot(self, ax: Axes | None = None, limit: int = 20) -> Axes:
        """Draws its numbers, the largest first. Needs matplotlib."""
        return _draw(*self._bars(), ax, limit)

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        """What is drawn: the label of the axis, and the bars."""
        return "", []

    def _repr_html_(self) -> str:
        rest = {name: value for name, value in self._json.items() if name != "header"}
        return f"<h4>{html.escape(type(self).__name__)}</h4>" + _table_of(rest)


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{len(value)} items]"
    if isinstance(value, dict):
        return f"{{{len(value)} members}}"
    return repr(value)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, list):
        if value and all(isinstance(item, dict) for item in value):
            return _rows_of(value)
        return html.escape(" ".join(_cell(item) for item in value))
    if isinstance(value, dict):
        return _table_of(value)
    return html.escape(str(value))


#: Rows of a table beyond which the rest is counted, since a notebook keeps all of them.
_MAX_ROWS = 100


def _rows_of(rows: Sequence[dict[str, Any]], limit: int = _MAX_ROWS) -> str:
    names = list(dict.fromkeys(name for row in rows for name in row))
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    text = f"<table><thead><tr>{head}</tr></thead><tbody>"
    for row in rows[:limit]:
        text += "<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>"
    if len(rows) > limit:
        text += f'<tr><td colspan="{len(names)}">and {len(rows) - limit} more</td></tr>'
    return text + "</tbody></table>"


def _page_of(title: str, body: str) -> str:
    """A page that needs no other file."""
    cells = "padding:.2em .6em;text-align:left;border-bottom:1px solid #ccc"
    style = f"body{{font:14px sans-serif;margin:2em}}td,th{{{cells}}}"
    title = html.escape(title)
    head = f'<meta charset="utf-8"><title>{title}</title><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body><h1>{title}</h1>{body}</body></html>\n"


def _table_of(members: dict[str, Any]) -> str:
    text = "<table><tbody>"
    for name, value in members.items():
        text += f"<tr><th>{html.escape(name)}</th><td>{_cell(value)}</td></tr>"
    return text + "</tbody></table>"


def _axes(ax: Axes | None) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError("plots need matplotlib: pip install matplotlib") from error
    return plt.subplots()[1]


def _draw(label: str, bars: Sequence[tuple[str, float]], ax: Axes | None, limit: int) -> Axes:
    """Horizontal bars, the first one at the top."""
    ax = _axes(ax)
    shown = list(bars)[:limit][::-1]
    # By position, since names may repeat.
    ax.barh(range(len(shown)), [value for _, value in shown])
    ax.set_yticks(range(len(shown)), [name for name, _ in shown])
    ax.set_xlabel(label)
    return ax


def _descending(values: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(values.items(), key=lambda it: -it[1])


class Info(Report):
    """What a capture contains, and whether it can be replayed here."""

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        counts: Counter[str] = Counter()
        for executable in self._json["executables"]:
            for function in executable["functions"]:
                counts[function["name"] or f"#{function['ordinal']}"] += function["dispatches"]
        return "dispatches", _descending(counts)


class Kernels(Report):
    """The kernels of a capture, and what they cost."""

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with a row per kernel, the costliest first."""
        import pandas

        return pandas.DataFrame(self._json["kernels"])

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        rows = [row for row in self._json["kernels"] if row["time_ns"] is not None]
        return "time in microseconds", [
            (f"{it['function']} #{it['record']}", it["time_ns"] / 1e3) for it in rows
        ]


class Comparison(Report):
    """Whether replacements of a kernel compute the same, and whether they are faster."""

    @property
    def is_wrong(self) -> bool:
        """Whether a replacement computes something else."""
        return self.status == 2

    @property
    def verdict(self) -> str:
        """``not slower``, ``wrong``, ``slower``, or ``cannot tell``."""
        return {0: "not slower", 2: "wrong", 3: "slower", 4: "cannot tell"}.get(self.status, "failed")

    def plot(self, ax: Axes | None = None, limit: int = 20) -> Axes:
        """Draws the time of each replacement as a fraction of the captured kernel's, with its interval. One
        that was not timed, such as a wrong one, is absent. Needs matplotlib."""
        timings = [(it["path"], timing) for it in self._json["candidates"] for timing in it["timings"] or []]
        bars = [(f"{os.path.basename(path)}, {timing['cache']}", timing["ratio"]) for path, timing in timings]
        ax = _draw("time as a fraction of the captured kernel's", bars, ax, limit)
        for place, (_, timing) in enumerate(timings[:limit][::-1]):
            if timing["ratio_interval"]:
                ax.plot(timing["ratio_interval"], [place, place], color="black")
        ax.axvline(1, color="gray", linestyle="--")
        return ax


class Verification(Report):
    """Which dispatches of a replay differ."""

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return bool(self._json["outcome"] == "same")

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        names = ("dispatch_count", "read_count", "tolerated_count", "different_count")
        return "dispatches and host reads", [
            (name.removesuffix("_count"), self._json[name]) for name in names
        ]


class Diff(Report):
    """What differs between two captures."""

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return bool(self._json["same"])

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        return "operations", list(self._json["counts"].items())


class Redaction(Report):
    """What a redacted capture contains."""

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        return "replaced bytes", _descending(self._json["types"])


class Races(Report):
    """Which operations race with each other."""

    @property
    def is_free(self) -> bool:
        """Whether no race was found."""
        return bool(self._json["count"] == 0)


class Reduction(Report):
    """What was left out of a capture, which still passes its check."""


class Benchmark(Report):
    """The times of replays. Those of a replacement are in ``replays``; others are rows of ``benchmarks``."""

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with a row per benchmark."""
        import pandas

        return pandas.DataFrame(self._json["benchmarks"])

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        rows = self._json.get("benchmarks", [])
        unit = rows[0]["time_unit"] if rows else "ns"
        return f"time in {unit}", [(it["name"], it["real_time"]) for it in rows]


class Executables(Report):
    """The executables of a program, a module or a capture, with their functions."""

    def _bars(self) -> tuple[str, list[tuple[str, float]]]:
        return "bytes", [(it["name"], it["bytes"]) for it in self._json["executables"]]


class Substitution(Report):
    """What was replaced in a module."""


class Profile(Sequence[Node]):
    """Rows of a profile's report."""

    def __init__(self, path: str, rows: list[dict[str, Any]]) -> None:
        #: The path of the profile.
        self.path = path
        #: The rows, whose ``type`` says which members they have.
        self.rows = [Node(row) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: Any) -> Any:
        return self.rows[index]

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of all rows."""
        import pandas

        return pandas.DataFrame([row.to_dict() for row in self.rows])

    def page(self, max_events: int = 500_000) -> str:
        """The page of ``rehal profile report``: timeline, functions, dispatches, memory."""
        stdout, _ = _tool.succeed(
            ["profile", "report", f"--max_events={max_events}", "--output=-", "--", self.path]
        )
        return stdout.decode()

    def plot(self, ax: Axes | None = None, limit: int = 20) -> Axes:
        """Draws the total time of each function, or of each event that has none. Needs matplotlib."""
        totals: Counter[str] = Counter()
        for row in self.rows:
            name = row.get("function_name") or row.get("key") or row.get("event_name")
            total = row.get("total_duration_ns", row.get("total_ns"))
            if name is not None and total is not None:
                totals[name] += total
        return _draw("time in microseconds", [(it, ns / 1e3) for it, ns in _descending(totals)], ax, limit)

    def __repr__(self) -> str:
        return f"Profile({len(self.rows)} rows)"

    def _repr_html_(self) -> str:
        page = html.escape(self.page(max_events=20_000))
        style = "width:100%;height:40em;border:0"
        frame = f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{page}"></iframe>'
        rows = _rows_of([row.to_dict() for row in self.rows])
        return f"{frame}<details><summary>{len(self.rows)} rows</summary>{rows}</details>"
