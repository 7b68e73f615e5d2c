"""Sweeps on engines: placement by labels, and workers and nodes that are killed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import rehal
from rehal import executors

#: Engines warn of sockets and processes that they leave to the end of the interpreter.
pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)

#: A task of a node that does not exist.
NOWHERE = rehal.Task("7" * 32, "capture", "f", "c", "d", {}, "gfx1100")

LABELS = ("gfx942", "gfx942", "gfx90a", None, None, None)


def tasks() -> list[rehal.Task]:
    return [
        rehal.Task(f"{number:032x}", "capture", "f", "c", "d", {}, label)
        for number, label in enumerate(LABELS)
    ]


def parent_of(_: int) -> int:
    return os.getppid()


def killing(directory: Path, node_of: Callable[[int], int]) -> Callable[[rehal.Task], dict[str, Any]]:
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
        times = (begin, time.monotonic())
        return {"id": task.id, "outcome": "not slower", "node": node_of(0), "times": times}

    return perform


def wait_for(path: Path) -> None:
    while not path.exists():
        time.sleep(0.01)


def check_slots(rows: list[dict[str, Any]]) -> None:
    """No two tasks were timed at once by a node."""
    by_node: dict[int, list[tuple[float, float]]] = {}
    for row in rows:
        by_node.setdefault(row["node"], []).append(row["times"])
    for times in by_node.values():
        times.sort()
        assert all(before[1] <= after[0] for before, after in zip(times, times[1:]))


class Dask:
    """A scheduler, and a client of it. A node is a session of ``dask worker``: the process that is its nanny,
    and the worker."""

    def __init__(self) -> None:
        import distributed

        scheduler = {"cls": distributed.Scheduler, "options": {"dashboard": False, "port": 0}}
        self.cluster = distributed.SpecCluster(scheduler=scheduler)
        self.client = distributed.Client(self.cluster)
        self.nodes: list[subprocess.Popen[bytes]] = []

    def add_nodes(self, *labels: str) -> list[int]:
        """Adds nodes with a label each: the ids of their sessions."""
        count = len(self.client.scheduler_info(n_workers=-1)["workers"])
        for label in labels:
            command = [sys.executable, "-m", "dask", "worker", self.cluster.scheduler_address, "--nthreads=2"]
            command += [f"--resources=timing=1,{label}=1", "--no-dashboard"]
            streams: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            self.nodes.append(subprocess.Popen(command, start_new_session=True, **streams))
        self.client.wait_for_workers(count + len(labels))
        return [node.pid for node in self.nodes[-len(labels) :]]

    def close(self) -> None:
        for node in self.nodes:
            kill_node(node.pid)
            node.wait()
        self.client.close()
        self.cluster.close()


def kill_node(session: int) -> None:
    try:
        os.killpg(session, signal.SIGKILL)
    except ProcessLookupError:
        pass


@pytest.fixture(scope="module")
def dask() -> Iterator[Dask]:
    """Two nodes, of which one has a label each."""
    dask = Dask()
    try:
        dask.add_nodes("gfx942", "gfx90a")
        yield dask
    finally:
        dask.close()


def test_dask_places_tasks_and_starts_them_again_if_a_worker_is_killed(dask: Dask, tmp_path: Path) -> None:
    todo = tasks()
    rows = list(executors.dask(dask.client)(killing(tmp_path, os.getsid), todo))
    assert (tmp_path / "killed").exists()
    assert sorted(row["id"] for row in rows) == [task.id for task in todo]
    assert all(row["outcome"] == "not slower" for row in rows), rows
    check_slots(rows)
    of = {row["id"]: row["node"] for row in rows}
    assert of[todo[0].id] == of[todo[1].id] != of[todo[2].id]


def test_dask_starts_tasks_again_if_their_node_is_killed(dask: Dask, tmp_path: Path) -> None:
    doomed, other = dask.add_nodes("gfx1201", "gfx1201")
    reached = tmp_path / "reached"

    def perform(task: rehal.Task) -> dict[str, Any]:
        session = os.getsid(0)
        if session == doomed:
            reached.touch()
        # The node that is killed ends no task; the other one none before.
        while session == doomed or not reached.exists():
            time.sleep(0.01)
        return {"id": task.id, "outcome": "not slower", "node": session}

    def kill() -> None:
        wait_for(reached)
        kill_node(doomed)

    killer = threading.Thread(target=kill)
    killer.start()
    todo = [dataclasses.replace(task, label="gfx1201") for task in tasks()]
    rows = list(executors.dask(dask.client)(perform, todo))
    killer.join()
    assert sorted(row["id"] for row in rows) == [task.id for task in todo]
    assert {(row["outcome"], row["node"]) for row in rows} == {("not slower", other)}, rows


def test_dask_loses_tasks_that_no_node_fits(dask: Dask) -> None:
    (row,) = executors.dask(dask.client, patience=0)(killed_once, [NOWHERE])
    assert (row["outcome"], row["error"]) == ("lost", "no node has timing and gfx1100")


def test_dask_loses_tasks_that_kill_their_workers(dask: Dask, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask.cluster.scheduler, "allowed_failures", 0)
    fatal = rehal.Task("2" * 32, "capture", "f", "c", "d", {}, "gfx90a")

    def kill(task: rehal.Task) -> dict[str, Any]:
        os.kill(os.getpid(), signal.SIGKILL)
        return {}

    (row,) = executors.dask(dask.client)(kill, [fatal])
    assert row["outcome"] == "lost" and row["error"].startswith("KilledWorker: ")


def test_a_sweep_runs_on_dask(dask: Dask, mlp: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.c"
    broken.write_text("not C\n")
    function = "mlp_dispatch_4_reduction_8x10_f32"
    devices = [("local-sync", "gfx942"), ("local-sync", "gfx90a")]
    executor = executors.dask(dask.client)
    sweep = rehal.sweep(mlp, function, broken, devices, out=tmp_path / "out", executor=executor)
    assert [(row.label, row.outcome) for row in sweep] == [("gfx942", "failed"), ("gfx90a", "failed")]
    assert sweep.plan[0].id != sweep.plan[1].id and sweep.status == 1


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[Any]:
    """A cluster of two nodes, besides the head, on which no tasks run."""
    import ray
    from ray.cluster_utils import Cluster

    # Nodes cannot import this module.
    ray.cloudpickle.register_pickle_by_value(sys.modules[__name__])
    # A node that is gone is to be noticed soon; one that answers late is not gone.
    checks = {
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 200,
        "health_check_failure_threshold": 2,
    }
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "_system_config": checks})
    try:
        for _ in range(2):
            cluster.add_node(num_cpus=2, resources={"timing": 1, "gfx942": 1, "gfx90a": 1})
        ray.init(address=cluster.address, log_to_driver=False)
        cluster.wait_for_nodes()
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


def test_ray_places_tasks_and_starts_them_again_if_a_worker_is_killed(
    ray_cluster: Any, tmp_path: Path
) -> None:
    todo = tasks()
    rows = list(executors.ray()(killing(tmp_path, parent_of), todo))
    assert (tmp_path / "killed").exists()
    assert sorted(row["id"] for row in rows) == [task.id for task in todo]
    assert all(row["outcome"] == "not slower" for row in rows), rows
    check_slots(rows)


def test_ray_loses_tasks_that_no_node_fits(ray_cluster: Any) -> None:
    (row,) = executors.ray(patience=0)(killed_once, [NOWHERE])
    assert (row["outcome"], row["error"]) == ("lost", "no node has timing and gfx1100")


def test_ray_starts_tasks_again_if_their_node_is_killed(ray_cluster: Any, tmp_path: Path) -> None:
    doomed = tmp_path / "doomed"

    def perform(task: rehal.Task) -> dict[str, Any]:
        import ray

        node = ray.get_runtime_context().get_node_id()
        if task.id.endswith("0") and not doomed.exists():
            (part := doomed.with_suffix(".part")).write_text(node)
            part.rename(doomed)
        # The node that is killed ends no task; the other one none before.
        while not doomed.exists() or doomed.read_text() == node:
            time.sleep(0.01)
        return {"id": task.id, "outcome": "not slower", "node": node}

    def kill() -> None:
        wait_for(doomed)
        (node,) = [node for node in ray_cluster.worker_nodes if node.node_id == doomed.read_text()]
        ray_cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    todo = tasks()
    rows = list(executors.ray()(perform, todo))
    killer.join()
    assert sorted(row["id"] for row in rows) == [task.id for task in todo]
    (other,) = {row["node"] for row in rows}
    assert other != doomed.read_text() and len(ray_cluster.worker_nodes) == 1
    assert all(row["outcome"] == "not slower" for row in rows), rows


#: Performs an array one after the other, as sbatch --wait does; refuses features that the cluster does not
#: have.
SBATCH = """#!{python}
import os, subprocess, sys
given = dict(it.lstrip("-").split("=", 1) if "=" in it else (it.lstrip("-"), "") for it in sys.argv[1:])
with open("{directory}/submitted", "a") as file:
    flags = sorted({{"wait", "exclusive", "requeue"}} & set(given))
    print(given.get("constraint", "none"), given["array"], flags, file=file)
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
    return killing(Path(os.environ["KILLED_DIRECTORY"]), parent_of)(task)


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
    (row,) = executors.slurm(slurm, retries=1)(killed_once, [NOWHERE])
    assert row["outcome"] == "lost" and row["error"].endswith("sbatch: error: Invalid feature specification")
    assert len((slurm / "submitted").read_text().splitlines()) == 2


def test_an_interrupted_sweep_cancels_its_jobs(slurm: Path) -> None:
    running = executors.slurm(slurm)(slow_second, tasks()[3:])
    assert next(iter(running))["outcome"] == "not slower"
    running.close()  # type: ignore[attr-defined]
    (cancelled,) = (slurm / "cancelled").read_text().splitlines()
    assert cancelled.startswith("--name=rehal-")


def slow_second(task: rehal.Task) -> dict[str, Any]:
    cancelled = Path(os.environ["KILLED_DIRECTORY"]) / "cancelled"
    while not task.id.endswith("3") and not cancelled.exists():
        time.sleep(0.01)
    return {"id": task.id, "outcome": "not slower"}


def test_without_sbatch_a_sweep_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(rehal.Error, match="sbatch is missing"):
        list(executors.slurm(tmp_path)(killed_once, tasks()))


def test_engines_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, rehal; sys.exit(any(name in sys.modules for name in ('distributed', 'ray', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
