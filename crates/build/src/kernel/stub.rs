//! Writes the source of a kernel with the ABI of a captured function and an empty body.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use rehal_base::{Error, Range, Result, alternatives, plural};
use rehal_hal::FunctionInfo;
use rehal_judge::stats::Interval;
use rehal_judge::{time, type_in_name};

use super::{KernelLanguage, ObservedBinding, ObservedKernel, ObservedShape};

/// The observed shapes that a comment lists.
const MAX_SHAPES: usize = 24;
/// The limits of the ABI: 64 constants and bindings, 16 bits of workgroup size in z, and two flags.
const MAX_ARGUMENTS: u16 = 64;
const FLAGS: u64 = 0b11;

impl ObservedKernel {
    /// The source of a kernel that replaces the function: everything but its body. `file` is the name of the
    /// source, and `capture` that of the capture, for the commands in its comment.
    ///
    /// Fails if the function cannot be a function of a library for CPU drivers.
    pub fn stub(&self, language: KernelLanguage, file: &Path, capture: &Path) -> Result<String> {
        self.check()?;
        let template = match language {
            KernelLanguage::C => include_str!("stub.c.in"),
            KernelLanguage::Rust => include_str!("stub.rs.in"),
        };
        let name = self.function.name.as_str();
        let [x, y, z] = self.function.workgroup_size;
        let item = Item::from_kernel(self);
        let (parameters, parameters_field) = parameters(language, &self.function);
        let names = [
            ("FILE", word(&file.file_name().unwrap_or_default().to_string_lossy(), "KERNEL")),
            ("SELECTOR", self.selector()),
            ("FUNCTION", word(name, "NAME")),
            ("CAPTURE", word(&capture.to_string_lossy(), "CAPTURE.ireereplay")),
            ("DRIVER", self.driver.clone().unwrap_or_default()),
        ];
        let replay = match self.driver {
            Some(_) => include_str!("replay.gpu.in"),
            None => include_str!("replay.cpu.in"),
        };
        let values = [
            ("NAME", comment(name)),
            ("FILE", names[0].1.clone()),
            ("REPLAY", fill(replay, &names)),
            ("OBSERVED", self.observed()),
            ("SPECIALIZATION", numbers(&self.specialization_constants)),
            ("SPECIALIZATION_COUNT", self.specialization_constants.len().to_string()),
            ("ARGUMENTS", self.arguments(language, &item)),
            ("ITEMS_ARE", item.described()),
            ("ITEM_COUNT", item.count(language)),
            ("PARAMETERS", parameters),
            ("PARAMETERS_FIELD", parameters_field),
            ("LIBRARY_NAME", "kernel".into()),
            ("C_NAME", c_literal(name)),
            ("RUST_NAME", rust_literal(name)),
            ("FLAGS", self.function.flags.to_string()),
            ("CONSTANT_COUNT", self.function.constant_count.to_string()),
            ("BINDING_COUNT", self.function.binding_count.to_string()),
            ("SIZE_X", x.to_string()),
            ("SIZE_Y", y.to_string()),
            ("SIZE_Z", z.to_string()),
            ("PARAMETER_COUNT", self.function.parameter_count.to_string()),
        ];
        Ok(fill(template, &values))
    }

    /// The selector of the function in the flag for substitutions.
    pub(super) fn selector(&self) -> String {
        match (self.is_selected_by_id, &self.executable_ids[..]) {
            (true, [id, ..]) => id.to_string(),
            _ => word(&self.function.name, "NAME"),
        }
    }

    fn check(&self) -> Result<()> {
        let function = &self.function;
        let problem = if function.name.is_empty() {
            "it has no name: captures of version 1.0, which 3.12.0rc20260429 to 3.12.0rc20260519 wrote, do not \
             name functions"
                .into()
        } else if function.name.contains('\0') {
            "its name contains NUL".into()
        } else if function.constant_count > MAX_ARGUMENTS || function.binding_count > MAX_ARGUMENTS {
            format!("it has more than {MAX_ARGUMENTS} constants or bindings")
        } else if function.workgroup_size[2] > u32::from(u16::MAX) {
            format!("its workgroup size in z, {}, has more than 16 bits", function.workgroup_size[2])
        } else if function.flags & !FLAGS != 0 {
            format!("its flags are {:#x}", function.flags)
        } else {
            return Ok(());
        };
        let name = function.name.escape_debug().to_string();
        let error = Error::unimplemented(format!(
            "function '{name}' of format '{}' cannot be replaced by a library for the CPU: {problem}",
            self.format.escape_debug()
        ));
        Err(match name.is_empty() {
            true => error.advise("capture the program again: 3.12.0rc20260520 and later write version 2.0"),
            false => error,
        })
    }

    /// The declarations of the arguments.
    fn arguments(&self, language: KernelLanguage, item: &Item) -> String {
        let mut text = String::new();
        for index in 0..usize::from(self.function.binding_count) {
            let said = self.binding_said(index);
            let is_constant = self.is_written(index) == Some(false);
            let _ = match language {
                KernelLanguage::C => {
                    let (constant, element) = (if is_constant { "const " } else { "" }, item.element.c);
                    let restrict = if self.overlaps() { "" } else { "restrict " };
                    write!(
                        text,
                        "  {constant}{element} *{restrict}binding_{index} = dispatch->bindings[{index}];  // {said}\n  \
                         const size_t length_{index} = dispatch->binding_lengths[{index}];\n"
                    )
                }
                KernelLanguage::Rust => {
                    let (constant, element) = (if is_constant { "const" } else { "mut" }, item.element.rust);
                    write!(
                        text,
                        "        let binding_{index} = (*dispatch.bindings.add({index})).cast::<{element}>()\
                         {cast}; // {said}\n        let length_{index} = *dispatch.binding_lengths.add({index});\n",
                        cast = if constant == "const" { ".cast_const()" } else { "" },
                    )
                }
            };
        }
        for index in 0..usize::from(self.function.constant_count) {
            let said = self.constant_said(index);
            let _ = match language {
                KernelLanguage::C => {
                    writeln!(
                        text,
                        "  const uint32_t constant_{index} = dispatch->constants[{index}];  // {said}"
                    )
                }
                KernelLanguage::Rust => {
                    writeln!(
                        text,
                        "        let constant_{index} = *dispatch.constants.add({index}); // {said}"
                    )
                }
            };
        }
        text
    }

    /// The observations of a binding, in words.
    pub(super) fn binding_said(&self, index: usize) -> String {
        let mut lengths: Vec<u64> = self.values(|shape| shape.bindings.get(index).map(|it| it.length));
        lengths.truncate(MAX_VALUES + 1);
        let mut said = match lengths.is_empty() {
            true => "never bound".to_string(),
            false => format!("{} bytes", listed(&lengths)),
        };
        match (self.changed(index), self.is_written(index)) {
            // A part of an arena, of which a function gets all.
            (Some(changed), _) if lengths.iter().any(|length| changed.length < *length) => {
                let _ = write!(said, ", bytes {}..{} changed", changed.offset, changed.end());
            }
            (_, Some(true)) => said.push_str(", changed"),
            (_, Some(false)) => said.push_str(", unchanged"),
            (_, None) => {}
        }
        let aliases = self.values(|shape| shape.bindings.get(index)?.alias_of);
        if !aliases.is_empty() {
            let _ = write!(said, ", overlaps binding {}", listed(&aliases));
        }
        said
    }

    /// The values of a constant, in words.
    pub(super) fn constant_said(&self, index: usize) -> String {
        let mut values: Vec<u32> = self.values(|shape| shape.constants.get(index).copied());
        values.truncate(MAX_VALUES + 1);
        if values.is_empty() { "never passed".into() } else { listed(&values) }
    }

    /// The distinct values of all shapes, in ascending order: that of the shapes is by their times, which
    /// vary.
    fn values<T: Ord>(&self, of: impl Fn(&ObservedShape) -> Option<T>) -> Vec<T> {
        let values: BTreeSet<T> = self.shapes.iter().filter_map(of).collect();
        values.into_iter().collect()
    }

    /// The comment that says what was observed; every line is one of a comment.
    pub(super) fn observed(&self) -> String {
        let count: u64 = self.shapes.iter().map(|shape| shape.count).sum();
        let ids = listed(&self.executable_ids);
        let (dispatches, shapes) = (plural(count, "dispatch"), self.shapes.len() as u64);
        let of = if self.executable_ids.len() == 1 { "executable" } else { "executables" };
        let mut text = format!("// Observed: {dispatches} of {of} {ids} ({}), ", comment(&self.format));
        let is_by_time = shapes > 1 && self.shapes.iter().all(|it| it.time_ns.is_some());
        let order = if is_by_time { ", those that took longest first" } else { "" };
        let _ = writeln!(text, "in {}{order}.", plural(shapes, "shape"));
        for (number, shape) in self.shapes.iter().take(MAX_SHAPES).enumerate() {
            let _ = writeln!(text, "// {}. {}", number + 1, shape.described());
        }
        if self.shapes.len() > MAX_SHAPES {
            let more = self.shapes.len() - MAX_SHAPES;
            let _ = writeln!(text, "// and {more} more: `rehal kernels` lists them.");
        }
        text.push_str("//\n");
        text.push_str(match (self.function.binding_count, self.overlaps()) {
            (0 | 1, _) => "",
            (_, true) => "// Some bindings overlap, so what is written may change what is read.\n",
            (_, false) => "// No bindings of a dispatch overlap.\n",
        });
        text.push_str("// A constant of 64 bits is two of 32 bits, of which the first has the lower bits.\n");
        text
    }
}

impl ObservedShape {
    fn described(&self) -> String {
        let mut text = plural(self.count, "dispatch");
        if let Some(time_ns) = self.time_ns {
            let each = |ns: f64| time(ns / self.count.max(1) as f64);
            let _ = write!(text, " of {}", each(time_ns as f64));
            text.push_str(&match (self.sample_count, self.interval_ns) {
                (0 | 1, _) => " in one replay".into(),
                (samples, None) => format!(" (lower quartile of {samples} replays)"),
                (samples, Some(Interval { low, high })) => {
                    format!(
                        " (lower quartile of {samples} replays, 95 % interval {} to {})",
                        each(low),
                        each(high)
                    )
                }
            });
        }
        let _ = write!(text, ", the first of record #{}: ", self.record);
        match self.workgroup_count {
            Some([x, y, z]) => {
                let _ = write!(text, "{x} x {y} x {z} workgroups");
            }
            None => text.push_str("workgroups from a buffer"),
        }
        if self.dynamic_local_memory != 0 {
            let _ = write!(text, ", {} bytes of local memory", self.dynamic_local_memory);
        }
        if !self.constants.is_empty() {
            let _ = write!(text, "; constants {}", numbers(&self.constants));
        }
        for (index, binding) in self.bindings.iter().enumerate() {
            let _ = write!(text, "{}{}", if index == 0 { "; bytes " } else { ", " }, binding.length);
            let said = binding.described();
            if !said.is_empty() {
                let _ = write!(text, " ({})", said.join("; "));
            }
        }
        text
    }
}

impl ObservedBinding {
    /// The known properties besides its length.
    fn described(&self) -> Vec<String> {
        let is_whole = |ranges: &[Range]| ranges.iter().map(|it| it.length).sum::<u64>() == self.length;
        let mut said = Vec::new();
        said.extend(self.alias_of.map(|other| format!("overlaps {other}")));
        match self.accessed_ranges.as_deref() {
            Some([]) if self.length != 0 => said.push("not accessed".into()),
            // Pages say nothing of the binding then.
            Some(ranges) if !is_whole(ranges) => said.push(format!("accesses pages {}", pattern(ranges))),
            _ => {}
        }
        match self.changed_ranges.as_deref() {
            Some(ranges) if !ranges.is_empty() && !is_whole(ranges) => {
                said.push(format!("changes {}", pattern(ranges)));
            }
            _ => {}
        }
        said
    }
}

/// Ranges of bytes in words: those of one length at one distance by their stride. What was written over the
/// same bytes is not known to be changed, so that small gaps between many ranges do not count.
fn pattern(ranges: &[Range]) -> String {
    /// Ranges that are listed.
    const MAX_LISTED: usize = 4;
    /// Bytes of a small gap.
    const GAP_BYTES: u64 = 64;
    let one = |it: &Range| format!("{}..{}", it.offset, it.end());
    if let [first, second, _, ..] = ranges {
        let stride = second.offset - first.offset;
        let is_regular = ranges.iter().all(|it| it.length == first.length)
            && ranges.windows(2).all(|pair| pair[1].offset - pair[0].offset == stride);
        if is_regular {
            let (count, length, start) = (ranges.len(), first.length, first.offset);
            return format!("{count} x {length} bytes, every {stride} from {start}");
        }
    }
    if ranges.len() > MAX_LISTED {
        let mut joined: Vec<Range> = Vec::new();
        for range in ranges {
            match joined.last_mut() {
                Some(last) if range.offset < last.end() + GAP_BYTES => {
                    last.length = range.end() - last.offset
                }
                _ => joined.push(*range),
            }
        }
        if joined.len() < ranges.len() {
            return format!("{}, with gaps of less than {GAP_BYTES} bytes", pattern(&joined));
        }
    }
    let mut text = ranges.iter().take(MAX_LISTED).map(one).collect::<Vec<_>>().join(", ");
    if let (Some(last), true) = (ranges.last(), ranges.len() > MAX_LISTED) {
        let _ = write!(text, ", ... ({} ranges up to {})", ranges.len(), last.end());
    }
    text
}

/// The elements that a kernel computes, as far as can be guessed: of the last binding that it changes.
pub(super) struct Item {
    pub(super) element: Element,
    binding: Option<usize>,
}

#[derive(Clone, Copy)]
pub(super) struct Element {
    pub(super) c: &'static str,
    rust: &'static str,
    /// How the name of a function says it.
    name: Option<&'static str>,
}

const BYTES: Element = Element { c: "uint8_t", rust: "u8", name: None };
const ELEMENTS: [Element; 12] = [
    Element { c: "float", rust: "f32", name: Some("f32") },
    Element { c: "double", rust: "f64", name: Some("f64") },
    Element { c: "uint16_t", rust: "u16", name: Some("f16") },
    Element { c: "uint16_t", rust: "u16", name: Some("bf16") },
    Element { c: "int8_t", rust: "i8", name: Some("i8") },
    Element { c: "int16_t", rust: "i16", name: Some("i16") },
    Element { c: "int32_t", rust: "i32", name: Some("i32") },
    Element { c: "int64_t", rust: "i64", name: Some("i64") },
    Element { c: "uint8_t", rust: "u8", name: Some("ui8") },
    Element { c: "uint16_t", rust: "u16", name: Some("ui16") },
    Element { c: "uint32_t", rust: "u32", name: Some("ui32") },
    Element { c: "uint64_t", rust: "u64", name: Some("ui64") },
];

impl Item {
    pub(super) fn from_kernel(kernel: &ObservedKernel) -> Self {
        let bindings = usize::from(kernel.function.binding_count);
        let written = (0..bindings).rev().find(|index| kernel.is_written(*index) == Some(true));
        let name = type_in_name(&kernel.function.name).map(|it| it.to_string());
        let element = ELEMENTS.into_iter().find(|it| it.name.is_some() && it.name == name.as_deref());
        Self { element: element.unwrap_or(BYTES), binding: written.or(bindings.checked_sub(1)) }
    }

    fn described(&self) -> String {
        let elements = match self.element.name {
            Some(name) => format!("elements of type {name}, as the name of the function says"),
            None => "bytes".into(),
        };
        match self.binding {
            Some(index) => format!("binding {index}, in {elements}"),
            None => "the work".into(),
        }
    }

    fn count(&self, language: KernelLanguage) -> String {
        match (language, self.binding) {
            (KernelLanguage::C, Some(index)) => format!("length_{index} / sizeof(*binding_{index})"),
            (KernelLanguage::Rust, Some(index)) => {
                format!("length_{index} / size_of::<{}>()", self.element.rust)
            }
            (KernelLanguage::C, None) => "0".into(),
            (KernelLanguage::Rust, None) => "0usize".into(),
        }
    }
}

/// The table of reflected parameters, and the field that refers to it.
fn parameters(language: KernelLanguage, function: &FunctionInfo) -> (String, String) {
    let count = function.parameters.len();
    match (language, count) {
        (KernelLanguage::C, 0) => (String::new(), String::new()),
        (KernelLanguage::Rust, 0) => (String::new(), "null()".into()),
        (KernelLanguage::C, _) => {
            let mut text = "static const parameter_t parameters_of_kernel[] = {\n".to_string();
            for it in &function.parameters {
                let (kind, size, flags, offset) = (it.kind, it.size, it.flags, it.offset);
                let _ = writeln!(
                    text,
                    "    {{.type = {kind}, .size = {size}, .flags = {flags}, .name = 0xFFFF, .offset = {offset}}},"
                );
            }
            text.push_str("};\nstatic const parameter_t *const parameters[] = {parameters_of_kernel};\n");
            (text, ", .parameters = parameters".into())
        }
        (KernelLanguage::Rust, _) => {
            let mut text = format!("static PARAMETERS_OF_KERNEL: [Parameter; {count}] = [\n");
            for it in &function.parameters {
                let (kind, size, flags, offset) = (it.kind, it.size, it.flags, it.offset);
                let _ = writeln!(
                    text,
                    "    Parameter {{ kind: {kind}, size: {size}, flags: {flags}, name: 0xFFFF, offset: {offset} }},"
                );
            }
            text.push_str(
                "];\nstatic PARAMETERS: Table<[*const Parameter; 1]> =\n    \
                 Table([&raw const PARAMETERS_OF_KERNEL as *const Parameter]);\n",
            );
            (text, "&raw const PARAMETERS.0 as *const *const Parameter".into())
        }
    }
}

/// Replaces each `@KEY@` of a template in one pass, so that values are never read as keys.
pub(super) fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut text = String::with_capacity(2 * template.len());
    for (index, part) in template.split('@').enumerate() {
        match values.iter().find(|(key, _)| index % 2 == 1 && *key == part) {
            Some((_, value)) => text.push_str(value),
            None => text.push_str(part),
        }
    }
    text
}

/// Text in a comment: on one line, in ASCII, and never the end of one.
pub(super) fn comment(text: &str) -> String {
    text.escape_default().to_string().replace("\\'", "'").replace("\\\"", "\"")
}

/// A word of a command line; one that a shell or a comment could misread is left to the reader.
pub(super) fn word(text: &str, otherwise: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./$+,%".contains(&byte);
    let is_word = !text.is_empty() && text.bytes().all(is_plain);
    if is_word { text.replace('$', "\\$") } else { otherwise.into() }
}

/// The contents of a string literal of C.
pub(super) fn c_literal(text: &str) -> String {
    literal(text, |byte| format!("\\{byte:03o}"))
}

/// The contents of a C string literal of Rust.
fn rust_literal(text: &str) -> String {
    literal(text, |byte| format!("\\x{byte:02x}"))
}

fn literal(text: &str, escape: impl Fn(u8) -> String) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.$ ".contains(&byte);
    text.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { escape(byte) })
        .collect()
}

/// Distinct values that a comment lists before it says that there are more.
const MAX_VALUES: usize = 8;

fn listed<T: ToString>(values: &[T]) -> String {
    let shown: Vec<_> = values.iter().take(MAX_VALUES).map(T::to_string).collect();
    match values.len() > MAX_VALUES {
        true => format!("{} or others", shown.join(", ")),
        false => alternatives(&shown),
    }
}

/// All numbers, for people who look for floats or flags too.
fn numbers(values: &[u32]) -> String {
    if values.is_empty() {
        return "none".into();
    }
    let text: Vec<_> = values.iter().map(|it| format!("{it} ({it:#x})")).collect();
    text.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_have_strides() {
        let of = |ranges: &[(u64, u64)]| {
            pattern(&ranges.iter().map(|&(offset, length)| Range { offset, length }).collect::<Vec<_>>())
        };
        assert_eq!(of(&[(8, 4)]), "8..12");
        assert_eq!(of(&[(8, 4), (16, 4)]), "8..12, 16..20");
        assert_eq!(of(&[(8, 4), (16, 4), (24, 4)]), "3 x 4 bytes, every 8 from 8");
        assert_eq!(of(&[(8, 4), (16, 4), (25, 4)]), "8..12, 16..20, 25..29");
        let near = [(0, 1), (2, 1), (4, 1), (7, 1), (9, 2)];
        assert_eq!(of(&near), "0..11, with gaps of less than 64 bytes");
        let apart = near.map(|(offset, length)| (offset * 100, length));
        assert_eq!(of(&apart), "0..1, 200..201, 400..401, 700..701, ... (5 ranges up to 902)");
    }

    #[test]
    fn what_pages_do_not_tell_is_left_out() {
        let range = |offset, length| Range { offset, length };
        let mut binding = ObservedBinding { length: 8192, alias_of: Some(1), ..ObservedBinding::default() };
        assert_eq!(binding.described(), ["overlaps 1"]);
        binding.accessed_ranges = Some(vec![range(0, 8192)]);
        binding.changed_ranges = Some(Vec::new());
        assert_eq!(binding.described(), ["overlaps 1"]);
        binding.accessed_ranges = Some(vec![range(0, 4096)]);
        binding.changed_ranges = Some(vec![range(0, 4), range(64, 4), range(128, 4)]);
        let said = ["overlaps 1", "accesses pages 0..4096", "changes 3 x 4 bytes, every 64 from 0"];
        assert_eq!(binding.described(), said);
        binding.accessed_ranges = Some(Vec::new());
        assert_eq!(binding.described()[1], "not accessed");
    }
}
