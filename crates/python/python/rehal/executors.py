"""Executors of sweeps: where tasks run. Each leaves placement and retries to its engine, which is imported
only when tasks are there.

Two tasks that are timed at once would disturb each other, so each takes the one slot ``timing`` of a node,
which other sweeps of this machine wait for, too, and the node must have the label of the task, such as
``gfx942``. Nodes need this package, and the files of
the sweep at the same paths.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ._errors import Error

if TYPE_CHECKING:
    import subprocess

    from ._sweep import Task
    from ._tool import StrPath

#: Performs a task, on this machine.
Perform = Callable[["Task"], "dict[str, Any]"]

#: Performs tasks, and yields each result when it is there, in any order.
Executor = Callable[[Perform, "Sequence[Task]"], Iterable["dict[str, Any]"]]

#: Seconds between two looks at what has ended.
_POLL = 0.5


def local() -> Executor:
    """Performs tasks on this machine, one after the other. Each runs kernels in processes of its own."""

    def execute(perform: Perform, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        return map(perform, tasks)

    return execute


def dask(client: Any, *, patience: float = 60) -> Executor:
    """Performs tasks on the workers of a ``distributed.Client``.

    One worker of each node has the slot, and the labels of its node: ``dask worker --resources
    "timing=1,gfx942=1"``. The scheduler starts a task again whose worker has died, ``allowed-failures``
    times. A task that no worker fits for ``patience`` seconds is lost.
    """

    class Dask:
        def submit(self, perform: Perform, task: Task) -> Any:
            return client.submit(perform, task, resources=_needs(task), pure=False)

        def ended(self, running: list[Any]) -> Iterable[Any]:
            import distributed

            try:
                ended: Iterable[Any] = distributed.wait(running, _POLL, return_when="FIRST_COMPLETED").done
                return ended
            except distributed.TimeoutError:
                return ()

        def result(self, handle: Any) -> Any:
            return handle.result()

        def nodes(self) -> list[Mapping[str, float]]:
            return [worker["resources"] for worker in client.scheduler_info(n_workers=-1)["workers"].values()]

        def cancel(self, running: list[Any]) -> None:
            client.cancel(running)

    return _on(Dask, patience)


def ray(*, retries: int = 2, patience: float = 60) -> Executor:
    """Performs tasks on the nodes of the Ray cluster that this process is connected to.

    Nodes have the slot and their labels as resources: ``ray start --resources='{"timing": 1, "gfx942": 1}'``.
    Ray starts a task again whose worker or node has died, ``retries`` times. A task that no node fits for
    ``patience`` seconds is lost.
    """

    class Ray:
        def __init__(self) -> None:
            import ray

            self.ray = ray

        def submit(self, perform: Perform, task: Task) -> Any:
            return self.ray.remote(perform).options(resources=_needs(task), max_retries=retries).remote(task)

        def ended(self, running: list[Any]) -> Iterable[Any]:
            return self.ray.wait(running, timeout=_POLL)[0]

        def result(self, handle: Any) -> Any:
            return self.ray.get(handle)

        def nodes(self) -> list[Mapping[str, float]]:
            return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

        def cancel(self, running: list[Any]) -> None:
            for handle in running:
                self.ray.cancel(handle)

    return _on(Ray, patience)


class _Engine(Protocol):
    def submit(self, perform: Perform, task: Task) -> Any: ...

    def ended(self, running: list[Any]) -> Iterable[Any]:
        """Those that have ended; waits a moment for one."""

    def result(self, handle: Any) -> Any: ...

    def nodes(self) -> list[Mapping[str, float]]:
        """The resources of each node that is alive, used or not."""

    def cancel(self, running: list[Any]) -> None: ...


def _on(connect: Callable[[], _Engine], patience: float) -> Executor:
    def execute(perform: Perform, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        engine = connect()
        running = {engine.submit(perform, task): task for task in tasks}
        unplaced: dict[str, float] = {}
        try:
            while running:
                for handle in engine.ended(list(running)):
                    task = running.pop(handle)
                    try:
                        row = engine.result(handle)
                    # Engines say in exceptions of their own that a node is gone.
                    except Exception as error:
                        row = _lost(task, f"{type(error).__name__}: {error}")
                    yield row
                nodes, now = engine.nodes(), time.monotonic()
                for handle, task in list(running.items()):
                    if any(all(node.get(name, 0) >= 1 for name in _needs(task)) for node in nodes):
                        unplaced.pop(task.id, None)
                    elif now - unplaced.setdefault(task.id, now) >= patience:
                        engine.cancel([handle])
                        yield _lost(running.pop(handle), f"no node has {' and '.join(_needs(task))}")
        finally:
            engine.cancel(list(running))

    return execute


def slurm(
    directory: StrPath, *, arguments: Sequence[str] = (), retries: int = 2, array_size: int = 1000
) -> Executor:
    """Performs tasks as job arrays of Slurm, one per label, and waits for them.

    A job has its node for itself (``--exclusive``), which has the label as a feature (``--constraint``).
    ``arguments`` are more of those of ``sbatch``, such as ``--partition=gpu``. Slurm starts a job again whose
    node has failed (``--requeue``); tasks without a result are submitted again, ``retries`` times, and are
    lost then. ``directory`` is one that all nodes share; at most ``array_size`` tasks are an array.
    """
    import pickle
    import shlex
    import subprocess
    import tempfile

    def submit(scratch: Path, name: str, perform: Perform, tasks: Sequence[Task]) -> subprocess.Popen[bytes]:
        # A function goes by its name, so that it must be that of a module.
        (scratch / name).write_bytes(pickle.dumps((perform, list(tasks))))
        job = shlex.join([sys.executable, "-m", "rehal._array_task", str(scratch / name)])
        command = ["sbatch", "--wait", "--exclusive", "--requeue", f"--array=0-{len(tasks) - 1}"]
        command += [f"--constraint={tasks[0].label}"] if tasks[0].label else []
        command += [
            f"--job-name={scratch.name}",
            f"--output={scratch}/%A_%a.log",
            *arguments,
            f"--wrap={job}",
        ]
        with open(scratch / f"{name}.err", "wb") as errors:
            try:
                return subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
                )
            except FileNotFoundError:
                raise Error(
                    "NOT_FOUND", "sbatch is missing", [], "sweep on a node from which jobs are submitted"
                ) from None

    def execute(perform: Perform, tasks: Sequence[Task]) -> Iterator[dict[str, Any]]:
        missing, said = {task.id: task for task in tasks}, ""
        with tempfile.TemporaryDirectory(
            prefix="rehal-", dir=directory, ignore_cleanup_errors=True
        ) as scratch:
            for attempt in range(1 + retries):
                jobs: dict[str, subprocess.Popen[bytes]] = {}
                try:
                    for part in _parts(missing.values(), array_size):
                        name = f"{attempt}.{len(jobs)}.tasks"
                        jobs[name] = submit(Path(scratch).absolute(), name, perform, part)
                    is_running = bool(jobs)
                    while is_running:
                        # Whatever ended before has written its results before.
                        is_running = any(job.poll() is None for job in jobs.values())
                        for id in [id for id in missing if (Path(scratch) / f"{id}.json").exists()]:
                            yield json.loads((Path(scratch) / f"{id}.json").read_text())
                            del missing[id]
                        time.sleep(_POLL if is_running else 0)
                finally:
                    if any(job.poll() is None for job in jobs.values()):
                        subprocess.run(["scancel", f"--name={Path(scratch).name}"], check=False)
                    for job in jobs.values():
                        job.terminate()
                        job.wait()
                for name, job in jobs.items():
                    text = (Path(scratch) / f"{name}.err").read_text(errors="replace").strip()
                    said = f"sbatch ended with status {job.returncode}: {text}" if job.returncode else said
            for task in missing.values():
                yield _lost(task, said or "the job ended without a result")

    return execute


def _parts(tasks: Iterable[Task], size: int) -> Iterator[list[Task]]:
    """Tasks of one label each, at most ``size``."""
    for _, group in itertools.groupby(
        sorted(tasks, key=lambda task: task.label or ""), key=lambda task: task.label
    ):
        while part := list(itertools.islice(group, size)):
            yield part


def _needs(task: Task) -> dict[str, float]:
    """The slot and the label of a node."""
    return {"timing": 1, **({task.label: 1} if task.label else {})}


def _lost(task: Task, error: str) -> dict[str, Any]:
    """The result of a task whose node did not deliver one: the next sweep tries it again."""
    return {**asdict(task), "outcome": "lost", "error": error}
