//! Executables of programs and modules, and what replaces them.

use rehal::program::{
    ListedExecutable, ModuleExecutable, ModuleSource, Program, ProgramOptions, SubstitutedExecutable,
    replaced_functions, substitute_executables,
};
use rehal_base::{Result, StatusCode};
use rehal_devices::{ValueText, format_value};
use rehal_hal::NeededWorkgroups;
use rehal_replay::{Replacement, Selector, Substitution};
use rehal_vm::ModuleFile;

use crate::fixture;

const ADD: [&str; 2] = ["4xf32=1 2 3 4", "4xf32=10 20 30 40"];
/// The sum, of add4, and a hundred times the sum, of what replaces it.
const SUM: &str = "hal.buffer_view\n4xf32=11 22 33 44";
const HUNDREDFOLD: &str = "hal.buffer_view\n4xf32=1100 2200 3300 4400";
const FUNCTION: &str = "add_dispatch_0_elementwise_4_f32";

fn module(name: &str) -> ModuleFile {
    ModuleFile::copy(&std::fs::read(fixture(&format!("modules/{name}.vmfb"))).unwrap()).unwrap()
}

fn replaced(selector: Selector, file: &str) -> Vec<Substitution> {
    let file = Replacement::file(fixture(&format!("modules/{file}")));
    vec![Substitution::new(selector, file.with_workgroups(None, NeededWorkgroups::Same))]
}

fn named(name: &str, file: &str) -> Vec<Substitution> {
    replaced(Selector::Name(name.into()), file)
}

/// The sum and the product of add4, as text.
fn results(source: ModuleSource, substitutions: Vec<Substitution>) -> Result<Vec<String>> {
    let mut options = ProgramOptions::default();
    options.modules.push(source);
    options.substitutions = substitutions;
    let program = Program::load(&options)?;
    let call = |name: &str| {
        let function = program.function(name)?;
        let texts: Vec<_> = ADD.iter().map(|text| ValueText::new(text).unwrap()).collect();
        let mut results = program.call(&function, program.inputs(&function, &texts)?)?;
        program.to_host(&mut results)?;
        format_value(&results[0], 1024)
    };
    ["add", "mul"].into_iter().map(call).collect()
}

fn add4() -> ModuleSource {
    ModuleSource::File(fixture("modules/add4.vmfb"))
}

fn rewritten(
    module: &ModuleFile,
    substitutions: &[Substitution],
) -> Result<(Vec<u8>, Vec<SubstitutedExecutable>)> {
    substitute_executables(module, substitutions, &|_| Ok(()))
}

fn error(result: Result<Vec<String>>) -> (StatusCode, String) {
    let error = result.unwrap_err();
    (error.code(), error.report())
}

#[test]
fn executables_of_a_module_are_listed_with_their_functions() {
    let module = module("add4");
    let [executable] = &ModuleExecutable::list(&module).unwrap()[..] else { panic!("one executable") };
    assert_eq!((executable.number, executable.format.as_str()), (1, "embedded-elf-x86_64"));
    assert!(executable.code(&module).starts_with(b"\x7fELF"));
    let functions = executable.functions(&module).unwrap();
    assert_eq!(functions[0].name, FUNCTION);
    assert_eq!((functions.len(), functions[0].binding_count), (2, 3));
    assert_eq!(
        ModuleExecutable::list(&self::module("simple_abs.vmvx")).unwrap()[0].format,
        "vmvx-bytecode-fb"
    );
    // As a whole, of either kind.
    for own in ["add4", "add4.syslib"] {
        let all = replaced(Selector::Id(1), "add4_swapped.aarch64.elf");
        let error = rewritten(&self::module(own), &all).map(drop).unwrap_err();
        assert_eq!(error.code(), StatusCode::Incompatible, "{own}: {error}");
        assert!(error.message().contains("it is for arm_64, and the executable for x86_64"), "{error}");
    }
    let foreign = self::module("simple_abs.cuda");
    let executables = ModuleExecutable::list(&foreign).unwrap();
    assert_eq!(executables[0].format, "cuda-nvptx-fb");
    let [function] = &executables[0].functions(&foreign).unwrap()[..] else { panic!("one function") };
    let shape = (function.binding_count, function.constant_count, function.workgroup_size);
    assert_eq!((function.name.as_str(), shape), ("abs_dispatch_0_elementwise", (2, 0, [1, 1, 1])));
    let listed = ListedExecutable::of_module(&foreign).unwrap();
    assert_eq!(listed[0].target.as_deref(), Some("sm_80"));
    assert_eq!(ListedExecutable::of_module(&module).unwrap()[0].target.as_deref(), Some("x86_64"));
}

#[test]
fn a_program_runs_what_replaces_its_executables() {
    let own = results(add4(), Vec::new()).unwrap();
    assert_eq!(own[0], SUM);
    for selector in [Selector::All, Selector::Id(1)] {
        let both = results(add4(), replaced(selector, "add4_swapped.elf")).unwrap();
        assert_eq!(both[0], HUNDREDFOLD);
        assert_ne!(both[1], own[1]);
    }
    // Only the function of this name.
    let one = results(add4(), named(FUNCTION, "add4_swapped.elf")).unwrap();
    assert_eq!((one[0].as_str(), &one[1]), (HUNDREDFOLD, &own[1]));
    // Of another format, which the device infers.
    let library = results(add4(), named(FUNCTION, "add4_swapped.syslib.so")).unwrap();
    assert_eq!(library[0], HUNDREDFOLD);
}

#[test]
fn what_cannot_replace_an_executable_of_a_program_is_refused() {
    let (code, report) =
        error(results(add4(), named("add_dispatch_0_elementwise_5_f32", "add4_swapped.elf")));
    assert_eq!(code, StatusCode::NotFound);
    assert!(report.contains(&format!("did you mean {FUNCTION}?")), "{report}");
    let (code, report) = error(results(add4(), replaced(Selector::Id(7), "add4_swapped.elf")));
    assert!(
        code == StatusCode::NotFound && report.contains("executable 7 is not in the program"),
        "{report}"
    );
    let (_, report) = error(results(add4(), replaced(Selector::All, "add4_swapped.aarch64.elf")));
    assert!(report.contains("substitute"), "{report}");
    let other = Replacement::file(fixture("cts/affine.embedded.elf"));
    let (code, report) = error(results(add4(), vec![Substitution::new(Selector::All, other)]));
    assert!(
        code == StatusCode::NotFound && report.contains(&format!("it lacks functions '{FUNCTION}', 'mul_")),
        "{report}"
    );
    assert!(report.contains("affine.embedded.elf' for executable 1"), "{report}");
    let both = [named(FUNCTION, "add4_swapped.elf"), replaced(Selector::Id(1), "add4_swapped.elf")].concat();
    let (code, report) = error(results(add4(), both));
    assert!(code == StatusCode::InvalidArgument && report.contains("by its id and by"), "{report}");
    let twice = [named(FUNCTION, "add4_swapped.elf"), named(FUNCTION, "add4_swapped.elf")].concat();
    assert_eq!(error(results(add4(), twice)).0, StatusCode::InvalidArgument);
    let (code, _) = error(results(add4(), named(FUNCTION, "nothing.elf")));
    assert_eq!(code, StatusCode::NotFound);
}

#[test]
fn a_rewritten_module_runs_other_code() {
    let module = module("add4");
    for selector in [Selector::All, Selector::Id(1), Selector::Name("add4".into())] {
        let name = ModuleExecutable::list(&module).unwrap()[0].name();
        let selector = if let Selector::Name(_) = selector { Selector::Name(name) } else { selector };
        let (bytes, substituted) = rewritten(&module, &replaced(selector, "add4_swapped.elf")).unwrap();
        assert_eq!(substituted.len(), 1);
        let other = results(ModuleSource::Bytes(bytes.into()), Vec::new()).unwrap();
        assert_eq!(other[0], HUNDREDFOLD);
    }
}

/// Code of a compiler of programs does not say into how many workgroups it has divided the work.
#[test]
fn compiled_code_of_unknown_workgroups_is_refused() {
    let unknown = "its workgroup count is not known";
    let (counted, uncounted) = (replaced(Selector::All, "add4_swapped.elf"), |count: [u32; 3]| {
        let mut file = replaced(Selector::All, "add4_swapped.elf");
        file[0].replacement.workgroups = match count {
            [0, ..] => Vec::new(),
            count => vec![(None, NeededWorkgroups::Count(count))],
        };
        file
    });
    let module = module("add4");
    for (substitutions, refused) in [
        (&uncounted([0; 3]), Some(unknown)),
        (
            &uncounted([2, 1, 1]),
            Some(
                "add4_swapped.elf' needs 2x1x1 workgroups for 'add_dispatch_0_elementwise_4_f32', and the module dispatches 1x1x1",
            ),
        ),
        (&uncounted([1, 1, 1]), None),
        (&counted, None),
    ] {
        let outcome = rewritten(&module, substitutions).map(drop);
        match (outcome, refused) {
            (Ok(()), None) => {}
            (Err(error), Some(text)) => assert!(error.message().contains(text), "{error:?}"),
            (outcome, refused) => panic!("{outcome:?}, {refused:?}"),
        }
    }
    let (code, report) = error(results(add4(), uncounted([0; 3])));
    assert!(code == StatusCode::FailedPrecondition && report.contains(unknown), "{report}");
    assert_eq!(results(add4(), uncounted([1, 1, 1])).unwrap()[0], HUNDREDFOLD);
    // The code that it replaces has its workgroups.
    let own = ModuleExecutable::list(&module).unwrap()[0].code(&module).to_vec();
    let itself = vec![Substitution::new(Selector::All, Replacement::bytes(own))];
    assert_eq!(results(add4(), itself.clone()).unwrap()[0], SUM);
    rewritten(&module, &itself).unwrap();
}

#[test]
fn one_function_of_a_linked_executable_is_replaced() {
    for name in ["add4", "add4.syslib", "add4.memoized", "add4.x86_64_v3"] {
        let module = module(name);
        let own = results(ModuleSource::Bytes(module.bytes().into()), Vec::new()).unwrap();
        assert_eq!(own[0], SUM);
        let executable = ModuleExecutable::list(&module).unwrap().remove(0);
        let before = executable.code(&module);
        // Of either format: a library that needs no other one can be a part of an image.
        for file in ["add4_swapped.elf", "add4_swapped.syslib.so"] {
            let (bytes, _) = rewritten(&module, &named(FUNCTION, file)).unwrap();
            let other = ModuleFile::copy(&bytes).unwrap();
            let only = results(ModuleSource::Bytes(bytes.into()), Vec::new()).unwrap();
            assert_eq!((only[0].as_str(), &only[1]), (HUNDREDFOLD, &own[1]), "{name}, {file}");
            assert_eq!(executable.functions(&other).unwrap(), executable.functions(&module).unwrap());
            assert_eq!(replaced_functions(executable.code(&other)), [(0, file.to_owned())]);
            assert!(replaced_functions(before).is_empty());
            // All but the place of the headers, their number, and the address of the function.
            let after = &executable.code(&other)[..before.len()];
            let changed: Vec<_> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
            let entry = |at: &&usize| **at >= 64;
            let entries = changed.iter().filter(entry).count();
            assert!(entries > 0 && entries <= 8, "{name}: {changed:?}");
            let (first, last) = (changed.iter().find(entry), changed.last());
            assert!(last.unwrap() - first.unwrap() < 8, "{name}: {changed:?}");
            assert!(changed.iter().all(|at| *at >= 64 || matches!(at, 32..40 | 56..58)), "{changed:?}");
            // The other one is replaced after it, and the first again.
            let mul = executable.functions(&module).unwrap()[1].name.clone();
            let (bytes, _) = rewritten(&other, &named(&mul, "add4_swapped.elf")).unwrap();
            let again = ModuleFile::copy(&bytes).unwrap();
            let both = results(ModuleSource::Bytes(bytes.into()), Vec::new()).unwrap();
            assert!(both[0] == HUNDREDFOLD && both[1] != own[1], "{both:?}");
            assert_eq!(replaced_functions(executable.code(&again)).len(), 2);
            let (bytes, _) = rewritten(&again, &named(FUNCTION, "add4_swapped.elf")).unwrap();
            assert_eq!(results(ModuleSource::Bytes(bytes.into()), Vec::new()).unwrap(), both);
        }
        // Two at once, of one file and of two.
        let mul = executable.functions(&module).unwrap()[1].name.clone();
        let mut sizes = Vec::new();
        for file in ["add4_swapped.elf", "add4_swapped.syslib.so"] {
            let two = [named(FUNCTION, "add4_swapped.elf"), named(&mul, file)].concat();
            let (bytes, _) = rewritten(&module, &two).unwrap();
            sizes.push(bytes.len());
            let both = results(ModuleSource::Bytes(bytes.into()), Vec::new()).unwrap();
            assert!(both[0] == HUNDREDFOLD && both[1] != own[1], "{both:?}");
        }
        assert!(sizes[0] < sizes[1], "one file is added once: {sizes:?}");
    }
}

/// Without this test, the module may have PTX in the place of its executable, and lose its workgroup size.
#[test]
fn code_for_a_gpu_gets_the_container_of_the_executable() {
    let module = module("simple_abs.cuda");
    let executables = |module: &ModuleFile| ModuleExecutable::list(module).unwrap();
    let own = executables(&module).remove(0);
    let code = own.code(&module);
    let at = code.windows(16).position(|it| it == b"\n// Generated by").unwrap() - 2;
    let end = at + code[at..].iter().position(|it| *it == 0).unwrap();
    let text = str::from_utf8(&code[at..end]).unwrap();
    // As what is compiled from CUDA C: in memory, of another compiler, without a size.
    let text = text.replace("LLVM NVPTX", "another").replace(".maxntid", "// ");
    let ptx = Replacement::bytes(text.as_bytes()).named("k.cu").keep_missing();
    let name = own.functions(&module).unwrap().remove(0).name;
    for selector in [Selector::Name(name), Selector::Id(1), Selector::All] {
        let substitution = Substitution::new(selector, ptx.clone());
        let (bytes, substituted) = rewritten(&module, &[substitution]).unwrap();
        let other = ModuleFile::copy(&bytes).unwrap();
        let new = executables(&other).remove(0);
        assert_eq!(&new.code(&other)[..4], b"CDA1");
        assert_eq!(new.functions(&other).unwrap(), own.functions(&module).unwrap());
        assert!(new.code(&other).windows(text.len()).any(|it| it == text.as_bytes()));
        assert_eq!(substituted.len(), 1);
    }
}

#[test]
fn what_cannot_replace_an_executable_of_a_module_is_refused() {
    let module = module("add4");
    let refused = |substitutions: Vec<Substitution>, code: StatusCode, text: &str| {
        let outcome = rewritten(&module, &substitutions);
        let Err(error) = outcome else { panic!("{substitutions:?} is accepted") };
        let report = error.report();
        assert!(error.code() == code && report.contains(text), "{code:?}, {text}: {report}");
    };
    let mut library = replaced(Selector::All, "add4_swapped.syslib.so");
    library[0].replacement.format = Some("embedded-elf-arm_64".into());
    refused(library, StatusCode::Incompatible, "embedded-elf-arm_64");
    let twice = [named(FUNCTION, "add4_swapped.elf"), named(FUNCTION, "add4_swapped.syslib.so")].concat();
    refused(twice, StatusCode::InvalidArgument, "is substituted twice");
    refused(named(FUNCTION, "add4_swapped.aarch64.elf"), StatusCode::Incompatible, "it is for arm_64");
    refused(named(FUNCTION, "simple_abs.vmfb"), StatusCode::InvalidArgument, "module");
    let lacks = Replacement::file(fixture("cts/affine.embedded.elf"));
    let lacks = vec![Substitution::new(Selector::Name(FUNCTION.into()), lacks)];
    refused(lacks, StatusCode::NotFound, &format!("no function '{FUNCTION}'; it has: "));
    refused(named("nothing", "add4_swapped.elf"), StatusCode::NotFound, FUNCTION);
    refused(replaced(Selector::Id(2), "add4_swapped.elf"), StatusCode::NotFound, "executable 2");
    // As a whole, of either kind.
    for own in ["add4", "add4.syslib"] {
        let all = replaced(Selector::Id(1), "add4_swapped.aarch64.elf");
        let error = rewritten(&self::module(own), &all).map(drop).unwrap_err();
        assert_eq!(error.code(), StatusCode::Incompatible, "{own}: {error}");
        assert!(error.message().contains("it is for arm_64, and the executable for x86_64"), "{error}");
    }
    let foreign = self::module("simple_abs.cuda");
    let all = replaced(Selector::All, "add4_swapped.elf");
    let error = rewritten(&foreign, &all).map(drop).unwrap_err();
    assert!(error.message().starts_with("the code has the format 'embedded-elf-x86_64'"), "{error}");
    let without = self::module("values");
    assert_eq!(rewritten(&without, &all).map(drop).unwrap_err().code(), StatusCode::NotFound);
}
