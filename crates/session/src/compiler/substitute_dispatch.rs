//! Dumped dispatches as substitutes in captures: each is compiled to a binary by itself.

use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_replay::{Code, Substitution};

use super::text;
use super::{Compilation, Compiler};

/// Compiles each replacement that is MLIR to a binary, which replaces the functions that it has. `compiler`
/// is asked for once there is one; `messages` receives what the compiler prints, by source.
pub fn compile_dispatches(
    substitutions: &mut [Substitution],
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
        let (bytes, printed) = compiler.dispatch(&path).context(place)?;
        if !printed.trim().is_empty() {
            messages(&path, printed.trim_end());
        }
        replacement.code = Code::Bytes(bytes.into());
        replacement.name = Some(path.display().to_string());
        replacement.keeps_missing = true;
    }
    Ok(())
}

impl Compiler {
    /// Compiles a dumped dispatch to the binary of its target. Returns the binary, and what was printed.
    fn dispatch(&self, path: &Path) -> Result<(Vec<u8>, String)> {
        let compilation = Compilation::new(path, ["--compile-mode=hal-executable"]);
        match self.compile(&compilation) {
            Ok(compiled) => Ok((compiled.bytes().to_vec(), compiled.messages)),
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
