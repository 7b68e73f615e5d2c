"""Verbs of the tool as functions, and programs."""

from __future__ import annotations

import inspect
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
import rehal
from conftest import FIXTURES, MLP

ADD4 = FIXTURES / "modules/add4.vmfb"
matplotlib.use("agg")

LEFT = np.array([1, 2, 3, 4], np.float32)
RIGHT = np.array([10, 20, 30, 40], np.float32)


def widths(ax: Any) -> list[float]:
    """Those of the bars, the lowest first."""
    return [patch.get_width() for patch in ax.patches]


def test_kernels_are_ranked_and_drawn(mlp: Path) -> None:
    kernels = rehal.kernels(mlp, device="local-sync", repetitions=3)
    assert kernels.status == 0 and kernels.header.schema.startswith("rehal.kernels/")
    assert kernels.dispatch_count == len(kernels.kernels) == 5
    assert kernels.kernels[0].bindings[0].length > 0
    assert "mlp_dispatch_1_matmul" in kernels._repr_html_()
    assert len(kernels.plot().patches) == 5 and len(kernels.plot(limit=2).patches) == 2
    assert list(kernels.to_pandas()["record"]) == [row.record for row in kernels.kernels]


def test_a_slice_is_a_capture(mlp: Path, tmp_path: Path) -> None:
    piece = rehal.slice(mlp, tmp_path / "slice.ireereplay", dispatch=20, device="local-sync")
    assert len(piece.records(kind="*.dispatch")) == 1
    piece.replay()
    with pytest.raises(rehal.Error) as missing:
        rehal.slice(mlp, tmp_path / "none.ireereplay", dispatch=1)
    assert missing.value.message and missing.value.code != "UNKNOWN"


def test_a_kernel_that_does_nothing_is_wrong(mlp: Path, tmp_path: Path) -> None:
    function = "mlp_dispatch_4_reduction_8x10_f32"
    wrong = tmp_path / "wrong.c"
    stub = subprocess.run(
        [rehal._tool.binary(), "kernel", "stub", f"--function={function}", str(mlp), "-o", str(wrong)],
        capture_output=True,
        text=True,
    )
    assert stub.returncode == 0, stub.stderr
    # A stub refuses its inputs until it has a body.
    wrong.write_text(wrong.read_text().replace("return 1;", "return 0;"))
    comparison = rehal.compare(mlp, function, wrong, device="local-sync", max_time="1s")
    assert comparison.is_wrong and comparison.verdict == "wrong"
    assert not comparison.plot().patches


def test_timings_are_drawn_with_their_intervals() -> None:
    timings = [
        {"cache": "warm", "ratio": 0.5, "ratio_interval": [0.4, 0.6]},
        {"cache": "cold", "ratio": 2.0, "ratio_interval": None},
    ]
    candidates = [{"path": "/a/b.c", "timings": timings}, {"path": "/a/wrong.c", "timings": None}]
    ax: Any = rehal.Comparison({"candidates": candidates}).plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["b.c, cold", "b.c, warm"]
    assert widths(ax) == [2.0, 0.5]
    interval, captured = ax.lines
    assert list(interval.get_xdata()) == [0.4, 0.6] and list(interval.get_ydata()) == [1, 1]
    assert list(captured.get_xdata()) == [1, 1]


def test_replays_are_verified(mlp: Path, tmp_path: Path) -> None:
    same = rehal.verify(mlp, device="local-sync", other_device="local-task")
    assert same.is_equal and same.dispatch_count == 5
    assert widths(same.plot()) == [0, 0, 4, 5]
    ledger = tmp_path / "ledger"
    capture = rehal.open(mlp)
    capture.replay(replay_ledger=ledger, device="local-sync")
    assert capture.verify(against=ledger, device="local-sync").is_equal


def test_captures_are_diffed(mlp: Path) -> None:
    assert rehal.diff(mlp, rehal.open(mlp)).is_equal
    other = FIXTURES / "captures/bench.abs.20.local-sync.ireereplay"
    difference = rehal.open(mlp).diff(other)
    assert not difference.is_equal and difference.after.path == str(other)
    assert "Diff(" in repr(difference) and "inserted" in difference._repr_html_()
    assert sum(widths(difference.plot())) == sum(difference.counts.values())


def test_a_capture_is_redacted(mlp: Path, tmp_path: Path) -> None:
    out = tmp_path / "redacted.ireereplay"
    redaction = rehal.redact(mlp, out, device="local-sync")
    assert redaction.kept.dispatches == 5
    assert widths(redaction.plot()) == [redaction.replaced_bytes]
    assert rehal.open(out).digest() != rehal.open(mlp).digest()


def test_a_profile_has_rows() -> None:
    path = FIXTURES / "profiles/chain.local-sync.ireeprof"
    profile = rehal.profile(path, "summary")
    assert profile[0].type == "summary" and len(profile) > 1
    # The page, with its own tables.
    shown = profile._repr_html_()
    assert "host_execution_event_records" in shown and "srcdoc=" in shown
    assert "chain.local-sync.ireeprof" in profile.page() and "functions-table" in profile.page()
    totals = rehal.profile(path, "dispatch")
    ax = totals.plot()
    assert ax.get_yticklabels()[-1].get_text() == "chain_dispatch_1_matmul_24x24x24_f32"
    assert widths(ax)[-1] == totals.to_pandas()["total_ns"].max() / 1e3
    assert len(rehal.profile(path).plot().patches) > 3
    with pytest.raises(rehal.Error):
        rehal.profile(MLP)


def test_a_function_is_run_and_recorded(tmp_path: Path) -> None:
    (result,) = rehal.run(ADD4, "add", LEFT, RIGHT)
    np.testing.assert_array_equal(result, LEFT + RIGHT)
    out = tmp_path / "add.ireereplay"
    capture = rehal.record(ADD4, "add", LEFT, RIGHT, out=out)
    assert out.exists() and list(tmp_path.iterdir()) == [out]
    results: list[object] = []
    capture.replay(on_host_read=lambda read: results.append(read.view(np.float32).tolist()))
    assert [11, 22, 33, 44] in results


def test_scalars_are_numbers() -> None:
    values = FIXTURES / "modules/values.vmfb"
    with pytest.raises(rehal.Error, match="has no function 'nothing'"):
        rehal.run(values, "nothing")
    with pytest.raises(rehal.Error):
        rehal.run(ADD4, "add", LEFT)
    with pytest.raises(FileNotFoundError):
        rehal.record(ADD4, "add", LEFT, out="/nowhere/at/all")


def _record(out: str) -> None:
    rehal.record(ADD4, "add", LEFT, RIGHT, out=out)


def test_two_recorders_of_one_path_leave_one_complete_capture(tmp_path: Path) -> None:
    out = tmp_path / "both.ireereplay"
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=_record, args=(str(out),)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    assert list(tmp_path.iterdir()) == [out]
    rehal.open(out).replay()


def test_a_missing_binary_is_an_error(mlp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REHAL_BINARY", "/nowhere/rehal")
    with pytest.raises(rehal.Error) as missing:
        rehal.replay(mlp)
    assert missing.value.code == "NOT_FOUND"


def test_the_import_leaves_numpy_to_its_users() -> None:
    code = "import sys, rehal; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_all_is_exported() -> None:
    assert all(hasattr(rehal, name) for name in rehal.__all__)


def test_races_dumps_and_executables(mlp: Path, tmp_path: Path) -> None:
    races = rehal.races(mlp)
    assert races.is_free and races.status == 0 and races.pairs == []
    rows = rehal.dump(mlp)
    assert len(rows) > len(rehal.open(mlp).records()) - 2
    assert any(row.get("payload_type") == "dispatch" for row in rows)
    module = rehal.executables(ADD4, binaries_to=tmp_path)
    (executable,) = module.executables
    assert [it.name for it in executable.functions][0] == "add_dispatch_0_elementwise_4_f32"
    assert (tmp_path / executable.file).stat().st_size == executable.bytes
    assert widths(module.plot()) == [executable.bytes]
    assert rehal.executables(rehal.open(mlp)).executables[0].id == 4


def test_replays_are_benchmarked(mlp: Path) -> None:
    report = rehal.benchmark(mlp, device="local-sync", benchmark_min_time="3x", benchmark_repetitions=2)
    assert {"real_time", "name"} <= set(report.benchmarks[0]) and report.status == 0
    assert len(report.to_pandas()) == len(report.plot().patches) > 1


def test_a_capture_is_reduced(mlp: Path, tmp_path: Path) -> None:
    out = tmp_path / "reduced.ireereplay"
    report = rehal.reduce(mlp, "true", out, max_checks=5, jobs=1)
    assert report.header.schema.startswith("rehal.reduce/") and out.exists()
    assert rehal.open(out).size_bytes < mlp.stat().st_size


def test_a_module_is_substituted(tmp_path: Path) -> None:
    out = tmp_path / "out.vmfb"
    code = FIXTURES / "modules/add4_swapped.elf"
    with pytest.raises(rehal.Error) as unknown:
        rehal.substitute(ADD4, {"add4_linked": code}, out)
    assert "state it with workgroup_count='FUNCTION=X,Y,Z' (same" in str(unknown.value)
    report = rehal.substitute(ADD4, {"add4_linked": code}, out, workgroup_count="same")
    assert report.status == 0 and "add4_linked" in repr(report.to_dict())
    np.testing.assert_array_equal(rehal.run(out, "add", LEFT, RIGHT), [100 * (LEFT + RIGHT)])
    with pytest.raises(rehal.Error) as missing:
        rehal.substitute(ADD4, {"nothing": code}, out)
    assert "--" not in str(missing.value)


def test_options_are_arguments(mlp: Path) -> None:
    runs: list[Any] = [rehal.replay, rehal.open(mlp).replay]
    for run in runs:
        arguments = [mlp] if run is rehal.replay else []
        with pytest.raises(TypeError, match="'on_dispach'; did you mean 'on_dispatch'"):
            run(*arguments, on_dispach=print)
        parameters = inspect.signature(run).parameters
        assert {"on_dispatch", "replay_ledger", "device_profiling_output"} <= set(parameters)
        assert "kwargs" not in parameters and "flags" not in parameters
        assert "replay_ledger: Writes a ledger" in run.__doc__
    assert str(inspect.signature(rehal.verify).parameters["against"]).startswith("against: 'str | PathLike")
    tuner: Any = rehal.Tuner
    with pytest.raises(TypeError, match="'trails'; did you mean 'trials'"):
        tuner(mlp, "f", "space.toml", trails=1)
    with pytest.raises(TypeError, match="fail_if_slowr"):
        rehal.sweep(mlp, "f", "a.c", fail_if_slowr="5%")  # type: ignore[call-arg]


def test_numbers_of_numpy_are_numbers(mlp: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"repetitions": np.int64(3), "device": np.str_("local-sync")}
    assert rehal.kernels(mlp, timeout=float(np.float32(60)), **given).status == 0
    out = tmp_path / "slice.ireereplay"
    assert len(rehal.slice(mlp, out, dispatch=np.uint32(20), device="local-sync").records()) > 0


def test_errors_speak_of_arguments() -> None:
    from rehal._options import in_python

    for text, expected in [
        ("use --recover to read the complete records", "use recover to read the complete records"),
        ("invalid value 'x' for --seed (expected 1)", "invalid value 'x' for seed (expected 1)"),
        ("use --device=local-task", "use device='local-task'"),
        ("name it: --replay_file_remap=A=B.", "name it: replay_file_remap='A=B'."),
        (
            "of a trusted replay: rehal run --replay_ledger=PATH --replay_ledger_kept_bytes=4 CAPTURE",
            "of a trusted replay: rehal.replay(CAPTURE, replay_ledger='PATH', replay_ledger_kept_bytes='4')",
        ),
        ("rehal info lists it, and --recover reads it", "rehal.info lists it, and recover reads it"),
        ("--help=all describes --seed", "help() describes seed"),
        ("rehal run FILE replays it", "rehal.replay(FILE) replays it"),
        ("rehal run-module --module=FILE runs it", "rehal.run(module='FILE') runs it"),
        ("pass it with --parameters=model=FILE", "pass it with parameters={'model': 'FILE'}"),
        ("--check=crash or --check='COMMAND {}'", "check='crash' or check='COMMAND {}'"),
        # Commands of the shell stay.
        ("rehal compile --target=cpu A.mlir", "rehal compile --target=cpu A.mlir"),
        ("iree-compile --iree-hal-target-device=local", "iree-compile --iree-hal-target-device=local"),
    ]:
        assert in_python(text) == expected
    assert in_python("--with is missing", "compare") == "candidate is missing"
    assert in_python("--with is missing", "benchmark") == "with_ is missing"
    assert in_python("--executable=A=B", "substitute") == "executables={'A': 'B'}"
    with pytest.raises(rehal.Error) as wrong:
        rehal.kernels(MLP, repetitions=-1)
    assert "--" not in str(wrong.value) and "repetitions" in str(wrong.value)


def test_mypy_finds_misspelt_options(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import rehal\n"
        'rehal.replay("a", on_dispatch=print, replay_ledger="l", timeout=1)\n'
        'rehal.replay("a", on_dispach=print)\n'
        'rehal.open("a").kernels(repetition=3)\n'
        'rehal.run("m", "f", replay_file_writes="other")\n'
        'rehal.benchmark("a", replay_cache="hot")\n'
    )
    environment = {**os.environ, "MYPYPATH": str(Path(rehal.__file__).parents[1])}
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), str(script)]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment)
    lines = [line for line in ended.stdout.splitlines() if "error: " in line]
    assert [int(line.split(":")[1]) for line in lines] == [3, 4, 5, 6], ended.stdout
    assert '"on_dispach"' in lines[0] and '"repetition"' in lines[1] and "'warm'" in lines[3]


def test_times_of_processes_are_judged() -> None:
    before, after = [1.00, 1.04, 1.01, 1.02], [1.21, 1.24, 1.20, 1.27]
    judged = rehal.judge(before, after)
    assert judged.verdict == "slower" and judged.interval and 1.15 < judged.interval[0] < judged.ratio
    assert rehal.judge(after, before).verdict == "faster"
    assert rehal.judge(before, [1.02, 1.01, 1.03, 1.0], margin=0.1).verdict == "not slower"
    for few in (rehal.judge([1.0], [3.0]), rehal.judge(before, after, comparisons=100)):
        assert few.interval is None and few.verdict == "cannot tell"
    for wrong in ([], [0.0], [float("nan")]):
        with pytest.raises(rehal.Error, match="numbers above 0"):
            rehal.judge(before, wrong)
