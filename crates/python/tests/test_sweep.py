"""Sweeps: plans, results, and resuming."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import rehal
from rehal import _sweep

FUNCTION = "mlp_dispatch_4_reduction_8x10_f32"


@pytest.fixture
def stub(mlp: Path, tmp_path: Path) -> Path:
    path = tmp_path / "stub.c"
    command = [rehal._tool.binary(), "kernel", "stub", f"--function={FUNCTION}", str(mlp), "-o", str(path)]
    subprocess.run(command, check=True)
    return path


def sweep(mlp: Path, candidates: list[Path], out: Path, **options: Any) -> rehal.Sweep:
    return rehal.sweep([mlp], [FUNCTION], candidates, ["local-sync"], out=out, max_time="1s", **options)


def test_results_are_kept_and_only_what_has_changed_is_done_again(mlp: Path, stub: Path, tmp_path: Path) -> None:
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
    assert first.status == 1 and first.rows[1].report.function == FUNCTION
    assert list(first.to_pandas()["outcome"]) == ["failed", "wrong"] and "wrong" in first._repr_html_()
    assert [task["id"] for task in json.loads((out / "plan.json").read_text())] == [it.id for it in first.plan]
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

    out = tmp_path / "sweep"
    with monkeypatch.context() as patched:
        patched.setattr(rehal.Capture, "compare", crash)
        assert sweep(mlp, [stub], out).rows[0].outcome == "crashed" and calls == 2
        assert sweep(mlp, [stub], out).rows[0].attempts == 2 and calls == 4
    missing = rehal.sweep([mlp], ["nothing"], [stub], ["local-sync"], out=out, executor=_sweep.local)
    assert missing.rows[0].outcome == "failed" and "nothing" in missing.rows[0].error
