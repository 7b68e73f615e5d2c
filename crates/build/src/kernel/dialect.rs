//! The definitions in a source or an object of a kernel: a library of kernels with the ABI of executables, as
//! stubs do, or plain functions. A plain function is called once for a dispatch, in its first workgroup, with
//! a pointer to the start of each binding and then the constants; a library is made around it.

use std::fmt::Write;

use object::read::elf::ElfFile64;
use object::{LittleEndian, Object, ObjectSymbol, SymbolKind};
use rehal_base::{Error, Result, listed};
use rehal_hal::FunctionInfo;
use rehal_replay::CalledFunction;

use super::stub::{c_literal, fill};

/// The symbol that a library of kernels defines.
const QUERY: &str = "iree_hal_executable_library_query";

/// Follows the name of a function, in a source that has several.
const SUFFIX: &str = "_kernel";

/// The kind of the definitions in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelDialect {
    /// A library of kernels.
    Library,
    /// Plain functions of these names.
    Functions(Vec<String>),
}

impl KernelDialect {
    /// Decides by the symbols of an object or of a shared library.
    pub fn of(bytes: &[u8]) -> Result<Self> {
        let file = ElfFile64::<LittleEndian>::parse(bytes).map_err(|_| {
            Error::invalid_argument("not an object file (ELF, 64-bit)").advise("compile it again")
        })?;
        let is_object = file.kind() == object::ObjectKind::Relocatable;
        let symbols: Vec<_> =
            if is_object { file.symbols().collect() } else { file.dynamic_symbols().collect() };
        let is_function = |it: &object::read::elf::ElfSymbol64<'_, '_, LittleEndian>| {
            it.is_definition() && it.is_global() && it.kind() == SymbolKind::Text
        };
        let defined = symbols.iter().filter(|it| is_function(it)).filter_map(|it| it.name().ok());
        let mut defined: Vec<_> = defined.map(str::to_owned).collect();
        if defined.iter().any(|it| it == QUERY) {
            return Ok(Self::Library);
        }
        // Those of the start files.
        defined.retain(|it| it != "_init" && it != "_fini");
        Ok(Self::Functions(defined))
    }
}

/// The functions that compilers call without being asked.
pub(super) const MEMORY: [&str; 4] = ["memcpy", "memmove", "memset", "memcmp"];

/// Whether a symbol of Rust's core library is a panic: a function that does not return.
pub(super) fn is_panic(symbol: &str) -> bool {
    let of_core = symbol.starts_with("_ZN4core") || symbol.starts_with("_RN") && symbol.contains("_4core");
    let modules = ["9panicking", "13unwrap_failed", "13expect_failed", "_fail"];
    of_core && modules.iter().any(|it| symbol.contains(it))
}

/// The symbols of other libraries that a shared library needs.
pub(super) fn needed_symbols(bytes: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<LittleEndian>::parse(bytes) else { return Vec::new() };
    let needed = file.dynamic_symbols().filter(|it| it.is_undefined() && !it.is_weak());
    needed.filter_map(|it| it.name().ok()).filter(|it| !it.is_empty()).map(str::to_owned).collect()
}

/// A function that is called, and the one of the file that it calls.
pub(super) struct PlainCall<'a> {
    pub(super) called: &'a CalledFunction,
    pub(super) symbol: String,
}

/// The functions of a file that are called. Fails if it has none for the functions that it replaces.
pub(super) fn calls<'a>(
    wanted: &'a [CalledFunction],
    defined: &[String],
    shown: &str,
) -> Result<Vec<PlainCall<'a>>> {
    let named = |called: &CalledFunction| {
        let with_suffix = format!("{}{SUFFIX}", called.info.name);
        [with_suffix, called.info.name.clone()].into_iter().find(|it| defined.contains(it))
    };
    let mut calls: Vec<PlainCall<'a>> = Vec::new();
    for called in wanted {
        // Executables may have the same functions.
        let is_known = calls.iter().any(|it| it.called.info.name == called.info.name);
        if let Some(symbol) = named(called).filter(|_| !is_known) {
            calls.push(PlainCall { called, symbol });
        }
    }
    let mut names: Vec<_> = wanted.iter().map(|it| it.info.name.as_str()).collect();
    names.dedup();
    match (&calls[..], &names[..], defined) {
        ([], [_], [only]) => Ok(vec![PlainCall { called: &wanted[0], symbol: only.clone() }]),
        ([], [name, ..], _) => {
            let declared = prototype(&wanted[0].info, &format!("{name}{SUFFIX}"));
            let what = if defined.is_empty() { "no function".to_owned() } else { listed(defined) };
            let message = format!("'{shown}' defines {what}, not {}", listed(&names));
            Err(Error::invalid_argument(message)
                .advise(format!("define {declared}, or begin with a stub of the kernel")))
        }
        _ => Ok(calls),
    }
}

/// How a plain function is declared in C.
pub(super) fn prototype(function: &FunctionInfo, name: &str) -> String {
    let bindings = (0..function.binding_count).map(|index| format!("void *binding_{index}"));
    let constants = (0..function.constant_count).map(|index| format!("uint32_t constant_{index}"));
    format!("void {name}({})", bindings.chain(constants).collect::<Vec<_>>().join(", "))
}

/// The source of the library around plain functions. Without their source, they are declared without
/// parameters.
pub(super) fn library(calls: &[PlainCall<'_>], declares: bool) -> String {
    let (mut kernels, mut attributes, mut tables) = (String::new(), String::new(), Vec::new());
    for (index, PlainCall { called, symbol }) in calls.iter().enumerate() {
        let function = &called.info;
        if declares {
            let _ = writeln!(kernels, "void {symbol}();");
        }
        let bindings = (0..function.binding_count).map(|it| format!("dispatch->bindings[{it}]"));
        let constants = (0..function.constant_count).map(|it| format!("dispatch->constants[{it}]"));
        let arguments = bindings.chain(constants).collect::<Vec<_>>().join(", ");
        let _ = write!(
            kernels,
            "static int rehal_kernel_{index}(const void *environment, const rehal_dispatch_t *dispatch,\n    \
             const rehal_workgroup_t *workgroup) {{\n  (void)environment, (void)dispatch;\n  \
             if (workgroup->id_x || workgroup->id_y || workgroup->id_z) return 0;\n  {symbol}({arguments});\n  \
             return 0;\n}}\n"
        );
        let [x, y, z] = function.workgroup_size;
        let _ = writeln!(
            attributes,
            "    {{.flags = {}, .constant_count = {}, .binding_count = {}, .workgroup_size_x = {x}, \
             .workgroup_size_y = {y}, .workgroup_size_z = {z}, .parameter_count = {}}},",
            function.flags, function.constant_count, function.binding_count, function.parameter_count
        );
        if function.parameters.is_empty() {
            tables.push("NULL".to_owned());
            continue;
        }
        let _ = writeln!(kernels, "static const rehal_parameter_t rehal_parameters_{index}[] = {{");
        for it in &function.parameters {
            let _ = writeln!(
                kernels,
                "    {{.type = {}, .size = {}, .flags = {}, .name = 0xFFFF, .offset = {}}},",
                it.kind, it.size, it.flags, it.offset
            );
        }
        kernels.push_str("};\n");
        tables.push(format!("rehal_parameters_{index}"));
    }
    let of_all = |one: &dyn Fn(usize) -> String| (0..calls.len()).map(one).collect::<Vec<_>>().join(", ");
    let constants = calls.iter().map(|it| it.called.specialization_constants).max().unwrap_or(0);
    fill(
        include_str!("library.c.in"),
        &[
            ("KERNELS", kernels),
            ("KERNEL_NAMES", of_all(&|it| format!("rehal_kernel_{it}"))),
            ("NAMES", of_all(&|it| format!("\"{}\"", c_literal(&calls[it].called.info.name)))),
            ("ATTRIBUTES", attributes),
            ("PARAMETERS", tables.join(", ")),
            ("COUNT", calls.len().to_string()),
            ("SPECIALIZATION_COUNT", constants.to_string()),
        ],
    )
}
