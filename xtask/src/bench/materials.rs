//! Inputs of the program cases: modules, arguments and parameters, generated or found.

use super::prepare::{Made, Workplace};
use std::error::Error;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

/// Bytes of the parameter used from the large file.
pub const USED_PARAMETER_BYTES: u64 = 64 << 20;

/// Bytes of the recorded inputs.
pub const INPUT_BYTES: u64 = 1 << 30;

/// A program that uses 64 MiB in the middle of a much larger parameter file.
const PART_OF_PARAMETERS: &str = include_str!("programs/part_of_parameters.mlir");

/// A program that takes 1 GiB and returns four numbers of it.
const LARGE_INPUT: &str = include_str!("programs/large_input.mlir");

impl Workplace {
    /// A generated file with this name.
    pub fn scratch(&self, name: &str) -> PathBuf {
        self.made_directory().join(name)
    }

    /// A fixture program, compiled for every x86-64 processor.
    pub fn program(&self, name: &str) -> Made {
        let source = fs::read_to_string(self.fixture(&format!("programs/{name}.mlir")))?;
        self.compile(name, &source)
    }

    /// The arguments of a call of a fixture's function; inputs that start with `@` are files of the fixtures.
    pub fn call(&self, module: &str, function: &str, inputs: &[&str]) -> Vec<String> {
        let mut arguments = vec![
            format!("--module={}", self.fixture(&format!("modules/{module}.vmfb")).display()),
            format!("--function={function}"),
        ];
        arguments.extend(inputs.iter().map(|input| match input.strip_prefix('@') {
            Some(file) => format!("--input=@{}", self.fixture(&format!("inputs/{file}")).display()),
            None => format!("--input={input}"),
        }));
        arguments
    }

    /// The arguments of a program that uses 64 MiB of a parameter file of 2 GiB.
    pub fn large_parameters(&self, mode: &str) -> Result<Vec<String>, Box<dyn Error>> {
        let module = self.compile("part", PART_OF_PARAMETERS)?;
        let archive = self.scratch("part.irpa");
        if !archive.is_file() {
            let unfinished = self.scratch("part.irpa.unfinished");
            let used = USED_PARAMETER_BYTES / 4;
            let rest = ((2_u64 << 30) - USED_PARAMETER_BYTES) / 8;
            // Unread parts stay sparse, so that the file takes no disk space.
            let arguments = vec![
                format!("--data=before={rest}xf32"),
                format!("--data=used={used}xf32"),
                format!("--data=later={rest}xf32"),
                format!("--output={}", unfinished.display()),
            ];
            self.tool("iree-create-parameters", arguments)?;
            fs::rename(&unfinished, &archive)?;
        }
        Ok(vec![
            format!("--module={}", module.display()),
            "--function=first".into(),
            format!("--parameters=big={}", archive.display()),
            format!("--parameter_mode={mode}"),
        ])
    }

    /// The arguments of a program that takes 1 GiB from a file.
    pub fn large_input(&self) -> Result<Vec<String>, Box<dyn Error>> {
        let module = self.compile("large_input", LARGE_INPUT)?;
        let input = self.scratch("large_input.bin");
        if !input.is_file() {
            let unfinished = self.scratch("large_input.bin.unfinished");
            let mut file = fs::File::create(&unfinished)?;
            let block: Vec<u8> = (0..1_u32 << 18).flat_map(|n| (n as f32).to_le_bytes()).collect();
            for _ in 0..INPUT_BYTES / block.len() as u64 {
                file.write_all(&block)?;
            }
            fs::rename(&unfinished, &input)?;
        }
        Ok(vec![
            format!("--module={}", module.display()),
            "--function=first".into(),
            format!("--input={}xf32=@{}", INPUT_BYTES / 4, input.display()),
        ])
    }
}
