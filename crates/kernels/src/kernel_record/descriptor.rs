//! The descriptor of a recorded kernel.

use std::path::Path;

use rehal_base::{Error, Result, StatusCode};
use serde::{Deserialize, Serialize};

/// The description of a recorded dispatch, in JSON. Its keys up to `ArgOffsets` are those of LLVM's offload
/// kernel records; docs/formats.md has them all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct KernelDescriptor {
    /// The name of the function; its ordinal, such as `#0`, if nothing names it.
    pub name: String,
    /// Number of arguments: bindings, then constants.
    pub num_args: u64,
    /// Number of workgroups.
    pub num_teams: u64,
    /// Number of threads of a workgroup.
    pub num_threads: u64,
    /// Dynamic workgroup-local memory in bytes.
    pub shared_memory_size: u32,
    /// Zero: loops are in the kernel.
    pub loop_trip_count: u64,
    /// The index of the device.
    pub device_id: u32,
    /// The address of the device allocation: zero, so that addresses are offsets.
    #[serde(rename = "VAllocAddr")]
    pub allocation_address: u64,
    /// The size of the device allocation in bytes.
    #[serde(rename = "VAllocSize")]
    pub allocation_bytes: u64,
    /// The smallest and largest number of workgroups of a replay; not limited if the first is zero.
    pub teams_limits: [u64; 2],
    /// The smallest and largest number of threads of a replay; not limited if the first is zero.
    pub threads_limits: [u64; 2],
    /// The values of the arguments: the address of the allocation for a binding, and the number for a
    /// constant.
    pub arg_ptrs: Vec<u64>,
    /// The offset that is added to each: that of a binding in the allocation.
    pub arg_offsets: Vec<u64>,

    /// Version of the descriptor: 1.
    pub format_version: u32,
    /// The ordinal of the function in the executable.
    pub function_ordinal: u32,
    /// The format of the executable, such as `embedded-elf-x86_64`.
    pub executable_format: String,
    /// The specialization constants of the executable.
    pub specialization_constants: Vec<u32>,
    /// Number of workgroups in x, y and z.
    pub workgroup_count: [u32; 3],
    /// Workgroup size in x, y and z; zero if the driver chooses.
    pub workgroup_size: [u32; 3],
    /// 32-bit constants.
    pub constants: Vec<u32>,
    /// The bindings, by ordinal.
    pub bindings: Vec<DescribedBinding>,
    /// The files beside the descriptor.
    pub files: DescribedFiles,
    /// Where the dispatch was.
    pub source: DescribedSource,
}

/// A binding: a range of the device allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct DescribedBinding {
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// Whether kernels cannot write the memory that was bound.
    pub read_only: bool,
    /// The first binding with some of the same bytes, by ordinal.
    pub alias_of: Option<u32>,
}

/// Names of files in the directory of the descriptor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct DescribedFiles {
    /// The executable.
    pub image: String,
    /// The device allocation before the dispatch.
    pub record_input: String,
    /// The device allocation after it; `None` if that was not recorded, or the dispatch did not end.
    pub record_output: Option<String>,
}

/// The recorded dispatch in its capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
#[non_exhaustive]
pub struct DescribedSource {
    /// The ordinal of its record.
    pub record: u32,
    /// Its occurrence among those of its record.
    pub occurrence: u64,
    /// The executable's id.
    pub executable_id: u64,
}

/// The version that is written and read.
pub(super) const VERSION: u32 = 1;
/// Maximum size of a descriptor in bytes: a dispatch has at most 65,535 constants and as many bindings.
const MAX_BYTES: usize = 32 << 20;
/// The extensions of the files of a record, beside the descriptor's.
pub(super) const IMAGE: &str = "image";
pub(super) const INPUT: &str = "record_input";
pub(super) const OUTPUT: &str = "record_output";
pub(super) const REPLAYED: &str = "replay_output";

const ADVICE: &str = "name a descriptor that was recorded with a kernel, with its other files beside it";

impl KernelDescriptor {
    /// The extension of the file to which a replay writes the device allocation after the dispatch, beside
    /// the descriptor.
    pub const REPLAY_OUTPUT: &str = REPLAYED;
    /// The extension of the image of a kernel that was recorded by this library: beside its descriptor.
    pub const IMAGE: &str = IMAGE;

    /// Reads and checks a descriptor. Ranges are in the allocation and lists fit; whether files exist is not
    /// checked.
    pub fn parse(text: &[u8]) -> Result<Self> {
        if text.len() > MAX_BYTES {
            return Err(invalid(format!("it has {} bytes, more than {MAX_BYTES}", text.len())));
        }
        /// Read first: the keys of another version may be others.
        #[derive(Deserialize)]
        #[serde(rename_all = "PascalCase")]
        struct Version {
            format_version: Option<u32>,
        }
        let malformed = |error: serde_json::Error| invalid(error.to_string());
        match serde_json::from_slice::<Version>(text).map_err(malformed)?.format_version {
            Some(VERSION) => {}
            Some(other) => return Err(invalid(format!("it has version {other}, and {VERSION} is known"))),
            None => return Err(invalid("missing field `FormatVersion`, which descriptors of rehal have")),
        }
        let this: Self = serde_json::from_slice(text).map_err(malformed)?;
        this.check()?;
        Ok(this)
    }

    /// Its text: an object, with a line per key.
    pub fn text(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|text| text + "\n").map_err(|error| Error::new(StatusCode::Internal, error.to_string()))
    }

    /// Number of workgroups of a count.
    pub fn teams(count: [u32; 3]) -> u64 {
        product(count)
    }

    fn check(&self) -> Result<()> {
        let (bindings, constants) = (self.bindings.len() as u64, self.constants.len() as u64);
        let arguments = bindings + constants;
        if bindings.max(constants) > u64::from(u16::MAX) {
            return Err(invalid(format!(
                "it has {bindings} bindings and {constants} constants, and a function has at most 65535 of each"
            )));
        }
        for (key, count) in [
            ("NumArgs", self.num_args),
            ("the length of ArgPtrs", self.arg_ptrs.len() as u64),
            ("the length of ArgOffsets", self.arg_offsets.len() as u64),
        ] {
            if count != arguments {
                return Err(invalid(format!(
                    "{key} is {count}, and there are {bindings} bindings and {constants} constants"
                )));
            }
        }
        let teams = product(self.workgroup_count);
        if self.num_teams != teams {
            let [x, y, z] = self.workgroup_count;
            return Err(invalid(format!(
                "NumTeams is {}, and WorkgroupCount has {teams} ({x}x{y}x{z})",
                self.num_teams
            )));
        }
        for (ordinal, it) in self.bindings.iter().enumerate() {
            self.check_binding(ordinal, it)?;
        }
        for (at, constant) in self.constants.iter().enumerate() {
            let index = self.bindings.len() + at;
            if self.arg_ptrs[index] != u64::from(*constant) || self.arg_offsets[index] != 0 {
                return Err(invalid(format!(
                    "argument {index} is {} with offset {}, and constant {at} is {constant}",
                    self.arg_ptrs[index], self.arg_offsets[index]
                )));
            }
        }
        for (key, [least, most]) in
            [("TeamsLimits", self.teams_limits), ("ThreadsLimits", self.threads_limits)]
        {
            if least > most {
                return Err(invalid(format!("{key} are {least} and {most}, of which the first is larger")));
            }
        }
        let files = &self.files;
        let files = [Some(&files.image), Some(&files.record_input), files.record_output.as_ref()];
        files.into_iter().flatten().try_for_each(|name| check_name(name))
    }

    fn check_binding(&self, ordinal: usize, it: &DescribedBinding) -> Result<()> {
        let DescribedBinding { offset, length, .. } = *it;
        let total = self.allocation_bytes;
        if offset.checked_add(length).is_none_or(|end| end > total) {
            return Err(invalid(format!(
                "binding {ordinal} has {length} bytes at offset {offset}, and the allocation has {total} bytes"
            )));
        }
        if self.arg_ptrs[ordinal] != self.allocation_address || self.arg_offsets[ordinal] != offset {
            return Err(invalid(format!(
                "argument {ordinal} is at {} with offset {}, and binding {ordinal} at {} with offset {offset}",
                self.arg_ptrs[ordinal], self.arg_offsets[ordinal], self.allocation_address
            )));
        }
        match it.alias_of {
            Some(other) if other as usize >= ordinal => Err(invalid(format!(
                "binding {ordinal} is an alias of binding {other}, which is not before it"
            ))),
            _ => Ok(()),
        }
    }
}

/// Names that lead out of the directory are refused.
fn check_name(name: &str) -> Result<()> {
    let is_plain = Path::new(name).file_name().is_some_and(|it| it == name) && !name.contains('\0');
    match is_plain {
        true => Ok(()),
        false => Err(invalid(format!(
            "'{}' is not the name of a file in the directory of the descriptor",
            name.escape_debug()
        ))),
    }
}

fn invalid(what: impl Into<String>) -> Error {
    Error::invalid_argument(format!("not a descriptor of a kernel: {}", what.into())).advise(ADVICE)
}

/// Numbers of 32 bits, little-endian.
pub(crate) fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect()
}

/// The number of items in three dimensions, at most what 64 bits count.
pub(super) fn product([x, y, z]: [u32; 3]) -> u64 {
    (u64::from(x) * u64::from(y)).saturating_mul(u64::from(z))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> KernelDescriptor {
        KernelDescriptor {
            name: "f".into(),
            num_args: 3,
            num_teams: 6,
            num_threads: 1,
            shared_memory_size: 0,
            loop_trip_count: 0,
            device_id: 0,
            allocation_address: 0,
            allocation_bytes: 80,
            teams_limits: [1, 6],
            threads_limits: [1, 1],
            arg_ptrs: vec![0, 0, 9],
            arg_offsets: vec![0, 64, 0],
            format_version: VERSION,
            function_ordinal: 0,
            executable_format: "embedded-elf-x86_64".into(),
            specialization_constants: Vec::new(),
            workgroup_count: [1, 2, 3],
            workgroup_size: [0; 3],
            constants: vec![9],
            bindings: vec![
                DescribedBinding { offset: 0, length: 16, read_only: true, alias_of: None },
                DescribedBinding { offset: 64, length: 16, read_only: false, alias_of: None },
            ],
            files: DescribedFiles {
                image: "f.image".into(),
                record_input: "f.record_input".into(),
                record_output: None,
            },
            source: DescribedSource { record: 1, occurrence: 0, executable_id: 2 },
        }
    }

    #[test]
    fn text_is_read_back() {
        let described = descriptor();
        let text = described.text().unwrap();
        assert_eq!(KernelDescriptor::parse(text.as_bytes()).unwrap(), described);
        for key in ["\"VAllocSize\": 80", "\"NumTeams\": 6", "\"ArgOffsets\"", "\"RecordOutput\": null"] {
            assert!(text.contains(key), "{text}");
        }
    }

    #[test]
    fn inconsistent_descriptors_are_refused() {
        let refuse = |change: fn(&mut KernelDescriptor), expected: &str| {
            let mut changed = descriptor();
            change(&mut changed);
            let text = changed.text().unwrap();
            let error = KernelDescriptor::parse(text.as_bytes()).unwrap_err();
            assert!(error.message().contains(expected), "{expected}: {error}");
        };
        refuse(|it| it.format_version = 2, "version 2");
        refuse(|it| it.num_args = 2, "NumArgs is 2");
        refuse(|it| it.arg_ptrs.truncate(2), "ArgPtrs is 2");
        refuse(|it| it.arg_offsets.push(1), "ArgOffsets is 4");
        refuse(|it| it.num_teams = 5, "NumTeams is 5, and WorkgroupCount has 6");
        refuse(|it| it.workgroup_count = [u32::MAX; 3], "WorkgroupCount has 18446744073709551615");
        refuse(|it| it.allocation_bytes = 79, "binding 1 has 16 bytes at offset 64");
        refuse(|it| it.bindings[0].length = u64::MAX, "binding 0 has 18446744073709551615 bytes");
        refuse(|it| it.arg_offsets[1] = 0, "argument 1 is at 0 with offset 0");
        refuse(|it| it.allocation_address = 4096, "argument 0 is at 0");
        refuse(|it| it.arg_ptrs[2] = 8, "argument 2 is 8");
        refuse(|it| it.bindings[1].alias_of = Some(1), "binding 1 is an alias of binding 1");
        refuse(|it| it.teams_limits = [2, 1], "TeamsLimits are 2 and 1");
        for name in ["", ".", "..", "../f", "/f", "a/b", "f/", "f\0"] {
            let mut changed = descriptor();
            changed.files.image = name.into();
            let text = changed.text().unwrap();
            let error = KernelDescriptor::parse(text.as_bytes()).unwrap_err();
            assert!(error.message().contains("not the name of a file"), "{name:?}: {error}");
        }
    }

    #[test]
    fn every_missing_key_and_wrong_type_is_an_error() {
        let whole: serde_json::Value = serde_json::from_str(&descriptor().text().unwrap()).unwrap();
        let keys: Vec<String> = whole.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys.len(), 23);
        for key in &keys {
            let mut changed = whole.clone();
            changed.as_object_mut().unwrap().remove(key);
            let error = KernelDescriptor::parse(changed.to_string().as_bytes()).unwrap_err();
            assert!(error.message().contains(&format!("missing field `{key}`")), "{error}");
            for wrong in [serde_json::json!({"x": 1}), serde_json::json!(-1), serde_json::json!(1e300)] {
                changed[key] = wrong;
                assert!(KernelDescriptor::parse(changed.to_string().as_bytes()).is_err(), "{key}");
            }
        }
    }
}
