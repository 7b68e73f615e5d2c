use rehal_base::Error;

use crate::module_file::{DebugDatabase, Location};
use crate::program::{Program, function_name};

use super::{Machine, ModuleView, Modules};

/// Limit on the parts printed of a location: locations in a malformed file may be cyclic.
const LOCATION_PARTS: usize = 16;
/// Limit on the frames printed in an error, half innermost and half outermost.
const SHOWN_FRAMES: usize = 64;

impl Machine {
    /// Adds the call stack to an error: each active function, innermost first, with the byte offset of its
    /// instruction and the source location, if the module has debug information.
    #[cold]
    pub(super) fn with_stack<M: Modules>(&self, modules: &M, error: Error) -> Error {
        let mut error = error;
        if let Some(pending) = self.pending
            && let ModuleView::Native { module, .. } = modules.module(pending.target.module)
        {
            let name = &module.exports()[pending.target.ordinal as usize].name;
            error = error.context(format!("{}.{name}", module.name()));
        }
        let frame = self.frame.iter().map(|frame| (frame.target, frame.pc));
        let callers = self.callers.iter().rev().map(|caller| (caller.target(), caller.pc()));
        let count = self.callers.len() + 1;
        for (index, (target, pc)) in frame.chain(callers).enumerate() {
            if count > SHOWN_FRAMES && index == SHOWN_FRAMES / 2 {
                error = error.context(format!("{} more frames", count - SHOWN_FRAMES));
            }
            if count > SHOWN_FRAMES && (SHOWN_FRAMES / 2..count - SHOWN_FRAMES / 2).contains(&index) {
                continue;
            }
            if let ModuleView::Bytecode { program, instance } = modules.module(target.module) {
                let code = &instance.codes[target.ordinal as usize];
                // The program counter is past the instruction that failed or called.
                error = error.context(place(program, target.ordinal as usize, code.offset_before(pc)));
            }
        }
        error
    }
}

/// The location of an instruction: function, byte offset, and source location.
pub(crate) fn place(program: &Program, function: usize, offset: u32) -> String {
    let name = function_name(&program.file, function);
    let mut text = format!("{}.{name}+{offset:08X}", program.file.name());
    if let Some(database) = program.file.debug_database()
        && let Some(map) = database.of_function(function, &name, program.file.function_count())
        && let Some(location) = map.location_at(offset as usize)
    {
        text.push_str(" (");
        let mut parts = LOCATION_PARTS;
        write_location(&database, location, &mut parts, &mut text);
        text.push(')');
    }
    text
}

/// Writes a location and its nested locations, at most `parts` in total.
fn write_location(database: &DebugDatabase<'_>, index: usize, parts: &mut usize, text: &mut String) {
    let Some(left) = parts.checked_sub(1) else { return text.push_str("...") };
    *parts = left;
    match database.location(index) {
        None | Some(Location::Unknown) => text.push_str("unknown"),
        Some(Location::FileLineColumn { filename, line, column }) => {
            text.push_str(&format!("{filename}:{line}:{column}"));
        }
        Some(Location::CallSite { callee, caller }) => {
            write_location(database, callee, parts, text);
            text.push_str(" inlined at ");
            write_location(database, caller, parts, text);
        }
        Some(Location::Named { name, child }) => {
            text.push_str(&format!("\"{name}\""));
            if let Some(child) = child {
                text.push_str(" at ");
                write_location(database, child, parts, text);
            }
        }
        Some(Location::Fused { locations, .. }) => {
            // A fused location may have many parts; a few are enough to find the source.
            for (index, location) in locations.iter().take(4).enumerate() {
                if index != 0 {
                    text.push_str(" and ");
                }
                write_location(database, location, parts, text);
            }
        }
    }
}
