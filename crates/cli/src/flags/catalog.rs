//! Flags that several tools share, with the names and defaults of the pinned release.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rehal_crash::OptionNames;
use rehal_hal::PerfMap;

use super::files::read_if;
use super::flag::{Effect, Flag, Group, List, Query};
use super::value_type::{Refusal, device_uri, text, time};

/// The flags that crash reports name.
pub(crate) const CRASH_OPTIONS: OptionNames =
    OptionNames { stack: "--task_worker_stack_size=BYTES", timeout: "--device_timeout=TIME" };

const NO_DRIVER: Effect = Effect::Ignored("the CUDA and HIP drivers are not in this build");

/// Prints the guide for agents.
pub(crate) const AGENTS_MD: Flag<bool> =
    Flag::switch("agents_md", false, "Prints a guide for agents and other programs as Markdown, and exits.");

/// Flags of every tool.
pub const GENERAL: Group = Group {
    title: "General",
    flags: &[
        &Query::new(
            "help",
            "Prints this help, which can be used as a flag file, and exits. --help=all includes the flags that have \
             no effect in this build. --help=short, or -h, prints a line for each flag.",
        )
        .with_words("all|short", &["all", "short"]),
        &List::paths(
            "flagfile",
            "PATH",
            "Reads flags from a file: one --name=value per line, comments after '#'. They are \
             expanded in place, so later flags override them. A flag file may name other flag files.",
        ),
        &AGENTS_MD,
        &Query::new("version", "Prints the version, the commit and the build, and which formats it reads and writes, and exits."),
    ],
};

/// Which devices to run on.
pub(crate) const DEVICE: List<String> = List::parsed(
    "device",
    "URI",
    "a driver or a device URI",
    device_uri,
    "The device to run on: a driver name, or a URI that --list_devices prints. Repeat it once for each \
     device of the program or capture, in the same order. Parameters of a URI override flags for that device alone, such as \
     'local-task://?task_topology_cpu_ids=0,1&task_worker_local_memory=65536'. Default: local-task.",
);

/// Of all drivers of this build.
pub(crate) const DEVICE_TIMEOUT: Flag<Option<Duration>> = Flag::parsed(
    "device_timeout",
    "TIME",
    "",
    "a time from 1ms to 24h, such as 500ms, 60s or 2m; or 0",
    |value| match value.to_str() {
        Some("") => Ok(None),
        Some("0") => Ok(Some(Duration::ZERO)),
        _ => time(value).map(Some),
    },
    "The longest time for a dispatch on the CPU, or a submission on another device: after it, as when a kernel never ends, the tool fails, \
     and names the dispatch. Also for bytecode of a program that calls nothing. By default 60s; 0: any time.",
);

/// Devices and drivers.
pub const DEVICES: Group = Group {
    title: "Devices",
    flags: &[
        &DEVICE,
        &DEVICE_TIMEOUT,
        &PERF_MAP,
        &Query::new("list_drivers", "Prints all drivers and exits. A value is ignored.").with_value("DRIVER"),
        &Query::new("list_devices", "Prints the device URIs of all drivers, or of one, and exits.")
            .with_value("DRIVER"),
        &Query::new(
            "dump_devices",
            "Prints the properties of the devices of all drivers, or of one, and exits.",
        )
        .with_value("DRIVER"),
        &List::parsed(
            "device_allocator",
            "SPEC",
            "caching or debug, each optionally followed by ':' and its settings",
            check_allocator,
            "Wraps the device's allocator in another one: caching, caching:SETTINGS or debug.",
        )
        .effect(Effect::Ignored("devices have one allocator each")),
    ],
};

/// Accepts the allocators that the reference has, without a look at their settings.
fn check_allocator(value: &OsStr) -> Result<(), Refusal> {
    let spec = text(value)?;
    let (name, _) = spec.split_once(':').unwrap_or((&spec, ""));
    if matches!(name, "caching" | "debug") { Ok(()) } else { Err(Refusal::Unexpected) }
}

/// Libraries that executables import from.
pub(crate) const EXECUTABLE_PLUGIN: List<PathBuf> = List::paths(
    "executable_plugin",
    "PATH",
    "A library with functions that executables may import. The system's loader loads shared libraries; \
     rehal's own loader loads a file whose name ends with .sos, or embedded:PATH. If several libraries \
     have a function, the last one provides it.",
)
.files(|path, _| {
    let path =
        path.to_str().and_then(|path| path.strip_prefix("embedded:")).map_or(path.as_path(), Path::new);
    read_if(Some(path))
});

/// The files of `perf`.
pub(crate) const PERF_MAP: Flag<Option<PerfMap>> = Flag::choice(
    "perf_map",
    "false",
    &[("false", None), ("true", Some(PerfMap::Names)), ("jitdump", Some(PerfMap::Code))],
    "Writes /tmp/perf-PID.map, from which perf, samply and debuggers know the functions of embedded ELF executables on the CPU; \
     jitdump: also jit-PID.dump in the current directory, with their code and source lines. Both are kept. The environment \
     variable is REHAL_PERF_MAP.",
)
.aliases(&[("0", None), ("1", Some(PerfMap::Names))])
.without_value("true")
.variable_with_prefix("REHAL_");

/// The CPU drivers.
pub const LOCAL: Group = Group {
    title: "CPU",
    flags: &[
        &EXECUTABLE_PLUGIN,
        &Query::new(
            "dump_task_topologies",
            "Prints the workers that the preceding flags select, and those of each preceding \
             --device=local-task://?KEY=VALUE, with their CPUs and caches, and exits.",
        ),
    ],
};

/// Drivers that are not in this build.
pub const OTHER_DRIVERS: Group = Group {
    title: "CUDA and HIP",
    flags: &[
        &Flag::switch("cuda_use_streams", true, "Executes command buffers on streams instead of graphs.")
            .effect(NO_DRIVER),
        &Flag::switch("cuda_allow_inline_execution", false, "Executes command buffers while recording them.")
            .effect(NO_DRIVER),
        &Flag::switch("cuda_async_allocations", true, "Uses stream-ordered allocations.").effect(NO_DRIVER),
        &Flag::integer("cuda_tracing", 2, "Verbosity of tracing, from 0 to 2.").effect(NO_DRIVER),
        &Flag::integer("cuda_default_index", 0, "Index of the default device.").effect(NO_DRIVER),
        &Flag::switch(
            "cuda_default_index_from_mpi",
            true,
            "Derives --cuda_default_index from the MPI rank, if set.",
        )
        .effect(NO_DRIVER),
        &List::paths("hip_dylib_path", "PATH", "Path of the HIP library.").may_be_empty().effect(NO_DRIVER),
        &Flag::switch("hip_use_streams", true, "Executes command buffers on streams instead of graphs.")
            .effect(NO_DRIVER),
        &Flag::switch("hip_allow_inline_execution", false, "Executes command buffers while recording them.")
            .effect(NO_DRIVER),
        &Flag::switch("hip_async_allocations", true, "Uses stream-ordered allocations.").effect(NO_DRIVER),
        &Flag::switch("hip_async_caching", true, "Caches freed allocations.").effect(NO_DRIVER),
        &Flag::integer("hip_tracing", 2, "Verbosity of tracing, from 0 to 2.").effect(NO_DRIVER),
        &Flag::integer("hip_default_index", 0, "Index of the default device.").effect(NO_DRIVER),
    ],
};
