//! Selection on synthetic machines. The oracle's tests compare it with the reference's on many more.

use rehal_base::StatusCode;
use tempfile::TempDir;
use testing::machines::{Machine, Shape, list_of};

use super::*;

/// A machine, written to a directory.
struct Written {
    directory: TempDir,
}

fn written(machine: &Machine) -> Written {
    let directory = tempfile::tempdir().unwrap();
    machine.write(directory.path()).unwrap();
    Written { directory }
}

impl Written {
    fn options(&self) -> TopologyOptions {
        TopologyOptions {
            snapshot: Some(self.directory.path().into()),
            nodes: NodeSelection::All,
            ..TopologyOptions::default()
        }
    }

    fn select(&self, nodes: NodeSelection) -> Result<Vec<Topology>> {
        TopologyOptions { nodes, ..self.options() }.select()
    }
}

fn cpus(topology: &Topology) -> Vec<u32> {
    topology.workers.iter().map(|worker| worker.processor).collect()
}

/// 2 packages of 2 nodes of 2 cores of 2 threads; the caches of a package are one domain.
const SERVER: Shape = Shape {
    packages: 2,
    nodes: 2,
    cores: 2,
    threads: 2,
    cores_per_l2: 1,
    cores_per_l3: 4,
    has_adjacent_siblings: true,
};

#[test]
fn workers_have_the_facts_of_their_cores() {
    let [topology] = &written(&Machine::new(SERVER)).select(NodeSelection::Ids(vec![3])).unwrap()[..] else {
        panic!("one node is one topology");
    };
    let worker = |processor, cluster| Worker {
        processor,
        cluster: Some(cluster),
        package: Some(1),
        pinned: Some(Pin { processor, node: 3 }),
        caches: Caches { l1_data: 48 << 10, l2_data: 2 << 20, l3_data: 32 << 20 },
        sharing: Sharing::Workers(vec![0, 1]),
    };
    assert_eq!(*topology, Topology { node: Some(3), workers: vec![worker(12, 6), worker(14, 7)] });
    assert_eq!(topology.workers[0].default_local_memory(), 2 << 20);
}

#[test]
fn nodes_become_topologies() {
    let machine = written(&Machine::new(SERVER));
    let selected = |nodes| {
        let topologies = machine.select(nodes).unwrap();
        topologies.iter().map(|it| (it.node, cpus(it))).collect::<Vec<_>>()
    };
    let all = [0u32, 1, 2, 3].map(|node| (Some(node), vec![4 * node, 4 * node + 2]));
    assert_eq!(selected(NodeSelection::Each), all);
    assert_eq!(selected(NodeSelection::Ids(vec![2, 0, 2])), [2, 0, 2].map(|node: usize| all[node].clone()));
    // On a snapshot, the first CPU stands for the calling thread.
    assert_eq!(selected(NodeSelection::Current), all[..1]);
    assert_eq!(selected(NodeSelection::All), [(None, vec![0, 8, 2, 10, 4, 12, 6, 14])]);
    let error = machine.select(NodeSelection::Ids(vec![0, 4])).unwrap_err();
    assert_eq!(error.message(), "NUMA node 4 does not exist or has no CPUs (nodes with CPUs: 0, 1, 2, 3)");
}

#[test]
fn cores_are_distributed_over_cache_domains() {
    let machine = written(&Machine::new(Shape { cores_per_l3: 16, ..Shape::with_cores(64) }));
    let select = |distribution, max_workers| {
        let options = TopologyOptions { distribution, max_workers, ..machine.options() };
        options.select().unwrap().remove(0)
    };
    let compact = select(Distribution::Compact, 64);
    assert_eq!(cpus(&compact), (0..64).collect::<Vec<_>>());
    assert_eq!(compact.cache_domains(), (0..64).map(|cpu| cpu / 16).collect::<Vec<_>>());
    let scattered = select(Distribution::Scatter, 64);
    assert_eq!(cpus(&scattered)[..6], [0, 16, 32, 48, 1, 17]);
    assert_eq!(scattered.cache_domains(), (0..64).map(|worker| worker % 4).collect::<Vec<_>>());
    // The limit counts cores before they are distributed.
    assert_eq!(cpus(&select(Distribution::Scatter, 18)), {
        let mut order: Vec<_> = (0..16).collect();
        order.splice(1..1, [16]);
        order.splice(3..3, [17]);
        order
    });
}

#[test]
fn topologies_become_one_pool() {
    let machine = written(&Machine::new(SERVER));
    let pool = Topology::merged(machine.select(NodeSelection::Ids(vec![0, 3, 1])).unwrap()).unwrap();
    assert_eq!((pool.node, cpus(&pool)), (None, vec![0, 2, 12, 14, 4, 6]));
    assert_eq!(pool.workers[3].sharing, Sharing::Workers(vec![2, 3]));
    assert_eq!(pool.cache_domains(), [0, 0, 1, 1, 2, 2]);
    let node = machine.select(NodeSelection::Ids(vec![3])).unwrap();
    assert_eq!(Topology::merged(node.clone()).unwrap(), node[0]);
    let whole = machine.options().select().unwrap();
    assert!(Topology::merged(vec![whole[0].clone(); 128]).is_ok());
    for count in [0, 129] {
        let error = Topology::merged(vec![whole[0].clone(); count]).unwrap_err();
        assert_eq!(error.code(), StatusCode::OutOfRange);
    }
}

#[test]
fn performance_levels_need_different_capacities() {
    let machine = Machine::new(Shape { cores_per_l3: 0, ..Shape::with_cores(4) });
    let select = |machine: &Machine, performance| {
        let machine = written(machine);
        let topologies = TopologyOptions { performance, ..machine.options() }.select().unwrap();
        topologies.first().map(cpus).unwrap_or_default()
    };
    let differing = machine
        .clone()
        .with_each(0..1, "cpu_capacity", "767")
        .with_each(1..2, "cpu_capacity", "768")
        .with_each(2..3, "cpu_capacity", "1024");
    assert_eq!(select(&differing, Performance::Any), [0, 1, 2, 3]);
    assert_eq!(select(&differing, Performance::High), [1, 2]);
    assert_eq!(select(&differing, Performance::Low), [0, 3]);
    let equal = machine.with_each(0..4, "cpu_capacity", "900");
    assert_eq!(select(&equal, Performance::Low), [0, 1, 2, 3]);
}

#[test]
fn a_count_of_workers_is_not_pinned() {
    let machine = written(&Machine::new(SERVER));
    let options = TopologyOptions { worker_count: Some(1000), ..machine.options() };
    let [topology] = &options.select().unwrap()[..] else { panic!("one topology") };
    assert_eq!((topology.workers.len(), topology.node), (MAX_WORKERS, None));
    let worker = &topology.workers[255];
    assert_eq!((worker.pinned, &worker.sharing, worker.caches.l2_data), (None, &Sharing::Unknown, 2 << 20));
    assert_eq!(topology.cache_domains(), [0; MAX_WORKERS]);
    worker.pin_current_thread().unwrap();

    let no_caches = written(&Machine::new(SERVER).without_each("/type"));
    let options = TopologyOptions { worker_count: Some(1), ..no_caches.options() };
    assert_eq!(options.select().unwrap()[0].workers[0].caches, DEFAULT_CACHES);
}

#[test]
fn pools_need_workers_and_a_count_needs_one_node() {
    let machine = written(&Machine::new(SERVER));
    let code = |options: TopologyOptions| options.select_pools().unwrap_err().code();
    let counted = TopologyOptions { worker_count: Some(2), nodes: NodeSelection::Each, ..machine.options() };
    assert_eq!(counted.select().unwrap().len(), 4);
    assert_eq!(code(counted), StatusCode::InvalidArgument);
    let none = TopologyOptions { max_workers: 0, ..machine.options() };
    assert_eq!(none.select().unwrap(), []);
    assert_eq!(code(none), StatusCode::NotFound);
    assert_eq!(machine.options().select_pools().unwrap().len(), 1);
}

#[test]
fn listed_cpus_are_those_of_this_machine() {
    let list = |processors: Vec<Vec<u32>>| {
        let snapshot = Some("/does/not/exist".into());
        TopologyOptions { processors, snapshot, ..TopologyOptions::default() }.select()
    };
    let topologies = list(vec![vec![0], vec![0, 0]]).unwrap();
    assert_eq!(topologies.iter().map(cpus).collect::<Vec<_>>(), [vec![0], vec![0, 0]]);
    assert!(topologies.iter().all(|topology| topology.node.is_none()));
    assert_eq!(list(vec![vec![0], vec![60000]]).unwrap_err().code(), StatusCode::OutOfRange);
    assert_eq!(list(vec![vec![0; 257]]).unwrap_err().code(), StatusCode::ResourceExhausted);
}

#[test]
fn machines_of_unknown_topology_have_one_worker() {
    let machine = written(&Machine::default().with("cpu/present", "?"));
    assert_eq!(machine.options().select().unwrap(), [Topology::with_workers(1).unwrap()]);
    let error = TopologyOptions { snapshot: Some("/does/not/exist".into()), ..TopologyOptions::default() };
    assert_eq!(
        error.select().unwrap_err().message(),
        "'/does/not/exist' has no readable file cpu/present: a topology snapshot is a copy of /sys/devices/system"
    );
}

/// None of these may hang, abort, or read or allocate in proportion to a number in a file. The reference
/// aborts on some, and reads four billion files for others.
#[test]
fn hostile_machines_are_bounded() {
    let machine = Machine::new(Shape { nodes: 2, ..Shape::with_cores(1) });
    let result = |machine: Machine, nodes| written(&machine).select(nodes).map_err(|error| error.code());
    for (file, text) in [
        ("cpu/present", "0-4294967293"),
        ("cpu/present", "65536"),
        ("node/online", "0-4294967293"),
        ("node/online", "0-40000,0-40000"),
    ] {
        let machine = machine.clone().with(file, text);
        assert_eq!(result(machine, NodeSelection::All), Err(StatusCode::OutOfRange), "{text}");
    }
    let all = result(machine.clone(), NodeSelection::All).unwrap();
    for (file, text) in [
        ("node/node1/cpulist", "1-4294967293".to_owned()),
        ("node/node1/cpulist", " ".repeat(1 << 20)),
        ("node/online", format!("0-1{}", " ".repeat(2000))),
        ("cpu/cpu0/cache/index3/shared_cpu_list", "0-4294967293".to_owned()),
        ("cpu/cpu0/topology/core_cpus_list", "0-4294967293".to_owned()),
    ] {
        let topologies = result(machine.clone().with(file, &text), NodeSelection::All).unwrap();
        assert_eq!(topologies[0].workers.len(), all[0].workers.len(), "{file}");
    }
    let nodes: Vec<_> = (0..65).collect();
    let many = nodes.iter().fold(machine.with("node/online", &list_of(&nodes)), |machine, node| {
        machine.with(&format!("node/node{node}/cpulist"), "0")
    });
    assert_eq!(result(many.clone(), NodeSelection::Each), Err(StatusCode::ResourceExhausted));
    assert!(result(many, NodeSelection::All).is_ok());
}

#[test]
fn only_regular_files_are_read() {
    let machine = written(&Machine::new(SERVER).without("node/online").without("cpu/kernel_max"));
    let path = machine.directory.path();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        path.join("node/online"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .unwrap();
    std::fs::remove_file(path.join("cpu/cpu2/topology/core_cpus_list")).unwrap();
    std::fs::create_dir(path.join("cpu/cpu2/topology/core_cpus_list")).unwrap();
    std::fs::remove_file(path.join("cpu/cpu3/topology/core_cpus_list")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", path.join("cpu/cpu3/topology/core_cpus_list")).unwrap();
    let topologies = machine.select(NodeSelection::All).unwrap();
    assert_eq!(cpus(&topologies[0]), [0, 8, 2, 10, 4, 12, 6, 14]);
}

#[test]
fn local_memory_is_bounded_and_in_cache_lines() {
    let bytes =
        |l1_data, l2_data| Worker::anywhere(Caches { l1_data, l2_data, l3_data: 0 }).default_local_memory();
    assert_eq!(bytes(1 << 15, 1 << 20), 1 << 20);
    assert_eq!(bytes(1 << 15, 0), 1 << 15);
    assert_eq!(bytes(0, 65), 128);
    assert_eq!(bytes(0, 0), 0);
    assert_eq!(bytes(1 << 15, u32::MAX), MAX_DERIVED_LOCAL_MEMORY);
}

#[test]
fn a_quota_is_shared_by_all_topologies() {
    use super::select::share;
    assert_eq!(share(&[4, 4], usize::MAX), [4, 4]);
    assert_eq!(share(&[4, 4], 8), [4, 4]);
    assert_eq!(share(&[4, 4], 7), [4, 3]);
    assert_eq!(share(&[8, 2], 5), [3, 2]);
    assert_eq!(share(&[4, 4, 0], 1), [1, 1, 0]);
    assert_eq!(share(&[], 3), [0usize; 0]);
}

#[test]
fn workers_run_where_they_are_pinned() {
    let topology = TopologyOptions { nodes: NodeSelection::All, ..TopologyOptions::default() };
    let topology = topology.select().unwrap().remove(0);
    assert!(!topology.workers.is_empty());
    for worker in &topology.workers {
        let worker = worker.clone();
        let thread = std::thread::spawn(move || {
            worker.pin_current_thread().unwrap();
            let allowed = rustix::thread::sched_getaffinity(None).unwrap();
            (allowed.count(), allowed.is_set(worker.processor as usize))
        });
        assert_eq!(thread.join().unwrap(), (1, true));
    }
    let refused = Worker { pinned: Some(Pin { processor: 1023, node: 0 }), ..topology.workers[0].clone() };
    assert!(refused.pin_current_thread().unwrap_err().message().contains("CPU 1023"));
    let beyond = Worker { pinned: Some(Pin { processor: 60000, node: 0 }), ..refused };
    assert_eq!(beyond.pin_current_thread().unwrap_err().code(), StatusCode::InvalidArgument);
}

mod quotas {
    use std::path::Path;

    use super::super::quota;

    /// The CPUs that a process may use if it sees these files.
    fn processors(files: &[(&str, &str)]) -> Option<usize> {
        quota::processors(root(files).path())
    }

    fn root(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/"))).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    const V2: (&str, &str) = (
        "proc/self/mountinfo",
        "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
    );
    const V1: (&str, &str) = (
        "proc/self/mountinfo",
        "30 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n\
         31 23 0:28 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n",
    );

    #[test]
    fn the_smallest_quota_applies() {
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let quota = |outer, inner| {
            processors(&[
                V2,
                group,
                ("sys/fs/cgroup/a/cpu.max", outer),
                ("sys/fs/cgroup/a/b/cpu.max", inner),
                // A cgroup that is not an ancestor.
                ("sys/fs/cgroup/c/cpu.max", "1 100000\n"),
            ])
        };
        assert_eq!(quota("max 100000\n", "max 100000\n"), None);
        assert_eq!(quota("max 100000\n", "200000 100000\n"), Some(2));
        assert_eq!(quota("200000 100000\n", "800000 100000\n"), Some(2));
        assert_eq!(quota("800000 100000\n", "250000 100000\n"), Some(3));
        assert_eq!(quota("max 100000\n", "1000 100000\n"), Some(1));
        assert_eq!(quota("max 100000\n", "0 100000\n"), Some(1));
        for malformed in ["", "100000", "a b", "100000 0", "-1 100000"] {
            assert_eq!(quota("300000 100000\n", malformed), Some(3), "{malformed:?}");
        }
    }

    #[test]
    fn quotas_of_cgroup_v1_are_read() {
        let quota = |microseconds| {
            processors(&[
                V1,
                ("proc/self/cgroup", "3:cpuset:/\n2:cpu,cpuacct:/jobs\n0::/\n"),
                ("sys/fs/cgroup/cpu/jobs/cpu.cfs_quota_us", microseconds),
                ("sys/fs/cgroup/cpu/jobs/cpu.cfs_period_us", "50000\n"),
                ("sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "1\n"),
                ("sys/fs/cgroup/cpuset/cpu.cfs_period_us", "50000\n"),
            ])
        };
        assert_eq!(quota("-1\n"), None);
        assert_eq!(quota("150000\n"), Some(3));
    }

    #[test]
    fn cgroups_are_found_in_containers() {
        let limited = ("mnt/my groups/cpu.max", "100000 100000\n");
        let mounted_at = |root: &str| format!("29 23 0:26 {root} /mnt/my\\040groups rw - cgroup2 none rw\n");
        // The container's cgroup is mounted as the root.
        let mount = mounted_at("/docker/1f");
        let files =
            [("proc/self/mountinfo", mount.as_str()), ("proc/self/cgroup", "0::/docker/1f\n"), limited];
        assert_eq!(processors(&files), Some(1));
        // The process's cgroup is outside of its namespace.
        let mount = mounted_at("/");
        for group in ["0::/../..\n", "0::/\n"] {
            let files = [
                ("proc/self/mountinfo", mount.as_str()),
                ("proc/self/cgroup", group),
                limited,
                ("cpu.max", "700000 100000\n"),
            ];
            assert_eq!(processors(&files), Some(1), "{group}");
        }
    }

    #[test]
    fn memory_is_limited_by_the_machine_and_the_groups() {
        let memory = |files: &[(&str, &str)]| quota::memory_bytes(root(files).path());
        let machine = ("proc/meminfo", "MemTotal:        1000 kB\nMemFree: 5 kB\n");
        let group = ("proc/self/cgroup", "0::/a/b\n");
        let limit = |bytes| ("sys/fs/cgroup/a/memory.max", bytes);
        assert_eq!(memory(&[machine]), Some(1_024_000));
        assert_eq!(memory(&[machine, V2, group, limit("max\n")]), Some(1_024_000));
        assert_eq!(memory(&[machine, V2, group, limit("4096\n")]), Some(4096));
        assert_eq!(memory(&[V2, group, limit("4096\n")]), None);
    }

    #[test]
    fn missing_files_mean_no_quota() {
        assert_eq!(processors(&[]), None);
        assert_eq!(processors(&[V2]), None);
        assert_eq!(
            processors(&[("proc/self/mountinfo", "- - \n -\n"), ("proc/self/cgroup", "::\n0:\n")]),
            None
        );
    }
}
