use rehal_base::Fault;

use crate::builder::{Export, Pack, container, fatbin, hsaco};
use crate::{CUBIN, fixture, read, refused};
use rehal_formats::{ImageKind, fuzzing};

const PTX: &str = ".version 7.6\n.target sm_80\n.entry f() { ret; }\n";

fn with(export: Export) -> Vec<u8> {
    container(b"CDA1", &[PTX.as_bytes()], &[export])
}

#[test]
fn truncated_code_is_refused_wherever_it_ends() {
    for name in ["dynamic.cuda.cda1", "dynamic.hip.hip1", "dynamic.amdgpu.amd1", "dynamic.hip.hsaco"] {
        let bytes = fixture(name);
        assert!(fuzzing::exercise(&bytes) > 0, "{name}");
        for length in (0..bytes.len()).step_by(7) {
            let error = refused(&bytes[..length]);
            assert!(error.offset <= bytes.len() as u64, "{name} {length}: {error}");
        }
    }
    for length in 0..CUBIN.len() {
        assert!(read(&CUBIN[..length]).is_err(), "{length}");
    }
    assert_eq!(refused(&PTX.as_bytes()[..PTX.len() - 4]).fault, Fault::Truncated);
}

#[test]
fn overlapping_and_damaged_code_ends_in_an_error_or_is_read() {
    let mut random = fastrand::Rng::with_seed(43);
    for name in ["dynamic.cuda.cda1", "dynamic.hip.hip1", "dynamic.amdgpu.amd1", "dynamic.hip.hsaco"] {
        for _ in 0..2000 {
            let mut bytes = fixture(name);
            testing::mutate(&mut bytes, &mut random);
            fuzzing::exercise(&bytes);
        }
    }
    for _ in 0..2000 {
        let mut bytes = CUBIN.to_vec();
        testing::mutate(&mut bytes, &mut random);
        fuzzing::exercise(&bytes);
        fuzzing::exercise(&fatbin(&[(2, 80, &bytes)]));
    }
    // Two tables of a container at one place: the images are read as functions.
    let mut bytes = with(Export::default());
    let vector = |at: usize| at + u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
    let root = vector(64);
    let (exports, images) = (root + 4, root + 8);
    let distance = vector(images) - exports;
    bytes[exports..exports + 4].copy_from_slice(&(distance as u32).to_le_bytes());
    assert_eq!(refused(&bytes).fault, Fault::Corrupt);
}

#[test]
fn fields_of_containers_are_checked() {
    let case = |export: Export, field: &str, place: u64| {
        let error = refused(&with(export));
        assert_eq!((error.field, error.record), (field, Some(0)), "{error}");
        assert!(error.offset >= place, "{error}");
    };
    case(Export { module: 1, ..Export::default() }, "ExportDef.module_ordinal", 64);
    case(Export { name: "g".into(), ..Export::default() }, "name of a function", 64);
    case(Export { name: "f".repeat(65_536), ..Export::default() }, "name of a function", 64);
    case(Export { name: String::new(), ..Export::default() }, "name of a function", 64);
    case(Export { size: [1, 0, 1], ..Export::default() }, "workgroup size", 64);
    case(Export { constants: 65_536, ..Export::default() }, "ExportDef.constant_count", 64);
    case(Export { bindings: vec![1, 4], ..Export::default() }, "ExportDef.binding_flags", 72);
    case(Export { bindings: vec![0; 65_536], ..Export::default() }, "ExportDef.binding_flags", 64);
    assert_eq!(refused(&container(b"CDA1", &[PTX.as_bytes()], &[])).field, "ExecutableDef.exports");
    assert_eq!(refused(&container(b"CDA1", &[], &[Export::default()])).field, "ExportDef.module_ordinal");
    assert_eq!(refused(&container(b"CDA1", &[b""], &[Export::default()])).field, "ModuleDef.image");
    assert_eq!(
        refused(&container(b"HIP1", &[PTX.as_bytes()], &[Export::default()])).field,
        "ModuleDef.image"
    );
    assert_eq!(refused(b"HIP1 or not").field, "header");
    assert_eq!(refused(b"").field, "magic");
}

#[test]
fn errors_in_images_count_from_the_first_byte_of_the_container() {
    let mut bytes = with(Export::default());
    let at = bytes.windows(6).position(|it| it == b".entry").unwrap();
    bytes[at + 7] = 0xFF;
    assert_eq!((refused(&bytes).offset, refused(&bytes).expected.as_str()), (at as u64 + 7, "UTF-8"));
}

#[test]
fn ptx_is_checked() {
    let case = |text: &[u8], field: &str, at: usize| {
        let error = refused(text);
        assert_eq!((error.field, error.offset), (field, at as u64), "{error}");
    };
    case(b".version 7.6\n.target sm_80\n", ".entry", 27);
    case(b".entry f() {}", ".target", 13);
    case(b".target sm_80\n.entry f() {}\n.entry f() {}", ".entry", 28);
    case(b".target sm_80\n.entry f(\xFF) {}", "text", 23);
    case(b".target sm_80\n.entry f(.param .u64 a", "parameters", 36);
    case(b".target sm_80\n.entry f() { {", "body", 25);
    case(b".target sm_80\n.entry f() .maxntid 0 {}", "workgroup size", 33);
    case(b".target sm_80\n.entry f() .maxntid x {}", "workgroup size", 33);
    case(b".target sm_80\n.entry f(.param a) {}", ".param", 23);
    case(b".target sm_80\n.entry f() { .shared .b8 { }", ".shared", 39);
    let many = |count| format!(".target sm_80\n.entry f({}) {{}}", vec![".param .u32 a"; count].join(","));
    assert_eq!(read(many(8192).as_bytes()).unwrap().functions[0].constant_count, Some(8192));
    let error = refused(many(100_000).as_bytes());
    assert_eq!((error.field, error.fault), (".param", Fault::Unsupported));
    let error = refused(format!(".target sm_80\n.entry {}() {{}}", "f".repeat(65_536)).as_bytes());
    assert_eq!((error.field, error.offset), ("name of a kernel", 21));
}

#[test]
fn elf_files_are_checked() {
    let case = |at: usize, value: &[u8], field: &str, place: u64| {
        let mut bytes = CUBIN.to_vec();
        bytes[at..at + value.len()].copy_from_slice(value);
        let error = refused(&bytes);
        assert_eq!((error.field, error.offset), (field, place), "{error}");
    };
    let sections = u64::from_le_bytes(CUBIN[40..48].try_into().unwrap()) as usize;
    let beyond = CUBIN.len() as u64 + 1;
    case(4, &[1], "e_ident[EI_CLASS]", 4);
    case(5, &[2], "e_ident[EI_DATA]", 5);
    case(40, &beyond.to_le_bytes(), "e_shoff", beyond);
    case(58, &[1, 0], "e_shoff", sections as u64);
    // The offset of section 1.
    case(sections + 64 + 24, &beyond.to_le_bytes(), "sh_size", beyond);
    let mut bytes = fixture("dynamic.hip.hsaco");
    bytes[18] = 62;
    let error = rehal_formats::read_hip(&bytes).unwrap_err();
    assert_eq!((error.field, error.offset), ("magic", 0));
}

#[test]
fn notes_are_checked() {
    let case = |description: &[u8], field: &str| {
        let error = refused(&hsaco(0x54C, description));
        assert_eq!(error.field, field, "{error}");
        assert!((140..140 + 300_000).contains(&error.offset), "{error}");
    };
    // 2^32 - 1 keys, an array of as many kernels, and arrays nested 1,000 deep.
    case(&[0xDF, 0xFF, 0xFF, 0xFF, 0xFF], "key");
    let kernels = |description: &[u8]| [&[0x81, 0xAE][..], b"amdhsa.kernels", description].concat();
    case(&kernels(&[0xDD, 0xFF, 0xFF, 0xFF, 0xFF]), "amdhsa.kernels");
    case(&[&[0x81, 0xA1, b'x'][..], &[0x91; 1000], &[0xC0]].concat(), "metadata");
    let named = |name| Pack::Map(vec![(".name", Pack::Text(name))]).bytes();
    let twice = [&[0x92][..], &named("f"), &named("f")].concat();
    case(&kernels(&twice), ".name");
    case(&kernels(&[0x91, 0x80]), ".name");
    case(&kernels(&[0x91, 0x81, 0xA5, b'.', b'n', b'a', b'm', b'e', 0xA1, 0xFF]), ".name");
    let long: &'static str = Box::leak("f".repeat(65_535).into_boxed_str());
    case(&kernels(&[&[0x91][..], &named(long)].concat()), ".name");
    let argument = Pack::Map(vec![(".args", Pack::Array((0..40_000).map(|_| Pack::Map(vec![])).collect()))]);
    case(&kernels(&[&[0x91][..], &argument.bytes()].concat()), ".args");
    let sizes = Pack::Map(vec![(".reqd_workgroup_size", Pack::Array(vec![Pack::Number(4)]))]);
    case(&kernels(&[&[0x91][..], &sizes.bytes()].concat()), ".reqd_workgroup_size");
    // A note that ends beyond its segment, none, and one of code objects of version 2.
    let mut bytes = hsaco(0x54C, &[0x80]);
    bytes[124] = 200;
    assert_eq!((refused(&bytes).field, refused(&bytes).offset), ("note", 120));
    let mut bytes = hsaco(0x54C, &[0x80]);
    bytes[128] = 31;
    assert_eq!(refused(&bytes).field, "NT_AMDGPU_METADATA");
    let mut bytes = hsaco(0x54C, &[0x80]);
    bytes[120] = 4;
    bytes[124..140].copy_from_slice(b"\0\0\0\0\x0A\0\0\0AMD\0\0\0\0\0");
    assert_eq!((refused(&bytes).field, refused(&bytes).fault), ("metadata", Fault::Unsupported));
}

#[test]
fn fatbins_are_checked() {
    let case = |bytes: &[u8], field: &str, at: u64| {
        let error = refused(bytes);
        assert_eq!((error.field, error.offset), (field, at), "{error}");
    };
    // The seed of the fuzz target.
    let seed = include_bytes!("../data/f.fatbin");
    assert_eq!(fatbin(&[(1, 80, PTX.as_bytes())]), seed);
    assert!(fuzzing::exercise_image(ImageKind::Fatbin, seed));
    let second = 16 + 64 + CUBIN.len() as u64;
    case(&fatbin(&[(2, 80, CUBIN), (2, 90, CUBIN)]), "arch", second + 28);
    case(&fatbin(&[]), "entries", 16);
    case(&fatbin(&[(3, 80, CUBIN)]), "kind", 16);
    let mut bytes = fatbin(&[(2, 80, CUBIN)]);
    bytes[24] += 8;
    case(&bytes, "entry", 16);
    let mut bytes = fatbin(&[(2, 80, CUBIN)]);
    bytes[4] = 2;
    case(&bytes, "header", 4);
    let length = bytes.len();
    bytes[4] = 1;
    case(&bytes[..length - 1], "content size", 16);
    // What is compressed is not read: its kernels are unknown.
    bytes[16 + 41] = 0x20;
    case(&bytes, "image", 0);
    let executable = read(&container(b"CDA1", &[&bytes], &[Export::default()])).unwrap();
    assert_eq!((executable.target.as_deref(), &executable.functions[0].name[..]), (Some("sm_80"), "f"));
}
