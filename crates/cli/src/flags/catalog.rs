//! Flags that several tools share, named and valued as in the pinned release.

use super::flag::{Flag, Group, Support};

const TASK_DRIVER: Support = Support::DefaultDriver;
const OTHER: Support = Support::OtherDriver;
const PROFILE: Support = Support::Missing("profiling");
const CAPTURE_TOOL: Support = Support::Missing("capturing with another program's tools");

/// What every tool has.
pub const GENERAL: Group = Group {
    title: "General",
    flags: &[
        Flag::query("help", "", "Prints this help, which can serve as a flag file, and ends."),
        Flag::list(
            "flagfile",
            "PATH",
            "Takes flags from a file: one --name=value per line, comments after '#'. They count as if \
             they stood here, so what follows overrides them. A flag file may name others.",
        ),
        Flag::switch(
            "agents_md",
            false,
            "Prints a guide for programs and agents that use this tool, as Markdown, and ends.",
        ),
        Flag::query("version", "", "Prints the version and what it reads and writes, and ends."),
    ],
};

/// Which devices work runs on.
pub const DEVICES: Group = Group {
    title: "Devices",
    flags: &[
        Flag::list(
            "device",
            "URI",
            "The device to run on: a driver's name, or a URI that --list_devices prints. Repeat it once \
             for each device of the program or capture, in their order there. Without it, local-sync is used.",
        ),
        Flag::query("list_drivers", "", "Prints the drivers, and ends."),
        Flag::query(
            "list_devices",
            "DRIVER",
            "Prints the URIs of the devices of all drivers, or of one, and ends.",
        ),
        Flag::query(
            "dump_devices",
            "DRIVER",
            "Prints what is known of the devices of all drivers, or of one, and ends.",
        ),
        Flag::list("device_allocator", "SPEC", "Puts another allocator before that of the device.")
            .support(Support::Missing("another allocator")),
    ],
};

/// The CPU drivers.
pub const LOCAL: Group = Group {
    title: "CPU",
    flags: &[Flag::list(
        "executable_plugin",
        "PATH",
        "A library whose functions executables may import. A system library is loaded by the system; \
         one whose name ends with .sos, or that is given as embedded:PATH, by rehal's own loader. The \
         last one that has a function provides it.",
    )],
};

/// The CPU driver of many threads, which is not here yet.
pub const TASK: Group = Group {
    title: "CPU threads (local-task, not built yet)",
    flags: &[
        Flag::switch("task_abort_on_failure", false, "Ends the process when work of a queue fails.")
            .support(TASK_DRIVER),
        Flag::integer("task_worker_spin_us", 0, "Microseconds that an idle thread spins before it sleeps.")
            .support(TASK_DRIVER),
        Flag::integer("task_worker_stack_size", 131072, "Bytes of each thread's stack, at least.")
            .support(TASK_DRIVER),
        Flag::integer(
            "task_worker_local_memory",
            0,
            "Bytes of local memory of each thread; 0 for as much as its share of the second-level cache.",
        )
        .support(TASK_DRIVER),
        Flag::text("task_topology_mode", "MODE", "physical_cores", "How threads are laid out over cores.")
            .support(TASK_DRIVER),
        Flag::integer("task_topology_group_count", 0, "Number of threads; 0 for what the layout gives.")
            .support(TASK_DRIVER),
        Flag::list("task_topology_cpu_ids", "ID,ID", "Logical CPUs of one executor's threads.")
            .support(TASK_DRIVER),
        Flag::text(
            "task_topology_nodes",
            "NODES",
            "current",
            "NUMA nodes to use: current, numa, all, or ids.",
        )
        .support(TASK_DRIVER),
        Flag::integer("task_topology_max_group_count", 64, "The most threads that a layout gives.")
            .support(TASK_DRIVER),
        Flag::text("task_topology_snapshot", "PATH", "", "Lays threads out for another machine.")
            .support(TASK_DRIVER),
        Flag::text(
            "task_topology_performance_level",
            "LEVEL",
            "any",
            "Cores to use: any, low (or efficiency), high (or performance).",
        )
        .support(TASK_DRIVER),
        Flag::text(
            "task_topology_distribution",
            "HOW",
            "scatter",
            "How threads share caches: compact fills one after another, scatter takes turns.",
        )
        .support(TASK_DRIVER),
        Flag::text(
            "task_topology_favor",
            "GOAL",
            "",
            "Chooses level and distribution for latency, throughput or efficiency.",
        )
        .support(TASK_DRIVER),
        Flag::query("dump_task_topologies", "", "Prints the layout of the threads, and ends.")
            .support(Support::Missing("the local-task driver")),
    ],
};

/// Drivers that are not here yet. Their flags change nothing that could run.
pub const OTHER_DRIVERS: Group = Group {
    title: "Vulkan, CUDA, HIP (taken and without effect: these drivers are not built yet)",
    flags: &[
        Flag::list("vulkan_libvulkan_search_path", "PATH", "Where the Vulkan loader is.").support(OTHER),
        Flag::switch("vulkan_validation_layers", false, "Turns validation layers on.").support(OTHER),
        Flag::switch("vulkan_debug_utils", false, "Turns debug utilities on.").support(OTHER),
        Flag::integer(
            "vulkan_debug_verbosity",
            2,
            "From 0 (nothing) over errors, warnings and infos to 4 (everything).",
        )
        .support(OTHER),
        Flag::switch("vulkan_tracing", true, "Writes Vulkan's events to profiles.").support(OTHER),
        Flag::switch("vulkan_robust_buffer_access", false, "Has the device check buffer accesses.")
            .support(OTHER),
        Flag::switch("vulkan_sparse_binding", false, "Uses sparse binding for large buffers.").support(OTHER),
        Flag::switch("vulkan_sparse_residency", false, "Uses sparse residency and aliased sparse buffers.")
            .support(OTHER),
        Flag::switch("vulkan_buffer_device_addresses", true, "Uses buffer device addresses.").support(OTHER),
        Flag::text(
            "vulkan_dispatch_abi",
            "ABI",
            "all",
            "How dispatches pass buffers: descriptor, bda or all.",
        )
        .support(OTHER),
        Flag::integer(
            "vulkan_cached_bda_replay_instances",
            16,
            "The most prepared command buffers that a queue lane keeps; 0 for none.",
        )
        .support(OTHER),
        Flag::integer(
            "vulkan_cached_bda_replay_publication_bytes",
            67108864,
            "The most bytes that they may publish per queue lane.",
        )
        .support(OTHER),
        Flag::integer(
            "vulkan_retained_cached_bda_replay_instances",
            1,
            "How many idle ones of each command buffer outlive a trim.",
        )
        .support(OTHER),
        Flag::switch("vulkan_dedicated_compute_queue", true, "Dispatches on a compute queue of their own.")
            .support(OTHER),
        Flag::switch("cuda_use_streams", true, "Executes command buffers on streams, not as graphs.")
            .support(OTHER),
        Flag::switch(
            "cuda_allow_inline_execution",
            false,
            "Executes command buffers while they are recorded.",
        )
        .support(OTHER),
        Flag::switch("cuda_async_allocations", true, "Allocates in stream order.").support(OTHER),
        Flag::integer("cuda_tracing", 2, "Detail of traces, from 0 to 2.").support(OTHER),
        Flag::integer("cuda_default_index", 0, "Number of the device that is used when none is named.")
            .support(OTHER),
        Flag::switch("cuda_default_index_from_mpi", true, "Takes that number from the MPI rank where set.")
            .support(OTHER),
        Flag::list("hip_dylib_path", "PATH", "Where HIP's library is.").support(OTHER),
        Flag::switch("hip_use_streams", true, "Executes command buffers on streams, not as graphs.")
            .support(OTHER),
        Flag::switch(
            "hip_allow_inline_execution",
            false,
            "Executes command buffers while they are recorded.",
        )
        .support(OTHER),
        Flag::switch("hip_async_allocations", true, "Allocates in stream order.").support(OTHER),
        Flag::switch("hip_async_caching", true, "Keeps freed allocations.").support(OTHER),
        Flag::integer("hip_tracing", 2, "Detail of traces, from 0 to 2.").support(OTHER),
        Flag::integer("hip_default_index", 0, "Number of the device that is used when none is named.")
            .support(OTHER),
    ],
};

/// Profiles and statistics, which are not here yet.
pub const PROFILING: Group = Group {
    title: "Profiling (not built yet: refused unless at the default)",
    flags: &[
        Flag::text("device_profiling_mode", "FAMILY,FAMILY", "", "What to record of the device's work.")
            .support(PROFILE),
        Flag::text("device_profiling_output", "PATH", "", "The .ireeprof file to write.").support(PROFILE),
        Flag::text("device_profiling_filter_function", "GLOB", "", "Functions to record in detail.")
            .support(PROFILE),
        Flag::integer(
            "device_profiling_filter_command_buffer",
            -1,
            "The command buffer to record in detail.",
        )
        .support(PROFILE),
        Flag::integer("device_profiling_filter_command_index", -1, "The command to record in detail.")
            .support(PROFILE),
        Flag::integer("device_profiling_filter_physical_device", -1, "The device to record in detail.")
            .support(PROFILE),
        Flag::integer("device_profiling_filter_queue", -1, "The queue to record in detail.").support(PROFILE),
        Flag::list("device_profiling_counter", "NAME", "A hardware counter to record.").support(PROFILE),
        Flag::integer(
            "device_profiling_flush_interval_ms",
            0,
            "Milliseconds between writes of what is recorded; 0 for none before the end.",
        )
        .support(PROFILE),
        Flag::switch("print_device_statistics", false, "Prints sums over the device's work at the end.")
            .support(PROFILE),
        Flag::text("device_capture_tool", "NAME", "", "Another program that captures the device's work.")
            .support(CAPTURE_TOOL),
        Flag::text("device_capture_file", "PATH", "", "Where that program writes.").support(CAPTURE_TOOL),
        Flag::text("device_capture_label", "TEXT", "", "What that program calls the capture.")
            .support(CAPTURE_TOOL),
    ],
};
