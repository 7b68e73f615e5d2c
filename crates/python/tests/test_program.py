"""Programs that stay loaded."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import rehal
from conftest import FIXTURES
from rehal import _values

MODULES = FIXTURES / "modules"
ADD4 = MODULES / "add4.vmfb"
ISOLATIONS = ["process", "none"]

LEFT = np.array([1, 2, 3, 4], np.float32)
RIGHT = np.array([10, 20, 30, 40], np.float32)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_program_is_called_several_times(isolation: Any) -> None:
    with rehal.load(ADD4, isolation=isolation, device="local-sync") as program:
        assert list(program.functions) == ["add", "mul"] and "add" in dir(program)
        assert (program.add.inputs, program.add.results) == (["4xf32", "4xf32"], ["4xf32"])
        assert str(inspect.signature(program.add)) == "(input0: '4xf32', input1: '4xf32', /) -> list"
        assert "tensor<4xf32>" in str(program.add.declaration)
        for factor in (1, 2):
            (total,) = program.add(LEFT, factor * RIGHT)
            np.testing.assert_array_equal(total, LEFT + factor * RIGHT)
            assert total.dtype == np.float32 and total.flags.writeable
        (product,) = program["mul"]([1, 2, 3, 4], [10.0, float(np.float32(20)), 30, 40])
        np.testing.assert_array_equal(product, LEFT * RIGHT)
        # Of any order and layout.
        (total,) = program.add(LEFT.astype(">f4"), np.stack([RIGHT, RIGHT], 1)[:, 0])
        np.testing.assert_array_equal(total, LEFT + RIGHT)
        with pytest.raises(rehal.Error, match="takes 2 inputs, found 1"):
            program.add(LEFT)
        with pytest.raises(rehal.Error, match="shape dimension 0 mismatch"):
            program.add(LEFT[:3], RIGHT)
        with pytest.raises(rehal.Error, match="element type mismatch"):
            program.add(LEFT.astype(np.float64), RIGHT)
        with pytest.raises(TypeError, match="input 1 of add: numbers of complex128 are not of f32"):
            program.add(LEFT, [1j, 2, 3, 4])
        with pytest.raises(TypeError, match="input 0 of add"):
            program.add("text", RIGHT)
        with pytest.raises(rehal.Error, match="no function 'sub'"):
            program["sub"]
        with pytest.raises(AttributeError, match="it has add, mul"):
            program.sub
        # It is there after an error.
        np.testing.assert_array_equal(program.add(LEFT, RIGHT), [LEFT + RIGHT])
    with pytest.raises(rehal.Error, match="the program has"):
        program.add(LEFT, RIGHT)
    program.close()


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_numbers_of_the_machine_are_numbers(isolation: Any) -> None:
    with rehal.load(MODULES / "multi.vmfb", isolation=isolation) as program:
        assert program.scalars(1, 2, 3.5) == [1, 4, 12.25]
        assert program.scalars(np.int32(1), np.array(2), np.float32(3.5)) == [1, 4, 12.25]
        assert [type(it) for it in program.scalars(True, 2, 3)] == [int, int, float]
        assert program.nothing() == []
        with pytest.raises(TypeError, match="input 0 of scalars"):
            program.scalars(1.5, 2, 3)
        with pytest.raises(OverflowError, match="not within the range of i32"):
            program.scalars(1 << 32, 2, 3)
        with pytest.raises(TypeError, match="expected a number"):
            program.scalars([1], 2, 3)
        with pytest.raises(TypeError, match="input 2 of scalars: required argument is not a float"):
            program.scalars(1, 2, "3")
    assert rehal.run(MODULES / "multi.vmfb", "scalars", 1, 2, 3.5) == [1, 4, 12.25]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_lists_are_converted_to_the_declared_types(isolation: Any) -> None:
    with rehal.load(MODULES / "values.vmfb", isolation=isolation) as program:
        for name in "i8 ui8 i16 si16 i32 ui32 i64 f16 bf16 f32 f64 f8E4M3FN f8E5M2 cf64".split():
            (result,) = program[f"echo_{name}"]([1, 2, 3])
            assert result.tolist() == [1, 2, 3] and result.dtype == _values.dtype_of(name), name
        (result,) = program.echo_bf16([1.5, -2])
        assert result.dtype == ml_dtypes.bfloat16 and result.tolist() == [1.5, -2]
        np.testing.assert_array_equal(program.echo_bf16(result), [result])
        # Their bits.
        np.testing.assert_array_equal(program.echo_bf16(np.array([0x3FC0, 0xC000], np.uint16)), [result])
        assert program.echo_i1([True, 0])[0].tolist() == [True, False]
        # MLIR's integers have no sign.
        assert program.echo_i8([255])[0].tolist() == [-1]
        assert program.echo_i8(np.array([255], np.uint8))[0].tolist() == [-1]
        assert program.echo_cf64([1 + 2j])[0].tolist() == [1 + 2j]
        assert program.view(None) == [None]
        assert program.view(LEFT)[0].tolist() == LEFT.tolist()
        for name, number in [("i8", 256), ("ui8", -1), ("si16", 32768)]:
            with pytest.raises(OverflowError, match="range"):
                program[f"echo_{name}"]([number])
        for name, wrong in [("i8", 1.5), ("i1", 2), ("i4", 1)]:
            with pytest.raises(TypeError, match=f"input 0 of echo_{name}"):
                program[f"echo_{name}"]([wrong])


def test_narrow_floats_without_ml_dtypes_are_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    _values.dtype_of.cache_clear()
    try:
        with rehal.load(MODULES / "values.vmfb", isolation="none") as program:
            bits = np.array([0x3FC0, 0xC000], np.uint16)
            (result,) = program.echo_bf16(bits)
            assert result.dtype == np.uint16 and result.tolist() == bits.tolist()
            assert program.echo_f8E5M2(np.array([60], np.uint8))[0].tolist() == [60]
            with pytest.raises(TypeError, match="needs ml_dtypes"):
                program.echo_bf16([1.5])
    finally:
        _values.dtype_of.cache_clear()


def test_types_are_read_from_a_declaration() -> None:
    text = (
        "async func @f(%a: tensor<?x2xcomplex<f64>> {x = dense<[1, 2]> : tensor<2xi8>}, %b: index, "
        "%c: !hal.buffer_view, %d: i64, %e: tensor<bf16>) -> (%r: tensor<1x1xf8E4M3FN>)"
    )
    inputs = [("a", "?x2xcf128"), ("b", None), ("c", None), ("d", "i64"), ("e", "bf16")]
    assert _values.declared_types(text, 5, of_results=False) == inputs
    assert _values.declared_types(text, 1, of_results=True) == [("r", "1x1xf8E4M3FN")]
    assert _values.declared_types(text, 2, of_results=True) == [("output0", None), ("output1", None)]
    assert _values.declared_types(None, 1, of_results=False) == [("input0", None)]


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_modules_are_bytes_and_parameters_arrays(isolation: Any) -> None:
    archive = FIXTURES / "params/model.safetensors"
    data = archive.read_bytes()
    length = int.from_bytes(data[:8], "little")
    arrays = {
        name: np.frombuffer(data[8 + length :][slice(*it["data_offsets"])], np.float32).reshape(it["shape"])
        for name, it in json.loads(data[8 : 8 + length]).items()
        if name != "__metadata__"
    }
    module = (MODULES / "params.vmfb").read_bytes()
    x = np.load(FIXTURES / "inputs/params_x.npy")
    given: list[Any] = [{"model": archive}, {"model": arrays}]
    results = []
    for parameters in given:
        with rehal.load(module, parameters=parameters, isolation=isolation) as program:
            results.append([program.forward(x)[0] for _ in range(2)])
    assert results[0][0].any() and results[0][0].shape == (4, 16)
    np.testing.assert_array_equal(np.stack(results[0]), np.stack(results[1]))
    arrays = {name: 2 * array for name, array in arrays.items()}
    (other,) = rehal.run(module, "forward", x, parameters={"model": arrays})
    assert not np.array_equal(other, results[0][0])
    with pytest.raises(rehal.Error, match="NOT_FOUND"):
        rehal.load(module, isolation=isolation)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_programs_of_several_devices_and_asynchronous_ones(isolation: Any) -> None:
    inputs = [np.load(FIXTURES / f"inputs/mlp_{name}.npy") for name in ("x", "w0", "w1", "w2")]
    expected = rehal.run(MODULES / "mlp.vmfb", "mlp", *inputs)
    assert [it.shape for it in expected] == [(8, 10), (8,)]
    with rehal.load(MODULES / "mlp.async.vmfb", isolation=isolation) as program:
        for result, wanted in zip(program.mlp(*inputs), expected):
            np.testing.assert_array_equal(result, wanted)
    x = np.full(32, 3, np.float32)
    results = [rehal.run(MODULES / "two_devices.vmfb", "roundtrip", x, device=["local-sync"] * 2)[0]]
    devices = ["local-sync", "local-task"]
    with rehal.load(MODULES / "two_devices.vmfb", device=devices, isolation=isolation) as program:
        results += program.roundtrip(x)
    assert results[0].any() and np.array_equal(*results)


def test_options_of_programs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no timeout"):
        rehal.load(ADD4, isolation="none", timeout=1)
    with pytest.raises(ValueError, match="no timeout"):
        rehal.load(ADD4, isolation="none", module_mode="mmap")
    with pytest.raises(TypeError, match="unexpected keyword argument 'input'"):
        rehal.load(ADD4, input="4xf32=1")  # type: ignore[call-arg]
    for isolation in ISOLATIONS:
        which: Any = isolation
        with pytest.raises(rehal.Error):
            rehal.load(b"no module", isolation=which)
        with pytest.raises(rehal.Error):
            rehal.load(tmp_path / "nothing.vmfb", isolation=which)
        with pytest.raises(rehal.Error, match="nothing"):
            rehal.load(ADD4, device="nothing", isolation=which)
    with rehal.load(ADD4, module_mode="mmap", device_replay_output=tmp_path / "a.ireereplay") as program:
        program.add(LEFT, RIGHT)
        program.mul(LEFT, RIGHT)
    reads: list[list[float]] = []
    capture = rehal.open(tmp_path / "a.ireereplay")
    assert capture.scopes["execute"] == 2 and capture.is_complete
    capture.replay(on_host_read=lambda read: reads.append(read.view(np.float32).tolist()))
    assert (LEFT + RIGHT).tolist() in reads and (LEFT * RIGHT).tolist() in reads


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_several_threads_call(isolation: Any) -> None:
    wrong: list[object] = []
    with rehal.load(ADD4, isolation=isolation) as program:

        def call(number: int) -> None:
            for _ in range(50):
                (total,) = program.add(LEFT, np.full(4, number, np.float32))
                if not np.array_equal(total, LEFT + number):
                    wrong.append(total)

        threads = [threading.Thread(target=call, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_a_call_that_crashes_is_an_exception() -> None:
    program = rehal.load(MODULES / "crash.vmfb", device="local-sync")
    assert program.divide([7, 8, 9, 10], [1, 2, 3, 4])[0].tolist() == [7, 4, 3, 2]
    with pytest.raises(rehal.Crash, match="a kernel crashed with SIGFPE"):
        program.divide([7, 8, 9, 10], [1, 0, 3, 4])
    with pytest.raises(rehal.Error, match="the program has ended"):
        program.divide([7, 8, 9, 10], [1, 2, 3, 4])
    program.close()


def _stop_workers() -> None:
    """Stops the processes in which this one has loaded programs."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            is_child = f"PPid:\t{os.getpid()}\n" in (process / "status").read_text()
            arguments = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if is_child and b"\0worker\0run-module\0" in arguments:
            # The copy that runs the code is in its group.
            os.killpg(int(process.name), signal.SIGSTOP)


def test_a_call_that_does_not_end_is_ended() -> None:
    program = rehal.load(ADD4, timeout=1)
    # The time between calls does not count.
    time.sleep(1.2)
    program.add(LEFT, RIGHT)
    _stop_workers()
    with pytest.raises(rehal.Error) as late:
        program.add(LEFT, RIGHT)
    assert late.value.code == "DEADLINE_EXCEEDED"
    program = rehal.load(ADD4)
    _stop_workers()
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        program.add(LEFT, RIGHT)
    with pytest.raises(rehal.Error, match="the program has ended"):
        program.add(LEFT, RIGHT)


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_forked_process_cannot_call_and_ends(isolation: Any) -> None:
    program = rehal.load(ADD4, isolation=isolation)
    program.add(LEFT, RIGHT)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            program.add(LEFT, RIGHT)
        except rehal.Error as error:
            status = 0 if error.code == "FAILED_PRECONDITION" else 2
        finally:
            del program
            os._exit(status)
    deadline = time.monotonic() + 30
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert os.waitstatus_to_exitcode(ended[1]) == 0
    np.testing.assert_array_equal(program.add(LEFT, RIGHT), [LEFT + RIGHT])


def test_flags_of_one_call_are_refused() -> None:
    from rehal import _replay

    conversation = _replay.converse(["run-module", f"--module={ADD4}", "--input=4xf32=1"], {}, None)
    with pytest.raises(rehal.Error, match="a flag of one call"):
        conversation.next()


def test_an_open_program_does_not_disturb_the_end_of_the_interpreter() -> None:
    for isolation in ISOLATIONS:
        script = f"import rehal; program = rehal.load({str(ADD4)!r}, isolation={isolation!r}); print(program)"
        ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "Program(add, mul)\n", "")


def test_a_small_call_in_this_process_is_fast() -> None:
    with rehal.load(ADD4, isolation="none", device="local-sync") as program:
        times = []
        for _ in range(300):
            begun = time.perf_counter()
            program.add(LEFT, RIGHT)
            times.append(time.perf_counter() - begun)
    # The module of this test is not optimized; a release takes less than 100 us.
    assert sorted(times)[len(times) // 2] < 1e-3
