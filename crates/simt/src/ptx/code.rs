use std::collections::HashMap;

use rehal_base::{Fault, FormatError};

use super::ast::{Initial, ModuleText, Variable};
use super::op::Place;
use super::program::{Names, Program, bits_of};
use super::{lexer, lower, parser};
use crate::Limits;
use crate::function::{Function, Symbol};

/// A module.
#[derive(Debug)]
pub(crate) struct Code {
    pub text: String,
    pub target: String,
    pub functions: Vec<Function>,
    /// The code of each function.
    pub programs: Vec<Program>,
    pub symbols: Vec<Symbol>,
    /// The initial bytes of the variables.
    pub variables: Vec<u8>,
}

/// Reads a module; see [`Module::parse_ptx`](crate::Module::parse_ptx).
pub(crate) fn parse(bytes: &[u8], limits: &Limits) -> Result<Code, FormatError> {
    let error = |fault, at: usize, expected: String, found: String| {
        FormatError::new("PTX", fault, at as u64, "text", expected, found)
    };
    if bytes.len() > limits.text_bytes {
        let expected = format!("at most {} bytes", limits.text_bytes);
        return Err(error(Fault::Unsupported, 0, expected, format!("{} bytes", bytes.len())));
    }
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = str::from_utf8(bytes).map_err(|it| {
        let at = it.valid_up_to();
        error(Fault::Corrupt, at, "UTF-8".to_owned(), format!("{:#04x}", bytes[at]))
    })?;
    let module = parser::Parser::new(text, *limits).module()?;
    let (names, symbols, variables) = names(text, &module, *limits)?;
    let (mut functions, mut programs, mut instructions) = (Vec::new(), Vec::new(), 0);
    for function in module.functions.iter().filter(|it| it.body.is_some()) {
        // Functions that no kernel calls are verified as well.
        let (lowered, program) = lower::lower(&names, function)?;
        instructions += program.code.len();
        if instructions > limits.instructions {
            let expected = format!("at most {} instructions", limits.instructions);
            return Err(lexer::error_at(text, function.at, Fault::Unsupported, expected, "more"));
        }
        if function.is_entry {
            functions.push(lowered);
            programs.push(program);
        }
    }
    let target = module.target.to_owned();
    Ok(Code { text: text.to_owned(), target, functions, programs, symbols, variables })
}

/// Resolves the names of a module. Returns them with the layout and the initial bytes of its variables.
fn names<'a>(
    text: &'a str,
    module: &'a ModuleText<'a>,
    limits: Limits,
) -> Result<(Names<'a>, Vec<Symbol>, Vec<u8>), FormatError> {
    let mut names = Names { text, limits, variables: HashMap::new(), functions: HashMap::new() };
    let (mut symbols, mut end) = (Vec::new(), 0_u64);
    let twice = |at, name: &str| {
        lexer::error_at(text, at, Fault::Corrupt, "names that are declared once", format!("'{name}' again"))
    };
    for variable in &module.variables {
        let mut offset = 0;
        if variable.space != Place::Shared {
            let (align, bytes) = (u64::from(variable.align), variable.bytes.unwrap_or(0));
            offset = end.next_multiple_of(align);
            end = offset + bytes;
            if end > limits.variable_bytes.into() || variable.is_external {
                let expected = match variable.is_external {
                    true => "a variable of this module".to_owned(),
                    false => format!("at most {} bytes of variables", limits.variable_bytes),
                };
                let found = if variable.is_external { "one of another" } else { "more" };
                return Err(lexer::error_at(text, variable.at, Fault::Unsupported, expected, found));
            }
            let (offset, bytes) = (offset as u32, bytes as u32);
            symbols.push(Symbol { name: variable.name.to_owned(), offset, bytes });
        }
        if names.variables.insert(variable.name, (variable, offset as u32)).is_some() {
            return Err(twice(variable.at, variable.name));
        }
    }
    for function in &module.functions {
        // A declaration may precede the definition.
        let is_new = names.functions.get(function.name).is_none_or(|it| it.body.is_none());
        if names.variables.contains_key(function.name) || (function.body.is_some() && !is_new) {
            return Err(twice(function.at, function.name));
        }
        if is_new {
            names.functions.insert(function.name, function);
        }
    }
    let mut bytes = vec![0; end as usize];
    for variable in &module.variables {
        initialize(&names, variable, &mut bytes)?;
    }
    Ok((names, symbols, bytes))
}

/// Writes the initial value of a variable.
fn initialize(names: &Names<'_>, variable: &Variable<'_>, bytes: &mut [u8]) -> Result<(), FormatError> {
    let size = variable.kind.bytes() as usize;
    let start = names.variables.get(variable.name).map_or(0, |it| it.1 as usize);
    for (index, initial) in variable.initial.iter().enumerate() {
        let value = match *initial {
            Initial::Number(number) => bits_of(number, variable.kind),
            Initial::Address { name, offset } => {
                // Addresses in `.global` and `.const` are generic ones.
                let target = names.variables.get(name).filter(|it| size >= 4 && it.0.space != Place::Shared);
                target.map(|it| (crate::VARIABLES_ADDRESS + u64::from(it.1)).wrapping_add(offset as u64))
            }
        };
        let Some(value) = value else {
            let expected = "constants of the variable's type, or addresses of variables";
            let found = format!("another value for '{}'", variable.name);
            return Err(lexer::error_at(names.text, variable.at, Fault::Unsupported, expected, found));
        };
        let at = start + index * size;
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(())
}
