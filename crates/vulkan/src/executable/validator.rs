//! Validation of SPIR-V modules by `spirv-val` (SPIRV-Tools), for users who have it.

use std::io::{ErrorKind, Write};
use std::process::{Command, Stdio};

use rehal_base::{Context, Error, Result, StatusCode};

use rehal_formats::vulkan::Image;

const VALIDATOR: &str = "spirv-val";
/// The rules of the latest version that the driver needs, which include those of earlier versions of SPIR-V.
const TARGET: &str = "vulkan1.3";

/// Validates all modules of an executable. Fails with `INVALID_ARGUMENT` and the validator's message if one
/// is invalid, and with `UNAVAILABLE` if `spirv-val` cannot be run.
pub fn validate(image: &Image) -> Result<()> {
    for (ordinal, shader) in image.shaders.iter().enumerate() {
        let words: Vec<u8> = shader.words().iter().flat_map(|word| word.to_le_bytes()).collect();
        validate_module(&words).context(|| format!("SPIR-V module {ordinal}"))?;
    }
    Ok(())
}

fn validate_module(bytes: &[u8]) -> Result<()> {
    let failed = |error: std::io::Error| {
        Error::new(StatusCode::Unavailable, format!("cannot run '{VALIDATOR}': {error}"))
            .advise("install SPIRV-Tools (Debian: spirv-tools)")
    };
    let mut validator = Command::new(VALIDATOR)
        // As compilers for Vulkan lay out data, with the features that drivers enable for it.
        .args(["--target-env", TARGET, "--scalar-block-layout", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(failed)?;
    let written = validator.stdin.take().expect("it is a pipe").write_all(bytes);
    let output = validator.wait_with_output().map_err(failed)?;
    // It may fail before it has read everything.
    written
        .or_else(|error| if error.kind() == ErrorKind::BrokenPipe { Ok(()) } else { Err(failed(error)) })?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let message = String::from_utf8_lossy(&output.stderr);
            Err(Error::invalid_argument(format!("{VALIDATOR}: {}", message.trim())))
        }
    }
}
