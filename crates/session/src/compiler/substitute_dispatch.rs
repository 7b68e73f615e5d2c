//! Dumped dispatches as substitutes in captures: each is compiled to a binary by itself.

use std::ffi::OsString;
use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_replay::{Code, Substitution};

use super::text;
use super::{CompiledDispatch, Compiler};

/// Compiles each replacement that is MLIR to a binary, which replaces the functions that it has, with more
/// flags of the compiler. `compiler` is asked for once there is one; `messages` receives what the compiler
/// prints, by source.
pub fn compile_dispatches(
    substitutions: &mut [Substitution],
    flags: &[OsString],
    compiler: &mut dyn FnMut() -> Result<Compiler>,
    mut messages: impl FnMut(&Path, &str),
) -> Result<()> {
    let mut found = None;
    for substitution in substitutions {
        let replacement = &mut substitution.replacement;
        let Code::File(path) = &replacement.code else { continue };
        if !path.extension().is_some_and(|it| it == "mlir" || it == "mlirbc") {
            continue;
        }
        let path = path.clone();
        let place = || format!("the substitute for {}", substitution.selector);
        let compiler = match &found {
            Some(compiler) => compiler,
            None => found.insert(compiler().context(place)?),
        };
        let compiled = compiler.dispatch(&path, flags).context(place)?;
        if !compiled.messages.is_empty() {
            messages(&path, &compiled.messages);
        }
        let format = replacement.format.take();
        *replacement = compiled.into_replacement(path.display().to_string());
        replacement.format = format;
    }
    Ok(())
}

impl Compiler {
    /// Compiles a dumped dispatch to the binary of its target.
    fn dispatch(&self, path: &Path, flags: &[OsString]) -> Result<CompiledDispatch> {
        match self.compile_dispatch_file(path, flags) {
            Ok(compiled) => Ok(compiled),
            Err(error) => Err(match self.text(path).map(|text| text::executables(&text)) {
                Ok(executables) => match &executables[..] {
                    [only] if only.variants.len() == 1 => error,
                    [only] => Error::invalid_argument(format!(
                        "'{}' is for {} targets, and a substitute is for one",
                        path.display(),
                        only.variants.len()
                    ))
                    .advise("leave the variant for the captured target"),
                    found => Error::invalid_argument(format!(
                        "'{}' has {} executables, not one dispatch",
                        path.display(),
                        found.len()
                    ))
                    .advise(
                        "name a source as the compiler dumps it: --iree-hal-dump-executable-sources-to=DIR",
                    ),
                },
                Err(_) => error,
            }),
        }
    }
}
