//! Dumped dispatches as substitutes in captures: each is compiled to a binary by itself.

use std::ffi::OsString;
use std::path::Path;

use rehal_base::{Context, Error, Result};
use rehal_replay::{Code, DispatchedFunction, Substitution};

use super::substitute::check_bodies;
use super::text::{self, ExecutableVariant};
use super::{CompiledDispatch, Compiler};

/// Compiles each replacement that is MLIR to a binary, which replaces the functions that it has, with more
/// flags of the compiler. `compiler` is asked for once there is one; `messages` receives what the compiler
/// prints, by source. Fails if a source is for larger bindings than it is dispatched with: it would access
/// other memory.
pub fn compile_dispatches(
    substitutions: &mut [Substitution],
    dispatched: &[DispatchedFunction],
    flags: &[OsString],
    compiler: &mut dyn FnMut() -> Result<Compiler>,
    mut messages: impl FnMut(&Path, &str),
) -> Result<()> {
    let mut found = None;
    for substitution in substitutions {
        let replacement = &mut substitution.replacement;
        let path = match &replacement.code {
            Code::File(path) if replacement.is_dispatch() => path.clone(),
            _ => continue,
        };
        let place = || format!("the substitute for {}", substitution.selector);
        check_text(&path, dispatched).context(place)?;
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

/// Checks that a source defines its functions, and compares its bindings, as far as its text says their
/// sizes, with those of dispatches.
fn check_text(path: &Path, dispatched: &[DispatchedFunction]) -> Result<()> {
    // Bytecode does not say.
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(()) };
    let executables = text::executables(&text::without_comments(&text));
    // One whose functions are not found is written in another form than the compiler's.
    let is_read = |it: &&ExecutableVariant| !it.bodies.is_empty();
    let variants = || executables.iter().flat_map(|it| &it.variants).filter(is_read);
    variants().try_for_each(|it| check_bodies(it, &path.display()))?;
    for function in variants().flat_map(|it| &it.functions) {
        let needed = &function.binding_bytes;
        for it in dispatched.iter().filter(|it| it.name == function.name) {
            // The bindings are the last ones.
            let Some(first) = it.binding_bytes.len().checked_sub(needed.len()) else { continue };
            let pairs = needed.iter().zip(&it.binding_bytes[first..]).enumerate();
            for (index, (needed, bound)) in pairs {
                if let (Some(needed), Some(bound)) = (needed, bound)
                    && needed > bound
                {
                    let (path, name) = (path.display(), function.name.escape_debug());
                    let message = format!(
                        "function '{name}' of '{path}' accesses {needed} bytes of binding {index}, of which {bound} are bound"
                    );
                    return Err(
                        Error::invalid_argument(message).advise("write it for the shapes of the dispatch")
                    );
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Accesses 128 bytes of binding 0, and a number of bytes of binding 1 that its text does not say.
    const SOURCE: &str = r#"
  hal.executable private @add_dispatch_0 {
    hal.executable.variant public @embedded target(<"llvm-cpu", "embedded-elf-x86_64", {}>) {
      hal.executable.export public @add_f32 ordinal(0) layout(#hal.pipeline.layout<bindings = [#hal.pipeline.binding<storage_buffer>, #hal.pipeline.binding<storage_buffer>]>)
      builtin.module {
        func.func @add_f32() {
          %c0 = arith.constant 0 : index
          %0 = hal.interface.binding.subspan layout(<>) binding(0) offset(%c0) : memref<4x8xf32>
          %1 = hal.interface.binding.subspan layout(<>) binding(1) offset(%arg0) : memref<4xi8>
          return
        }
      }
    }
  }
"#;

    fn dispatched(name: &str, binding_bytes: &[Option<u64>]) -> DispatchedFunction {
        DispatchedFunction { name: name.into(), binding_bytes: binding_bytes.to_vec() }
    }

    /// Without this test, a source may be compared with the bindings of another function, or with other ones.
    #[test]
    fn a_source_is_compared_with_the_dispatches_of_its_function() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), SOURCE).unwrap();
        let accesses = format!(
            "function 'add_f32' of '{}' accesses 128 bytes of binding 0, of which 127 are bound",
            file.path().display()
        );
        let (fits, short) = ([Some(128), Some(1)], [Some(127), Some(1)]);
        for (name, bytes, is_refused) in [
            ("add_f32", &fits[..], false),
            ("add_f32", &short, true),
            ("other", &short, false),
            ("", &short, false),
            ("add_f32", &[None, Some(0)], false),
            // Of a program, others precede them.
            ("add_f32", &[Some(1), Some(128), Some(1)], false),
            ("add_f32", &[Some(128), Some(127), Some(1)], true),
            ("add_f32", &[Some(1)], false),
        ] {
            // The others fit.
            let all = [dispatched("add_f32", &fits), dispatched(name, bytes), dispatched("add_f32", &fits)];
            let outcome = check_text(file.path(), &all);
            let message = outcome.err().map(|error| error.message().to_owned());
            assert_eq!(message.as_ref(), is_refused.then_some(&accesses), "{name} {bytes:?}");
        }
        // What is not text says no sizes.
        std::fs::write(file.path(), [0xff, 0xfe]).unwrap();
        assert!(check_text(file.path(), &[dispatched("add_f32", &short)]).is_ok());
    }
}
