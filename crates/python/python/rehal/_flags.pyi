"""The options of verbs, by the flags of the tool. A test of `rehal-cli` writes them:
REHAL_WRITE=1 cargo nextest run -p rehal-cli options_of_python
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Literal, SupportsFloat, SupportsIndex, TypedDict, Union

_Path = Union[str, PathLike[str]]
_Integer = SupportsIndex
_Text = Union[str, SupportsFloat, SupportsIndex]

VERBS: dict[str, dict[str, tuple[str, str]]]

class _G0(TypedDict, total=False):
    replay_scope: _Text | None
    replay_fast_forward: bool | None
    replay_cache: Literal["warm", "cold"] | None
    replay_order: Literal["serialized", "captured", "both"] | None
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None
    replay_executable_substitution: _Path | Sequence[_Path] | None
    workgroup_count: _Text | Sequence[_Text] | None

class _G1(TypedDict, total=False):
    benchmark_min_time: _Text | None
    benchmark_min_warmup_time: _Text | None
    benchmark_repetitions: _Integer | None
    benchmark_filter: _Text | None
    benchmark_list_tests: bool | None
    benchmark_dry_run: bool | None
    benchmark_out: _Path | None
    benchmark_out_format: Literal["console", "json", "csv"] | None
    benchmark_report_aggregates_only: bool | None
    benchmark_display_aggregates_only: bool | None
    benchmark_color: bool | Literal["auto"] | None
    benchmark_counters_tabular: bool | None
    benchmark_context: _Text | Sequence[_Text] | None
    benchmark_enable_random_interleaving: bool | None
    benchmark_perf_counters: _Text | None
    benchmark_summary: bool | None
    v: _Integer | None
    processes: _Text | None

class _G2(TypedDict, total=False):
    with_: _Path | Sequence[_Path] | None
    baseline: _Path | Sequence[_Path] | None
    fail_if_slower: _Text | None
    precision: _Text | None
    max_time: _Text | None
    seed: _Integer | None

class _G3(TypedDict, total=False):
    history: _Path | None
    against: _Path | None

class _G4(TypedDict, total=False):
    compiler: _Path | None
    compiler_flag: _Text | Sequence[_Text] | None
    no_cache: bool | None
    compiler_timeout: _Text | None
    compiler_memory: _Text | None

class _G5(TypedDict, total=False):
    device_timeout: _Text | None
    perf_map: bool | Literal["jitdump"] | None

class _G6(TypedDict, total=False):
    executable_plugin: _Path | Sequence[_Path] | None

class _G7(TypedDict, total=False):
    task_abort_on_failure: bool | None
    task_worker_spin_us: _Integer | None
    task_worker_stack_size: _Integer | None
    task_worker_local_memory: _Integer | None
    task_topology_mode: Literal["physical_cores"] | None
    task_topology_nodes: _Text | None
    task_topology_max_group_count: _Integer | None
    task_topology_snapshot: _Path | None
    task_topology_performance_level: Literal["any", "low", "efficiency", "high", "performance"] | None
    task_topology_distribution: Literal["compact", "scatter"] | None
    task_topology_favor: Literal["latency", "throughput", "efficiency"] | None
    task_topology_group_count: _Integer | None
    task_topology_cpu_ids: _Text | Sequence[_Text] | None

class _G8(TypedDict, total=False):
    vulkan_libvulkan_search_path: _Path | Sequence[_Path] | None
    vulkan_validation_layers: bool | None
    vulkan_debug_utils: bool | None
    vulkan_debug_verbosity: _Integer | None
    vulkan_robust_buffer_access: bool | None
    vulkan_buffer_device_addresses: bool | None
    vulkan_dispatch_abi: Literal["descriptor", "bda", "all"] | None
    vulkan_validate_spirv: bool | None
    vulkan_dedicated_compute_queue: bool | None

class _G9(TypedDict, total=False):
    emulator_checks: _Text | None

class _G10(TypedDict, total=False):
    device_profiling_mode: _Text | None
    device_profiling_output: _Path | None
    device_profiling_filter_function: _Text | None
    device_profiling_filter_command_buffer: _Integer | None
    device_profiling_filter_command_index: _Integer | None
    device_profiling_filter_physical_device: _Integer | None
    device_profiling_filter_queue: _Integer | None
    device_profiling_counter: _Text | Sequence[_Text] | None
    device_profiling_flush_interval_ms: _Integer | None
    print_device_statistics: bool | None

class _G11(TypedDict, total=False):
    rehal_kernel_record: bool | None
    rehal_kernel_record_dir: _Path | None
    rehal_kernel_record_report: bool | None
    rehal_kernel_record_report_filename: _Path | None
    rehal_kernel_record_output: bool | None
    rehal_kernel_record_memsize: _Integer | None
    rehal_kernel_record_force: bool | None

class _G12(TypedDict, total=False):
    sandbox: Literal["on", "off", "require"] | None
    sandbox_memory: _Integer | None
    sandbox_threads: _Integer | None
    sandbox_file_size: _Integer | None
    sandbox_core_dumps: bool | None

class _G13(TypedDict, total=False):
    dispatch: _Text | None
    baseline: _Path | None
    workgroup_count: _Text | Sequence[_Text] | None
    tolerance: _Text | Sequence[_Text] | None
    element_type: _Text | Sequence[_Text] | None
    max_elements: _Integer | None
    atomics: bool | None
    watch: bool | None

class _G14(TypedDict, total=False):
    cache: Literal["warm", "cold", "both"] | None
    precision: _Text | None
    fail_if_slower: _Text | None
    max_time: _Text | None
    seed: _Integer | None
    time_wrong: bool | None

class _G15(TypedDict, total=False):
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None

class _G16(TypedDict, total=False):
    max_differences: _Integer | None
    element_type: _Text | None
    max_elements: _Integer | None
    recover: bool | None

class _G17(TypedDict, total=False):
    binaries_to: _Path | None
    force: bool | None
    recover: bool | None

class _G18(TypedDict, total=False):
    sources_to: _Path | None
    configurations_to: _Path | None
    benchmarks_to: _Path | None
    target: _Text | None

class _G19(TypedDict, total=False):
    load_executables: bool | None
    substitute: _Path | Sequence[_Path] | None
    replay_file_remap: _Path | Sequence[_Path] | None

class _G20(TypedDict, total=False):
    function: _Text | None
    dispatch: _Text | None
    no_run: bool | None
    max_time: _Text | None
    repetitions: _Text | None
    sort: Literal["above_roof", "time"] | None
    threads: _Text | None
    processes: _Text | None
    fail_if_slower: _Text | None
    export: _Path | None
    export_commands: bool | None
    keep: Literal["touched", "bound"] | None
    keep_references: bool | None
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None

class _G21(TypedDict, total=False):
    filter: _Text | None
    output: _Path | None
    id: _Integer | None
    dispatch_events: bool | None
    counter_samples: bool | None
    merge_executables: bool | None

class _G22(TypedDict, total=False):
    strict: bool | None

class _G23(TypedDict, total=False):
    seed: _Integer | None
    names: Literal["keep", "hash"] | None
    element_type: _Text | Sequence[_Text] | None
    zero: _Text | Sequence[_Text] | None
    keep: _Text | Sequence[_Text] | None
    no_run: bool | None

class _G24(TypedDict, total=False):
    check_timeout: _Text | None
    jobs: _Integer | None
    max_checks: _Integer | None
    max_time: _Text | None
    max_byte_ranges: _Integer | None

class _G25(TypedDict, total=False):
    against: _Path | None
    tolerance: _Text | Sequence[_Text] | None
    element_type: _Text | Sequence[_Text] | None
    slower_than: _Text | None
    function: _Text | None
    dispatch: _Text | None
    replay_order: Literal["serialized", "captured"] | None
    replay_executable_substitution: _Path | Sequence[_Path] | None
    workgroup_count: _Text | Sequence[_Text] | None
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None

class _G26(TypedDict, total=False):
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None
    replay_executable_substitution: _Path | Sequence[_Path] | None
    workgroup_count: _Text | Sequence[_Text] | None
    replay_host_reads: _Path | None
    replay_host_reads_limit_bytes: _Integer | None

class _G27(TypedDict, total=False):
    replay_ledger: _Path | None
    replay_ledger_contents: Literal["dispatches", "reads"] | None
    replay_ledger_kept_bytes: _Integer | None
    element_type: _Text | Sequence[_Text] | None

class _G28(TypedDict, total=False):
    print_statistics: bool | None
    instrument_file: _Path | None

class _G29(TypedDict, total=False):
    output_max_element_count: _Integer | None
    equality_mode: Literal["approximate", "exact"] | None
    expected_f16_threshold: _Text | None
    expected_f32_threshold: _Text | None
    expected_f64_threshold: _Text | None
    expected_bf16_threshold: _Text | None
    expected_rtol: _Text | None

class _G30(TypedDict, total=False):
    module_mode: Literal["preload", "mmap"] | None
    device_lead_allocator: _Integer | None
    trace_execution: bool | None
    executable_substitution: _Path | Sequence[_Path] | None
    workgroup_count: _Text | Sequence[_Text] | None

class _G31(TypedDict, total=False):
    parameter_mode: Literal["map", "file", "mmap", "preload"] | None
    allow_external_paths: bool | None

class _G32(TypedDict, total=False):
    device_replay_output: _Path | None
    device_replay_file_policy: Literal["reference", "capture-ranges", "capture-all", "fail"] | None
    device_replay_file_validation: Literal["identity", "digest"] | None
    device_replay_ledger: Literal["off", "reads", "dispatches"] | None
    element_type: _Text | Sequence[_Text] | None

class _G33(TypedDict, total=False):
    dispatch: _Text | None
    function: _Text | None
    scope: _Text | None
    occurrence: _Integer | None

class _G34(TypedDict, total=False):
    no_run: bool | None
    keep: Literal["touched", "bound"] | None
    keep_outputs: bool | None
    keep_references: bool | None
    check: Literal["always", "auto", "never"] | None
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None

class _G35(TypedDict, total=False):
    workgroup_count: _Text | Sequence[_Text] | None

class _G36(TypedDict, total=False):
    dispatch: _Text | None
    sampler: Literal["grid", "random"] | None
    seed: _Integer | None
    point: _Text | Sequence[_Text] | None
    trials: _Integer | None
    max_time: _Text | None
    output: _Path | None
    best: _Path | None

class _G37(TypedDict, total=False):
    tolerance: _Text | Sequence[_Text] | None
    element_type: _Text | Sequence[_Text] | None
    max_elements: _Integer | None
    atomics: bool | None
    workgroup_count: _Text | Sequence[_Text] | None

class _G38(TypedDict, total=False):
    cache: Literal["warm", "cold", "both"] | None
    precision: _Text | None
    trial_time: _Text | None

class _G39(TypedDict, total=False):
    compiler: _Path | None
    no_cache: bool | None
    compiler_timeout: _Text | None
    compiler_memory: _Text | None

class _G40(TypedDict, total=False):
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None
    recover: bool | None

class _G41(TypedDict, total=False):
    tolerance: _Text | Sequence[_Text] | None
    element_type: _Text | Sequence[_Text] | None
    keep_going: bool | None
    max_elements: _Integer | None

class _G42(TypedDict, total=False):
    against: _Path | None
    against_capture: _Path | None
    other_device: _Text | Sequence[_Text] | None
    watch_memory: bool | None
    replay_executable_substitution: _Path | Sequence[_Path] | None
    workgroup_count: _Text | Sequence[_Text] | None
    replay_file_remap: _Path | Sequence[_Path] | None
    replay_file_writes: Literal["copy", "in-place", "fail"] | None

class Benchmark(
    _G0, _G1, _G2, _G3, _G4, _G5, _G6, _G7, _G8, _G9, _G10, _G11, _G12,
    total=False,
): ...

class Compare(
    _G13, _G14, _G15, _G4, _G11, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Diff(
    _G16,
    total=False,
): ...

class Dump(
    TypedDict,
    total=False,
): ...

class Executables(
    _G17, _G18, _G4,
    total=False,
): ...

class Info(
    _G19, _G4, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Kernels(
    _G20, _G3, _G11, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Profile(
    _G21,
    total=False,
): ...

class Races(
    _G22,
    total=False,
): ...

class Redact(
    _G23, _G15, _G11, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Reduce(
    _G24, _G25, _G4, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Run(
    _G26, _G27, _G4, _G5, _G6, _G7, _G8, _G9, _G10, _G11, _G12,
    total=False,
): ...

class RunModule(
    _G28, _G29, _G30, _G4, _G31, _G32, _G11, _G5, _G6, _G7, _G8, _G9, _G10, _G12,
    total=False,
): ...

class Slice(
    _G33, _G34, _G11, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Substitute(
    _G35, _G4,
    total=False,
): ...

class Tune(
    _G36, _G37, _G38, _G39, _G40, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...

class Verify(
    _G41, _G42, _G4, _G11, _G5, _G6, _G7, _G8, _G9, _G12,
    total=False,
): ...
