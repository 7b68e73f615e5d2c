use rehal_base::StatusCode;
use rehal_vulkan::executable::format::{Image, check, infer};
use spirv::Op;

use crate::assembler::Module;
use crate::fixtures::{executables, named};

#[test]
fn truncated_executables_are_rejected() {
    for (path, bytes) in executables() {
        for length in (0..bytes.len()).step_by(29) {
            let cut = &bytes[..length];
            let is_module = path.extension().is_some_and(|it| it == "spv");
            let read = check::exercise(cut);
            // A module ends where its last instruction does.
            assert!(read == 0 || is_module, "{} at {length}", path.display());
        }
    }
}

#[test]
fn altered_executables_are_rejected_or_consistent() {
    let mut random = fastrand::Rng::with_seed(13);
    for (_, bytes) in executables() {
        for _ in 0..30 {
            let mut altered = bytes.clone();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(0..altered.len());
                altered[at] =
                    if random.bool() { random.u8(..) } else { altered[at] ^ (1 << random.u8(0..8)) };
            }
            check::exercise(&altered);
        }
        // Words of structure, in particular lengths and ids.
        for _ in 0..30 {
            let at = 4 * random.usize(0..bytes.len() / 4);
            let word: u32 = random.choice([0, u32::MAX, 1 << 16, 1 << 31]).unwrap_or(0);
            let mut altered = bytes.clone();
            altered[at..at + 4].copy_from_slice(&word.to_le_bytes());
            check::exercise(&altered);
        }
    }
}

fn refuse(format: &str, bytes: &[u8]) -> (StatusCode, String) {
    let error = Image::read(format, bytes).unwrap_err();
    (error.code(), error.message().to_owned())
}

#[test]
fn errors_name_what_is_wrong() {
    let good = named("affine.descriptors.vk1");
    assert_eq!(
        refuse("vulkan-spirv", &good),
        (
            StatusCode::NotFound,
            "the Vulkan driver has no executable format 'vulkan-spirv'; it has: vulkan-spirv-fb, vulkan-spirv-fb-ptr, \
             vulkan-spirv-bda-v1, vulkan-spirv-bda-raw, vulkan-spirv-raw"
                .to_owned()
        )
    );
    let (_, message) = refuse("vulkan-spirv-bda-v1", &good);
    assert!(
        message.contains("expected Addresses for format 'vulkan-spirv-bda-v1', found Descriptors"),
        "{message}"
    );
    let mut version = good.clone();
    version[4] = 2;
    let (code, message) = refuse("vulkan-spirv-fb", &version);
    assert_eq!((code, message.contains("version: expected 0, found 2")), (StatusCode::Unimplemented, true));
    assert_eq!(refuse("vulkan-spirv-fb", b"\x7fELF").0, StatusCode::DataLoss);
    assert_eq!(refuse("vulkan-spirv-fb", &[]).0, StatusCode::DataLoss);
    let entry = b"affine";
    let mut renamed = good.clone();
    let at = (0..good.len()).find(|at| good[*at..].starts_with(entry)).unwrap();
    renamed[at] = b'x';
    let (_, message) = refuse("vulkan-spirv-fb", &renamed);
    assert!(message.contains("PipelineDef.entry_point: expected one of: "), "{message}");
    assert_eq!(infer(b""), None);
    assert_eq!(infer(b"VKE1"), None);
}

#[test]
fn big_endian_modules_are_refused_by_name() {
    let swapped: Vec<u8> =
        Module::for_descriptors().words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let (code, message) = refuse("vulkan-spirv-raw", &swapped);
    assert_eq!((code, message.contains("big-endian")), (StatusCode::Unimplemented, true), "{message}");
}

#[test]
fn modules_that_unfold_are_refused_soon() {
    // Each entry point calls one function, which calls many that access many.
    let mut module = Module::for_descriptors();
    for id in 0..2000 {
        module = module.op_text(Op::EntryPoint, &[5, 100_000], &format!("e{id}"));
    }
    module = module.types();
    for id in 0..2000 {
        module = module.buffer(200_000 + id, 0, id);
    }
    module = module.function(100_000, |mut body| {
        for id in 0..2000 {
            body = body.load(300_000 + 2 * id, 200_000 + id);
        }
        body
    });
    let (_, message) = refuse("vulkan-spirv-raw", &module.bytes());
    assert!(message.contains("entry points that use at most"), "{message}");
}

#[test]
fn types_that_contain_themselves_have_no_size() {
    let module = Module::for_descriptors()
        .entry(20, "main")
        .types()
        .op(Op::TypeStruct, &[9, 9, 9, 9])
        .op(Op::TypePointer, &[10, 9, 9])
        .op(Op::Variable, &[10, 11, 9])
        .function(20, |body| body);
    let image = Image::read("vulkan-spirv-raw", &module.bytes()).unwrap();
    assert_eq!(image.functions()[0].constant_count, 0);
}
