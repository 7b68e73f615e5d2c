"""Columns of records. Importing numpy takes longer than the rest of the package, so its users import it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _rehal

if TYPE_CHECKING:
    import numpy.typing as npt
    import pandas
    import polars


class Records:
    """Records as columns: numpy arrays of equal length, by name. As of a data frame, the length is the number
    of records, and iteration has the names of the columns.

    Columns of numbers are views, without copies. Columns of texts are arrays of ``str`` objects, which are
    made at the first access; :meth:`codes` and :meth:`categories` have what they are made from.
    """

    def __init__(self, columns: _rehal.Columns) -> None:
        self._columns = columns
        self._by_name = columns.columns()
        self._arrays: dict[str, npt.NDArray[Any]] = {}

    @overload
    def __getitem__(self, name: str) -> npt.NDArray[Any]: ...

    @overload
    def __getitem__(self, name: slice | Sequence[int] | npt.NDArray[Any]) -> Records: ...

    def __getitem__(self, name: Any) -> Any:
        """A column by its name. Records by a slice, by a mask with a boolean for each record, or by the
        numbers of rows, which may be negative."""
        if not isinstance(name, str):
            return self._rows(name)
        array = self._arrays.get(name)
        if array is None:
            import numpy as np

            texts = self._by_name[name].texts
            array = self.codes(name)
            if texts is not None:
                array = np.array([*texts, ""], dtype=object)[array]
                array.flags.writeable = False
            self._arrays[name] = array
        return array

    def _rows(self, rows: Any) -> Records:
        import numpy as np

        if isinstance(rows, slice):
            chosen = np.arange(len(self))[rows]
        else:
            wanted = np.asarray(rows)
            if wanted.ndim != 1 or (wanted.size and wanted.dtype.kind not in "biu"):
                found = type(rows).__name__
                raise TypeError(f"records are chosen by a slice, a mask or numbers of rows, not by {found}")
            # A mask of another length, and a row that does not exist, are errors.
            chosen = np.arange(len(self))[wanted if wanted.size or wanted.dtype.kind == "b" else slice(0, 0)]
        return Records(self._columns.take(chosen.astype(np.uint64).tobytes()))

    def __getattr__(self, name: str) -> npt.NDArray[Any]:
        if name.startswith("_") or name not in self._by_name:
            raise AttributeError(name)
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        """The number of records."""
        return len(self._columns)

    def __dir__(self) -> list[str]:
        return sorted([*super().__dir__(), *self._by_name])

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return list(self._by_name)

    @property
    def shape(self) -> tuple[int, int]:
        """The number of records, and of columns."""
        return len(self), len(self._by_name)

    def keys(self) -> list[str]:
        """The names of the columns: ``dict(records)`` has all arrays."""
        return self.columns

    def codes(self, name: str) -> npt.NDArray[Any]:
        """The numbers of a column: of texts, those of :meth:`categories`."""
        import numpy as np

        return np.asarray(self._by_name[name])

    def categories(self, name: str) -> list[str]:
        """The texts of a column of texts, by their numbers."""
        texts = self._by_name[name].texts
        if texts is None:
            raise KeyError(f"{name} is a column of numbers")
        return texts

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._columns.__arrow_c_stream__(requested_schema)

    def to_polars(self) -> polars.DataFrame:
        """A data frame of polars; texts are categories."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame of pandas; texts are categories."""
        import pandas

        def column(name: str) -> Any:
            texts = self._by_name[name].texts
            if texts is None:
                return self[name]
            return pandas.Categorical.from_codes(self.codes(name).astype("int32"), categories=texts)

        return pandas.DataFrame({name: column(name) for name in self}, copy=False)

    def sql(self, query: str, connection: Any = None) -> Any:
        """The relation of a query of duckdb, in which the records are the table ``records``."""
        import duckdb

        connection = connection or duckdb.connect()
        connection.register("records", self)
        return connection.sql(query)

    def __repr__(self) -> str:
        return f"Records({len(self)} rows: {', '.join(self)})"

    def _repr_html_(self) -> str:
        from ._report import _rows_of

        count = min(len(self), 20)
        part = {name: self.codes(name)[:count].tolist() for name in self}
        texts = {name: self._by_name[name].texts for name in self}
        rows = []
        for row in range(count):
            values: dict[str, Any] = {}
            for name in self:
                names, value = texts[name], part[name][row]
                values[name] = value if names is None else names[value]
            rows.append(values)
        return f"<p>{len(self)} records</p>" + _rows_of(rows)
