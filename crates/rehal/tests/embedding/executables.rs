//! Executables by themselves: loading, dispatching repeatedly with the same memory, and errors.

use std::sync::Arc;

use rehal_base::{Error, StatusCode};
use rehal_devices::{DeviceOptions, DeviceSpec, ValueText, executable_functions};
use rehal_hal::{Device, transfer};
use rehal_kernels::{
    EntryPoint, ExecutableSource, LaunchArguments, LaunchBinding, LoadOptions, LoadedExecutable, MAX_LAUNCHES,
};

use crate::{capture, fixture};

fn device(uri: &str) -> Device {
    DeviceOptions::for_devices(vec![DeviceSpec::find(uri).unwrap()]).open().unwrap().devices()[0].clone()
}

fn file(name: &str) -> ExecutableSource {
    ExecutableSource::File(fixture(&format!("cts/{name}")))
}

fn load(name: &str) -> LoadedExecutable {
    LoadedExecutable::load(&device("local-sync"), &file(name), &LoadOptions::default()).unwrap()
}

fn native() -> LoadedExecutable {
    let mut options = LoadOptions::default();
    options.constants = vec![11, 12];
    LoadedExecutable::load(&device("local-sync"), &file("native.so"), &options).unwrap()
}

fn values(texts: &[&str]) -> Vec<ValueText> {
    texts.iter().map(|text| ValueText::new(text).unwrap()).collect()
}

fn words(binding: &LaunchBinding) -> Vec<u32> {
    let bytes = transfer::to_vec(&binding.buffer, 0, u64::MAX).unwrap();
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

fn affine(executable: &LoadedExecutable) -> LaunchArguments {
    let mut arguments =
        LaunchArguments::for_function(executable.function(&EntryPoint::Name("affine".into())).unwrap());
    arguments.constants = vec![3, 4];
    arguments.bindings = executable.bindings(&values(&["16xi32=5", "16xi32"])).unwrap();
    arguments
}

/// The error of `outcome`, which must be its report's first line and status.
fn refused<T>(outcome: Result<T, Error>, code: StatusCode, message: &str) {
    let error = outcome.err().expect("it is refused");
    assert_eq!(error.code(), code, "{}", error.report());
    assert!(error.report().contains(message), "'{message}' is not in: {}", error.report());
}

/// Functions that are read from the bytes are those that a driver finds that loads them.
#[test]
fn functions_are_read_from_the_bytes_of_every_format() {
    let device = device("local-sync");
    let names = [
        "cts/affine.embedded.elf",
        "cts/affine.system.so",
        "cts/affine.vmvx.vmfb",
        "cts/chain.so",
        "modules/add4_swapped.elf",
        "modules/add4_swapped.syslib.so",
    ];
    for name in names {
        let source = ExecutableSource::File(fixture(name));
        let loaded = LoadedExecutable::load(&device, &source, &LoadOptions::default()).unwrap();
        let bytes = std::fs::read(fixture(name)).unwrap();
        let format = device.infer_executable_format(&bytes).unwrap();
        assert_eq!(executable_functions(format, &bytes).unwrap(), loaded.functions(), "{name}");
        assert!(!loaded.functions().is_empty());
    }
    let bytes = std::fs::read(fixture("modules/add4_swapped.aarch64.elf")).unwrap();
    let functions = executable_functions("embedded-elf-arm_64", &bytes).unwrap();
    assert_eq!(functions.len(), 2);
    assert_eq!(functions[0].binding_count, 3);
    // Of a format that no driver of this build runs, of one that none reads, and of none.
    refused(executable_functions("cuda-nvptx-fb", &bytes), StatusCode::DataLoss, "corrupt CUDA executable");
    refused(executable_functions("metal-msl-fb", &bytes), StatusCode::Unimplemented, "cannot be read");
    refused(executable_functions("beads", &bytes), StatusCode::Unimplemented, "no driver is known");
    for length in 0..bytes.len() {
        let _ = executable_functions("embedded-elf-arm_64", &bytes[..length]);
    }
}

#[test]
fn every_format_computes_on_every_device() {
    for uri in ["local-sync", "local-task"] {
        for name in ["affine.embedded.elf", "affine.system.so", "affine.vmvx.vmfb"] {
            let executable =
                LoadedExecutable::load(&device(uri), &file(name), &LoadOptions::default()).unwrap();
            let arguments = affine(&executable);
            executable.launches(&arguments, 3).unwrap().run().unwrap();
            assert_eq!(words(&arguments.bindings[1]), [19; 16], "{name} on {uri}");
        }
    }
}

#[test]
fn repetitions_have_the_same_memory() {
    let executable = load("affine.embedded.elf");
    let mut arguments = affine(&executable);
    // In place, so that each dispatch sees what the one before it wrote: x -> 3x + 4.
    arguments.bindings[1] = arguments.bindings[0].clone();
    let mut launches = executable.launches(&arguments, 2).unwrap();
    let mut expected = 5u32;
    for _ in 0..3 {
        launches.run().unwrap();
        expected = (0..launches.count()).fold(expected, |x, _| 3 * x + 4);
        assert_eq!(words(&arguments.bindings[0]), [expected; 16]);
    }
}

#[test]
fn bindings_are_ranges_and_arguments_can_change() {
    let executable = load("affine.embedded.elf");
    let mut arguments = affine(&executable);
    let memory = executable.allocate(256).unwrap();
    transfer::write(&memory, 0, &[0; 256]).unwrap();
    transfer::write(&memory, 64, &7u32.to_le_bytes()).unwrap();
    arguments.bindings =
        vec![LaunchBinding::range(memory.clone(), 64, 64), LaunchBinding::range(memory.clone(), 128, 64)];
    executable.launches(&arguments, 1).unwrap().run().unwrap();
    let written = words(&LaunchBinding::whole(memory));
    assert_eq!((written[31], written[32], written[33], written[48]), (0, 25, 4, 0));

    let executable = load("workgroups.embedded.elf");
    let mut arguments = LaunchArguments::for_function(0);
    arguments.bindings = executable.bindings(&values(&["384xi32"])).unwrap();
    for (count, total) in [([2, 3, 4], 24), ([1, 1, 1], 1), ([0, 5, 5], 0)] {
        arguments.workgroup_count = count;
        arguments.bindings = executable.bindings(&values(&["384xi32=-1"])).unwrap();
        executable.launches(&arguments, 1).unwrap().run().unwrap();
        let rows = words(&arguments.bindings[0]);
        let written = rows.as_chunks::<6>().0.iter().filter(|row| row[3..] == count).count();
        assert_eq!((written as u64, arguments.total_workgroups().unwrap()), (total, total), "{count:?}");
    }
}

#[test]
fn the_dispatch_has_its_size_constants_and_local_memory() {
    let executable = native();
    assert_eq!(executable.functions().len(), 4);
    let mut arguments =
        LaunchArguments::for_function(executable.function(&EntryPoint::Name("surroundings".into())).unwrap());
    arguments.workgroup_size = [7, 5, 3];
    arguments.workgroup_count = [1, 1, 1];
    arguments.constants = vec![0; 3];
    arguments.bindings = executable.bindings(&values(&["12xi32"])).unwrap();
    executable.launches(&arguments, 1).unwrap().run().unwrap();
    assert_eq!(words(&arguments.bindings[0])[..11], [7, 5, 3, 1, 1, 1, 3, 1, 48, 11, 12]);

    let mut arguments =
        LaunchArguments::for_function(executable.function(&EntryPoint::Name("local_memory".into())).unwrap());
    arguments.bindings = executable.bindings(&values(&["2xi32"])).unwrap();
    let mut size = |dynamic| {
        arguments.dynamic_local_memory = dynamic;
        executable.launches(&arguments, 1).unwrap().run().unwrap();
        words(&arguments.bindings[0])[1]
    };
    let fixed = size(0);
    assert!(fixed > 0);
    assert_eq!(size(4096), fixed + 4096);
}

#[test]
fn values_are_bytes_of_texts_and_files() {
    let executable = load("affine.embedded.elf");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bytes.bin");
    std::fs::write(&path, (0..32u8).collect::<Vec<_>>()).unwrap();
    let from = |text: &str| ValueText::new(format!("{text}{}", path.display())).unwrap();
    let mut given = values(&["&2xi32=1 2", "i64=3"]);
    given.extend([from("2xi32=@"), from("4xi8=+")]);
    let bindings = executable.bindings(&given).unwrap();
    let bytes: Vec<_> =
        bindings.iter().map(|it| transfer::to_vec(&it.buffer, 0, u64::MAX).unwrap()).collect();
    assert_eq!(bytes[0], [1, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes[1], 3i64.to_le_bytes());
    assert_eq!(bytes[2..], [(0..8).collect::<Vec<u8>>(), vec![8, 9, 10, 11]]);
    refused(
        executable.bindings(&values(&["4xf32", "(null)"])),
        StatusCode::InvalidArgument,
        "binding 1 is not a",
    );
    refused(executable.bindings(&[from("99xi8=@")]), StatusCode::OutOfRange, "99 bytes are needed");
    refused(executable.bindings(&values(&["4294967295x1073741xi8"])), StatusCode::ResourceExhausted, "bytes");
}

#[test]
fn wrong_arguments_are_refused() {
    let executable = load("affine.embedded.elf");
    let change = |change: fn(&mut LaunchArguments)| {
        let mut arguments = affine(&executable);
        change(&mut arguments);
        executable.launches(&arguments, 1).map(drop)
    };
    use StatusCode::{InvalidArgument, OutOfRange};
    refused(change(|it| it.constants.truncate(1)), InvalidArgument, "'affine' takes 2 constants, found 1");
    refused(change(|it| it.bindings.truncate(1)), InvalidArgument, "'affine' takes 2 bindings, found 1");
    refused(change(|it| it.bindings.push(it.bindings[0].clone())), InvalidArgument, "2 bindings, found 3");
    refused(change(|it| it.function = 1), OutOfRange, "function 1 does not exist");
    refused(change(|it| it.bindings[1].offset = 65), OutOfRange, "binding 1");
    refused(
        change(|it| it.bindings[1] = LaunchBinding::range(it.bindings[1].buffer.clone(), 60, 8)),
        OutOfRange,
        "binding 1",
    );
    refused(change(|it| it.workgroup_count = [u32::MAX; 3]), OutOfRange, "4294967295x4294967295x4294967295");
    for count in [0, MAX_LAUNCHES + 1] {
        refused(executable.launches(&affine(&executable), count).map(drop), OutOfRange, "1 to 1048576");
    }
    refused(executable.function(&EntryPoint::Ordinal(7)), OutOfRange, "it has: 0 affine");
    refused(executable.function(&EntryPoint::Name("x".into())), StatusCode::NotFound, "it has: affine");
}

#[test]
fn a_failing_kernel_is_an_error_of_each_run() {
    let executable = native();
    let mut arguments =
        LaunchArguments::for_function(executable.function(&EntryPoint::Name("fails".into())).unwrap());
    arguments.constants = vec![5, 1];
    arguments.workgroup_count = [4, 1, 1];
    let mut launches = executable.launches(&arguments, 1).unwrap();
    let first = launches.run().unwrap_err().report();
    assert!(first.contains("fails"), "{first}");
    assert!(launches.run().is_err());
    // Others are not affected.
    arguments.constants[0] = 0;
    executable.launches(&arguments, 1).unwrap().run().unwrap();
}

#[test]
fn other_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let empty = directory.path().join("empty");
    std::fs::write(&empty, "").unwrap();
    let load = |path: &std::path::Path, format: Option<&str>, constants: usize| {
        let mut options = LoadOptions::default();
        options.format = format.map(Into::into);
        options.constants = vec![0; constants];
        LoadedExecutable::load(&device("local-sync"), &ExecutableSource::File(path.into()), &options)
            .map(drop)
    };
    let elf = fixture("cts/affine.embedded.elf");
    use StatusCode::{InvalidArgument, NotFound};
    refused(load(&directory.path().join("missing"), None, 0), NotFound, "missing'");
    refused(load(directory.path(), None, 0), InvalidArgument, "is a directory");
    refused(load("/dev/zero".as_ref(), None, 0), InvalidArgument, "character or block device");
    for format in [None, Some("embedded-elf-x86_64")] {
        refused(load(&empty, format, 0), InvalidArgument, "it is empty, not an executable");
        let capture = capture("simple_abs.abs.local-sync");
        refused(
            load(&capture, format, 0),
            InvalidArgument,
            "it is a capture (.ireereplay), not an executable",
        );
    }
    refused(load(&fixture("cts/affine.mlir"), None, 0), InvalidArgument, "does not recognize");
    assert!(load(&fixture("cts/affine.mlir"), Some("embedded-elf-x86_64"), 0).is_err());
    refused(load(&elf, Some("cuda-nvptx-fb"), 0), NotFound, "cuda-nvptx-fb");
    assert!(load(&elf, Some("vmvx-bytecode-fb"), 0).is_err());
    assert!(load(&elf, None, 1).is_err());
    assert!(load(&fixture("cts/native.so"), None, 0).is_err());
    let bytes: Arc<[u8]> = std::fs::read(&elf).unwrap()[..1000].into();
    let cut = LoadedExecutable::load(
        &device("local-sync"),
        &ExecutableSource::Bytes(bytes),
        &LoadOptions::default(),
    );
    let report = cut.err().unwrap().report();
    assert!(report.contains("an executable in memory"), "{report}");
}
