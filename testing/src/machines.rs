//! Invented machines, as copies of `/sys/devices/system`: with the files that Linux would have for them, and
//! with files that are missing, malformed or absurd.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::Path;

/// The files of one machine, by path below `/sys/devices/system`.
#[derive(Clone, Default)]
pub struct Machine {
    files: BTreeMap<String, String>,
}

/// A regular machine. Counts are per unit of the next larger kind.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Packages of the machine.
    pub packages: u32,
    /// NUMA nodes of a package.
    pub nodes: u32,
    /// Cores of a node.
    pub cores: u32,
    /// Logical CPUs of a core.
    pub threads: u32,
    /// Cores that share an L2 cache.
    pub cores_per_l2: u32,
    /// Cores that share an L3 cache; 0 for none.
    pub cores_per_l3: u32,
    /// Whether the logical CPUs of a core have consecutive numbers; else all first ones precede all second
    /// ones.
    pub has_adjacent_siblings: bool,
}

impl Shape {
    /// One package, one node, one thread per core, L2 per core, one L3.
    pub const fn with_cores(cores: u32) -> Self {
        Self {
            packages: 1,
            nodes: 1,
            cores,
            threads: 1,
            cores_per_l2: 1,
            cores_per_l3: cores,
            has_adjacent_siblings: false,
        }
    }

    const fn core_count(&self) -> u32 {
        self.packages * self.nodes * self.cores
    }

    fn cpu(&self, core: u32, thread: u32) -> u32 {
        if self.has_adjacent_siblings {
            core * self.threads + thread
        } else {
            thread * self.core_count() + core
        }
    }

    /// The CPUs of these cores, as the kernel lists them.
    fn list(&self, cores: Range<u32>) -> String {
        let mut cpus: Vec<_> =
            cores.flat_map(|core| (0..self.threads).map(move |thread| self.cpu(core, thread))).collect();
        cpus.sort_unstable();
        list_of(&cpus)
    }

    /// The CPUs of the group of `size` cores that has `core`.
    fn group(&self, core: u32, size: u32) -> String {
        let first = core / size * size;
        self.list(first..first + size)
    }
}

/// CPUs in ascending order as ranges.
pub fn list_of(cpus: &[u32]) -> String {
    let mut ranges: Vec<Range<u32>> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut().filter(|last| last.end == *cpu) {
            Some(last) => last.end += 1,
            None => ranges.push(*cpu..cpu + 1),
        }
    }
    let text = |range: Range<u32>| match range.end - range.start {
        1 => range.start.to_string(),
        _ => format!("{}-{}", range.start, range.end - 1),
    };
    ranges.into_iter().map(text).collect::<Vec<_>>().join(",")
}

impl Machine {
    /// All files of a regular machine.
    pub fn new(shape: Shape) -> Self {
        let mut machine = Self::default();
        let cores = shape.core_count();
        let last = cores * shape.threads - 1;
        machine.add("cpu/kernel_max", "255");
        for file in ["present", "possible", "online"] {
            machine.add(&format!("cpu/{file}"), &format!("0-{last}"));
        }
        for core in 0..cores {
            for thread in 0..shape.threads {
                machine.add_cpu(&shape, core, shape.cpu(core, thread));
            }
        }
        let nodes = shape.packages * shape.nodes;
        machine.add("node/online", &list_of(&(0..nodes).collect::<Vec<_>>()));
        for node in 0..nodes {
            let cores = node * shape.cores..(node + 1) * shape.cores;
            machine.add(&format!("node/node{node}/cpulist"), &shape.list(cores));
        }
        machine
    }

    fn add_cpu(&mut self, shape: &Shape, core: u32, cpu: u32) {
        let cores_per_package = shape.nodes * shape.cores;
        let siblings = shape.group(core, 1);
        let topology = [
            ("core_id", (core % cores_per_package).to_string()),
            ("physical_package_id", (core / cores_per_package).to_string()),
            ("cluster_id", (core / shape.cores_per_l2).to_string()),
            ("core_cpus_list", siblings.clone()),
            ("thread_siblings_list", siblings.clone()),
        ];
        for (file, text) in topology {
            self.add(&format!("cpu/cpu{cpu}/topology/{file}"), &text);
        }
        let caches = [
            ("Data", 1, "48K", siblings.clone()),
            ("Instruction", 1, "32K", siblings),
            ("Unified", 2, "2048K", shape.group(core, shape.cores_per_l2)),
            ("Unified", 3, "32768K", shape.group(core, shape.cores_per_l3.max(1))),
        ];
        let count = if shape.cores_per_l3 == 0 { 3 } else { 4 };
        for (index, (kind, level, size, sharers)) in caches.into_iter().take(count).enumerate() {
            let directory = format!("cpu/cpu{cpu}/cache/index{index}");
            self.add(&format!("{directory}/type"), kind);
            self.add(&format!("{directory}/level"), &format!("{level}"));
            self.add(&format!("{directory}/size"), size);
            self.add(&format!("{directory}/shared_cpu_list"), &sharers);
        }
    }

    fn add(&mut self, file: &str, text: &str) {
        self.files.insert(file.into(), format!("{text}\n"));
    }

    /// Replaces or adds a file with exactly this text.
    pub fn with(mut self, file: &str, text: &str) -> Self {
        self.files.insert(file.into(), text.into());
        self
    }

    /// As [`Machine::with`], for a file of each of these CPUs.
    pub fn with_each(mut self, cpus: Range<u32>, file: &str, text: &str) -> Self {
        for cpu in cpus {
            self = self.with(&format!("cpu/cpu{cpu}/{file}"), text);
        }
        self
    }

    /// Removes the files whose path starts with `start`.
    pub fn without(mut self, start: &str) -> Self {
        self.files.retain(|file, _| !file.starts_with(start));
        self
    }

    /// Removes the files whose path ends with `end`.
    pub fn without_each(mut self, end: &str) -> Self {
        self.files.retain(|file, _| !file.ends_with(end));
        self
    }

    /// Writes the files below `directory`.
    pub fn write(&self, directory: &Path) -> io::Result<()> {
        self.write_over(&Self::default(), directory)
    }

    /// Writes the files below `directory` that differ from those of `previous`, which it contains; few, if
    /// one machine was derived from the other.
    pub fn write_over(&self, previous: &Self, directory: &Path) -> io::Result<()> {
        for file in previous.files.keys().filter(|file| !self.files.contains_key(*file)) {
            std::fs::remove_file(directory.join(file))?;
        }
        for (file, text) in self.files.iter().filter(|(file, text)| previous.files.get(*file) != Some(text)) {
            let path = directory.join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(directory))?;
            std::fs::write(path, text)?;
        }
        Ok(())
    }
}

/// Machines with names.
pub type Named = Vec<(&'static str, Machine)>;

const SERVER: Shape = Shape {
    packages: 2,
    nodes: 1,
    cores: 8,
    threads: 2,
    cores_per_l2: 1,
    cores_per_l3: 8,
    has_adjacent_siblings: false,
};
const LAPTOP: Shape = Shape { threads: 2, has_adjacent_siblings: true, ..Shape::with_cores(4) };
const CHIPLETS: Shape = Shape { cores_per_l3: 4, ..Shape::with_cores(16) };

/// Regular machines.
pub fn regular() -> Named {
    let two_per_package = Shape { nodes: 2, cores: 4, cores_per_l3: 8, ..SERVER };
    vec![
        ("one core", Machine::new(Shape::with_cores(1))),
        ("laptop", Machine::new(LAPTOP)),
        ("two packages", Machine::new(SERVER)),
        ("two packages, adjacent siblings", Machine::new(Shape { has_adjacent_siblings: true, ..SERVER })),
        ("sub-NUMA clusters", Machine::new(two_per_package)),
        ("nodes smaller than caches", Machine::new(Shape { cores: 3, cores_per_l3: 2, ..two_per_package })),
        ("64 cores in 4 cache domains", Machine::new(Shape { cores_per_l3: 16, ..Shape::with_cores(64) })),
        ("chiplets", Machine::new(CHIPLETS)),
        ("no L3", Machine::new(Shape { cores_per_l2: 4, cores_per_l3: 0, ..Shape::with_cores(12) })),
        ("four threads per core", Machine::new(Shape { threads: 4, ..LAPTOP })),
    ]
}

/// Machines with more cores than a topology has workers.
pub fn large() -> Named {
    vec![
        ("more cores than workers", Machine::new(Shape { cores_per_l2: 8, ..Shape::with_cores(300) })),
        ("four caches of 80 cores", Machine::new(Shape { cores_per_l3: 80, ..Shape::with_cores(320) })),
    ]
}

/// Machines that exist, but are not regular.
pub fn irregular() -> Named {
    let chiplets = Machine::new(CHIPLETS);
    let of_nodes = |ids: &[u32]| {
        let cpus = ids.len() as u32;
        let machine = Machine::new(Shape::with_cores(cpus)).with("node/online", &list_of(ids));
        ids.iter().zip(0u32..).fold(machine, |machine, (id, cpu)| {
            machine.with(&format!("node/node{id}/cpulist"), &format!("{cpu}\n"))
        })
    };
    let little = Machine::new(Shape { cores_per_l2: 4, cores_per_l3: 0, ..Shape::with_cores(8) });
    vec![
        (
            "big.LITTLE",
            little.clone().with_each(0..4, "cpu_capacity", "446\n").with_each(4..8, "cpu_capacity", "1024\n"),
        ),
        (
            "three kinds of cores",
            little
                .clone()
                .with_each(0..3, "cpu_capacity", "250\n")
                .with_each(3..6, "cpu_capacity", "768\n")
                .with_each(6..8, "cpu_capacity", "1024\n"),
        ),
        ("equal capacities", little.clone().with_each(0..8, "cpu_capacity", "1024\n")),
        ("capacities of some cores", little.clone().with_each(2..4, "cpu_capacity", "700\n")),
        (
            "capacities of zero",
            little.with_each(0..5, "cpu_capacity", "0\n").with_each(5..7, "cpu_capacity", "9"),
        ),
        (
            "memory-only nodes",
            Machine::new(SERVER).with("node/online", "0-3\n").with("node/node2/cpulist", "\n"),
        ),
        ("sparse node ids", of_nodes(&[0, 2, 8, 300])),
        ("nodes without node 0", of_nodes(&[3, 7])),
        ("node ids of 16 bits", of_nodes(&[0, 255, 256, 65534, 65535])),
        ("64 nodes", of_nodes(&(0..64).collect::<Vec<_>>())),
        ("65 nodes", of_nodes(&(0..65).collect::<Vec<_>>())),
        ("offline CPUs", chiplets.clone().with("cpu/online", "0-4,6-15\n").without("cpu/cpu5/")),
        ("first CPU offline", chiplets.clone().with("cpu/online", "1-15\n").without("cpu/cpu0/")),
        (
            "sparse CPU ids",
            chiplets.clone().with("cpu/present", "0-3,8-15\n").without("cpu/cpu4").without("cpu/cpu5"),
        ),
        ("fewer CPUs present than listed elsewhere", chiplets.with("cpu/present", "0-6\n")),
    ]
}

/// Machines without some files.
pub fn incomplete() -> Named {
    let server = Machine::new(SERVER);
    let chiplets = Machine::new(CHIPLETS);
    vec![
        ("without NUMA", server.clone().without("node/")),
        ("without the list of nodes", server.clone().without("node/online")),
        ("without the CPUs of a node", server.clone().without("node/node1/cpulist")),
        ("without lists of siblings", server.clone().without_each("_list").without_each("list")),
        ("with old lists of siblings", server.clone().without_each("core_cpus_list")),
        (
            "without siblings",
            server.clone().without_each("core_cpus_list").without_each("thread_siblings_list"),
        ),
        (
            "without siblings and packages",
            server
                .clone()
                .without_each("core_cpus_list")
                .without_each("thread_siblings_list")
                .without_each("physical_package_id"),
        ),
        ("without any core", server.clone().without_each("list").without_each("core_id")),
        ("without clusters", server.clone().without_each("cluster_id")),
        ("without packages", server.clone().without_each("physical_package_id")),
        (
            "without clusters and packages",
            server.without_each("cluster_id").without_each("physical_package_id"),
        ),
        ("without caches", chiplets.clone().without_each("/type")),
        ("without caches of one CPU", chiplets.clone().without("cpu/cpu9/cache")),
        ("without sizes of caches", chiplets.clone().without_each("/size")),
        ("without levels of caches", chiplets.clone().without_each("/level")),
        ("without sharing of caches", chiplets.clone().without_each("shared_cpu_list")),
        ("without sharing of L3", chiplets.clone().without_each("index3/shared_cpu_list")),
        ("without a second cache", chiplets.without_each("index1/type")),
    ]
}

/// Machines with text that Linux does not write.
pub fn malformed() -> Named {
    let chiplets = Machine::new(CHIPLETS);
    let server = Machine::new(SERVER);
    let siblings = "topology/core_cpus_list";
    let l3 = "cache/index3/shared_cpu_list";
    vec![
        ("no CPU present", chiplets.clone().with("cpu/present", "\n")),
        ("a malformed list of CPUs", chiplets.clone().with("cpu/present", "0-15,x\n")),
        (
            "a reversed list of CPUs",
            chiplets.clone().with("cpu/present", "15-0\n").with("cpu/kernel_max", "7\n"),
        ),
        ("no number of CPUs", chiplets.clone().with("cpu/present", "?").with("cpu/kernel_max", "many\n")),
        (
            "a number of CPUs that overflows",
            chiplets.clone().with("cpu/present", "?").with("cpu/kernel_max", "4294967295\n"),
        ),
        ("numbers in other bases", chiplets.clone().with("cpu/present", " 0x0 - 0xf , \t017\n")),
        ("text after numbers", chiplets.clone().with("cpu/present", "0-11:2/4 CPUs\n")),
        ("malformed siblings", server.clone().with_each(0..16, siblings, "a,0\n")),
        ("empty siblings", server.clone().with_each(0..9, siblings, "\n")),
        ("siblings that disagree", server.clone().with_each(3..6, siblings, "6-7\n")),
        ("unknown packages", server.clone().with_each(0..32, "topology/physical_package_id", "-1\n")),
        ("unknown clusters", server.clone().with_each(0..32, "topology/cluster_id", "65535\n")),
        ("an absurd cluster", server.clone().with_each(0..2, "topology/cluster_id", "99999999999999999\n")),
        ("nodes that overlap", server.clone().with("node/node1/cpulist", "4-11\n")),
        ("a node listed twice", server.clone().with("node/online", "1,0,1\n")),
        ("a malformed list of nodes", server.clone().with("node/online", "0,x,1\n")),
        ("a malformed node", server.clone().with("node/node0/cpulist", "0-7,-\n")),
        ("a node of CPUs that do not exist", server.clone().with("node/node1/cpulist", "5000-5003\n")),
        ("a node with too many CPUs", server.clone().with("node/node1/cpulist", "8-100000\n")),
        (
            "caches that disagree",
            chiplets.clone().with_each(2..9, l3, "1,3-8\n").with_each(9..10, l3, "12-15\n"),
        ),
        ("equal caches, written differently", chiplets.clone().with_each(1..3, l3, "3,2,0-1,1\n")),
        ("caches that no CPU shares", chiplets.clone().with_each(0..16, l3, "\n")),
        ("malformed sharing", chiplets.clone().with_each(4..8, l3, "4-7-\n").with_each(8..12, l3, "8..11\n")),
        (
            "absurd caches",
            chiplets
                .clone()
                .with_each(0..1, "cache/index0/size", "4194304K\n")
                .with_each(1..2, "cache/index0/size", "2M\n")
                .with_each(2..3, "cache/index0/size", "-1\n")
                .with_each(3..4, "cache/index0/size", "18446744073709551615K\n")
                .with_each(4..5, "cache/index0/size", " 0x30 k \n")
                .with_each(5..6, "cache/index0/size", "large\n"),
        ),
        (
            "caches in another order",
            chiplets
                .clone()
                .with_each(0..16, "cache/index1/type", " Unified cache\n")
                .with_each(0..16, "cache/index1/level", "3\n")
                .with_each(0..16, "cache/index1/shared_cpu_list", "0-7\n")
                .with_each(8..16, "cache/index3/level", "2\n"),
        ),
        (
            "many caches",
            (4..12).fold(chiplets, |machine, index| {
                let cache = format!("cache/index{index}");
                machine
                    .with_each(0..4, &format!("{cache}/type"), "Unified\n")
                    .with_each(0..4, &format!("{cache}/level"), "1\n")
                    .with_each(0..4, &format!("{cache}/size"), &format!("{index}K\n"))
            }),
        ),
    ]
}

/// Files with exactly as many bytes as the reference reads, and with one more.
pub fn at_the_limits() -> Named {
    let server = Machine::new(SERVER);
    let padded = |text: &str, bytes: usize| format!("{text}{}", " ".repeat(bytes - text.len()));
    let all = "topology/core_cpus_list";
    let l3 = "cache/index3/shared_cpu_list";
    let kind = "cache/index2/type";
    let with_max = server.clone().with("cpu/kernel_max", "3\n");
    vec![
        ("the longest list of CPUs", with_max.clone().with("cpu/present", &padded("0-31", 254))),
        ("a list of CPUs that is too long", with_max.with("cpu/present", &padded("0-31", 255))),
        ("the longest siblings", server.clone().with_each(0..4, all, &padded("0-3", 254))),
        ("siblings that are too long", server.clone().with_each(0..4, all, &padded("0-3", 255))),
        ("the longest sharing", server.clone().with_each(0..4, l3, &padded("0-3", 254))),
        ("sharing that is too long", server.clone().with_each(0..4, l3, &padded("0-3", 255))),
        ("the longest kind", server.clone().with_each(0..4, kind, &padded("Unified", 62))),
        ("a kind that is too long", server.clone().with_each(0..4, kind, &padded("Unified", 63))),
        ("the longest numbers", server.clone().with_each(0..4, "topology/cluster_id", "000000000000017")),
        (
            "numbers that are too long",
            server.clone().with_each(0..4, "topology/cluster_id", "0000000000000017"),
        ),
        ("the longest list of nodes", server.clone().with("node/online", &padded("0-1", 1022))),
        ("the longest node", server.with("node/node1/cpulist", &padded("8-15", 1022))),
    ]
}
