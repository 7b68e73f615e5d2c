use rehal_formats::{
    Executable, Function, ImageKind, Replaced, read_amdgpu, read_cuda, read_hip, with_image,
};

use crate::builder::{Export, container};
use crate::{fixture, read};

/// The interface of a function that programs know.
fn interface(it: &Function) -> Function {
    let Function { name, export_name, workgroup_size, constant_count, bindings, .. } = it.clone();
    Function { name, export_name, workgroup_size, constant_count, bindings, ..Function::default() }
}

fn interfaces(it: &Executable) -> Vec<Function> {
    it.functions.iter().map(interface).collect()
}

fn images(it: &Executable) -> Vec<usize> {
    it.functions.iter().map(|it| it.image).collect()
}

#[test]
fn one_function_of_a_linked_executable_gets_a_module_of_its_own() {
    for (whole, image, read) in [
        ("dynamic.cuda.cda1", "dynamic.cuda.ptx", read_cuda as fn(&[u8]) -> _),
        ("dynamic.hip.hip1", "dynamic.hip.hsaco", read_hip),
    ] {
        let (whole, image) = (fixture(whole), fixture(image));
        let own = read(&whole).unwrap();
        assert_eq!(images(&own), [0, 0]);
        for (ordinal, places) in [(0, [1, 0]), (1, [0, 1])] {
            let which = Replaced::Function(&own.functions[ordinal].name);
            let other = with_image(&whole, &image, which).unwrap().unwrap();
            let found = read(&other).unwrap();
            assert_eq!((images(&found), interfaces(&found)), (places.to_vec(), interfaces(&own)));
            let code =
                |bytes: &[u8], it: &Executable, index: usize| bytes[it.images[index].bytes.clone()].to_vec();
            assert!(code(&other, &found, 0) == code(&whole, &own, 0));
            let is_text = own.images[0].kind == ImageKind::Ptx;
            let text = image.strip_suffix(b"\0").filter(|_| is_text).unwrap_or(&image);
            assert!(code(&other, &found, 1) == text);
            // The other one too: now its module has no function that stays.
            let which = Replaced::Function(&own.functions[1 - ordinal].name);
            let both = with_image(&other, &image, which).unwrap().unwrap();
            assert_eq!(read(&both).unwrap().images.len(), 2);
            assert_eq!(interfaces(&read(&both).unwrap()), interfaces(&own));
        }
        for which in [Replaced::Module, Replaced::Present] {
            let found = read(&with_image(&whole, &image, which).unwrap().unwrap()).unwrap();
            assert_eq!((images(&found), interfaces(&found)), (vec![0, 0], interfaces(&own)));
        }
    }
}

/// Functions for amdgpu do not name their module.
#[test]
fn functions_without_a_module_are_replaced_together() {
    let (whole, image) = (fixture("dynamic.amdgpu.amd1"), fixture("dynamic.amdgpu.hsaco"));
    let own = read_amdgpu(&whole).unwrap();
    let found = with_image(&whole, &image, Replaced::Module).unwrap().unwrap();
    assert_eq!(interfaces(&read_amdgpu(&found).unwrap()), interfaces(&own));
    let error = with_image(&whole, &image, Replaced::Function(&own.functions[0].name)).unwrap().unwrap_err();
    assert!(error.report().contains("name a file with all of its functions"), "{}", error.report());
}

const MODULE: &str = ".version 7.6\n.target sm_80\n.address_size 64\n";

fn ptx(kernels: &[(&str, &str)]) -> Vec<u8> {
    let kernel = |(name, parameters): &(&str, &str)| format!(".entry {name}({parameters}) {{ ret; }}\n");
    let kernels: String = kernels.iter().map(kernel).collect();
    format!("{MODULE}{kernels}").into_bytes()
}

const THREE: &str = ".param .u64 a, .param .u64 b, .param .u32 c";

#[test]
fn an_image_takes_the_place_of_modules_without_other_functions() {
    let export = |module, name: &str| Export {
        module,
        name: name.into(),
        export_name: Some(name.replace('_', ".")),
        constants: 1,
        bindings: vec![0, 3],
        ..Export::default()
    };
    let modules = [ptx(&[("a_1", THREE), ("b_1", THREE)]), ptx(&[("c_1", THREE)])];
    let exports = [export(1, "c_1"), export(0, "a_1"), export(0, "b_1"), export(0, "a_1")];
    let whole = container(b"CDA1", &[&modules[0], &modules[1]], &exports);
    let own = read(&whole).unwrap();
    for (kernels, which, expected, count) in [
        (&["a_1"][..], Replaced::Present, Some([1, 2, 0, 2]), 3),
        (&["a_1", "b_1"], Replaced::Present, Some([1, 0, 0, 0]), 2),
        (&["a_1", "b_1"], Replaced::Module, Some([1, 0, 0, 0]), 2),
        (&["c_1", "a_1"], Replaced::Module, Some([1, 1, 0, 1]), 2),
        (&["a_1", "b_1", "c_1"], Replaced::Module, Some([1, 0, 0, 0]), 2),
        (&["a_1", "c_1"], Replaced::Function("a_1"), Some([1, 2, 0, 2]), 3),
        // The name that programs look it up by.
        (&["a_1", "c_1"], Replaced::Function("c.1"), Some([1, 0, 0, 0]), 2),
        (&["a_1"], Replaced::Module, None, 0),
        (&["a_1"], Replaced::Function("b_1"), None, 0),
        (&["d_1"], Replaced::Present, None, 0),
    ] {
        let image: Vec<_> = kernels.iter().map(|name| (*name, THREE)).collect();
        let replaced = with_image(&whole, &ptx(&image), which).unwrap();
        let Some(expected) = expected else {
            let message = replaced.unwrap_err().message().to_owned();
            assert!(message.ends_with("and the executable has c_1, a_1, b_1, a_1"), "{message}");
            continue;
        };
        let found = read(&replaced.unwrap()).unwrap();
        assert_eq!((images(&found), found.images.len()), (expected.to_vec(), count), "{kernels:?} {which:?}");
        assert_eq!(interfaces(&found), interfaces(&own));
    }
}

#[test]
fn a_replacement_has_a_parameter_for_each_binding_and_constant() {
    let export = Export { constants: 1, bindings: vec![0, 3], ..Export::default() };
    let whole = container(b"CDA1", &[&ptx(&[("f", THREE)])], &[export]);
    let check = |parameters: &str| {
        let replaced = with_image(&whole, &ptx(&[("f", parameters)]), Replaced::Module).unwrap();
        replaced.map(drop).map_err(|error| error.message().to_owned())
    };
    assert_eq!(check(THREE), Ok(()));
    assert_eq!(check(".param .b64 a, .param .b64 b, .param .f32 c"), Ok(()));
    for (parameters, what) in [
        ("", "program=3 parameters replacement=0"),
        (".param .u64 a, .param .u64 b", "program=3 parameters replacement=2"),
        (".param .u64 a, .param .u64 b, .param .u32 c, .param .u32 d", "program=3 parameters replacement=4"),
        (".param .u64 a, .param .u32 b, .param .u32 c", "program=8 bytes of parameter 1 replacement=4"),
        (".param .u64 a, .param .u64 b, .param .u64 c", "program=4 bytes of parameter 2 replacement=8"),
    ] {
        assert_eq!(check(parameters), Err(format!("signature mismatch of function 'f': {what}")));
    }
}
