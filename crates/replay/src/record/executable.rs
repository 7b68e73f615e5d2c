use std::collections::BTreeSet;

use rehal_base::{Error, Result};
use rehal_capture::layout;
use rehal_hal::{Executable, ExecutableBackend, ExecutableQuery, FunctionInfo, InfoOp};
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

use super::object::Recorded;
use crate::encode;

/// Records function lookups.
impl ExecutableBackend for Recorded<Executable> {
    fn name(&self) -> &str {
        self.base.backend().name()
    }

    fn functions(&self) -> &[FunctionInfo] {
        self.base.functions()
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        let found = self.base.backend().lookup(name);
        let status = match found {
            Some(_) => rehal_base::StatusCode::Ok,
            None => rehal_base::StatusCode::NotFound,
        };
        let op = InfoOp::QueryExecutable { executable: self.id, query: ExecutableQuery::LookupFunction };
        self.stream.with_log(|log| log.calls(self.device, status as u32, |put| encode::info_op(&op, put)));
        found
    }
}

/// Encodes the functions of an executable. Fails, like the reference's recorder, if a replay could not look
/// them up by name.
pub(super) fn metadata(functions: &[FunctionInfo]) -> Result<Vec<u8>> {
    let mut names = BTreeSet::new();
    for (ordinal, function) in functions.iter().enumerate() {
        let name = &function.name;
        if name.is_empty() || name.len() > usize::from(u16::MAX) {
            return Err(Error::failed_precondition(format!(
                "cannot record function {ordinal} of the executable: its name has {} bytes (expected 1 to 65535)",
                name.len()
            )));
        }
        if !names.insert(name) {
            return Err(Error::failed_precondition(format!(
                "cannot record the executable: duplicate function name '{}'",
                name.escape_debug()
            )));
        }
    }
    let parameters = functions.iter().flat_map(|function| &function.parameters);
    let header = layout::ExecutableMetadataHeader {
        function_count: U64::new(functions.len() as u64),
        parameter_count: U64::new(parameters.clone().count() as u64),
        function_name_storage_length: U64::new(names.iter().map(|name| name.len() as u64).sum()),
        ..Default::default()
    };
    let mut bytes = header.as_bytes().to_vec();
    for function in functions {
        let record = layout::FunctionMetadata {
            flags: U64::new(function.flags),
            workgroup_size: function.workgroup_size.map(U32::new),
            constant_count: U16::new(function.constant_count),
            binding_count: U16::new(function.binding_count),
            // The described parameters; the loader's count is that of the declared ones.
            parameter_count: U16::new(function.parameters.len() as u16),
            name_length: U16::new(function.name.len() as u16),
            ..Default::default()
        };
        bytes.extend_from_slice(record.as_bytes());
    }
    for parameter in parameters {
        let record = layout::ParameterMetadata {
            offset: U16::new(parameter.offset),
            flags: U16::new(parameter.flags),
            parameter_type: parameter.kind,
            size: parameter.size,
            ..Default::default()
        };
        bytes.extend_from_slice(record.as_bytes());
    }
    functions.iter().for_each(|function| bytes.extend_from_slice(function.name.as_bytes()));
    Ok(bytes)
}
