use rehal_formats::{Binding, Function, ImageKind, ParameterKind};

use crate::builder::{Export, container};
use crate::{fixture, read};

/// Name, workgroup size, bindings, constants and workgroup memory.
type Signature<'f> = (&'f str, [u32; 3], &'f [Binding], u16, Option<u32>);

fn signature(it: &Function) -> Signature<'_> {
    let bindings = it.bindings.as_deref().unwrap();
    (&it.name, it.workgroup_size.unwrap(), bindings, it.constant_count.unwrap(), it.dynamic_memory_bytes)
}

const READ: Binding = Binding { is_read_only: true, is_indirect: true };
const WRITTEN: Binding = Binding { is_read_only: false, is_indirect: true };
const FIRST: &str = "rows_dispatch_0_elementwise_D_f32";
const SECOND: &str = "rows_dispatch_1_reduction_DxD_f32";

#[test]
fn containers_of_the_compiler_have_its_functions() {
    let cuda = read(&fixture("dynamic.cuda.cda1")).unwrap();
    assert_eq!(cuda.target.as_deref(), Some("sm_80"));
    let signatures: Vec<_> = cuda.functions.iter().map(signature).collect();
    let bindings = [READ, READ, WRITTEN];
    let first = (FIRST, [32, 1, 1], &bindings[..], 4, Some(0));
    assert_eq!(signatures, [first, (SECOND, [1024, 1, 1], &bindings[1..], 6, Some(136))]);
    let [image] = &cuda.images[..] else { panic!("one image") };
    assert_eq!((image.kind, image.kind.extension()), (ImageKind::Ptx, "ptx"));

    let hip = read(&fixture("dynamic.hip.hip1")).unwrap();
    assert_eq!(hip.target.as_deref(), Some("gfx942"));
    let signatures: Vec<_> = hip.functions.iter().map(signature).collect();
    let first = (FIRST, [64, 1, 1], &bindings[..], 4, Some(0));
    assert_eq!(signatures, [first, (SECOND, [1024, 1, 1], &bindings[1..], 6, Some(0))]);

    let amdgpu = read(&fixture("dynamic.amdgpu.amd1")).unwrap();
    assert_eq!(amdgpu.target.as_deref(), Some("gfx942:sramecc+:xnack-"));
    let signatures: Vec<_> = amdgpu.functions.iter().map(signature).collect();
    let first = (FIRST, [64, 1, 1], &bindings[..], 4, None);
    assert_eq!(signatures, [first, (SECOND, [1024, 1, 1], &bindings[1..], 6, None)]);
}

#[test]
fn images_by_themselves_have_the_functions_of_their_container() {
    for (container, image, kind) in [
        ("dynamic.cuda.cda1", "dynamic.cuda.ptx", ImageKind::Ptx),
        ("dynamic.hip.hip1", "dynamic.hip.hsaco", ImageKind::Hsaco),
        ("dynamic.amdgpu.amd1", "dynamic.amdgpu.hsaco", ImageKind::Hsaco),
    ] {
        let (container, bytes) = (fixture(container), fixture(image));
        let (whole, bare) = (read(&container).unwrap(), read(&bytes).unwrap());
        assert_eq!(whole.images[0].kind, kind, "{image}");
        assert_eq!(&container[whole.images[0].bytes.clone()], bytes, "{image}");
        assert_eq!((bare.target, bare.functions.len()), (whole.target, whole.functions.len()), "{image}");
        for function in &whole.functions {
            let own = bare.functions.iter().find(|it| it.name == function.name).unwrap();
            assert_eq!(own.workgroup_size, function.workgroup_size, "{image}");
            assert_eq!(own.constant_count, function.constant_count, "{image}");
            assert_eq!(own.binding_count(), function.binding_count(), "{image}");
            assert_eq!(own.parameters, function.parameters, "{image}");
            assert_eq!(own.registers, function.registers, "{image}");
        }
    }
}

#[test]
fn a_hsaco_states_registers_memory_and_hidden_arguments() {
    let executable = read(&fixture("dynamic.hip.hsaco")).unwrap();
    for function in &executable.functions {
        let registers = function.registers.unwrap();
        assert!(registers.vector > 0 && registers.scalar > 0, "{registers:?}");
        assert!(function.static_memory_bytes.is_some());
        let parameters = function.parameters.as_ref().unwrap();
        let hidden = parameters.iter().filter(|it| matches!(it.kind, ParameterKind::Hidden(_)));
        let visible =
            function.bindings.as_ref().unwrap().len() + usize::from(function.constant_count.unwrap());
        assert_eq!(hidden.count() + visible, parameters.len());
        assert!(parameters.is_sorted_by(|a, b| a.offset + a.size <= b.offset), "{parameters:?}");
    }
}

const TWO: &[u8] = b".version 7.6\n.target sm_80\n.entry f() { ret; }\n.entry g() { ret; }\n";
const ONE: &[u8] = b".version 7.6\n.target sm_80\n.entry h() { ret; }\n";
const OTHER: &[u8] = b".version 7.6\n.target sm_90a\n.entry h() { ret; }\n";

#[test]
fn functions_are_in_several_modules_and_share_kernels() {
    let export = |module, name: &str, constants| Export {
        module,
        name: name.into(),
        constants,
        bindings: vec![0, 1, 2, 3],
        ..Export::default()
    };
    let exports = [export(1, "h", 1), export(0, "g", 2), export(0, "f", 3), export(0, "g", 4)];
    let executable = read(&container(b"CDA1", &[TWO, ONE], &exports)).unwrap();
    let places = executable.functions.iter().map(|it| (it.image, &it.name[..], it.constant_count.unwrap()));
    assert_eq!(places.collect::<Vec<_>>(), [(1, "h", 1), (0, "g", 2), (0, "f", 3), (0, "g", 4)]);
    let flags = executable.functions[0].bindings.as_ref().unwrap();
    let flags: Vec<_> = flags.iter().map(|it| (it.is_read_only, it.is_indirect)).collect();
    assert_eq!(flags, [(false, false), (true, false), (false, true), (true, true)]);
    assert_eq!(executable.target.as_deref(), Some("sm_80"));
    // Neither of two targets is that of the executable.
    let executable = read(&container(b"CDA1", &[TWO, OTHER], &exports)).unwrap();
    assert_eq!(executable.target, None);
    assert_eq!(executable.images[1].target.as_deref(), Some("sm_90a"));
}

#[test]
fn modules_of_spirv_are_named_only_by_their_container() {
    let spirv = [&0x0723_0203_u32.to_le_bytes()[..], &[0; 16]].concat();
    let executable = read(&container(b"HIP1", &[&spirv], &[Export::default()])).unwrap();
    assert_eq!((executable.images[0].kind, executable.target), (ImageKind::SpirV, None));
    assert_eq!((&executable.functions[0].name[..], executable.functions[0].registers), ("f", None));
}

#[test]
fn functions_for_cuda_may_have_a_name_beside_that_of_their_kernel() {
    let named = |name: &str| Export { export_name: Some(name.into()), ..Export::default() };
    let exports = [named("a.b"), named(""), Export::default()];
    let executable = read(&container(b"CDA1", &[TWO], &exports)).unwrap();
    let names = executable.functions.iter().map(|it| (&it.name[..], it.export_name.as_deref()));
    assert_eq!(names.collect::<Vec<_>>(), [("f", Some("a.b")), ("f", None), ("f", None)]);
    let error = read(&container(b"CDA1", &[TWO], &[named(&"x".repeat(1 << 20))])).unwrap_err();
    assert_eq!((error.field, error.record), ("ExportDef.name", Some(0)), "{error}");
}
