//! Executables in the text of a program, as the compiler prints it without aliases.

use rehal_base::{Error, Result};
use serde::Serialize;

/// An executable that the compiler has cut out of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProgramExecutable {
    /// Its name.
    pub name: String,
    /// Its code for each target.
    pub variants: Vec<ExecutableVariant>,
    /// All of it.
    pub(super) text: String,
}

/// The code of an executable for a target.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExecutableVariant {
    /// Its name.
    pub name: String,
    /// The target as the compiler prints it.
    pub target: String,
    /// The format of its binary, such as `embedded-elf-x86_64`.
    pub format: String,
    /// Whether it links objects.
    pub has_objects: bool,
    /// Its functions.
    pub functions: Vec<ExecutableFunction>,
    /// The names of the functions that its module defines.
    pub(super) bodies: Vec<String>,
}

/// A function of an executable, as the program calls it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ExecutableFunction {
    /// Its name.
    pub name: String,
    /// Its index in the executable.
    pub ordinal: u32,
    /// Number of 32-bit constants.
    pub constants: u32,
    /// Type and flags of each binding.
    pub bindings: Vec<String>,
    /// Number of values from which the program computes workgroup counts.
    #[serde(skip)]
    pub workload: usize,
    /// How it computes them.
    #[serde(skip)]
    pub workgroup_count: String,
    /// The bytes of each binding up to the end of what it accesses there, if all of that is constant.
    #[serde(skip)]
    pub binding_bytes: Vec<Option<u64>>,
    /// The bits of an element of each binding, if these are known and the same wherever it accesses it.
    #[serde(skip)]
    pub(super) element_bits: Vec<Option<u64>>,
    /// The operation that exports it.
    #[serde(skip)]
    pub(super) text: String,
    /// Its layout as operations have it.
    #[serde(skip)]
    pub(super) layout: String,
}

/// The name of the program's module; the one that files of unnamed modules have if it has none.
pub(super) fn module_name(text: &str) -> String {
    let line = text.lines().find(|line| line.starts_with("module"));
    let name = line.and_then(|line| symbol(line.strip_prefix("module")?.trim_start()));
    name.unwrap_or_else(|| "module".into())
}

/// A text without comments, which the compiler does not print.
pub(super) fn without_comments(text: &str) -> String {
    let uncommented = |line: &'_ str| {
        let (mut is_quoted, mut before) = (false, ' ');
        let at = line.char_indices().find(|(_, it)| {
            is_quoted ^= *it == '"' && before != '\\';
            let begins = !is_quoted && *it == '/' && before == '/';
            before = *it;
            begins
        });
        line[..at.map_or(line.len(), |(at, _)| at - 1)].trim_end().to_owned() + "\n"
    };
    text.lines().map(uncommented).collect()
}

/// The executables in the text of a program.
pub(super) fn executables(text: &str) -> Vec<ProgramExecutable> {
    let of = |operation: Operation<'_>| {
        let variants = operations(operation.body, "hal.executable.variant").filter_map(variant);
        ProgramExecutable {
            name: operation.name,
            variants: variants.collect(),
            text: operation.text.to_owned(),
        }
    };
    operations(text, "hal.executable").map(of).collect()
}

fn variant(operation: Operation<'_>) -> Option<ExecutableVariant> {
    let target = argument(operation.head, " target(")?;
    // <"llvm-cpu", "embedded-elf-x86_64", {...}>
    let format = target.split('"').nth(3).unwrap_or_default().to_owned();
    let body = operation.body;
    let functions = operations(body, "hal.executable.export").filter_map(|it| function(&it, body));
    Some(ExecutableVariant {
        name: operation.name,
        target: target.to_owned(),
        format,
        has_objects: operation.head.contains(" objects("),
        functions: functions.collect(),
        bodies: operations(body, "func.func").map(|it| it.name).collect(),
    })
}

impl ExecutableVariant {
    /// A function that the program calls and that the variant does not define. Objects define theirs, unless
    /// a module calls them.
    pub(super) fn missing_body(&self) -> Option<&str> {
        let has_module = !self.bodies.is_empty() || !self.has_objects;
        let is_missing = |it: &&ExecutableFunction| has_module && !self.bodies.contains(&it.name);
        self.functions.iter().find(is_missing).map(|it| &*it.name)
    }
}

fn function(operation: &Operation<'_>, variant: &str) -> Option<ExecutableFunction> {
    let layout = argument(operation.head, " layout(")?;
    let number = |text: &str| text.trim().parse::<u32>().ok();
    let constants = layout.split("constants = ").nth(1).and_then(|it| number(it.split([',', '>']).next()?));
    let bindings: Vec<String> = layout
        .split("#hal.pipeline.binding<")
        .skip(1)
        .filter_map(|it| Some(it.split('>').next()?.to_owned()))
        .collect();
    let count = argument(operation.head, " count(").unwrap_or_default();
    let body = operations(variant, "func.func").find(|it| it.name == operation.name);
    let accesses = body.map_or_else(Vec::new, |it| accessed(it.body));
    let of_binding = |index: usize, of: fn(&Access) -> Option<u64>| {
        let mut all = accesses.iter().filter(|it| it.binding == index).map(of);
        let first = all.next()?;
        all.all(|it| it == first).then_some(first).flatten()
    };
    let bytes = |index| {
        let of_binding = accesses.iter().filter(|it| it.binding == index);
        let ends: Option<Vec<_>> = of_binding.map(|it| it.offset?.checked_add(it.bytes?)).collect();
        ends?.into_iter().max()
    };
    Some(ExecutableFunction {
        name: operation.name.clone(),
        ordinal: argument(operation.head, " ordinal(").and_then(number).unwrap_or(0),
        constants: constants.unwrap_or(0),
        binding_bytes: (0..bindings.len()).map(bytes).collect(),
        element_bits: (0..bindings.len()).map(|index| of_binding(index, |it| it.bits)).collect(),
        bindings,
        workload: count.split(',').filter(|it| !it.trim().is_empty()).count().saturating_sub(1),
        workgroup_count: words(operation.body),
        text: operation.text.to_owned(),
        layout: layout.replacen("#hal.pipeline.layout", "", 1),
    })
}

/// A part of a binding that a function accesses: where it begins, its bytes and the bits of an element, if
/// these are known.
struct Access {
    binding: usize,
    offset: Option<u64>,
    bytes: Option<u64>,
    bits: Option<u64>,
}

fn accessed(body: &str) -> Vec<Access> {
    let constant = |name: &str| {
        let line = body.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(" = "))?;
        line.strip_prefix("arith.constant ")?.split(' ').next()?.parse().ok()
    };
    let lines = body.lines().filter(|line| line.contains(" hal.interface.binding.subspan "));
    lines
        .filter_map(|line| {
            let (bytes, bits) = line.rsplit_once(" : ").map_or((None, None), |(_, shape)| sizes_of(shape));
            Some(Access {
                binding: argument(line, " binding(")?.parse().ok()?,
                offset: argument(line, " offset(").map_or(Some(0), constant),
                bytes,
                bits,
            })
        })
        .collect()
}

/// The bytes of a tensor or of a memory reference, and the bits of an element; `None` if its shape or its
/// element type does not tell.
fn sizes_of(shape: &str) -> (Option<u64>, Option<u64>) {
    let starts = ["tensor<", "memref<"].iter().filter_map(|it| Some(shape.rfind(it)? + it.len()));
    let inside = &shape[starts.max().unwrap_or(shape.len())..];
    let inside = &inside[..inside.find([',', '>']).unwrap_or(inside.len())];
    let mut dimensions: Vec<_> = inside.split('x').collect();
    let element = dimensions.pop().unwrap_or_default().trim_start_matches(|it: char| it.is_ascii_lowercase());
    let bits = element.split(|it: char| !it.is_ascii_digit()).next().and_then(|it| it.parse::<u64>().ok());
    // A boolean has a byte; other narrow numbers are packed.
    let bits = bits.map(|it| if it == 1 { 8 } else { it });
    let mut sizes = dimensions.into_iter().map(|it| it.parse::<u64>().ok());
    let total = bits.and_then(|bits| sizes.try_fold(bits, |total, size| total.checked_mul(size?)));
    (total.map(|it| it.div_ceil(8)), bits)
}

/// An operation with a symbol and a region.
pub(super) struct Operation<'t> {
    pub name: String,
    /// From its name to the region.
    pub head: &'t str,
    /// The text in the region; empty if it has none.
    pub body: &'t str,
    /// All of it.
    text: &'t str,
}

/// The operations of a kind in a text, at any depth, each at the start of a line.
pub(super) fn operations<'t>(text: &'t str, kind: &'t str) -> impl Iterator<Item = Operation<'t>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        loop {
            let at = rest.find(kind)?;
            let before = &rest[..at];
            let after = &rest[at + kind.len()..];
            let is_start = before.rsplit('\n').next().is_none_or(|it| it.trim().is_empty());
            if !is_start || !after.starts_with(' ') {
                rest = after;
                continue;
            }
            let whole = &rest[at..];
            let name = after.trim_start();
            let name = ["public ", "private ", "nested "]
                .iter()
                .find_map(|it| name.strip_prefix(it))
                .unwrap_or(name);
            let Some(name) = symbol(name) else {
                rest = after;
                continue;
            };
            let (head, body, length) = region(whole);
            rest = &whole[length..];
            return Some(Operation { name, head, body, text: &whole[..length] });
        }
    })
}

/// The text before the region of an operation, the text in it, and the length of all: regions begin with a
/// brace at the end of a line.
fn region(text: &str) -> (&str, &str, usize) {
    let line = text.find('\n').unwrap_or(text.len());
    let Some(head) = text[..line].strip_suffix('{') else {
        return (&text[..line], "", line);
    };
    let start = head.len() + 1;
    let (mut depth, mut is_quoted, mut is_escaped) = (1_usize, false, false);
    for (index, byte) in text.bytes().enumerate().skip(start) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' if !is_quoted => depth += 1,
            b'}' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return (head, &text[start..index], index + 1);
        }
    }
    (head, &text[start..], text.len())
}

/// The text between the parenthesis at the end of `start` and the one that closes it.
pub(super) fn argument<'t>(text: &'t str, start: &str) -> Option<&'t str> {
    let inside = &text[text.find(start)? + start.len()..];
    let (mut depth, mut is_quoted) = (1_usize, false);
    for (index, byte) in inside.bytes().enumerate() {
        match byte {
            b'"' => is_quoted = !is_quoted,
            b'(' if !is_quoted => depth += 1,
            b')' if !is_quoted => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(&inside[..index]);
        }
    }
    None
}

/// The name of a symbol at the start of a text: `@name` or `@"any name"`.
fn symbol(text: &str) -> Option<String> {
    let name = text.strip_prefix('@')?;
    if let Some(quoted) = name.strip_prefix('"') {
        return Some(quoted.split('"').next()?.to_owned());
    }
    let end = name.find(|it: char| !it.is_alphanumeric() && !"_$.-".contains(it)).unwrap_or(name.len());
    Some(name[..end].to_owned())
}

/// The words of a text, so that indentation does not count.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub(super) fn only_variant(executable: &ProgramExecutable) -> Result<&ExecutableVariant> {
    match &executable.variants[..] {
        [only] => Ok(only),
        variants => {
            let formats: Vec<_> = variants.iter().map(|it| it.format.as_str()).collect();
            Err(Error::invalid_argument(format!(
                "the executable is compiled for {} targets ({}), and an object is for one",
                variants.len(),
                formats.join(", ")
            ))
            .advise("compile the program for one target, or substitute MLIR"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without it, a text in an executable may end it, or hide those after it.
    #[test]
    fn braces_in_texts_are_not_those_of_regions() {
        // `<` and `>` stand for braces.
        for quoted in [">", "<", ">>", "<<<", r#"\">"#, r"\\", "(<"] {
            let quoted = quoted.replace('<', "\u{7b}").replace('>', "\u{7d}");
            let text = format!("a @x {{\n  b = \"{quoted}\" {{c = 1}}\n}}\nrest");
            let body = format!("\n  b = \"{quoted}\" {{c = 1}}\n");
            assert_eq!(region(&text), ("a @x ", &*body, text.len() - "\nrest".len()));
        }
        assert_eq!(region("a @x\nrest"), ("a @x", "", 4));
        assert_eq!(argument("x(a, \")\", \"(\", (b)) c)", "x("), Some("a, \")\", \"(\", (b)"));
        assert_eq!(argument("x(a", "x("), None);
    }

    const TEXT: &str = r#"module @my attributes {x = "}"} {
  hal.executable private @add_dispatch_0 {
    hal.executable.variant public @embedded target(<"llvm-cpu", "embedded-elf-x86_64", {cpu = "a(b"}>) {
      hal.executable.export public @add_f32 ordinal(0) layout(#hal.pipeline.layout<constants = 4, bindings = [#hal.pipeline.binding<storage_buffer, "ReadOnly|Indirect">, #hal.pipeline.binding<storage_buffer, Indirect>], flags = Indirect>) count(%arg0: !hal.device, %arg1: index, %arg2: index) -> (index, index, index) {
        %x, %y, %z = from_slice(%arg1, %arg2)
        hal.return %x, %y, %z : index, index, index
      }
      builtin.module {
        func.func @add_f32() {
          %c0 = arith.constant 0 : index
          %0 = hal.interface.binding.subspan layout(<constants = 4>) binding(0) alignment(64) offset(%c0) flags("ReadOnly|Indirect") : !iree_tensor_ext.dispatch.tensor<readonly:tensor<4x8xf32>>
          %1 = hal.interface.binding.subspan layout(<constants = 4>) binding(1) alignment(64) offset(%c64) : memref<4xi8>
          return
        }
      }
    }
  }
  util.func public @add() {
  }
  hal.executable private @"odd name" {
    hal.executable.variant public @v target(<"vulkan-spirv", "vulkan-spirv-fb">) objects([#x<{path = "a"}>]) {
      hal.executable.export public @f ordinal(3) layout(#hal.pipeline.layout<bindings = []>)
    }
  }
}
"#;

    #[test]
    fn comments_are_not_text() {
        let text = "a \"//\" / b // c\n// }\nd \"\\\"//\" {\n";
        assert_eq!(without_comments(text), "a \"//\" / b\n\nd \"\\\"//\" {\n");
    }

    #[test]
    fn bindings_have_one_constant_offset_or_an_unknown_one() {
        let access = |binding, offset| {
            format!(
                "  %0 = hal.interface.binding.subspan layout(<L>) binding({binding}) offset({offset}) : memref<4xi8>\n"
            )
        };
        let body = format!(
            "  %c0_1 = arith.constant 0 : index\n  %c320 = arith.constant 320 : index\n{}{}{}",
            access(0, "%c320"),
            access(1, "%c0_1"),
            access(2, "%arg0")
        );
        let found: Vec<_> = accessed(&body).iter().map(|it| (it.binding, it.offset, it.bytes)).collect();
        assert_eq!(found, [(0, Some(320), Some(4)), (1, Some(0), Some(4)), (2, None, Some(4))]);
    }

    #[test]
    fn executables_are_read_from_the_text_of_a_program() {
        assert_eq!((module_name(TEXT), module_name("module {\n}\n")), ("my".into(), "module".into()));
        let found = executables(TEXT);
        let names: Vec<_> = found.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["add_dispatch_0", "odd name"]);
        let variant = &found[0].variants[0];
        assert_eq!((&*variant.name, &*variant.format), ("embedded", "embedded-elf-x86_64"));
        assert_eq!(variant.target, r#"<"llvm-cpu", "embedded-elf-x86_64", {cpu = "a(b"}>"#);
        let function = &variant.functions[0];
        assert_eq!((&*function.name, function.ordinal, function.constants), ("add_f32", 0, 4));
        assert_eq!(function.bindings, [r#"storage_buffer, "ReadOnly|Indirect""#, "storage_buffer, Indirect"]);
        assert_eq!(function.workload, 2);
        let count = "%x, %y, %z = from_slice(%arg1, %arg2) hal.return %x, %y, %z : index, index, index";
        assert_eq!(function.workgroup_count, count);
        assert_eq!(
            (&*function.binding_bytes, &*function.element_bits),
            (&[Some(128), None][..], &[Some(32), Some(8)][..])
        );
        let shifted = TEXT
            .replace("func.func @add_f32() {", "func.func @add_f32() {\n%c64 = arith.constant 64 : index");
        let bytes = &executables(&shifted)[0].variants[0].functions[0].binding_bytes;
        assert_eq!(bytes, &[Some(128), Some(68)]);
        assert_eq!(variant.missing_body(), None);
        let renamed = TEXT.replace("func.func @add_f32", "func.func @renamed");
        assert_eq!(executables(&renamed)[0].variants[0].missing_body(), Some("add_f32"));
        assert!(function.text.starts_with("hal.executable.export") && function.text.ends_with('}'));
        assert!(function.layout.starts_with("<constants = 4"));
        let other = &found[1].variants[0];
        assert!(other.has_objects && !variant.has_objects);
        assert_eq!(other.missing_body(), None);
        assert_eq!((other.functions[0].ordinal, other.functions[0].workgroup_count.as_str()), (3, ""));
    }

    #[test]
    fn sizes_are_those_of_static_shapes() {
        for (shape, sizes) in [
            ("!t.tensor<readonly:tensor<64x64xf32>>", (Some(16384), Some(32))),
            ("memref<3xi1, #hal.x<storage_buffer>>", (Some(3), Some(8))),
            ("memref<5xi4>", (Some(3), Some(4))),
            ("memref<2xbf16>", (Some(4), Some(16))),
            ("memref<f64>", (Some(8), Some(64))),
            ("memref<2xf8E4M3FN>", (Some(2), Some(8))),
            ("!t.tensor<readonly:tensor<?x4xf32>>{%16}", (None, Some(32))),
            ("memref<4xindex>", (None, None)),
            ("i32", (None, None)),
        ] {
            assert_eq!(sizes_of(shape), sizes, "{shape}");
        }
    }

    #[test]
    fn damaged_text_is_read_to_its_end() {
        for end in 0..TEXT.len() {
            executables(&TEXT[..end]);
            module_name(&TEXT[..end]);
        }
    }
}
