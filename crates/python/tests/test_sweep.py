"""Sweeps: plans, results, and resuming."""

from __future__ import annotations

import html.parser
import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import rehal
from rehal import executors

FUNCTION = "mlp_dispatch_4_reduction_8x10_f32"


@pytest.fixture
def stub(mlp: Path, tmp_path: Path) -> Path:
    path = tmp_path / "stub.c"
    command = [rehal._tool.binary(), "kernel", "stub", f"--function={FUNCTION}", str(mlp), "-o", str(path)]
    subprocess.run(command, check=True)
    return path


def sweep(mlp: Path, candidates: list[Path], out: Path, **options: Any) -> rehal.Sweep:
    return rehal.sweep([mlp], [FUNCTION], candidates, ["local-sync"], out=out, max_time="1s", **options)


def test_results_are_kept_and_only_what_has_changed_is_done_again(
    mlp: Path, stub: Path, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.c"
    wrong.write_text(stub.read_text().replace("return 1;", "return 0;"))
    out = tmp_path / "sweep"
    done: list[str] = []

    def counting(
        perform: Callable[[rehal.Task], dict[str, Any]], tasks: Sequence[rehal.Task]
    ) -> Iterator[dict[str, Any]]:
        for task in tasks:
            done.append(Path(task.candidate).name)
            yield perform(task)

    first = sweep(mlp, [stub, wrong], out, executor=counting)
    assert [row.outcome for row in first] == ["failed", "wrong"] and len(first.regressions()) == 2
    assert first.status == 2 and first.rows[1].report.function == FUNCTION
    assert list(first.to_pandas()["outcome"]) == ["failed", "wrong"] and "wrong" in first._repr_html_()
    assert [task["id"] for task in json.loads((out / "plan.json").read_text())] == [
        it.id for it in first.plan
    ]
    # A sweep that is killed may leave a part of a line.
    results = out / "results.jsonl"
    lines = results.read_text().splitlines(keepends=True)
    results.write_text(lines[0] + lines[1][:50])
    again = sweep(mlp, [stub, wrong], out, executor=counting)
    assert done == ["stub.c", "wrong.c", "wrong.c"] and len(results.read_text().splitlines()) == 2
    assert [row.id for row in again] == [row.id for row in first]
    wrong.write_text(wrong.read_text() + "\n// another\n")
    assert sweep(mlp, [stub, wrong], out, executor=counting).plan[1].id != first.plan[1].id
    assert done[3:] == ["wrong.c"]


def test_a_crash_is_tried_again_and_an_error_is_a_result(
    mlp: Path, stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = 0

    def crash(*_: object, **__: object) -> rehal.Comparison:
        nonlocal calls
        calls += 1
        raise rehal.Crash("ABORTED", "killed", status=-9)

    out = tmp_path / "other"
    with monkeypatch.context() as patched:
        patched.setattr(rehal.Capture, "compare", crash)
        assert sweep(mlp, [stub], out).rows[0].outcome == "crashed" and calls == 2
        assert sweep(mlp, [stub], out).rows[0].attempts == 2 and calls == 4
    monkeypatch.chdir(tmp_path)
    missing = rehal.sweep(str(mlp), "nothing", stub, "local-sync", max_time="1s")
    assert missing.rows[0].outcome == "failed" and (tmp_path / "sweep/plan.json").exists()
    missing = rehal.sweep([mlp], ["nothing"], [stub], ["local-sync"], out=out, executor=executors.local())
    assert missing.rows[0].outcome == "failed" and "nothing" in missing.rows[0].error


#: A sweep whose task begins, and ends when it may; and the file that is the slot.
SWEEP = """
import pathlib, sys, time, rehal
from rehal import _slot

_slot.PATH, begun, end, capture, candidate, out = sys.argv[1:]

def compare(*_, **__):
    pathlib.Path(begun).touch()
    while not pathlib.Path(end).exists():
        time.sleep(0.01)
    raise rehal.Error("UNKNOWN", "ended")

rehal.Capture.compare = compare
assert rehal.sweep(capture, "f", candidate, out=out).rows[0].error.startswith("UNKNOWN")
"""


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that end with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def test_two_sweeps_of_a_machine_take_turns_and_one_that_is_killed_ends_its_turn(
    mlp: Path, stub: Path, tmp_path: Path, processes: list[subprocess.Popen[bytes]]
) -> None:
    def begin(name: str, stderr: int | None = None) -> tuple[Path, Path]:
        files = (tmp_path / f"{name}.begun", tmp_path / f"{name}.end")
        arguments = [tmp_path / "slot", *files, mlp, stub, tmp_path / name]
        processes.append(subprocess.Popen([sys.executable, "-c", SWEEP, *arguments], stderr=stderr))
        return files

    def wait_for(path: Path) -> None:
        while not path.exists():
            assert processes[-1].poll() is None, f"it ended before {path.name}"
            time.sleep(0.01)

    wait_for(begin("first")[0])
    terminal, its_end = pty.openpty()
    second_begun, second_may_end = begin("second", its_end)
    os.close(its_end)
    with open(terminal, "rb") as said:
        assert said.readline().startswith(b"rehal: waiting until no other process times kernels")
        assert not second_begun.exists()
        processes[0].kill()
        wait_for(second_begun)
        second_may_end.touch()
        assert processes[1].wait() == 0
    # Other users can lock it, too.
    assert (tmp_path / "slot").stat().st_mode & 0o777 == 0o666


def test_a_slot_that_cannot_be_locked_is_an_error(
    mlp: Path, stub: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "link").symlink_to(stub)
    monkeypatch.setattr("rehal._slot.PATH", str(tmp_path / "link"))
    with pytest.raises(rehal.Error, match="no lock for the timing slot"):
        sweep(mlp, [stub], tmp_path / "out")


def result(
    number: int, outcome: str, ratio: tuple[float, float] | None = None, **names: Any
) -> dict[str, Any]:
    """A result as an executor yields it, whose ratio with warm caches has this interval."""
    row: dict[str, Any] = {
        "id": f"{number:x}",
        "capture": "/a/<x>.ireereplay",
        "function": f"f{number}",
        "candidate": "/a/c.c",
        "device": "local-sync",
        "flags": {},
        "label": None,
        "attempts": 1,
        "outcome": outcome,
        "error": None,
        **names,
    }
    if ratio:
        timing = {"cache": "warm", "margin": 0.05, "ratio": sum(ratio) / 2, "ratio_interval": list(ratio)}
        row["report"] = {"header": {"host": "node"}, "candidates": [{"timings": [timing]}]}
    return row


def swept(*rows: dict[str, Any]) -> rehal.Sweep:
    fields = ("id", "capture", "function", "candidate", "device", "flags", "label")
    return rehal.Sweep(
        [rehal.Task(**{name: row[name] for name in fields}) for row in rows], {row["id"]: row for row in rows}
    )


@pytest.mark.parametrize(
    ("before", "now", "change", "status"),
    [
        (("not slower", (0.98, 1.0)), ("not slower", (0.99, 1.01)), None, 0),
        # Faster than the captured kernel, but slower than it was.
        (("not slower", (0.48, 0.5)), ("not slower", (0.8, 0.82)), "slower", 3),
        (("slower", (2.0, 2.02)), ("slower", (2.0, 2.02)), None, 0),
        (("not slower", (0.5, 0.9)), ("not slower", (0.6, 0.9)), "cannot tell", 4),
        (("not slower", (0.5, 0.5)), ("not slower", None), "cannot tell", 4),
        (("wrong", None), ("wrong", None), None, 0),
        (("wrong", None), ("slower", (2.0, 2.1)), "slower", 3),
        (("not slower", (0.5, 0.5)), ("wrong", None), "wrong", 2),
        (("not slower", (0.5, 0.5)), ("crashed", None), "crashed", 1),
    ],
)
def test_regressions_against_an_earlier_sweep(before: Any, now: Any, change: str | None, status: int) -> None:
    elsewhere: dict[str, Any] = {"capture": "/b/<x>.ireereplay", "candidate": "/b/c.c"}
    found = swept(result(1, *now)).regressions(against=swept(result(1, *before, **elsewhere)))
    assert ([row.change for row in found], found.status) == ([change] if change else [], status)
    assert all(row.before == before[0] for row in found)


def test_the_status_of_a_sweep_is_that_of_its_worst_result() -> None:
    rows = [
        result(1, "not slower", (0.5, 0.5)),
        result(2, "cannot tell"),
        result(3, "slower"),
        result(4, "lost"),
        result(5, "wrong"),
    ]
    assert [swept(*rows[:count]).status for count in range(6)] == [0, 0, 4, 3, 1, 2]
    new = swept(result(1, "slower", (2, 2))).regressions(against=swept(result(2, "slower", (2, 2))))
    assert new.status == 3 and new[0].before is None
    twice = swept(result(1, "slower"), result(2, "slower", function="f1"))
    assert twice.status == 3
    with pytest.raises(rehal.Error, match="the same names"):
        twice.regressions(against=swept())


@pytest.mark.parametrize("without", [(), ("pyarrow",), ("pyarrow", "polars")])
def test_results_become_parquet(
    without: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import polars

    path = tmp_path / "results.parquet"
    sweep = swept(result(1, "not slower", (0.5, 0.7)), result(2, "lost"))
    with monkeypatch.context() as patched:
        for name in without:
            patched.setitem(sys.modules, name, None)
        if "polars" in without:
            with pytest.raises(ImportError, match="pip install pyarrow"):
                sweep.to_parquet(path)
            return
        sweep.to_parquet(path)
    read = polars.read_parquet(path)
    assert read["outcome"].to_list() == ["not slower", "lost"] and read["attempts"].to_list() == [1, 1]
    assert read["warm_ratio"].to_list() == [0.6, None] and read["cold_ratio"].dtype == polars.Float64
    assert (
        json.loads(read["report"][0])["header"]["host"] == read["host"][0] == "node"
        and read["report"][1] is None
    )


def test_the_page_of_a_sweep_has_all_results_and_the_regressions(tmp_path: Path) -> None:
    rows = [result(number, "not slower", (0.5, 0.5)) for number in range(150)]
    sweep = swept(*rows, result(150, "slower", (2.0, 2.0)))
    sweep.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    tags: list[str] = []

    class Tags(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: object) -> None:
            tags.append(tag)

    Tags().feed(page)
    assert tags.count("tr") == (1 + 1) + (1 + 151) and "x" not in tags
    assert "1 slower" in page and "150 not slower" in page and "status 3" in page and "&lt;x&gt;" in page
    assert "Regressions" not in sweep._repr_html_() and "slower" in sweep.regressions()._repr_html_()


def test_what_is_not_a_sweep_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(rehal.Error, match="not a sweep"):
        rehal.Sweep.open(tmp_path)
    (tmp_path / "plan.json").write_text("[]")
    assert len(rehal.Sweep.open(tmp_path)) == 0
    (tmp_path / "results.jsonl").write_text('{"id": "1", "outcome": "slower"}\n[1]\n{"id')
    with pytest.raises(rehal.Error, match="line 2"):
        rehal.Sweep.open(tmp_path)
    (tmp_path / "plan.json").write_text('[{"a": 1}]')
    with pytest.raises(rehal.Error, match="not the plan"):
        rehal.Sweep.open(tmp_path)
