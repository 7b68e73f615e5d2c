"""Replays with callbacks, and states."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import rehal
from conftest import FIXTURES
from rehal import _tool

ISOLATIONS = ["process", "none"]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_callbacks_see_dispatches_and_host_reads(mlp: Path, isolation: Any) -> None:
    outputs: dict[str, np.ndarray[Any, Any]] = {}
    order: list[str] = []

    kept: list[rehal.Buffer] = []

    def before(dispatch: rehal.Dispatch) -> None:
        order.append(f"before {dispatch.record}")
        kept.append(dispatch.bindings[0])

    def after(dispatch: rehal.Dispatch) -> None:
        order.append(f"after {dispatch.record}")
        outputs[dispatch.function] = dispatch.bindings[-1].view(np.float32)

    reads: list[rehal.HostRead] = []
    results: list[np.ndarray[Any, Any]] = []

    def read(it: rehal.HostRead) -> None:
        reads.append(it)
        results.append(it.view(np.float32, (8, 10)))

    capture = rehal.open(mlp)
    capture.replay(
        before_dispatch=before, on_dispatch=after, on_host_read=read, device="local-sync", isolation=isolation
    )
    assert order[:4] == ["before 17", "after 17", "before 20", "after 20"] and len(outputs) == 5
    assert len(reads) == 4 and reads[0].scope == "execute"
    softmax = outputs["mlp_dispatch_3_softmax_8x10xf32_dispatch_tensor_store"][:80].reshape(8, 10)
    assert any(np.array_equal(softmax, result) for result in results)
    np.testing.assert_allclose(softmax.sum(axis=1), 1, rtol=1e-5)
    with pytest.raises(rehal.Error, match="the replay has gone on"):
        kept[0].view()


def test_only_the_dispatches_of_a_function_are_seen(mlp: Path) -> None:
    seen: list[str] = []
    rehal.replay(mlp, on_dispatch=lambda it: seen.append(it.function), function="*matmul_8x48x48*")
    assert seen == ["mlp_dispatch_1_matmul_8x48x48_f32"]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_exception_of_a_callback_comes_out_as_itself(mlp: Path, isolation: Any) -> None:
    class Mine(Exception):
        pass

    raised = Mine("mine")
    count = 0

    def callback(_: object) -> None:
        nonlocal count
        count += 1
        raise raised

    capture = rehal.open(mlp)
    for name in ("on_dispatch", "before_dispatch", "on_host_read", "substitute"):
        options: dict[str, Any] = {name: callback}
        with pytest.raises(Mine) as caught:
            capture.replay(isolation=isolation, **options)
        assert caught.value is raised
    assert count == 4


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_state_has_the_buffers_before_a_record(mlp: Path, isolation: Any) -> None:
    capture = rehal.open(mlp)
    inputs: list[bytes] = []
    capture.replay(
        before_dispatch=lambda it: inputs.append(bytes(it.bindings[0])), function="*_2_*", device="local-sync"
    )
    with capture.at(23, isolation=isolation, device="local-sync") as state:
        assert state.record == 23 and len(state.buffers) == 6
        weights = state.buffer(6).view(np.float32, (16, 16))
        assert weights.shape == (16, 16) and weights.flags.writeable
        # Views share their bytes, and are this process's own.
        weights[0, 0] = 42
        assert state.buffer(6).view(np.float32)[0] == 42
        assert np.from_dlpack(state.buffer(6)).nbytes == 1024
        whole = state.buffer(13)
        assert bytes(whole).find(inputs[0]) >= 0
        with pytest.raises(rehal.Error, match="does not exist before record 23"):
            state.buffer(99)
        part = state.buffer(6)
        with pytest.raises(rehal.Error, match="needs 2048 bytes, found 1024"):
            part.view(np.float32, (512,))
        with pytest.raises(rehal.Error, match="1024 bytes are not a multiple of the 3 bytes"):
            part.view("S3")
        assert part.view("<f4", (-1, 64)).shape == (4, 64) and part.view("S3", 2).size == 2
        with pytest.raises(ValueError, match="cannot reshape"):
            part.view(np.float32, (-1, 7))
        # As of other objects, their elements, which are bytes, are converted.
        np.testing.assert_array_equal(np.asarray(part, np.float32), part.view().astype(np.float32))
        assert np.shares_memory(np.asarray(part), part.view())
    assert weights[0, 0] == 42
    with pytest.raises(rehal.Error, match="the replay has gone on"):
        state.buffer(7).view()


def test_a_buffer_has_the_buffer_protocol(mlp: Path) -> None:
    with rehal.open(mlp).at(23) as state:
        buffer = state.buffer(6)
        view = memoryview(buffer)
        assert (view.nbytes, view.format, view.readonly) == (1024, "B", False)
        assert view == buffer.view().tobytes() == bytes(buffer) and bytearray(buffer) == view
        view[0] = 42
        assert buffer.view()[0] == 42 and np.frombuffer(memoryview(buffer), np.uint8)[0] == 42
        assert struct.unpack_from("<f", buffer, 4)[0] == buffer.view(np.float32)[1]
        late = state.buffer(7)
    del buffer
    assert view[0] == 42
    with pytest.raises(rehal.Error, match="the replay has gone on"):
        memoryview(late)


def test_negative_numbers_are_refused(mlp: Path) -> None:
    capture = rehal.open(mlp)
    with capture.at(23) as state:
        calls: list[tuple[Callable[[], object], str]] = [
            (lambda: capture.at(-1), "record"),
            (lambda: capture.at(1 << 40), "record"),
            (lambda: capture.at(23, occurrence=-1), "occurrence"),
            (lambda: state.buffer(-1), "buffer"),
            (lambda: capture.code(-1), "executable"),
        ]
        for call, name in calls:
            with pytest.raises(ValueError, match=f"{name}: -?[0-9]+ .expected an integer from 0"):
                call()
    with pytest.raises(ValueError, match="buffer: -1"):
        capture.replay(on_dispatch=lambda it: it.buffer(-1))


def test_numbers_of_columns_are_taken(mlp: Path) -> None:
    capture = rehal.open(mlp)
    dispatches = capture.records(kind="*.dispatch")
    with capture.at(dispatches.ordinal[1]) as state:
        buffer = np.uint64(next(iter(state.buffers)))
        assert state.record == dispatches.ordinal[1] and state.buffer(buffer).nbytes > 0
    seen: list[int] = []
    capture.replay(on_dispatch=lambda it: seen.append(it.buffer(buffer).view().size))
    assert len(seen) == len(dispatches)
    assert len(capture.code(dispatches.executable[0])) > 0


def test_records_without_operations_and_later_occurrences_have_no_state(mlp: Path) -> None:
    capture = rehal.open(mlp)
    for record, occurrence, advice in [
        (1, 0, "ask for record "),
        (18, 0, "ask for record 20, the next one that is"),
        (23, 1, "occurrences count from 0"),
        (10_000, 0, "no record after it is one"),
    ]:
        with pytest.raises(rehal.Error) as missing:
            capture.at(record, occurrence=occurrence)
        assert missing.value.code == "NOT_FOUND" and str(missing.value.advice).startswith(advice)
        if occurrence > 0:
            assert missing.value.message == "a replay performs record 23 1 time, not 2 times"


def test_the_error_for_a_record_names_one_that_has_a_state(mlp: Path) -> None:
    capture = rehal.open(mlp)
    with pytest.raises(rehal.Error) as missing:
        capture.at(1)
    (following,) = re.findall("ask for record ([0-9]+), the next one", str(missing.value.advice))
    with capture.at(int(following)) as state:
        assert state.record == int(following) > 1


def test_code_is_substituted(mlp: Path, tmp_path: Path) -> None:
    capture = rehal.open(mlp)
    seen: list[rehal.Executable] = []

    def same(executable: rehal.Executable) -> bytes:
        seen.append(executable)
        return executable.code

    capture.replay(substitute=same)
    assert [(it.id, it.size_bytes) for it in seen] == [(4, 14328)]
    path = tmp_path / "kernel.so"
    path.write_bytes(capture.code(4))
    capture.replay(substitute=lambda _: path)
    capture.replay(substitute=lambda _: None)
    with pytest.raises(rehal.Error):
        capture.replay(substitute=lambda _: b"no code")


def test_cuda_c_is_compiled(mlp: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tmp_path / "kernel.cu"
    source.write_text('extern "C" __global__ void f() {}\n')
    monkeypatch.setenv("REHAL_NVRTC", "/nowhere.so")
    with pytest.raises(rehal.Error, match="CUDA C, and NVRTC, which compiles it, is not here"):
        rehal.open(mlp).replay(substitute=lambda _: source)


def test_captured_code_can_do_nothing_but_compute(tmp_path: Path) -> None:
    """The kernel tries what it may not do, and fails with the number of the first thing that it can do."""
    function, add = "add_dispatch_0_elementwise_4_f32", FIXTURES / "captures/add4.add.local-sync.ireereplay"
    probe = (Path(__file__).parents[2] / "cli/tests/tools/confinement/probe.c").read_text()
    victim, source, library = (tmp_path / name for name in ("victim", "probe.c", "probe.so"))
    victim.write_text("of the user")
    tool = [_tool.binary(), "kernel"]
    subprocess.run([*tool, "stub", "--no_run", f"--function={function}", add, "-o", source], check=True)
    body = f'\n#define VICTIM "{victim}"\n{probe}'
    stub = source.read_text().replace("// Compute item i here.", body).replace("return 1;", "return 0;")
    source.write_text(stub)
    subprocess.run([*tool, "build", source, "-o", library], check=True)
    capture = rehal.open(add)
    replaced: Any = {"replay_executable_substitution": f"{function}={library}"}

    def replay(**options: Any) -> None:
        seen: list[int] = []
        capture.replay(on_dispatch=lambda it: seen.append(it.record), **replaced, **options)
        assert len(seen) == 1

    for device in ("local-sync", "local-task"):
        with pytest.raises(rehal.Error, match="it returned 1"):
            replay(device=device, sandbox="off")
        replay(device=device)
        flags: Any = {"device": device, "sandbox": "require", **replaced}
        capture.replay(**flags)
        assert rehal.verify(add, **flags).is_equal
        rehal.benchmark(add, benchmark_min_time="2x", **flags)
        compared = rehal.compare(add, function, library, device=device, sandbox="require", max_time="1s")
        assert compared.verdict in ("not slower", "slower", "cannot tell")


def test_a_kernel_that_crashes_is_an_exception(crashing: Path) -> None:
    capture = rehal.open(crashing)
    runs: list[Callable[[], None]] = [capture.replay, lambda: capture.replay(on_dispatch=print)]
    for run in runs:
        with pytest.raises(rehal.Crash) as crash:
            run()
        assert crash.value.status == 86
        assert "a kernel crashed with SIGSEGV" in crash.value.message
        assert crash.value.context[0].startswith("record #")
    with pytest.raises(rehal.Crash):
        capture.kernels()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_what_an_emulated_gpu_finds_is_an_exception(tmp_path: Path, isolation: Any) -> None:
    kernel = (FIXTURES.parent / "crates/cli/tests/gpu/dynamic_matmul.cuda.ireereplay").read_bytes()
    right, wrong = b"\tld.global.nc.b32 \t%r48, [%rd28];", b"ld.global.b32 \t%r48, [%rd28+796];"
    path = tmp_path / "wrong.ireereplay"
    path.write_bytes(kernel.replace(right, wrong))
    found = r"read out of bounds of 4 bytes at offset \d+ of binding 1"
    with pytest.raises(rehal.Error, match=found) as error:
        rehal.open(path).replay(device="cuda://emulator", isolation=isolation)
    assert error.value.code == "OUT_OF_RANGE"
    assert any("record #35" in it for it in error.value.context)


def test_a_killed_process_is_an_exception(mlp: Path) -> None:
    def kill(_: object) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                is_child = f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
                arguments = (process / "cmdline").read_bytes()
            except OSError:
                continue
            if is_child and b"\0worker\0run\0" in arguments:
                os.kill(int(process.name), signal.SIGKILL)

    with pytest.raises(rehal.Crash) as crash:
        rehal.replay(mlp, before_dispatch=kill)
    assert crash.value.status == -signal.SIGKILL


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_an_interrupt_ends_a_replay(mlp: Path, isolation: Any) -> None:
    def interrupt(_: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        threading.Event().wait()

    with pytest.raises(KeyboardInterrupt):
        rehal.replay(mlp, on_dispatch=interrupt, isolation=isolation)
    # While no callback runs, too.
    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        rehal.kernels(mlp, repetitions=1_000_000_000)


def test_a_timeout_ends_a_job(mlp: Path) -> None:
    with pytest.raises(rehal.Error) as late:
        rehal.kernels(mlp, repetitions=1_000_000_000, timeout=0.3)
    assert late.value.code == "DEADLINE_EXCEEDED"
    runs: list[Callable[..., object]] = [
        rehal.info,
        rehal.kernels,
        rehal.replay,
        rehal.verify,
        rehal.profile,
        lambda path, **options: rehal.diff(path, path, **options),
        lambda path, **options: rehal.slice(path, "nowhere", **options),
        lambda path, **options: rehal.redact(path, "nowhere", **options),
        lambda path, **options: rehal.compare(path, "f", "nowhere", **options),
    ]
    for run in runs:
        with pytest.raises(ValueError, match="timeout"):
            run(mlp, timeout=-1)


def test_a_timeout_holds_while_callbacks_run(mlp: Path) -> None:
    def late(run: Callable[[], object]) -> float:
        begun = time.monotonic()
        with pytest.raises(rehal.Error) as error:
            run()
        assert error.value.code == "DEADLINE_EXCEEDED"
        return time.monotonic() - begun

    def wait(_: object) -> None:
        time.sleep(2)

    # On the main thread, the callback itself is interrupted.
    assert 0.3 <= late(lambda: rehal.replay(mlp, on_dispatch=wait, timeout=0.3)) < 1.5
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL

    def swallow(_: object) -> None:
        with contextlib.suppress(rehal.Error):
            time.sleep(2)

    assert late(lambda: rehal.replay(mlp, before_dispatch=swallow, timeout=0.3)) < 1.5
    # On another one, the error follows when the callback returns.
    took: list[float] = []
    thread = threading.Thread(
        target=lambda: took.append(late(lambda: rehal.replay(mlp, on_dispatch=wait, timeout=0.3)))
    )
    thread.start()
    thread.join()
    assert 2 <= took[0] < 4
    # A state is held longer than what it may take to get there.
    with rehal.open(mlp).at(23, timeout=1) as state:
        time.sleep(1.2)
        assert state.buffer(6).view().any()


def test_several_threads_look_at_buffers(mlp: Path) -> None:
    capture = rehal.open(mlp)
    expected: dict[int, list[bytes]] = {}
    capture.replay(on_dispatch=lambda it: expected.update({it.record: [bytes(b) for b in it.bindings]}))
    wrong: list[object] = []

    def after(dispatch: rehal.Dispatch) -> None:
        def look(index: int) -> None:
            try:
                buffer = dispatch.bindings[index]
                if bytes(buffer) != expected[dispatch.record][index] or buffer.view() is None:
                    wrong.append((dispatch.record, index))
            except Exception as error:  # noqa: BLE001
                wrong.append(error)

        indices = [*range(len(dispatch.bindings))] * 3
        threads = [threading.Thread(target=look, args=(index,)) for index in indices]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for _ in range(5):
        capture.replay(on_dispatch=after)
    assert wrong == []


def test_a_look_after_the_callback_is_an_error(mlp: Path) -> None:
    outcomes: list[object] = []
    threads: list[threading.Thread] = []

    def after(dispatch: rehal.Dispatch) -> None:
        def look(buffer: rehal.Buffer) -> None:
            for _ in range(20):
                copy = rehal.Buffer(buffer._source, buffer.id, buffer.offset, buffer.nbytes)
                try:
                    outcomes.append(len(bytes(copy)) == buffer.nbytes)
                except rehal.Error as error:
                    outcomes.append(error.code)

        for buffer in dispatch.bindings:
            threads.append(threading.Thread(target=look, args=(buffer,)))
            threads[-1].start()

    rehal.replay(mlp, on_dispatch=after)
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {True, "FAILED_PRECONDITION", "ABORTED"}
    assert "FAILED_PRECONDITION" in outcomes


ENDINGS = {
    "a state": "state = capture.at(23); state.buffer(6)",
    "a state in this process": "state = capture.at(23, isolation='none')",
    "an exception": "state = capture.at(23); sys.excepthook = lambda *_: None; raise SystemExit(0)",
    "a thread": "threading.Thread(target=replay, daemon=True).start(); time.sleep(0.2)",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_an_open_replay_does_not_disturb_the_end_of_the_interpreter(mlp: Path, name: str) -> None:
    script = (
        "import sys, threading, time, rehal\n"
        f"capture = rehal.open({str(mlp)!r})\n"
        "def replay():\n"
        "    while True: capture.replay(on_dispatch=lambda it: it.buffer(6).nbytes)\n"
        f"{ENDINGS[name]}\n"
    )
    found = {shutil.which(f"python3.{minor}") for minor in range(10, 14)} - {None}
    usable = [it for it in found if it and not subprocess.run([it, "-c", ""], capture_output=True).returncode]
    for python in {sys.executable, *usable}:
        # It needs no numpy, which other interpreters may lack, except to look.
        if python != sys.executable and name == "a thread":
            continue
        ended = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stderr) == (0, ""), python


def test_other_threads_run_during_a_replay(mlp: Path) -> None:
    ticks = 0
    ended = threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(0.001):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    rehal.kernels(mlp, repetitions=20)
    ended.set()
    thread.join()
    assert ticks > 0


def test_replays_of_several_threads(mlp: Path) -> None:
    capture = rehal.open(mlp)
    counts = [0] * 4

    def replay(index: int) -> None:
        def count(_: object) -> None:
            counts[index] += 1

        capture.replay(on_dispatch=count)

    threads = [threading.Thread(target=replay, args=(index,)) for index in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [5] * 4


def test_a_forked_process_can_replay_and_not_use_a_state(mlp: Path) -> None:
    capture = rehal.open(mlp)
    with capture.at(23) as state:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                capture.replay()
                assert len(capture.records()) == 87
                try:
                    state.buffer(6).view()
                except rehal.Error as error:
                    status = 0 if error.code == "FAILED_PRECONDITION" else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert state.buffer(6).view().size == 1024


def test_a_state_that_is_dropped_ends_its_process(mlp: Path) -> None:
    capture = rehal.open(mlp)
    state = capture.at(23)
    work = state._conversation._work
    buffer = state.buffer(6)
    del state
    # A buffer holds the process until it has been looked at.
    assert buffer.view(np.float32, (16, 16)).any()
    work.join()
    np.testing.assert_array_equal(capture.at(23).buffer(6).view(), buffer.view())


def test_options_that_do_not_exist(mlp: Path) -> None:
    capture = rehal.open(mlp)
    with pytest.raises(ValueError, match="isolation='other'"):
        capture.replay(isolation="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="order='other'"):
        capture.replay(order="other")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes no options"):
        capture.replay(isolation="none", replay_ledger="x")
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        capture.replay(nothing=1)  # type: ignore[call-arg]
    with pytest.raises(rehal.Error):
        capture.replay(device="nothing")


def test_a_panic_is_an_exception() -> None:
    from rehal import _rehal

    with pytest.raises(BaseException, match="a panic for a test") as panic:
        _rehal.panics()
    assert type(panic.value).__name__ == "PanicException"
