use std::ffi::{c_int, c_void};
use std::path::Path;
use std::sync::Arc;

use super::super::elf::{ARM_64, Image, X86_64};
use super::super::library::{Library, LoadOptions};
use super::super::{Dispatch, ImportProvider, ImportRequest, MemorySpan};
use super::view::{MAX_ADDRESS, View};
use super::*;

fn fixture(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name);
    std::fs::read(path).unwrap()
}

fn replace(original: &[u8], image: &[u8], functions: &[(u32, u32)]) -> rehal_base::Result<Vec<u8>> {
    let replaced =
        |(function, other): &(u32, u32)| OtherFunction { function: *function, image: 0, other: *other };
    let functions: Vec<_> = functions.iter().map(replaced).collect();
    replace_functions(original, true, &[OtherImage { bytes: image, name: "dir/other.so" }], &functions)
}

/// Files say what loading them tells.
#[test]
fn libraries_are_read_from_files() {
    let embedded = ["affine", "constants", "entry_points", "indirect", "workgroups"];
    for (name, format) in embedded
        .iter()
        .flat_map(|it| {
            [
                (format!("{it}.embedded.elf"), "embedded-elf-x86_64"),
                (format!("{it}.system.so"), "system-elf-x86_64"),
            ]
        })
        .chain(
            ["native.so", "imports.so", "prints.so", "chain.so"]
                .map(|it| (it.to_owned(), "system-elf-x86_64")),
        )
    {
        let bytes = fixture(&format!("cts/{name}"));
        let read = ElfLibrary::read(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        let constants = vec![0; read.constant_count as usize];
        let options = LoadOptions { constants: &constants, ..LoadOptions::default() };
        if !read.imports.is_empty() {
            continue;
        }
        // SAFETY: our fixtures.
        let loaded = unsafe { Library::load(format, &bytes, &options) }.unwrap();
        assert_eq!(
            (read.functions.as_slice(), read.name.as_str()),
            (loaded.functions(), loaded.name()),
            "{name}"
        );
        for (ordinal, pages) in (0..).zip(&read.local_memory_pages) {
            assert_eq!(loaded.local_memory_bytes(ordinal).unwrap(), u32::from(*pages) * 4096);
        }
    }
    assert_eq!(ElfLibrary::read(&fixture("cts/imports.so")).unwrap().imports.len(), 1);
}

#[test]
fn functions_of_other_machines_are_replaced() {
    let image = fixture("modules/add4_swapped.aarch64.elf");
    let own = ElfLibrary::read(&image).unwrap();
    let rewritten = replace(&image, &image, &[(0, 1)]).unwrap();
    let read = ElfLibrary::read(&rewritten).unwrap();
    assert_eq!((read.functions, read.addresses[1]), (own.functions, own.addresses[1]));
    // At the same place of a page, in a segment of its own, with the same instructions.
    let delta = read.addresses[0] - own.addresses[1];
    assert!(delta > 0 && delta.is_multiple_of(64 << 10), "{delta:#x}");
    let (before, after) = (View::read(&image).unwrap(), View::read(&rewritten).unwrap());
    assert_eq!(before.memory(own.addresses[1], 64), after.memory(read.addresses[0], 64));
    assert!(after.loads().all(|it| it.offset % it.align == it.vaddr % it.align));
    assert_eq!(read.replaced, [ReplacedBy { function: 0, source: "other.so".into() }]);
    let other = replace(&fixture("modules/add4_swapped.elf"), &image, &[(0, 1)]).unwrap_err();
    assert!(other.message().contains("it is for arm_64, and the executable for x86_64"), "{other}");
}

/// Adapters are at the end of an image, so that their code is all of its segment.
#[test]
fn imports_are_found_by_their_names() {
    let image = fixture("cts/imports.so");
    let own = ElfLibrary::read(&image).unwrap();
    let same = replace_functions(
        &image,
        false,
        &[OtherImage { bytes: &image, name: "a" }],
        &[OtherFunction { function: 0, image: 0, other: 0 }],
    );
    let read = ElfLibrary::read(&same.unwrap()).unwrap();
    assert_eq!((&read.imports, read.addresses[0] % 4096), (&own.imports, own.addresses[0] % 4096));
    let code = adapter::code(X86_64, 0x1000, 0x2000, &[2, 0]).unwrap();
    // The call is relative to its end.
    let call = code.iter().rposition(|it| *it == 0xE8).unwrap();
    let distance = i32::from_le_bytes(code[call + 1..call + 5].try_into().unwrap());
    assert_eq!(0x1000 + call as i64 + 5 + i64::from(distance), 0x2000);
    assert!(code.ends_with(&[0xC9, 0xC3]));
    let code = adapter::code(ARM_64, 0x1000, 0x2000, &[2, 0]).unwrap();
    let words: Vec<_> = code.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect();
    let call = words.iter().position(|it| it >> 26 == 0x25).unwrap();
    assert_eq!(0x1000 + call as u64 * 4 + u64::from(words[call] & 0x3FF_FFFF) * 4, 0x2000);
}

/// A call has a distance of 32 bits, or of 28 whose lowest two are zero.
#[test]
fn adapters_call_what_is_near() {
    let at = 1_u64 << 40;
    for (machine, near, far) in [
        (X86_64, &[-0x7FFF_F000_i64, -4096, 4096, 0x7FFF_FFFF][..], &[-0x8000_0000, 0x8000_1000][..]),
        (ARM_64, &[-0x7FF_F000, -4096, 4096, 0x800_0000], &[-0x800_0000, 0x800_1000, 4098, 1 << 40]),
    ] {
        for distance in near {
            let target = at.wrapping_add_signed(*distance);
            let code = adapter::code(machine, at, target, &[1]).unwrap();
            assert_eq!(adapter::target(machine, at, &code), Some(target), "{distance}");
            assert_eq!(adapter::target(machine, at, &code[..code.len() - 1]), None);
        }
        for distance in far {
            let error =
                adapter::code(machine, at, at.wrapping_add_signed(*distance), &[1]).map(drop).unwrap_err();
            assert!(error.message().contains("is too far from 0x10000000000"), "{error}");
        }
    }
}

#[test]
fn images_are_alike_if_one_loads_in_place_of_the_other() {
    let own = adding("", &["-nostdlib"]);
    let constructor = "__attribute__((constructor)) static void one(void) { amount = 1; }";
    let math = adding(
        "float erff(float);\nstatic int get(void) { volatile float x = 9; return erff(x); }\n#define amount get()",
        &[],
    );
    for (is_embedded, other, is_alike) in [
        (true, own.clone(), true),
        (true, adding(constructor, &["-nostdlib"]), false),
        (false, adding(constructor, &["-nostdlib"]), true),
        (true, math.clone(), false),
        (false, math, true),
        (false, fixture("modules/add4_swapped.aarch64.elf"), false),
        (false, fixture("recipe.toml"), false),
    ] {
        assert_eq!(loads_alike(&own, is_embedded, &other), is_alike, "{is_embedded}");
    }
}

/// The oldest version is bound without one.
#[test]
fn imports_keep_their_versions() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let versions = "int v1(void) { return 1; }\nint v2(void) { return 2; }\nint more(void) { return 40; }\n\
        __asm__(\".symver v1,v@V1\");\n__asm__(\".symver v2,v@@V2\");\n";
    std::fs::write(path("v.c"), versions).unwrap();
    std::fs::write(path("v.map"), "V1 { };\nV2 { } V1;\nV3 { more; };\n").unwrap();
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-nostdlib"]).arg(format!("-Wl,--version-script={}", path("v.map")));
    assert!(cc.arg("-o").arg(path("libv.so")).arg(path("v.c")).status().unwrap().success());
    let linked = ["-Wl,--no-as-needed", &*path("libv.so")];
    let with_libc = [&linked[..], &["-lc", "-lm"]].concat();
    let newest = adding("int v(void); int more(void);\n#define amount v() + more()", &linked);
    let oldest = "int v(void);\n__asm__(\".symver v,v@V1\");\n#define amount v()";
    for own in [adding("", &["-nostdlib"]), adding(oldest, &with_libc), newest.clone()] {
        let rewritten = replace_system(&own, &newest).unwrap();
        assert_eq!(sums_as("system-elf-x86_64", &rewritten), [142]);
        // Of both, one after the other.
        let rewritten = replace_system(&rewritten, &adding(oldest, &linked)).unwrap();
        assert_eq!(sums_as("system-elf-x86_64", &rewritten), [101]);
    }
}

/// A library of many functions of one name and of the same parameters.
fn repeated(count: usize, name_bytes: usize, parameters: usize) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let (source, library) = (directory.path().join("l.c"), directory.path().join("l.so"));
    let last = count - 1;
    let text = format!(
        "#include \"library.h\"\nint f(const environment_t *e, const dispatch_t *d, const workgroup_t *w) {{ return 0; }}\n\
         static const char name[{name_bytes} + 1] = {{[0 ... {name_bytes} - 1] = 'n'}};\n\
         static const uint64_t words[{parameters} + 1];\n\
         static const header_t header = {{6, \"l\", 0, 0}};\n\
         static const kernel_t functions[] = {{[0 ... {last}] = f}};\n\
         static const attributes_t attributes[] = {{[0 ... {last}] = {{.size_x = 1, .parameter_count = {parameters}}}}};\n\
         static const char *const names[] = {{[0 ... {last}] = name}};\n\
         static const void *const parameters[] = {{[0 ... {last}] = words}};\n\
         static const library_t library = {{.header = &header, .exports = {{.count = {count}, .functions = functions,\n\
         .attributes = attributes, .names = names, .parameters = parameters}}}};\n\
         EXPORTED const library_t *iree_hal_executable_library_query(uint32_t v, const environment_t *e) {{\n\
         return &library; }}\n"
    );
    std::fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cts");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-nostdlib", "-w", "-I"]).arg(include);
    assert!(cc.arg("-o").arg(&library).arg(&source).status().unwrap().success());
    std::fs::read(library).unwrap()
}

#[test]
fn small_files_with_large_contents_are_refused() {
    assert_eq!(ElfLibrary::read(&repeated(20_000, 30, 2)).unwrap().functions.len(), 20_000);
    let read = ElfLibrary::read(&repeated(2, 4096, 60_000)).unwrap();
    assert_eq!((read.functions[1].name.len(), read.functions[1].parameters.len()), (4096, 60_000));
    for (count, name_bytes, parameters, text) in [
        (2, 4097, 0, "a name of more than 4096 bytes"),
        (20_000, 2 << 20, 0, "a name of more than 4096 bytes"),
        (20_000, 4096, 0, "several times the size of the file"),
        (20_000, 4, 60_000, "several times the size of the file"),
    ] {
        let error = ElfLibrary::read(&repeated(count, name_bytes, parameters)).map(drop).unwrap_err();
        assert!(error.message().contains(text), "{error}");
    }
    // Each of its segments is padded.
    let image = fixture("modules/add4_swapped.elf");
    let mut segments = image.clone();
    while View::read(&segments).unwrap().loads().count() <= 64 {
        segments = replace(&segments, &image, &[(0, 1)]).unwrap();
    }
    assert!(replace(&segments, &image, &[(0, 1)]).is_ok());
    let error = replace(&image, &segments, &[(0, 1)]).map(drop).unwrap_err();
    assert!(error.message().contains("segments to load, and up to 64 are added"), "{error}");
}

/// Imports that each add a number, by name.
struct Adds;

impl ImportProvider for Adds {
    fn resolve(&self, request: &mut ImportRequest) -> rehal_base::Result<()> {
        unsafe extern "C" fn add(params: *mut c_void, context: *mut c_void, _: *mut c_void) -> c_int {
            // SAFETY: the library below passes an integer.
            unsafe { *params.cast::<i32>() += context as i32 };
            0
        }
        for index in 0..request.count() {
            let amount = request.name(index).to_bytes()[0] - b'a' + 1;
            request.set(index, add, amount as *mut c_void);
        }
        Ok(())
    }
}

/// A library whose functions add what its imports add, in their order.
fn with_imports(imports: &[&str], calls: &[usize]) -> Vec<u8> {
    let function = |(index, import): (usize, &usize)| {
        format!(
            "static int f{index}(const environment_t *e, const dispatch_t *d, const workgroup_t *w) {{\n\
             return e->thunk(e->imports[{import}], d->bindings[0], (void *)e->contexts[{import}], 0); }}\n"
        )
    };
    let functions: String = calls.iter().enumerate().map(function).collect();
    library(&functions, imports, calls.len(), &["-nostdlib"])
}

/// A library of functions `f0`, `f1` and so on, of one binding each.
fn library(text: &str, imports: &[&str], count: usize, flags: &[&str]) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let names = imports.iter().map(|it| format!("\"{it}\", ")).collect::<String>();
    let each = |one: &dyn Fn(usize) -> String| (0..count).map(one).collect::<String>();
    let text = format!(
        "#include \"library.h\"\n{text}\n\
         static const header_t header = {{6, \"l\", 0, 0}};\n\
         static const char *const symbols[] = {{{names}}};\n\
         static const kernel_t functions[] = {{{}}};\n\
         static const attributes_t attributes[] = {{{}}};\n\
         static const char *const names[] = {{{}}};\n\
         static const library_t library = {{.header = &header, .imports = {{{}, symbols}}, .exports = {{.count = {},\n\
         .functions = functions, .attributes = attributes, .names = names}}}};\n\
         EXPORTED const library_t *iree_hal_executable_library_query(uint32_t v, const environment_t *e) {{\n\
         return &library; }}\n",
        each(&|it| format!("f{it}, ")),
        each(&|_| "{.binding_count = 1, .size_x = 1, .size_y = 1, .size_z = 1}, ".into()),
        each(&|it| format!("\"f{it}\", ")),
        imports.len(),
        count,
    );
    let (source, library) = (directory.path().join("l.c"), directory.path().join("l.so"));
    std::fs::write(&source, text).unwrap();
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/cts");
    let mut cc = std::process::Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wl,--hash-style=both", "-w", "-I"]).arg(include).args(flags);
    assert!(cc.arg("-o").arg(&library).arg(&source).arg("-lm").status().unwrap().success());
    std::fs::read(library).unwrap()
}

/// The sums of 100 and the numbers that the functions of a library add.
fn sums(library: &[u8]) -> Vec<i32> {
    sums_as("embedded-elf-x86_64", library)
}

fn sums_as(format: &str, library: &[u8]) -> Vec<i32> {
    let providers: [Arc<dyn ImportProvider>; 1] = [Arc::new(Adds)];
    let options = LoadOptions { providers: &providers, ..LoadOptions::default() };
    // SAFETY: the library above.
    let library = unsafe { Library::load(format, library, &options) }.unwrap();
    let sum = |ordinal: usize| {
        let mut value = 100;
        let binding = MemorySpan { pointer: (&raw mut value).cast(), length_bytes: 4 };
        let dispatch = Dispatch { bindings: &[binding], workgroup_size: [1; 3], ..Dispatch::default() };
        // SAFETY: it writes to the one binding, which has 4 bytes.
        unsafe { library.dispatch(ordinal as u32, dispatch) }.unwrap();
        value
    };
    (0..library.function_count()).map(sum).collect()
}

/// Code finds its imports by their indices, which are others in the executable.
#[test]
fn functions_with_other_imports_call_the_right_ones() {
    let own = with_imports(&["a", "c", "d"], &[0, 1, 2]);
    assert_eq!(sums(&own), [101, 103, 104]);
    // Of the same imports, of some, and of one more, which is the last.
    for (imports, calls, wanted) in [
        (&["a", "c", "d"][..], &[2, 1][..], [104, 103, 104]),
        (&["c", "d"], &[1, 0], [104, 103, 104]),
        (&["d"], &[0, 0], [104, 104, 104]),
        (&["c", "z"], &[1, 0], [126, 103, 104]),
        (&[], &[][..], [101, 103, 104]),
    ] {
        let replaced: &[(u32, u32)] = if calls.is_empty() { &[] } else { &[(0, 0), (1, 1)] };
        let other = if calls.is_empty() { own.clone() } else { with_imports(imports, calls) };
        let rewritten = replace(&own, &other, replaced).unwrap();
        assert_eq!(sums(&rewritten), wanted, "{imports:?}");
    }
    // Plugins rely on the order of names.
    let error = replace(&own, &with_imports(&["b"], &[0]), &[(0, 0)]).map(drop).unwrap_err();
    assert!(error.message().contains("imports 'b', which the executable does not"), "{error}");
}

/// Adds what `text` leaves in `amount`.
fn adding(text: &str, flags: &[&str]) -> Vec<u8> {
    let f0 = "static int f0(const environment_t *e, const dispatch_t *d, const workgroup_t *w) { return *(int *)d->bindings[0] += amount, 0; }";
    library(&format!("static int amount;\n{text}\n{f0}"), &[], 1, flags)
}

fn replace_system(original: &[u8], image: &[u8]) -> rehal_base::Result<Vec<u8>> {
    let function = OtherFunction { function: 0, image: 0, other: 0 };
    replace_functions(original, false, &[OtherImage { bytes: image, name: "other.so" }], &[function])
}

/// One of a priority comes before that of the start files.
#[test]
fn all_initializers_are_called() {
    let first = "__attribute__((constructor(101))) static void first(void) { amount = 7; }";
    let second = "__attribute__((constructor)) static void second(void) { amount = amount * 2 + 20; }";
    let one = "__attribute__((constructor)) static void one(void) { amount = 1; }";
    for own in [adding(one, &[]), adding("", &[]), adding(one, &["-nostartfiles"])] {
        for (text, sum) in [(first, 107), (second, 120), (&format!("{first}{second}"), 134)] {
            for flags in [&[][..], &["-nostartfiles"]] {
                let rewritten = replace_system(&own, &adding(text, flags)).unwrap();
                assert_eq!(sums_as("system-elf-x86_64", &rewritten), [sum], "{text}");
            }
        }
    }
    // Before it is unloaded.
    let directory = tempfile::tempdir().unwrap();
    let mark = directory.path().join("mark");
    let last = format!(
        "int creat(const char *, unsigned);\n\
         __attribute__((destructor(101))) static void last(void) {{ creat(\"{}\", 0600); }}",
        mark.display()
    );
    let rewritten = replace_system(&adding(one, &[]), &adding(&last, &[])).unwrap();
    assert!(sums_as("system-elf-x86_64", &rewritten) == [100] && mark.exists());
    // Nothing calls them in an embedded image.
    let own = adding("", &["-nostdlib"]);
    for flags in [&[][..], &["-nostartfiles"]] {
        assert!(replace(&own, &adding("", flags), &[(0, 0)]).is_ok());
        let error = replace(&own, &adding(first, flags), &[(0, 0)]).map(drop).unwrap_err();
        assert!(error.message().contains("it has initializers"), "{error}");
    }
}

/// Images that a linker has placed at high addresses move down to those of the executable.
#[test]
fn images_of_high_addresses_are_added() {
    let constant = "static int *volatile from = &amount; static int get(void) { return *from + 5; }\n#define amount get()";
    let low = adding(constant, &["-nostdlib"]);
    for base in ["0x40000000", "0x200000000000"] {
        let flag = format!("-Wl,-Ttext-segment={base}");
        let high = adding(constant, &["-nostdlib", &flag]);
        for (own, other) in [(&low, &high), (&high, &low), (&high, &high)] {
            let read = ElfLibrary::read(other).unwrap();
            let rewritten = replace(own, other, &[(0, 0)]).unwrap();
            assert_eq!(sums(&rewritten), [105], "{base}");
            assert_eq!(ElfLibrary::read(&rewritten).unwrap().addresses[0] % 4096, read.addresses[0] % 4096);
            let rewritten = replace_system(own, other).unwrap();
            assert_eq!(sums_as("system-elf-x86_64", &rewritten), [105], "{base}");
        }
    }
}

#[test]
fn what_is_named_twice_or_overlaps_is_refused() {
    let image = fixture("modules/add4_swapped.elf");
    let count = ElfLibrary::read(&image).unwrap().functions.len() as u32;
    let refused = |functions: &[(u32, u32)], text: &str| {
        let error = replace(&image, &image, functions).map(|it| it.len()).unwrap_err();
        assert!(error.message().contains(text), "{error}");
    };
    refused(&[(0, 0), (0, 1)], "is replaced twice");
    refused(&[(count, 0)], &format!("has {count} functions"));
    refused(&[(0, count)], "fewer functions");
    // The second segment begins in the first.
    let mut overlapping = image.clone();
    let loads: Vec<_> = (0..6).map(|it| 64 + it * 56).filter(|at| overlapping[*at] == 1).collect();
    overlapping[loads[1] + 16..loads[1] + 24].copy_from_slice(&16u64.to_le_bytes());
    let error = replace(&overlapping, &image, &[(0, 0)]).unwrap_err();
    assert!(error.message().contains("its segments overlap at 0x10"), "{error}");
    let error = replace(b"\x7fELF", &image, &[(0, 0)]).unwrap_err();
    assert!(error.message().contains("not an ELF image"), "{error}");
}

/// Headers are at the end of the file, so that any number fits.
#[test]
fn functions_are_replaced_many_times() {
    let image = fixture("modules/add4_swapped.elf");
    let own = ElfLibrary::read(&image).unwrap();
    let mut rewritten = image.clone();
    for _ in 0..5 {
        rewritten = replace(&rewritten, &image, &[(0, 1), (1, 0)]).unwrap();
    }
    let read = ElfLibrary::read(&rewritten).unwrap();
    assert_eq!((&read.functions, read.replaced.len()), (&own.functions, 2));
    assert!(read.addresses.iter().zip(&own.addresses).take(2).all(|(is, was)| is > was));
    assert!(Image::parse(&rewritten).is_ok());
}

/// No bytes of a file lead to a panic or an address without end.
#[test]
fn damaged_files_are_errors() {
    let image = fixture("modules/add4_swapped.elf");
    for length in (0..image.len()).step_by(61) {
        let _ = replace(&image[..length], &image, &[(0, 0)]);
        let _ = replace(&image, &image[..length], &[(0, 0)]);
    }
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..4000 {
        let mut damaged = image.clone();
        for _ in 0..random.usize(1..4) {
            // Mostly of headers and tables.
            let end = if random.bool() { 0x700.min(image.len()) } else { image.len() };
            let at = random.usize(0..end);
            damaged[at] = if random.bool() { random.u8(..) } else { damaged[at] ^ (1 << random.u8(0..8)) };
        }
        for (original, other) in [(&damaged, &image), (&image, &damaged)] {
            if let Ok(bytes) = replace(original, other, &[(0, 0)]) {
                let view = View::read(&bytes).unwrap();
                assert!(view.loads().all(|it| it.end() < MAX_ADDRESS));
                assert!(bytes.len() < 64 * image.len(), "{}", bytes.len());
            }
        }
    }
}

/// Also in another image, at another address. What cannot be told is not the same.
#[test]
fn a_function_is_the_same_code_wherever_it_is() {
    let [workgroups, native] =
        ["workgroups.embedded.elf", "native.so"].map(|it| fixture(&format!("cts/{it}")));
    let count = |bytes: &[u8]| ElfLibrary::read(bytes).unwrap().functions.len() as u32;
    let (mut same_count, mut moved_count) = (0, 0);
    for function in 0..count(&workgroups) {
        let is_same = is_same_code((&workgroups, function), (&workgroups, function));
        same_count += u32::from(is_same);
        let moved = replace(&native, &workgroups, &[(0, function)]).unwrap();
        let is_moved = is_same_code((&workgroups, function), (&moved, 0));
        assert!(is_same || !is_moved);
        moved_count += u32::from(is_moved);
        assert!(!is_same_code((&native, 0), (&moved, 0)), "{function}");
        assert!(!is_same_code((&workgroups, function), (&native, 0)), "{function}");
    }
    assert!(same_count > 0 && moved_count > 0, "{same_count} {moved_count}");
    // Each byte of the first instructions counts.
    let entry = ElfLibrary::read(&workgroups).unwrap().addresses[0];
    let at = View::read(&workgroups).unwrap().file_offset(entry, 1).unwrap() as usize;
    for byte in at..at + 16 {
        let mut changed = workgroups.clone();
        changed[byte] ^= 1;
        assert!(!is_same_code((&workgroups, 0), (&changed, 0)), "{byte}");
    }
    assert!(!is_same_code((&workgroups, 999), (&workgroups, 999)));
    assert!(!is_same_code((b"no image", 0), (b"no image", 0)));
    // With other imports, the same call is of another function.
    let imports = fixture("cts/imports.so");
    const NAME: &[u8] = b"rehal_fixture_scale\0";
    let at = imports.windows(NAME.len()).position(|it| it == NAME).unwrap();
    let mut renamed = imports.clone();
    renamed[at] = b'x';
    assert_eq!(ElfLibrary::read(&renamed).unwrap().imports, ["xehal_fixture_scale"]);
    assert!(is_same_code((&imports, 0), (&imports, 0)));
    assert!(!is_same_code((&imports, 0), (&renamed, 0)));
}
