"""Searches for the fastest variant of a kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import rehal

FUNCTION = "mlp_dispatch_4_reduction_8x10_f32"


@pytest.fixture
def space(mlp: Path, tmp_path: Path) -> Path:
    """A kernel that is wrong, or does not compile."""
    stub = tmp_path / "stub.c"
    command = [rehal._tool.binary(), "kernel", "stub", f"--function={FUNCTION}", str(mlp), "-o", str(stub)]
    subprocess.run(command, check=True)
    stub.write_text(stub.read_text().replace("return 1;", "RESULT"))
    path = tmp_path / "space.toml"
    path.write_text('base = "stub.c"\n[[axis]]\nmacro = "RESULT"\nvalues = ["return 0;", "nothing"]\n')
    return path


def test_a_program_chooses_the_points(mlp: Path, space: Path, tmp_path: Path) -> None:
    output = tmp_path / "trials.jsonl"
    given: dict[str, Any] = {"device": "local-sync", "output": output}
    with rehal.Tuner(mlp, FUNCTION, space, **given) as tuner:
        assert tuner.axes == {"RESULT": ["return 0;", "nothing"]}
        values = iter(tuner.axes["RESULT"])
        trials = [tuner.run({"RESULT": value}) for value in values]
        assert [it.outcome for it in trials] == ["wrong", "failed"] and not trials[0].is_right
        assert tuner.run({"RESULT": "return 0;"}).trial == 1
        with pytest.raises(rehal.Error, match="does not have the value 3") as refused:
            tuner.run({"RESULT": 3})
        assert refused.value.advice and "nothing" in refused.value.advice
        assert len(tuner.trials) == 3
    result = tuner.close()
    assert (result.verdict, result.best, result.trial_count) == ("wrong", None, 2)
    lines = [json.loads(line) for line in output.read_text().splitlines()]
    assert [line["outcome"] for line in lines] == ["wrong", "failed"]
    assert lines[0]["header"]["schema"] == "rehal.tune.trial/1"
    with pytest.raises(rehal.Error, match="closed"):
        tuner.run({"RESULT": "nothing"})
    # The last trial that a limit permits is known.
    limited = rehal.Tuner(mlp, FUNCTION, space, device="local-sync", trials=1)
    assert limited.run({"RESULT": "nothing"}).outcome == "failed"
    with pytest.raises(rehal.Error, match="the search has ended"):
        limited.run({"RESULT": "return 0;"})
    assert limited.close().trial_count == 1
    # Nothing is tried again.
    again = rehal.tune(mlp, FUNCTION, space, **given)
    assert again.trial_count == 2 and len(output.read_text().splitlines()) == 2


def test_an_open_tuner_does_not_disturb_the_end_of_the_interpreter(mlp: Path, space: Path) -> None:
    given = f"{str(mlp)!r}, {FUNCTION!r}, {str(space)!r}"
    script = f"import rehal\ntuner = rehal.Tuner({given})\nprint(tuner.axes)"
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stderr) == (0, "") and "RESULT" in ended.stdout


def test_errors_of_a_search_are_raised(mlp: Path, space: Path, tmp_path: Path) -> None:
    with pytest.raises(rehal.Error, match="nothing"):
        rehal.Tuner(mlp, "nothing", space)
    with pytest.raises(rehal.Error, match="missing field `base`"):
        (tmp_path / "empty.toml").write_text("")
        rehal.tune(mlp, FUNCTION, tmp_path / "empty.toml")
