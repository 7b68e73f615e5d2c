"""Reports: what the tools print as JSON, as objects."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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
            raise AttributeError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self._json)}") from None

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
        members = ", ".join(f"{name}={_short(value)}" for name, value in self._json.items() if name != "header")
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
    text = "<table><thead><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in names) + "</tr></thead><tbody>"
    for row in rows[:limit]:
        text += "<tr>" + "".join(f"<td>{_cell(row.get(name))}</td>" for name in names) + "</tr>"
    if len(rows) > limit:
        text += f'<tr><td colspan="{len(names)}">and {len(rows) - limit} more</td></tr>'
    return text + "</tbody></table>"


def _page_of(title: str, body: str) -> str:
    """A page that needs no other file."""
    style = "body{font:14px sans-serif;margin:2em}td,th{padding:.2em .6em;text-align:left;border-bottom:1px solid #ccc}"
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body><h1>{html.escape(title)}</h1>{body}</body></html>\n"


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


class Info(Report):
    """What a capture contains, and whether it can be replayed here."""


class Kernels(Report):
    """The kernels of a capture, and what they cost."""

    def plot(self, ax: Axes | None = None, limit: int = 20) -> Axes:
        """Draws the time of each kernel, the costliest first."""
        rows = [row for row in self._json["kernels"] if row["time_ns"] is not None][:limit]
        ax = _axes(ax)
        names = [f"{row['function']} #{row['record']}" for row in rows]
        ax.barh(names[::-1], [row["time_ns"] / 1e3 for row in rows][::-1])
        ax.set_xlabel("time in microseconds")
        return ax


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


class Verification(Report):
    """Which dispatches of a replay differ."""

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return bool(self._json["outcome"] == "same")


class Diff(Report):
    """What differs between two captures."""

    @property
    def is_equal(self) -> bool:
        """Whether no difference was found."""
        return bool(self._json["same"])


class Redaction(Report):
    """What a redacted capture contains."""


class Profile:
    """Rows of a profile's report."""

    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self.rows = [Node(row) for row in rows]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Node]:
        return iter(self.rows)

    def __getitem__(self, index: int) -> Node:
        return self.rows[index]

    def __repr__(self) -> str:
        return f"Profile({len(self.rows)} rows)"

    def _repr_html_(self) -> str:
        return _rows_of([row.to_dict() for row in self.rows])
