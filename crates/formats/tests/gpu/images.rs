use rehal_formats::{ImageKind, Parameter, ParameterKind};

use crate::builder::{Export, Pack, container, fatbin, hsaco};
use crate::{CUBIN, fixture, read, refused};

#[test]
fn cubins_and_fatbins_name_their_kernels_and_their_target() {
    let ptx = fixture("dynamic.cuda.ptx");
    let names = |bytes: &[u8]| {
        let executable = read(bytes).unwrap();
        assert_eq!(executable.target.as_deref(), Some("sm_80"));
        let mut names: Vec<_> = executable.functions.into_iter().map(|it| it.name).collect();
        names.sort();
        (executable.images[0].kind, names)
    };
    let (_, expected) = names(&ptx);
    assert_eq!(expected.len(), 2);
    assert_eq!(names(CUBIN), (ImageKind::Cubin, expected.clone()));
    // Bindings and constants of a cubin are unknown, not zero.
    let functions = read(CUBIN).unwrap().functions;
    assert!(functions.iter().all(|it| it.bindings.is_none() && it.constant_count.is_none()));
    for entries in [vec![(2, 80, CUBIN)], vec![(1, 80, &ptx[..])], vec![(1, 80, &ptx), (2, 80, CUBIN)]] {
        assert_eq!(names(&fatbin(&entries)), (ImageKind::Fatbin, expected.clone()));
    }
    let export = Export { name: expected[0].clone(), ..Export::default() };
    let executable = read(&container(b"CDA1", &[CUBIN], &[export])).unwrap();
    assert_eq!(
        (executable.functions[0].name.clone(), executable.functions[0].image),
        (expected[0].clone(), 0)
    );
}

#[test]
fn the_number_of_sections_may_be_in_the_first_one() {
    let sections = u64::from_le_bytes(CUBIN[40..48].try_into().unwrap()) as usize;
    let mut bytes = CUBIN.to_vec();
    let count = u16::from_le_bytes([bytes[60], bytes[61]]);
    bytes[60..62].fill(0);
    bytes[sections + 32..sections + 40].copy_from_slice(&u64::from(count).to_le_bytes());
    assert_eq!(read(&bytes).unwrap().functions, read(CUBIN).unwrap().functions);
    bytes[sections + 32..sections + 40].fill(0xFF);
    assert_eq!(refused(&bytes).field, "e_shoff");
    // Without sections, nothing names kernels: they are unknown, not none.
    bytes[40..48].fill(0);
    assert_eq!(refused(&bytes).expected, "code that names its kernels");
    let executable = read(&container(b"CDA1", &[&bytes], &[Export::default()])).unwrap();
    assert_eq!((executable.target.as_deref(), &executable.functions[0].name[..]), (Some("sm_80"), "f"));
}

#[test]
fn flags_of_cubins_name_the_target_in_both_layouts() {
    let with = |abi: u8, flags: u32| {
        let mut bytes = CUBIN.to_vec();
        bytes[8] = abi;
        bytes[48..52].copy_from_slice(&flags.to_le_bytes());
        read(&bytes).unwrap().target.unwrap()
    };
    // As `ptxas` 12.9.86 writes them.
    assert_eq!(with(7, 0x0050_0550), "sm_80");
    assert_eq!(with(7, 0x005A_055A), "sm_90");
    assert_eq!(with(7, 0x005A_0D5A), "sm_90a");
    assert_eq!(with(8, 0x0600_6402), "sm_100");
    assert_eq!(with(8, 0x0600_640A), "sm_100a");
    assert_eq!(with(8, 0x0600_7802), "sm_120");
}

fn kernel(parts: Vec<(&'static str, Pack)>) -> Vec<u8> {
    Pack::Map(vec![("amdhsa.kernels", Pack::Array(vec![Pack::Map(parts)]))]).bytes()
}

#[test]
fn notes_without_arguments_leave_bindings_unknown() {
    let named = || (".name", Pack::Text("f"));
    let executable = read(&hsaco(0x54C, &kernel(vec![named()]))).unwrap();
    let [function] = &executable.functions[..] else { panic!("one function") };
    assert_eq!((&function.bindings, function.constant_count), (&None, None));
    let executable = read(&hsaco(0x54C, &kernel(vec![named(), (".args", Pack::Array(vec![]))]))).unwrap();
    let [function] = &executable.functions[..] else { panic!("one function") };
    assert_eq!((function.binding_count(), function.constant_count), (Some(0), Some(0)));
}

#[test]
fn arguments_are_bindings_constants_hidden_or_neither() {
    let argument = |kind, offset, size, access| {
        let parts = [(".value_kind", Pack::Text(kind)), (".offset", Pack::Number(offset))];
        let more = [(".size", Pack::Number(size)), (".actual_access", Pack::Text(access))];
        Pack::Map(parts.into_iter().chain(more).collect())
    };
    let with = |last| {
        let all = vec![
            argument("global_buffer", 0, 8, "read_only"),
            argument("global_buffer", 8, 8, "write_only"),
            argument("by_value", 16, 8, ""),
            last,
        ];
        let bytes = hsaco(0x54C, &kernel(vec![(".name", Pack::Text("f")), (".args", Pack::Array(all))]));
        read(&bytes).unwrap().functions.remove(0)
    };
    let function = with(argument("hidden_block_count_x", 24, 4, ""));
    let bindings: Vec<_> = function.bindings.iter().flatten().map(|it| it.is_read_only).collect();
    assert_eq!((bindings, function.constant_count), (vec![true, false], Some(2)));
    let hidden = ParameterKind::Hidden("hidden_block_count_x".into());
    let last = Parameter { kind: hidden, offset: 24, size: 4 };
    assert_eq!(function.parameters.unwrap().last(), Some(&last));
    // Neither is a number of 32-bit words.
    assert_eq!(with(argument("by_value", 24, 1, "")).constant_count, None);
    assert_eq!(with(argument("dynamic_shared_pointer", 24, 8, "")).constant_count, None);
}

#[test]
fn flags_of_a_hsaco_name_the_processor_and_its_features() {
    let target = |flags| read(&hsaco(flags, &kernel(vec![(".name", Pack::Text("f"))]))).unwrap().target;
    assert_eq!(target(0x54C).as_deref(), Some("gfx942"));
    assert_eq!(target(0xE4C).as_deref(), Some("gfx942:sramecc+:xnack-"));
    assert_eq!(target(0xB4C).as_deref(), Some("gfx942:sramecc-:xnack+"));
    assert_eq!(target(0x41).as_deref(), Some("gfx1100"));
    assert_eq!(target(0x5F).as_deref(), Some("gfx9-4-generic"));
    // A reserved number, and one beyond the table.
    assert_eq!((target(0x27), target(0xF0), target(0)), (None, None, None));
    let noted = [
        ("amdhsa.target", Pack::Text("amdgcn-amd-amdhsa--gfx9999:xnack-")),
        ("amdhsa.kernels", Pack::Array(vec![])),
    ];
    let executable = read(&hsaco(0xF0, &Pack::Map(noted.into_iter().collect()).bytes())).unwrap();
    assert_eq!(executable.target.as_deref(), Some("gfx9999:xnack-"));
}

#[test]
fn signatures_of_ptx_are_read_as_compilers_write_them() {
    // As NVRTC: no pointers are marked, an aggregate, sizes that are required, memory of both kinds.
    let text = "// .entry no()\n/* .entry no() { */ .version 8.8\n.target sm_90a, debug\n.address_size 64\n\
        .extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n\
        .global .align 4 .b8 $str[4] = {37, 100, 10, 0};\n\
        .extern .shared .align 16 .b8 more[];\n.shared .align 4 .f32 tile[64];\n.shared .v2 .f32 unused;\n\
        .visible .entry _Z1fPfS_i9Aggregate(\n  .param .u64 a, .param .u64 .ptr .shared .align 4 b,\n\
        .param .u32 n, .param .align 8 .b8 all[24])\n.maxntid 256, 2, 1\n.reqntid 128\n.minnctapersm 2\n\
        .pragma \"nounroll }\";\n{ .reg .b64 %r<9>; mov.u64 %r1, tile; { .shared .b64 own; } }\n\
        .func helper(.param .u64 .ptr .shared x) { ret; }\n\
        .entry declared();\n.entry uses() { mov.u64 %r1, more; ret; }\n.entry calls() { call.uni helper; }\n";
    let executable = read(text.as_bytes()).unwrap();
    assert_eq!(executable.target.as_deref(), Some("sm_90a"));
    let [f, uses, calls] = &executable.functions[..] else { panic!("{executable:?}") };
    assert_eq!((&f.name[..], f.workgroup_size), ("_Z1fPfS_i9Aggregate", Some([128, 1, 1])));
    let parameters = f.parameters.as_ref().unwrap().iter().map(|it| (it.kind.clone(), it.offset, it.size));
    let (buffer, value) = (ParameterKind::Buffer, ParameterKind::Value);
    let expected = [(value.clone(), 0, 8), (buffer, 8, 8), (value.clone(), 16, 4), (value, 24, 24)];
    assert_eq!(parameters.collect::<Vec<_>>(), expected);
    // The one without a mark may be a pointer, too.
    assert_eq!((f.binding_count(), f.constant_count), (None, None));
    assert_eq!((f.static_memory_bytes, f.dynamic_memory_bytes), (Some(64 * 4 + 8), Some(0)));
    assert_eq!(
        (&uses.name[..], uses.static_memory_bytes, uses.dynamic_memory_bytes),
        ("uses", Some(0), None)
    );
    assert_eq!(
        (&calls.name[..], calls.static_memory_bytes, calls.dynamic_memory_bytes),
        ("calls", None, None)
    );
    // Without marks, all of 64 bits are bindings.
    let text = ".target sm_80\n.entry f(.param .u64 a, .param .u64 b, .param .f32 c) {}";
    let functions = read(text.as_bytes()).unwrap().functions;
    assert_eq!((functions[0].binding_count(), functions[0].constant_count), (Some(2), Some(1)));
    assert_eq!(functions[0].workgroup_size, None);
    // With marks on all, and variables that share a type.
    let text = ".target sm_80\n.shared .v2 .f32 x, y[3];\n.entry f(.param .u64 .ptr .global .align 16 a, .param .f32 b)\n\
        { .shared .align 4 .b8 c[4], d[12], e; mov.u32 %r1, y; }";
    let functions = read(text.as_bytes()).unwrap().functions;
    assert_eq!((functions[0].binding_count(), functions[0].constant_count), (Some(1), Some(1)));
    assert_eq!(functions[0].static_memory_bytes, Some(4 + 12 + 1 + 3 * 8));
    assert_eq!(refused(b"\x01\x02").field, ".target");
}
