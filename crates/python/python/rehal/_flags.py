"""The options of verbs, by the flags of the tool. A test of `rehal-cli` writes them:
REHAL_WRITE=1 cargo nextest run -p rehal-cli options_of_python
"""

from __future__ import annotations

#: The type of each option, and the first sentence of its help.
Options = dict[str, tuple[str, str]]

_G0: Options = {
    "replay_scope": (
        "_Text",
        "Times only the scopes of this name. rehal benchmark of a slice of a dispatch times the "
        "scope of its function by default; iree-benchmark-replay does not",
    ),
    "replay_fast_forward": (
        "bool",
        "Repeats the scope of --replay_scope without what is outside of it: runs the capture once "
        "to the end of the scope; before each iteration, restores the bytes that the scope "
        "changes, outside of the timed region",
    ),
    "replay_cache": (
        "Literal[\"warm\", \"cold\"]",
        "warm: the CPU's caches contain what earlier work left there. cold: before each timed "
        "region, evicts the bytes of buffers and of the capture that the region touches, outside "
        "of the timed region",
    ),
    "replay_order": (
        "Literal[\"serialized\", \"captured\", \"both\"]",
        "serialized: waits for each submission before the next operation, as the reference does. "
        "captured: submits as the program did and lets the captured semaphores order the work; the "
        "host waits only before it accesses bytes that work in flight accesses, before a "
        "submission that only a wait of the program's host can have ordered after such work, and "
        "at the end of the timed scope. both: measures the two in one process, their repetitions "
        "in random order, and says how they compare",
    ),
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
    "replay_executable_substitution": (
        "_Path | Sequence[_Path]",
        "Replaces an executable of the capture by a compiled executable, a raw embedded ELF, a "
        "native library, a SPIR-V module, or the source of a kernel in C or Rust (.c, .rs) or a "
        "dispatch as the compiler dumps it (.mlir), which is compiled first and replaces only the "
        "functions that it has",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
}

_G1: Options = {
    "benchmark_min_time": (
        "_Text",
        "How long to measure: 20x for 20 iterations, 0.5s for as many iterations as take half a "
        "second",
    ),
    "benchmark_min_warmup_time": (
        "_Text",
        "How long to run before measuring",
    ),
    "benchmark_repetitions": (
        "_Integer",
        "How often to repeat the measurement",
    ),
    "benchmark_filter": (
        "_Text",
        "Runs only benchmarks whose name matches; with -REGEX, only those whose name does not match",
    ),
    "benchmark_list_tests": (
        "bool",
        "Prints the names of the benchmarks instead of running them",
    ),
    "benchmark_dry_run": (
        "bool",
        "Runs each benchmark for one iteration",
    ),
    "benchmark_out": (
        "_Path",
        "Also writes the report to a file, once it is complete; - is standard output",
    ),
    "benchmark_out_format": (
        "Literal[\"console\", \"json\", \"csv\"]",
        "Format of the --benchmark_out file: console, json or csv",
    ),
    "benchmark_report_aggregates_only": (
        "bool",
        "Reports only statistics over the repetitions",
    ),
    "benchmark_display_aggregates_only": (
        "bool",
        "Prints only statistics over the repetitions; the file contains each repetition as well",
    ),
    "benchmark_color": (
        "bool | Literal[\"auto\"]",
        "Colors: auto, true or false",
    ),
    "benchmark_counters_tabular": (
        "bool",
        "Prints counters as columns",
    ),
    "benchmark_context": (
        "_Text | Sequence[_Text]",
        "Adds key-value pairs to the context of the report",
    ),
    "benchmark_enable_random_interleaving": (
        "bool",
        "Interleaves the repetitions of all benchmarks in random order",
    ),
    "benchmark_perf_counters": (
        "_Text",
        "Hardware performance counters; none are supported",
    ),
    "benchmark_summary": (
        "bool",
        "Prints on standard error, for each benchmark, the median with its 95 % interval, the "
        "spread, outliers, the warm-up, and warnings about other load on the machine",
    ),
    "v": (
        "_Integer",
        "Verbosity of the log on standard error",
    ),
    "processes": (
        "_Text",
        "Measures in so many processes, one after the other, with all limits for each: the memory "
        "that a process happens to get may make it slower by some percent",
    ),
}

_G2: Options = {
    "with_": (
        "_Path | Sequence[_Path]",
        "Measures replays with this replacement and without it, by turns, instead of a benchmark: "
        "the ratio of the scope of --replay_scope, by default execute if there is one, else of "
        "whole replays, without the loading of executables; and of each function, with intervals",
    ),
    "baseline": (
        "_Path | Sequence[_Path]",
        "With --with, what it is compared with has this replacement instead of the captured code: "
        "two replacements of a function are compared with each other",
    ),
    "fail_if_slower": (
        "_Text",
        "With --with, replays are not slower if the interval of their ratio ends below 1 plus this "
        "percentage",
    ),
    "precision": (
        "_Text",
        "Sampling stops once half of the interval is at most this part of the ratio, if the "
        "verdict is 'not slower', otherwise a fourth of this part, or half of the difference that "
        "it proves",
    ),
    "max_time": (
        "_Text",
        "Sampling of a replacement stops after this time; what is printed says so",
    ),
    "seed": (
        "_Integer",
        "Seed of the order of the pairs",
    ),
}

_G3: Options = {
    "history": (
        "_Path",
        "Appends the report to this file, as JSON on a line, with what it was measured on, and "
        "each time in each of the processes that measure it",
    ),
    "against": (
        "_Path",
        "Compares each time with the last one of its name in this file, which --history has "
        "written, of the same capture, host, CPU, devices and flags: several processes with "
        "several, with an interval that is corrected for the number of times",
    ),
}

_G4: Options = {
    "compiler": (
        "_Path",
        "The compiler: an iree-compile, or a virtual environment that has it",
    ),
    "compiler_flag": (
        "_Text | Sequence[_Text]",
        "Passes an argument to the compiler of sources: programs, and dispatches that replace "
        "executables",
    ),
    "no_cache": (
        "bool",
        "Compiles again what was compiled before",
    ),
    "compiler_timeout": (
        "_Text",
        "The longest time of a compilation",
    ),
    "compiler_memory": (
        "_Text",
        "The memory that a compilation may allocate: bytes, or a size such as 4GiB",
    ),
}

_G5: Options = {
    "device_timeout": (
        "_Text",
        "The longest time for a dispatch on the CPU, or a submission on another device: after it, "
        "as when a kernel never ends, the tool fails, and names the dispatch",
    ),
    "perf_map": (
        "bool | Literal[\"jitdump\"]",
        "Writes /tmp/perf-PID.map, from which perf, samply and debuggers know the functions of "
        "embedded ELF executables on the CPU; jitdump: also jit-PID.dump in the current directory, "
        "with their code and source lines",
    ),
}

_G6: Options = {
    "executable_plugin": (
        "_Path | Sequence[_Path]",
        "A library with functions that executables may import",
    ),
}

_G7: Options = {
    "task_abort_on_failure": (
        "bool",
        "Aborts the process if queue work fails or crashes",
    ),
    "task_worker_spin_us": (
        "_Integer",
        "Microseconds that an idle worker spins before it sleeps",
    ),
    "task_worker_stack_size": (
        "_Integer",
        "Size of the stack of kernels in bytes, also on local-sync, and the least of each worker",
    ),
    "task_worker_local_memory": (
        "_Integer",
        "Local memory of each worker in bytes, beyond which a dispatch fails; 0 for the size of "
        "its L2 cache",
    ),
    "task_topology_mode": (
        "Literal[\"physical_cores\"]",
        "How workers are mapped to CPUs, unless --task_topology_cpu_ids or "
        "--task_topology_group_count do: physical_cores pins one worker to each physical core on "
        "which this process may run, of the NUMA nodes that --task_topology_nodes selects",
    ),
    "task_topology_nodes": (
        "_Text",
        "NUMA nodes whose cores become workers. current: that of the calling thread. numa: each "
        "node, with a topology of its own",
    ),
    "task_topology_max_group_count": (
        "_Integer",
        "Maximum number of workers per topology, at most 256, unless their number or their CPUs "
        "are given; -1 for 256",
    ),
    "task_topology_snapshot": (
        "_Path",
        "Reads the topology from a copy of another machine's /sys/devices/system",
    ),
    "task_topology_performance_level": (
        "Literal[\"any\", \"low\", \"efficiency\", \"high\", \"performance\"]",
        "Cores to use on a machine whose cores differ in capacity: any, low (or efficiency), high "
        "(or performance)",
    ),
    "task_topology_distribution": (
        "Literal[\"compact\", \"scatter\"]",
        "Order of the workers: compact fills one cache domain after another, scatter takes one "
        "core of each in turn",
    ),
    "task_topology_favor": (
        "Literal[\"latency\", \"throughput\", \"efficiency\"]",
        "Overrides performance level and distribution: latency is high and compact, throughput any "
        "and scatter, efficiency low and compact",
    ),
    "task_topology_group_count": (
        "_Integer",
        "Number of workers, at most 256, which are not pinned; 0 for what --task_topology_mode "
        "selects, -1 for 256",
    ),
    "task_topology_cpu_ids": (
        "_Text | Sequence[_Text]",
        "Logical CPUs, such as 0,2 or 0-3, one worker on each",
    ),
}

_G8: Options = {
    "vulkan_libvulkan_search_path": (
        "_Path | Sequence[_Path]",
        "Directory of the Vulkan loader, or the loader itself",
    ),
    "vulkan_validation_layers": (
        "bool",
        "Checks calls of the driver with the Khronos validation layer, which has to be installed",
    ),
    "vulkan_debug_utils": (
        "bool",
        "Names objects for debuggers, and prints messages of the driver to standard error",
    ),
    "vulkan_debug_verbosity": (
        "_Integer",
        "Which messages are printed: 0 or less none, 1 errors, 2 also warnings, 3 also "
        "information, 4 or more all",
    ),
    "vulkan_robust_buffer_access": (
        "bool",
        "Bounds accesses of kernels outside of what is bound to them",
    ),
    "vulkan_buffer_device_addresses": (
        "bool",
        "Uses buffer device addresses where the device has them",
    ),
    "vulkan_dispatch_abi": (
        "Literal[\"descriptor\", \"bda\", \"all\"]",
        "Which executables are prepared: descriptor, those that take descriptors; bda, those that "
        "take buffer device addresses; all",
    ),
    "vulkan_validate_spirv": (
        "bool",
        "Validates each SPIR-V module with spirv-val, which has to be installed, before the driver "
        "gets it",
    ),
    "vulkan_dedicated_compute_queue": (
        "bool",
        "Prefers a queue family for compute without graphics",
    ),
}

_G9: Options = {
    "emulator_checks": (
        "_Text",
        "What an emulated GPU looks for in kernels, besides accesses out of bounds or misaligned, "
        "which it always does: uninitialized reads of workgroup memory and of private memory, data "
        "races, barriers that a part of a workgroup does not reach",
    ),
}

_G10: Options = {
    "device_profiling_mode": (
        "_Text",
        "Profiles the devices, and writes these families of data to --device_profiling_output: "
        "queue-events (submissions), host-execution (when queue operations and dispatches ran, and "
        "for how long), memory-events (allocations), executable-metadata (functions and commands), "
        "command-region-events (what ran between barriers), processor-time (CPU time of dispatches)",
    ),
    "device_profiling_output": (
        "_Path",
        "The profile (.ireeprof) to write, which rehal profile reads",
    ),
    "device_profiling_filter_function": (
        "_Text",
        "Reports in detail only dispatches of functions with a name of this pattern, with * and ?",
    ),
    "device_profiling_filter_command_buffer": (
        "_Integer",
        "Reports in detail only the command buffer with this id, as rehal profile command prints it",
    ),
    "device_profiling_filter_command_index": (
        "_Integer",
        "Reports in detail only commands with this index in their command buffer",
    ),
    "device_profiling_filter_physical_device": (
        "_Integer",
        "Reports in detail only the device with this index",
    ),
    "device_profiling_filter_queue": (
        "_Integer",
        "Reports in detail only the queue with this index",
    ),
    "device_profiling_counter": (
        "_Text | Sequence[_Text]",
        "A hardware counter to sample, for the families counters and counter-ranges",
    ),
    "device_profiling_flush_interval_ms": (
        "_Integer",
        "How often to ask devices for what they have buffered, in milliseconds; 0 for only at the "
        "end",
    ),
    "print_device_statistics": (
        "bool",
        "Prints totals per operation and function on standard error at the end, instead of writing "
        "a profile",
    ),
}

_G11: Options = {
    "rehal_kernel_record": (
        "bool",
        "Records the kernels of this run, as rehal kernel record does for a capture",
    ),
    "rehal_kernel_record_dir": (
        "_Path",
        "The directory for records of kernels",
    ),
    "rehal_kernel_record_report": (
        "bool",
        "Prints a report of the recorded kernels at the end",
    ),
    "rehal_kernel_record_report_filename": (
        "_Path",
        "Writes the report to a file of this name in the directory",
    ),
    "rehal_kernel_record_output": (
        "bool",
        "Records the memory after each dispatch, which rehal kernel replay --verify compares with",
    ),
    "rehal_kernel_record_memsize": (
        "_Integer",
        "Maximum number of bytes that are bound to a recorded kernel; more is an error",
    ),
    "rehal_kernel_record_force": (
        "bool",
        "Records into a directory that has records",
    ),
}

_G12: Options = {
    "sandbox": (
        "Literal[\"on\", \"off\", \"require\"]",
        "Confines the code of captures, modules and replacements: it reads the files that are "
        "named, writes to the outputs that are named, and has no network, no other processes and "
        "no other files. on: as far as the system can, with a warning if that is not all. require: "
        "what the system lacks is an error. off: the code may do what the user may do",
    ),
    "sandbox_memory": (
        "_Integer",
        "The most bytes of private memory of the code and its replay, besides mapped files; 0: "
        "twice the memory of the machine",
    ),
    "sandbox_threads": (
        "_Integer",
        "The most threads of the code and its replay, besides those that the machine has; 0: 16384",
    ),
    "sandbox_file_size": (
        "_Integer",
        "The most bytes of each file that is written; 0: what is free on the disk, but for a "
        "twentieth",
    ),
    "sandbox_core_dumps": (
        "bool",
        "A crash may leave a core dump, as the system is set up",
    ),
}

_G13: Options = {
    "dispatch": (
        "_Text",
        "Instead of --function: the function that this record dispatches, as dumps, kernels and "
        "profiles print it",
    ),
    "baseline": (
        "_Path",
        "A kernel that the replacements are compared with instead of the captured one: a file as "
        "for --with",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
    "tolerance": (
        "_Text | Sequence[_Text]",
        "Elements of this type that functions whose name matches GLOB write are the same if they "
        "are within any of the limits: units in the last place, absolute error, or error relative "
        "to the expected element",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements that functions whose name matches GLOB write; without GLOB, of "
        "all functions and of host reads",
    ),
    "max_elements": (
        "_Integer",
        "Maximum number of elements to print of each difference",
    ),
    "atomics": (
        "bool",
        "Workgroups of the replacements may use atomic operations on the same numbers: whether "
        "they depend on each other, which is a race otherwise, is not checked",
    ),
    "watch": (
        "bool",
        "Compares again whenever a file that --with names is saved, until interrupted",
    ),
}

_G14: Options = {
    "cache": (
        "Literal[\"warm\", \"cold\", \"both\"]",
        "warm: an untimed dispatch of the same kernel precedes each that is timed. cold: the bytes "
        "that the kernel may access are evicted from the CPU's caches before each. both: each by "
        "itself",
    ),
    "precision": (
        "_Text",
        "Sampling stops once half of the interval is at most this part of the ratio, if the "
        "verdict is 'not slower', otherwise a fourth of this part, or half of the difference that "
        "it proves",
    ),
    "fail_if_slower": (
        "_Text",
        "A replacement is not slower if its interval ends below the captured time plus this "
        "percentage of it",
    ),
    "max_time": (
        "_Text",
        "Sampling of a replacement stops after this time; what is printed says so",
    ),
    "seed": (
        "_Integer",
        "Seed of the order of the pairs",
    ),
    "time_wrong": (
        "bool",
        "Also times a replacement that computes something else",
    ),
}

_G15: Options = {
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
}

_G16: Options = {
    "max_differences": (
        "_Integer",
        "Maximum number of differences to print as text of scopes, of executables and of "
        "operations each",
    ),
    "element_type": (
        "_Text",
        "The type of the elements of data, such as inputs and weights: elements that differ are "
        "then told with their errors",
    ),
    "max_elements": (
        "_Integer",
        "Maximum number of elements to tell of each difference of data, with --element_type",
    ),
    "recover": (
        "bool",
        "Compares what can be read of damaged captures",
    ),
}

_G17: Options = {
    "binaries_to": (
        "_Path",
        "Writes the code of each executable to a file of this directory, which is created, and "
        "index.json",
    ),
    "force": (
        "bool",
        "Replaces files of the directories that have other contents, such as edited ones",
    ),
    "recover": (
        "bool",
        "Uses the complete records of a truncated capture, or of one whose program was killed "
        "before closing it, and what can be read of a damaged one",
    ),
}

_G18: Options = {
    "sources_to": (
        "_Path",
        "Writes the executables of a program, before the compiler decides how they are lowered, "
        "and index.json",
    ),
    "configurations_to": (
        "_Path",
        "Writes the executables of a program, after the compiler has decided how they are lowered, "
        "and index.json",
    ),
    "benchmarks_to": (
        "_Path",
        "Writes a program for each function of static shapes that calls only it, and index.json",
    ),
    "target": (
        "_Text",
        "What the program is compiled for, short for flags of the compiler: cpu is this machine's "
        "processor, cpu:generic any of its architecture, cpu:aarch64/generic any of another one; "
        "vulkan:rdna3, cuda:sm_80 and hip:gfx942 name GPUs as the compiler does",
    ),
}

_G19: Options = {
    "load_executables": (
        "bool",
        "Loads the executables to find missing imports and CPU features",
    ),
    "substitute": (
        "_Path | Sequence[_Path]",
        "Also says whether replays would accept this file in place of an executable, or of a "
        "function: its functions, their bindings, constants and workgroup sizes, its processor, "
        "and whether the emulator takes it",
    ),
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
}

_G20: Options = {
    "function": (
        "_Text",
        "Lists only functions whose name matches, with * and ?, or the only one whose name has "
        "this part",
    ),
    "dispatch": (
        "_Text",
        "Instead of --function: the function that this record dispatches, as dumps, kernels and "
        "profiles print it",
    ),
    "no_run": (
        "bool",
        "Does not replay the capture: times, the directions of bindings and indirect workgroup "
        "counts are left out",
    ),
    "max_time": (
        "_Text",
        "No timed replay begins after this time, also if the order of the kernels is not stable",
    ),
    "repetitions": (
        "_Text",
        "Times so many replays, instead of until the order of the first ten kernels is stable",
    ),
    "sort": (
        "Literal[\"above_roof\", \"time\"]",
        "above_roof: by the time above the roof, if rehal machine has measured the device, else by "
        "time. time: by time",
    ),
    "threads": (
        "_Text",
        "Also measures the kernels on local-task with each of these numbers of workers: how much "
        "faster they are, the CPU time of all threads, and how evenly it is shared",
    ),
    "processes": (
        "_Text",
        "Measures in so many processes, one after the other, with all limits for each: the memory "
        "that a process happens to get may make it slower by some percent",
    ),
    "fail_if_slower": (
        "_Text",
        "With --against, a kernel is slower if the interval of the ratio is above 1 plus this "
        "percentage",
    ),
    "export": (
        "_Path",
        "Also writes a slice of each kernel that is listed to this directory, which must not "
        "exist, and index.json with their names, shapes, times, the digests of what they write, "
        "and the command line that measures each",
    ),
    "export_commands": (
        "bool",
        "With --export, also writes the command line of iree-benchmark-executable that measures "
        "each kernel by itself, and the executables and bytes that it reads, which the slices "
        "contain as well",
    ),
    "keep": (
        "Literal[\"touched\", \"bound\"]",
        "Which bytes of the bindings that kernels read are in a slice. touched: the pages (4 KiB) "
        "that the work accesses when it is issued by itself, on CPU devices; the others are zeros "
        "in a replay. bound: all, for replacements that read more than the captured kernel does",
    ),
    "keep_references": (
        "bool",
        "Leaves parameters outside: what the capture reads from files that are stored by reference "
        "is read from the same ranges of these files, unless it has changed since",
    ),
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
}

_G21: Options = {
    "filter": (
        "_Text",
        "Prints only what has a name of this pattern, with * and ?: functions (explain, "
        "executable, dispatch, command, queue), commands and functions (command), types of events "
        "(memory, queue), or functions, sets, blocks and counters (counter)",
    ),
    "output": (
        "_Path",
        "File that the command export writes to; - is standard output",
    ),
    "id": (
        "_Integer",
        "Prints only what has this id, if it is not negative: of a dispatch (explain, dispatch), "
        "an executable (executable), a command buffer (command), a submission (queue), an event or "
        "allocation (memory), or of a sample, its dispatch, submission or command buffer (counter)",
    ),
    "dispatch_events": (
        "bool",
        "Prints each dispatch instead of totals (executable, dispatch, command, queue)",
    ),
    "counter_samples": (
        "bool",
        "Prints each sample of each counter besides totals (counter)",
    ),
    "merge_executables": (
        "bool",
        "Totals the functions of executables with the same code as one: a benchmark loads them "
        "again in each iteration (explain, dispatch)",
    ),
}

_G22: Options = {
    "strict": (
        "bool",
        "Assumes no waits of the host except before it accesses bytes itself",
    ),
}

_G23: Options = {
    "seed": (
        "_Integer",
        "The number from which all random numbers are derived: a capture and a seed have one result",
    ),
    "names": (
        "Literal[\"keep\", \"hash\"]",
        "What becomes of the names of scopes and executable caches and of the paths of files. "
        "hash: 16 digits, the same for the same name and seed, and threads are numbered",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements of DATA: a range such as '#12@0+4096' (the first 4096 bytes of "
        "the data of record 12), a pattern with * and ? (the data of the functions whose name "
        "matches), or all, the default: all data of unknown type",
    ),
    "zero": (
        "_Text | Sequence[_Text]",
        "Makes DATA (see --element_type) zero",
    ),
    "keep": (
        "_Text | Sequence[_Text]",
        "Keeps DATA (see --element_type), which reveals it: for what can be handed out, and for "
        "kernels that compute workgroup counts from inputs",
    ),
    "no_run": (
        "bool",
        "Does not replay the result, which is otherwise written only if that succeeds",
    ),
}

_G24: Options = {
    "check_timeout": (
        "_Text",
        "A check that takes longer is ended, with all processes that it started, and does not pass",
    ),
    "jobs": (
        "_Integer",
        "Number of checks that run at the same time",
    ),
    "max_checks": (
        "_Integer",
        "Stops after this many checks; 0 for no limit",
    ),
    "max_time": (
        "_Text",
        "Stops after this time",
    ),
    "max_byte_ranges": (
        "_Integer",
        "Data is left out in ranges that become shorter, down to single bytes, as long as no more "
        "ranges than these are needed",
    ),
}

_G25: Options = {
    "against": (
        "_Path",
        "For --check=wrong: the ledger of the capture that the first wrong result differs from",
    ),
    "tolerance": (
        "_Text | Sequence[_Text]",
        "Elements of this type that functions whose name matches GLOB write are the same if they "
        "are within any of the limits: units in the last place, absolute error, or error relative "
        "to the expected element",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements that functions whose name matches GLOB write; without GLOB, of "
        "all functions and of host reads",
    ),
    "slower_than": (
        "_Text",
        "For --check=slow: the time that a replay takes at least, or a dispatch with --function",
    ),
    "function": (
        "_Text",
        "For --check=slow: measures the slowest dispatches of the functions whose name matches, or "
        "of the only one whose name has this part, instead of a replay",
    ),
    "dispatch": (
        "_Text",
        "Instead of --function: the function that this record dispatches, as dumps, kernels and "
        "profiles print it",
    ),
    "replay_order": (
        "Literal[\"serialized\", \"captured\"]",
        "serialized: waits for each submission before the next operation, as the reference does. "
        "captured: submits as the program did and lets the captured semaphores order the work; the "
        "host waits only before it accesses bytes that work in flight accesses, before a "
        "submission that only a wait of the program's host can have ordered after such work, and "
        "at the end of the timed scope",
    ),
    "replay_executable_substitution": (
        "_Path | Sequence[_Path]",
        "Replaces an executable of the capture by a compiled executable, a raw embedded ELF, a "
        "native library, a SPIR-V module, or the source of a kernel in C or Rust (.c, .rs) or a "
        "dispatch as the compiler dumps it (.mlir), which is compiled first and replaces only the "
        "functions that it has",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
}

_G26: Options = {
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
    "replay_executable_substitution": (
        "_Path | Sequence[_Path]",
        "Replaces an executable of the capture by a compiled executable, a raw embedded ELF, a "
        "native library, a SPIR-V module, or the source of a kernel in C or Rust (.c, .rs) or a "
        "dispatch as the compiler dumps it (.mlir), which is compiled first and replaces only the "
        "functions that it has",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
    "replay_host_reads": (
        "_Path",
        "Writes the host reads, which are the program's results, to a file (or - for standard "
        "output), one JSON object per line: ordinal, scope, buffer_id, offset, length, fnv1a64, "
        "blake3, bytes (in hexadecimal), truncated",
    ),
    "replay_host_reads_limit_bytes": (
        "_Integer",
        "Maximum number of bytes of each read to write; digests always cover all bytes",
    ),
}

_G27: Options = {
    "replay_ledger": (
        "_Path",
        "Writes a ledger once the replay is complete: digests of what each dispatch wrote and each "
        "host read saw. rehal verify compares other replays of the capture with it",
    ),
    "replay_ledger_contents": (
        "Literal[\"dispatches\", \"reads\"]",
        "dispatches: what each dispatch wrote and each host read saw; the replay performs "
        "operations one by one. reads: what each host read saw",
    ),
    "replay_ledger_kept_bytes": (
        "_Integer",
        "Maximum number of bytes that the ledger keeps of each range that is written or read, so "
        "that elements can be compared and tolerances applied",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements that functions whose name matches GLOB write; without GLOB, of "
        "all functions and of host reads",
    ),
}

_G28: Options = {
    "print_statistics": (
        "bool",
        "Prints allocation statistics of the devices on standard error",
    ),
    "instrument_file": (
        "_Path",
        "Writes the instrumentation data of modules that were compiled with it "
        "(--iree-hal-instrument-dispatches=SIZE and the like)",
    ),
}

_G29: Options = {
    "output_max_element_count": (
        "_Integer",
        "Maximum number of elements of a result to print; the rest is elided",
    ),
    "equality_mode": (
        "Literal[\"approximate\", \"exact\"]",
        "How results are compared. approximate: floats may differ by the absolute tolerance of "
        "their type plus expected_rtol times the expected value; NaNs are equal. exact: all bytes "
        "must be equal",
    ),
    "expected_f16_threshold": (
        "_Text",
        "Absolute tolerance of f16",
    ),
    "expected_f32_threshold": (
        "_Text",
        "Absolute tolerance of f32",
    ),
    "expected_f64_threshold": (
        "_Text",
        "Absolute tolerance of f64",
    ),
    "expected_bf16_threshold": (
        "_Text",
        "Absolute tolerance of bf16",
    ),
    "expected_rtol": (
        "_Text",
        "Relative tolerance of floats, as a factor of the expected value",
    ),
}

_G30: Options = {
    "module_mode": (
        "Literal[\"preload\", \"mmap\"]",
        "How modules are read. preload: into memory at the start. mmap: mapped, so that pages are "
        "read on demand",
    ),
    "device_lead_allocator": (
        "_Integer",
        "Index of the device, in the order of --device, that allocates inputs and memory that "
        "several devices share",
    ),
    "trace_execution": (
        "bool",
        "Prints each executed instruction on standard error",
    ),
    "executable_substitution": (
        "_Path | Sequence[_Path]",
        "Replaces an executable of the modules by a compiled file or a source, as "
        "--replay_executable_substitution does in a replay",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
}

_G31: Options = {
    "parameter_mode": (
        "Literal[\"map\", \"file\", \"mmap\", \"preload\"]",
        "How the bytes are accessed. map: as file, but CPU devices map what is read, from 1 MiB "
        "on: it takes no memory until it is written, and a file that changes during the run is an "
        "error at its end. file: read from the file on demand. mmap: mapped memory, which devices "
        "that support it use without a copy. preload: memory into which whole files are read at "
        "the start",
    ),
    "allow_external_paths": (
        "bool",
        "Copies data also from files that an archive names by an absolute path or outside of its "
        "own directory: into parameter files, and into captures that store what programs read",
    ),
}

_G32: Options = {
    "device_replay_output": (
        "_Path",
        "Records all device work to a capture, which iree-run-replay replays",
    ),
    "device_replay_file_policy": (
        "Literal[\"reference\", \"capture-ranges\", \"capture-all\", \"fail\"]",
        "How the capture stores files that the program reads, such as parameter files. reference: "
        "their paths. capture-ranges: the byte ranges that are read. capture-all: all bytes. fail: "
        "importing a file is an error",
    ),
    "device_replay_file_validation": (
        "Literal[\"identity\", \"digest\"]",
        "How a replay verifies files that are stored by reference. identity: length, device, inode "
        "and modification time. digest: a digest of the contents, which survives a copy but reads "
        "the whole file",
    ),
    "device_replay_ledger": (
        "Literal[\"off\", \"reads\", \"dispatches\"]",
        "What the capture says about the results, in records that other tools skip; rehal verify "
        "compares a replay with it. off: nothing. reads: a digest of the bytes of each host read. "
        "dispatches: also digests of what each dispatch writes; the program's work is then "
        "performed one operation at a time",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements that functions whose name matches GLOB write; without GLOB, of "
        "all functions and of host reads",
    ),
}

_G33: Options = {
    "dispatch": (
        "_Text",
        "Cuts out the dispatch of this record, as dumps and profiles print it",
    ),
    "function": (
        "_Text",
        "Cuts out a dispatch of a function whose name matches, with * and ?, or of the only one "
        "whose name has this part",
    ),
    "scope": (
        "_Text",
        "Cuts out the work in the scope of this name",
    ),
    "occurrence": (
        "_Integer",
        "Which performance of the dispatch, which dispatch of a function that matches, or which "
        "entry of the scope, counted from 0 in the order of a replay",
    ),
}

_G34: Options = {
    "no_run": (
        "bool",
        "Runs no kernel: cuts out a dispatch whose inputs no kernel computes",
    ),
    "keep": (
        "Literal[\"touched\", \"bound\"]",
        "Which bytes of the bindings that kernels read are in a slice. touched: the pages (4 KiB) "
        "that the work accesses when it is issued by itself, on CPU devices; the others are zeros "
        "in a replay. bound: all, for replacements that read more than the captured kernel does",
    ),
    "keep_outputs": (
        "bool",
        "Keeps what is in the bindings that kernels write before they do, without a test whether "
        "they read it",
    ),
    "keep_references": (
        "bool",
        "Leaves parameters outside: what the capture reads from files that are stored by reference "
        "is read from the same ranges of these files, unless it has changed since",
    ),
    "check": (
        "Literal[\"always\", \"auto\", \"never\"]",
        "Whether the work is also issued by itself, which must write the same bytes. always; auto: "
        "unless it is a dispatch that took more than 50 ms, and more than a quarter of the replay "
        "up to its end; never",
    ),
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
}

_G35: Options = {
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
}

_G36: Options = {
    "dispatch": (
        "_Text",
        "Instead of --function: the function that this record dispatches, as dumps, kernels and "
        "profiles print it",
    ),
    "sampler": (
        "Literal[\"grid\", \"random\"]",
        "grid: all points, in order: the last axis changes first. random: in random order "
        "(--seed), each once",
    ),
    "seed": (
        "_Integer",
        "Seed of the random sampler, and of the order of the pairs that are timed",
    ),
    "point": (
        "_Text | Sequence[_Text]",
        "Tries this point instead of those of a sampler: an object of JSON with a value of each "
        "axis",
    ),
    "trials": (
        "_Integer",
        "Stops after so many points, those that are known included; 0 for all points",
    ),
    "max_time": (
        "_Text",
        "No trial begins after this time",
    ),
    "output": (
        "_Path",
        "Appends each trial to this file, as JSON on a line, as soon as it is known",
    ),
    "best": (
        "_Path",
        "Writes the best variant to this file, unless it is slower than the captured kernel: a "
        "dispatch with its configuration, or a source that defines its macros",
    ),
}

_G37: Options = {
    "tolerance": (
        "_Text | Sequence[_Text]",
        "Elements of this type that functions whose name matches GLOB write are the same if they "
        "are within any of the limits: units in the last place, absolute error, or error relative "
        "to the expected element",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements that functions whose name matches GLOB write; without GLOB, of "
        "all functions and of host reads",
    ),
    "max_elements": (
        "_Integer",
        "Maximum number of elements to print of each difference",
    ),
    "atomics": (
        "bool",
        "Workgroups of the replacements may use atomic operations on the same numbers: whether "
        "they depend on each other, which is a race otherwise, is not checked",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
}

_G38: Options = {
    "cache": (
        "Literal[\"warm\", \"cold\", \"both\"]",
        "warm: an untimed dispatch of the same kernel precedes each that is timed. cold: the bytes "
        "that the kernel may access are evicted from the CPU's caches before each. both: each by "
        "itself",
    ),
    "precision": (
        "_Text",
        "Sampling stops once half of the interval is at most this part of the ratio, if the "
        "verdict is 'not slower', otherwise a fourth of this part, or half of the difference that "
        "it proves",
    ),
    "trial_time": (
        "_Text",
        "Timing of a variant stops after this time, or earlier once it is proved to be slower than "
        "the best",
    ),
}

_G39: Options = {
    "compiler": (
        "_Path",
        "The compiler: an iree-compile, or a virtual environment that has it",
    ),
    "no_cache": (
        "bool",
        "Compiles again what was compiled before",
    ),
    "compiler_timeout": (
        "_Text",
        "The longest time of a compilation",
    ),
    "compiler_memory": (
        "_Text",
        "The memory that a compilation may allocate: bytes, or a size such as 4GiB",
    ),
}

_G40: Options = {
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
    "recover": (
        "bool",
        "Uses the complete records of a truncated capture, or of one whose program was killed "
        "before closing it, and what can be read of a damaged one",
    ),
}

_G41: Options = {
    "tolerance": (
        "_Text | Sequence[_Text]",
        "Elements of this type that functions whose name matches GLOB write are the same if they "
        "are within any of the limits: units in the last place, absolute error, or error relative "
        "to the expected element",
    ),
    "element_type": (
        "_Text | Sequence[_Text]",
        "The type of the elements that functions whose name matches GLOB write; without GLOB, of "
        "all functions and of host reads",
    ),
    "keep_going": (
        "bool",
        "Continues after a difference",
    ),
    "max_elements": (
        "_Integer",
        "Maximum number of elements to print of each difference",
    ),
}

_G42: Options = {
    "against": (
        "_Path",
        "Compares with this ledger, which must be of the same capture",
    ),
    "against_capture": (
        "_Path",
        "Compares with a replay of this capture of the same program, such as one for another "
        "target: dispatches with those of the same function, and host reads, in the order of both",
    ),
    "other_device": (
        "_Text | Sequence[_Text]",
        "The device of a second replay, which is compared with that on --device after each "
        "dispatch; with --against_capture, the one that this capture runs on",
    ),
    "watch_memory": (
        "bool",
        "Finds dispatches that write outside of their bindings, or whose results depend on bytes "
        "that were never written: replays twice, in lockstep, with redzones around buffers and "
        "with different contents of new memory",
    ),
    "replay_executable_substitution": (
        "_Path | Sequence[_Path]",
        "Replaces an executable of the capture by a compiled executable, a raw embedded ELF, a "
        "native library, a SPIR-V module, or the source of a kernel in C or Rust (.c, .rs) or a "
        "dispatch as the compiler dumps it (.mlir), which is compiled first and replaces only the "
        "functions that it has",
    ),
    "workgroup_count": (
        "_Text | Sequence[_Text]",
        "The workgroups that a replacement needs for FUNCTION, or for all its functions, if it is "
        "not a source of the compiler, which says it: X,Y,Z, or same for those of the replaced "
        "function",
    ),
    "replay_file_remap": (
        "_Path | Sequence[_Path]",
        "Replaces a prefix of the paths of external files: a path that starts with CAPTURED starts "
        "with HERE instead",
    ),
    "replay_file_writes": (
        "Literal[\"copy\", \"in-place\", \"fail\"]",
        "What writes to external files change; rehal info lists these files. copy: private copies "
        "in memory, each replay its own. in-place: the files, unless they are validated only by "
        "their length. fail: such captures are refused",
    ),
}

#: Those of each verb.
VERBS: dict[str, Options] = {
    "benchmark": {**_G0, **_G1, **_G2, **_G3, **_G4, **_G5, **_G6, **_G7, **_G8, **_G9,
        **_G10, **_G11, **_G12},
    "compare": {**_G13, **_G14, **_G15, **_G4, **_G11, **_G5, **_G6, **_G7, **_G8, **_G9,
        **_G12},
    "diff": {**_G16},
    "dump": {},
    "executables": {**_G17, **_G18, **_G4},
    "info": {**_G19, **_G4, **_G5, **_G6, **_G7, **_G8, **_G9, **_G12},
    "kernels": {**_G20, **_G3, **_G11, **_G5, **_G6, **_G7, **_G8, **_G9, **_G12},
    "profile": {**_G21},
    "races": {**_G22},
    "redact": {**_G23, **_G15, **_G11, **_G5, **_G6, **_G7, **_G8, **_G9, **_G12},
    "reduce": {**_G24, **_G25, **_G4, **_G5, **_G6, **_G7, **_G8, **_G9, **_G12},
    "run": {**_G26, **_G27, **_G4, **_G5, **_G6, **_G7, **_G8, **_G9, **_G10, **_G11,
        **_G12},
    "run-module": {**_G28, **_G29, **_G30, **_G4, **_G31, **_G32, **_G11, **_G5, **_G6, **_G7,
        **_G8, **_G9, **_G10, **_G12},
    "slice": {**_G33, **_G34, **_G11, **_G5, **_G6, **_G7, **_G8, **_G9, **_G12},
    "substitute": {**_G35, **_G4},
    "tune": {**_G36, **_G37, **_G38, **_G39, **_G40, **_G5, **_G6, **_G7, **_G8, **_G9,
        **_G12},
    "verify": {**_G41, **_G42, **_G4, **_G11, **_G5, **_G6, **_G7, **_G8, **_G9, **_G12},
}
