"""Sweeps on engines: placement by labels, and workers and nodes that are killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rehal
from rehal import executors

#: Engines warn of sockets and processes that they leave to the end of the interpreter.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")

LABELS = ("gfx942", "gfx942", "gfx90a", None, None, None)


def tasks() -> list[rehal.Task]:
    return [rehal.Task(f"{number:032x}", "capture", "f", "c", "d", {}, label) for number, label in enumerate(LABELS)]


def killing(directory: Path) -> Callable[[rehal.Task], dict[str, Any]]:
    """Performs tasks; the first process that performs the first one is killed by that."""

    # Engines send a function that is defined here by value.
    def perform(task: rehal.Task) -> dict[str, Any]:
        if task.id.endswith("0"):
            try:
                os.close(os.open(directory / "killed", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        time.sleep(0.05)
        return {"id": task.id, "outcome": "not slower", "node": os.getpid(), "times": (begin, time.monotonic())}

    return perform


def check_slots(rows: list[dict[str, Any]]) -> None:
    """No two tasks were timed at once by a node."""
    by_node: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        by_node.setdefault(row["node"], []).append(row["times"])
    for times in by_node.values():
        times.sort()
        assert all(before[1] <= after[0] for before, after in zip(times, times[1:]))


@pytest.fixture
def dask() -> Iterator[Any]:
    """A client of two workers, of which one has a label each."""
    import distributed

    # Each is a process with a nanny, which starts it again.
    worker = {"cls": distributed.Nanny, "options": {"nthreads": 2, "resources": {"timing": 1, "gfx942": 1}}}
    other = {"cls": distributed.Nanny, "options": {"nthreads": 2, "resources": {"timing": 1, "gfx90a": 1}}}
    scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0}}
    cluster = distributed.SpecCluster(workers={0: worker, 1: other}, scheduler=scheduler)
    with cluster, distributed.Client(cluster) as client:
        yield client


def test_dask_places_tasks_and_starts_them_again_if_a_worker_is_killed(dask: Any, tmp_path: Path) -> None:
    todo = tasks()
    rows = list(executors.dask(dask)(killing(tmp_path), todo))
    assert (tmp_path / "killed").exists()
    assert sorted(row["id"] for row in rows) == [task.id for task in todo]
    assert all(row["outcome"] == "not slower" for row in rows), rows
    check_slots(rows)
    of = {row["id"]: row["node"] for row in rows}
    assert of[todo[1].id] != of[todo[2].id]


def test_dask_loses_tasks_that_no_worker_fits_or_survives(dask: Any, tmp_path: Path) -> None:
    nowhere = rehal.Task("1" * 32, "capture", "f", "c", "d", {}, "gfx1100")
    fatal = rehal.Task("2" * 32, "capture", "f", "c", "d", {}, "gfx90a")

    def kill(task: rehal.Task) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    rows = {row["id"]: row for row in executors.dask(dask, patience=20)(kill, [nowhere, fatal])}
    assert {row["outcome"] for row in rows.values()} == {"lost"}
    assert rows[nowhere.id]["error"] == "no node has timing and gfx1100"
    assert rows[fatal.id]["error"].startswith("KilledWorker: ")


def test_a_sweep_runs_on_dask(dask: Any, mlp: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("not C\n")
    function = "mlp_dispatch_4_reduction_8x10_f32"
    devices = [("local-sync", "gfx942"), ("local-sync", "gfx90a")]
    sweep = rehal.sweep([mlp], [function], [broken], devices, out=tmp_path / "out", executor=executors.dask(dask))
    assert [(row.label, row.outcome) for row in sweep] == [("gfx942", "failed"), ("gfx90a", "failed")]
    assert sweep.plan[0].id != sweep.plan[1].id and sweep.status == 1


def test_ray_places_tasks_and_starts_them_again_if_a_worker_is_killed(tmp_path: Path) -> None:
    import ray
    from ray.cluster_utils import Cluster

    killed = tmp_path / "killed"

    def perform(task: rehal.Task) -> dict[str, Any]:
        if task.id.endswith("0"):
            try:
                os.close(os.open(killed, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os.kill(os.getpid(), signal.SIGKILL)
        begin = time.monotonic()
        time.sleep(0.05)
        return {"id": task.id, "outcome": "not slower", "node": os.getppid(), "times": (begin, time.monotonic())}

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, resources={"timing": 1, "gfx942": 1, "gfx90a": 1})
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        todo, nowhere = tasks(), rehal.Task("7" * 32, "capture", "f", "c", "d", {}, "gfx1100")
        rows = {row["id"]: row for row in executors.ray(patience=5)(perform, [*todo, nowhere])}
    finally:
        ray.shutdown()
        cluster.shutdown()
    lost = rows.pop(nowhere.id)
    assert (lost["outcome"], lost["error"]) == ("lost", "no node has timing and gfx1100")
    assert sorted(rows) == [task.id for task in todo]
    assert all(row["outcome"] == "not slower" for row in rows.values()), rows
    assert killed.exists()
    check_slots(list(rows.values()))


#: Performs an array one after the other, as sbatch --wait does; refuses features that the cluster does not have.
SBATCH = """#!{python}
import os, subprocess, sys
given = dict(it.lstrip("-").split("=", 1) if "=" in it else (it.lstrip("-"), "") for it in sys.argv[1:])
with open("{directory}/submitted", "a") as file:
    print(given.get("constraint", "none"), given["array"], sorted({{"wait", "exclusive", "requeue"}} & set(given)), file=file)
if given.get("constraint") == "gfx1100":
    sys.exit("sbatch: error: Invalid feature specification")
first, last = given["array"].split("-")
status = 0
for index in range(int(first), int(last) + 1):
    job = subprocess.run(["sh", "-c", given["wrap"]], env={{**os.environ, "SLURM_ARRAY_TASK_ID": str(index)}})
    status = max(status, abs(job.returncode))
sys.exit(status)
"""


def killed_once(task: rehal.Task) -> dict[str, Any]:
    """Sent by its name."""
    return killing(Path(os.environ["KILLED_DIRECTORY"]))(task)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    bin = tmp_path / "bin"
    bin.mkdir()
    (bin / "sbatch").write_text(SBATCH.format(python=sys.executable, directory=tmp_path))
    (bin / "sbatch").chmod(0o755)
    (bin / "scancel").write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/cancelled\n')
    (bin / "scancel").chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [*sys.path, os.environ.get("PYTHONPATH")])))
    monkeypatch.setenv("KILLED_DIRECTORY", str(tmp_path))
    return tmp_path


def test_slurm_submits_an_array_per_label_and_what_is_missing_again(slurm: Path) -> None:
    todo = tasks()
    rows = list(executors.slurm(slurm, array_size=2)(killed_once, todo))
    assert sorted(row["id"] for row in rows) == [task.id for task in todo]
    assert all(row["outcome"] == "not slower" for row in rows)
    flags = "['exclusive', 'requeue', 'wait']"
    expected = ["gfx90a 0-0", "gfx942 0-0", "gfx942 0-1", "none 0-0", "none 0-1"]
    assert sorted((slurm / "submitted").read_text().splitlines()) == [f"{it} {flags}" for it in expected]
    assert not (slurm / "cancelled").exists() and not list(slurm.glob("rehal-*"))


def test_slurm_loses_tasks_that_it_refuses(slurm: Path) -> None:
    refused = rehal.Task("1" * 32, "capture", "f", "c", "d", {}, "gfx1100")
    (row,) = executors.slurm(slurm, retries=1)(killed_once, [refused])
    assert row["outcome"] == "lost" and row["error"].endswith("sbatch: error: Invalid feature specification")
    assert len((slurm / "submitted").read_text().splitlines()) == 2


def test_an_interrupted_sweep_cancels_its_jobs(slurm: Path) -> None:
    running = executors.slurm(slurm)(slow_second, tasks()[3:])
    assert next(iter(running))["outcome"] == "not slower"
    running.close()  # type: ignore[attr-defined]
    (cancelled,) = (slurm / "cancelled").read_text().splitlines()
    assert cancelled.startswith("--name=rehal-")


def slow_second(task: rehal.Task) -> dict[str, Any]:
    if not task.id.endswith("3"):
        time.sleep(5)
    return {"id": task.id, "outcome": "not slower"}


def test_without_sbatch_a_sweep_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(rehal.Error, match="sbatch is missing"):
        list(executors.slurm(tmp_path)(killed_once, tasks()))


def test_engines_are_imported_when_they_are_used() -> None:
    code = "import sys, rehal; sys.exit(any(name in sys.modules for name in ('distributed', 'ray', 'pyarrow')))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
