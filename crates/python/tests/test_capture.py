"""Captures, and records as columns."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest
import rehal


def test_a_capture_says_what_it_contains(mlp: Path) -> None:
    capture = rehal.open(mlp)
    assert capture.version == "2.0" and capture.is_complete
    assert capture.size_bytes == mlp.stat().st_size
    assert capture.scopes == {"init": 1, "execute": 1, "deinit": 1}
    (executable,) = capture.executables
    assert executable.format == "embedded-elf-x86_64"
    assert executable.functions[1].name == "mlp_dispatch_1_matmul_8x48x48_f32"
    code = capture.code(executable.id)
    assert len(code) == executable.size_bytes and code.startswith(b"\x7fELF")
    assert "mlp_dispatch_1_matmul_8x48x48_f32" in capture._repr_html_()
    info = capture.info()
    assert info.header.capture_digest == capture.digest()
    assert info.counts.records == 87 and info["counts"]["devices"] == 1
    assert "dispatches" in info._repr_html_()
    assert len(info.plot().patches) == len(executable.functions)
    with pytest.raises(AttributeError, match="no 'nothing'; it has header, path"):
        info.nothing


def test_records_are_columns(mlp: Path) -> None:
    records = rehal.open(mlp).records()
    assert len(records) == 87 and records.shape == (87, 17)
    assert (
        list(records) == records.columns and "kind" in records and set(dict(records)) == set(records.columns)
    )
    ordinal = records["ordinal"]
    assert ordinal.dtype == np.uint64 and not ordinal.flags.writeable
    np.testing.assert_array_equal(ordinal, np.arange(87))
    assert records.codes("offset").base is not None
    assert records.kind[0] == "none" and records.kind[1] == "replay.scope_begin"
    assert set(records.scope) == {"", "init", "execute", "deinit"}
    assert "operation" in records.categories("type")
    with pytest.raises(KeyError):
        records.categories("offset")
    with pytest.raises(AttributeError):
        records.nothing
    assert "87 records" in records._repr_html_()


def test_filters_are_applied_while_reading(mlp: Path) -> None:
    capture = rehal.open(mlp)
    dispatches = capture.records(kind="*.dispatch")
    assert len(dispatches) == 5
    assert dispatches.bindings.tolist() == [3, 3, 3, 2, 2]
    one = capture.records(function="*_dispatch_1_*")
    assert one.function.tolist() == ["mlp_dispatch_1_matmul_8x48x48_f32"]
    in_scope = capture.records(scope="execute")
    assert 2 < len(in_scope) < 87 and set(in_scope.scope) == {"execute"}


def test_records_are_sliced_and_masked(mlp: Path) -> None:
    records = rehal.open(mlp).records()
    is_dispatch = records.kind == "command_buffer.dispatch"
    dispatches = records[is_dispatch]
    assert len(dispatches) == 5 and set(dispatches.kind) == {"command_buffer.dispatch"}
    np.testing.assert_array_equal(dispatches.ordinal, records.ordinal[is_dispatch])
    np.testing.assert_array_equal(records[10:4:-2].ordinal, [10, 8, 6])
    np.testing.assert_array_equal(records[-3:].kind, records.kind[-3:])
    np.testing.assert_array_equal(records[[3, -1, 3]].ordinal, [3, 86, 3])
    assert len(records[[]]) == len(records[100:]) == len(records[records.ordinal > 100]) == 0
    # They are records again, for readers of Arrow as well.
    table = pyarrow.table(dispatches[1:])
    assert len(table) == 4 and str(table["function"][0]) == dispatches.function[1]
    assert len(dispatches.to_pandas()) == 5 and "5 records" in dispatches._repr_html_()
    with pytest.raises(IndexError):
        records[[87]]
    with pytest.raises(IndexError):
        records[np.array([True, False])]
    wrong: list[Any] = [3, 1.5, [[1]], [0.5], None]
    for rows in wrong:
        with pytest.raises(TypeError, match="chosen by a slice"):
            records[rows]


def test_a_capture_is_pickled_by_path_and_digest(mlp: Path, copied: Callable[[Path], Path]) -> None:
    path = copied(mlp)
    data = pickle.dumps(rehal.open(path))
    assert len(data) < 1000
    capture = pickle.loads(data)
    assert capture.path == str(path) and len(capture.records()) == 87
    assert copy.copy(capture).digest() == capture.digest()
    torn = path.with_name("torn.ireereplay")
    torn.write_bytes(path.read_bytes()[:-100])
    assert 0 < len(pickle.loads(pickle.dumps(rehal.open(torn, recover=True))).records()) < 87
    changed = bytearray(path.read_bytes())
    changed[-1] ^= 1
    path.write_bytes(changed)
    with pytest.raises(rehal.Error, match="has changed since it was pickled") as error:
        pickle.loads(data)
    assert error.value.code == "FAILED_PRECONDITION" and error.value.context == [str(path)]
    path.unlink()
    with pytest.raises(rehal.Error) as error:
        pickle.loads(data)
    assert error.value.code == "NOT_FOUND"


def test_data_frames(mlp: Path) -> None:
    records = rehal.open(mlp).records()
    frames = [records.to_pandas(), records.to_polars(), pyarrow.table(records)]
    for frame in frames:
        assert len(frame) == 87
        assert str(frame["kind"][1]) == "replay.scope_begin"
        assert sum(int(str(it)) for it in frame["size_bytes"]) == int(records.size_bytes.sum())
    assert isinstance(frames[0], pandas.DataFrame) and isinstance(frames[1], polars.DataFrame)


def test_an_arrow_stream_outlives_the_records_and_may_be_dropped(mlp: Path) -> None:
    stream = rehal.open(mlp).records().__arrow_c_stream__()
    del stream
    reader = pyarrow.RecordBatchReader.from_stream(rehal.open(mlp).records(kind="object"))
    table = reader.read_all()
    assert table.num_rows == 19 and set(table["type"].to_pylist()) == {"object"}
    empty = pyarrow.table(rehal.open(mlp).records(kind="nothing"))
    assert empty.num_rows == 0


def test_sql(mlp: Path) -> None:
    rows = (
        rehal.open(mlp)
        .sql("select function, bindings from records where bindings = 2 order by ordinal")
        .fetchall()
    )
    assert [row[1] for row in rows] == [2, 2]
    assert rows[1][0] == "mlp_dispatch_4_reduction_8x10_f32"


def test_errors_have_code_context_and_advice(tmp_path: Path) -> None:
    with pytest.raises(rehal.Error) as missing:
        rehal.open(tmp_path / "missing.ireereplay")
    assert missing.value.code == "NOT_FOUND" and missing.value.advice
    assert "missing.ireereplay" in missing.value.message
    text = tmp_path / "text"
    text.write_text("hello")
    with pytest.raises(rehal.Error, match="is a text file, not a capture"):
        rehal.open(text)
    crash = pickle.loads(pickle.dumps(rehal.Crash("ABORTED", "killed", ["record #1"], None, status=-9)))
    assert (str(crash), crash.status) == ("ABORTED; killed\n  at: record #1", -9)


def test_a_capture_is_closed_like_a_file(mlp: Path) -> None:
    with rehal.open(mlp) as capture:
        records = capture.records()
        state = capture.at(23)
    assert capture.closed and "closed" not in repr(capture)
    # What was read stays.
    assert records.ordinal[-1] == 86 and state.buffer(6).nbytes == 1024
    state.close()
    capture.close()
    uses: list[Callable[[], object]] = [
        capture.records,
        capture.replay,
        capture.info,
        capture.digest,
        lambda: capture.at(23),
        lambda: capture.version,
        lambda: capture.slice("nowhere"),
    ]
    for use in uses:
        with pytest.raises(rehal.Error) as closed:
            use()
        assert closed.value.code == "FAILED_PRECONDITION" and "has been closed" in closed.value.message


def test_a_truncated_capture_is_refused_or_recovered(mlp: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.ireereplay"
    cut.write_bytes(mlp.read_bytes()[:-100])
    with pytest.raises(rehal.Error) as refused:
        rehal.open(cut)
    assert refused.value.code == "DATA_LOSS"
    assert 0 < len(rehal.open(cut, recover=True).records()) < 87


def test_a_capture_that_is_removed_can_be_read_and_not_be_run(
    mlp: Path, copied: Callable[[Path], Path]
) -> None:
    path = copied(mlp)
    capture = rehal.open(path)
    path.unlink()
    assert len(capture.records()) == 87
    runs: list[Callable[[], object]] = [capture.replay, capture.info, lambda: capture.at(20), capture.kernels]
    for run in runs:
        with pytest.raises(rehal.Error) as removed:
            run()
        assert removed.value.code == "NOT_FOUND" and removed.value.context == [str(path)]
    copied(mlp)
    path.rename(path.with_suffix(".other"))
    copied(mlp)
    with pytest.raises(rehal.Error) as replaced:
        capture.replay()
    assert replaced.value.code in ("FAILED_PRECONDITION", "NOT_FOUND")


def test_a_capture_that_is_truncated_meanwhile_is_an_error(mlp: Path, copied: Callable[[Path], Path]) -> None:
    capture = rehal.open(copied(mlp))
    code = capture.executables[0].id
    os.truncate(capture.path, 4096)
    calls: list[Callable[[], object]] = [
        capture.records,
        capture.digest,
        lambda: capture.scopes,
        lambda: capture.code(code),
        capture.replay,
        lambda: capture.replay(isolation="none", on_dispatch=print),
        lambda: capture.at(20),
        capture.kernels,
    ]
    for call in calls:
        with pytest.raises(rehal.Error) as truncated:
            call()
        assert truncated.value.code == "DATA_LOSS"


def test_a_capture_may_be_truncated_during_an_isolated_replay(
    mlp: Path, copied: Callable[[Path], Path]
) -> None:
    capture = rehal.open(copied(mlp))
    # The worker reads its capture where it is mapped.
    with pytest.raises(rehal.Error, match="was truncated while it was mapped") as truncated:
        capture.replay(on_dispatch=lambda _: os.truncate(capture.path, 4096))
    assert str(capture.path) in truncated.value.message
