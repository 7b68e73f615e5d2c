use std::cell::Cell;
use std::ops::RangeInclusive;

use rehal_base::StatusCode;
use rehal_formats::vulkan::{Feature, Image, ShaderSupport, check, infer};
use spirv::{Capability, Decoration, Op, StorageClass};

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
            "the executable is compiled for 'vulkan-spirv'; here: vulkan-spirv-fb, vulkan-spirv-fb-ptr, \
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

/// Drivers have tables of all bindings up to the largest number.
#[test]
fn bindings_with_large_numbers_are_refused() {
    let mut bytes = named("affine.descriptors.vk1");
    // Number, type, count and stages of the second binding, as the compiler lays them out.
    let words: Vec<u8> = [1_u32, 7, 1, 0x20].iter().flat_map(|word| word.to_le_bytes()).collect();
    let at = (0..bytes.len()).find(|at| bytes[*at..].starts_with(&words)).unwrap();
    for number in [4096_u32, u32::MAX] {
        bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        let (_, message) = refuse("vulkan-spirv-fb", &bytes);
        let expected = format!("binding: expected a number below 4096, found {number}");
        assert!(message.contains(&expected), "{message}");
    }
}

#[test]
fn push_constants_that_a_layout_lacks_are_refused() {
    for (name, format) in
        [("affine.descriptors.vk1", "vulkan-spirv-fb"), ("affine.addresses.vk1", "vulkan-spirv-bda-v1")]
    {
        let (mut bytes, mut refused) = (named(name), Vec::new());
        // Offsets of members of structs, of which some are push constants.
        let decorate = (5 << 16) | Op::MemberDecorate as u32;
        let words: Vec<_> = bytes.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        for (index, instruction) in words.windows(5).enumerate() {
            if instruction[0] == decorate && instruction[3] == Decoration::Offset as u32 {
                let at = 4 * (index + 4);
                bytes[at..at + 4].copy_from_slice(&4096_u32.to_le_bytes());
                refused.extend(Image::read(format, &bytes).err().map(|error| error.message().to_owned()));
                bytes[at..at + 4].copy_from_slice(&instruction[4].to_le_bytes());
            }
        }
        let expected = "push_constant_ranges: expected the ";
        assert!(refused.iter().any(|message| message.contains(expected)), "{name}: {refused:?}");
    }
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
    assert_eq!(image.functions()[0].constant_count, Some(0));
}

/// Reading it takes milliseconds to a second; in time of the product of two counts, it would take minutes.
fn read_soon(module: &Module) -> Image {
    let bytes = module.bytes();
    Image::read("vulkan-spirv-raw", &bytes).unwrap()
}

#[test]
fn many_members_of_many_variables_are_read_soon() {
    const COUNT: u32 = 40_000;
    let mut module = Module::for_descriptors().entry(100, "main").types();
    for member in 0..COUNT {
        module = module
            .op(Op::MemberDecorate, &[9, member, Decoration::NonWritable as u32])
            .op(Op::MemberDecorate, &[9, member, Decoration::NonReadable as u32]);
    }
    let members: Vec<_> = std::iter::once(9).chain(std::iter::repeat_n(3, COUNT as usize)).collect();
    module =
        module.op(Op::TypeStruct, &members).op(Op::TypePointer, &[10, StorageClass::StorageBuffer as u32, 9]);
    for variable in 0..COUNT {
        module = module.op(Op::Variable, &[10, 100_000 + variable, StorageClass::StorageBuffer as u32]);
    }
    let image = read_soon(&module.function(100, |body| body));
    assert_eq!(image.shaders[0].declared_resources().len(), 1);
}

#[test]
fn decorations_of_all_members_are_those_of_the_variable() {
    // The second member does not exist.
    for (members, is_writable) in [(vec![0], true), (vec![0, 1], false), (vec![0, 2], true)] {
        let mut module = Module::for_descriptors().entry(100, "main").types();
        for member in members {
            module = module.op(Op::MemberDecorate, &[9, member, Decoration::NonWritable as u32]);
        }
        let module = module
            .op(Op::TypeStruct, &[9, 3, 3])
            .op(Op::TypePointer, &[10, StorageClass::StorageBuffer as u32, 9])
            .op(Op::Variable, &[10, 30, StorageClass::StorageBuffer as u32])
            .function(100, |body| body.op(Op::AtomicIIncrement, &[3, 40, 30, 8, 8]));
        let image = Image::read("vulkan-spirv-raw", &module.bytes()).unwrap();
        let access = image.shaders[0].entry_points()[0].resources[0].access;
        assert_eq!((access.reads, access.writes), (true, is_writable));
    }
}

#[test]
fn many_entry_points_with_many_push_constants_are_read_soon() {
    let mut module = Module::for_descriptors();
    for entry in 0..16 << 10 {
        module = module.op_text(Op::EntryPoint, &[5, 100_000 + entry], &format!("e{entry}"));
    }
    module = module.types().op(Op::TypePointer, &[10, StorageClass::PushConstant as u32, 3]);
    for variable in 0..50_000 {
        module = module.op(Op::Variable, &[10, 200_000 + variable, StorageClass::PushConstant as u32]);
    }
    let image = read_soon(&module);
    assert_eq!(image.pipelines.len(), 16 << 10);
}

/// Has everything, and counts how often it is asked.
struct Counting(Cell<usize>);

impl ShaderSupport for Counting {
    fn supports(&self, _feature: Feature) -> bool {
        self.0.set(self.0.get() + 1);
        true
    }

    fn spirv_version(&self) -> (u8, u8) {
        (1, 6)
    }

    fn subgroup_sizes(&self) -> Option<RangeInclusive<u32>> {
        None
    }
}

#[test]
fn a_shader_is_checked_once_and_so_is_a_capability() {
    let mut module = Module::for_descriptors();
    for _ in 0..1000 {
        module = module.op(Op::Capability, &[Capability::Int64 as u32]).op_text(
            Op::Extension,
            &[],
            "SPV_KHR_terminate_invocation",
        );
    }
    for entry in 0..1000 {
        module = module.op_text(Op::EntryPoint, &[5, 100_000 + entry], &format!("e{entry}"));
    }
    let image = Image::read("vulkan-spirv-raw", &module.bytes()).unwrap();
    let device = Counting(Cell::new(0));
    image.check_device(&device).unwrap();
    assert_eq!(device.0.get(), 2);
    assert_eq!(image.shaders[0].extensions().len(), 1);
    assert_eq!(image.shaders[0].capabilities(), [Capability::Shader as u32, Capability::Int64 as u32]);
}
