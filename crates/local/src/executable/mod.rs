//! Refuses every executable until the loader lands here.
#![allow(missing_docs, clippy::missing_safety_doc, unsafe_code)]
use rehal_base::{Error, Result};
use rehal_hal::{Executable, ExecutableBackend, ExecutableParams, FunctionInfo};
#[derive(Default)]
pub struct Plugins;
pub struct LocalExecutable;
pub struct MemorySpan {
    pub pointer: *mut u8,
    pub length_bytes: usize,
}
pub struct DispatchArguments<'a> {
    pub workgroup_count: [u32; 3],
    pub workgroup_size: [u32; 3],
    pub constants: &'a [u32],
    pub bindings: &'a [MemorySpan],
}
impl LocalExecutable {
    pub unsafe fn prepare(_: &ExecutableParams<'_>, _: &Plugins) -> Result<Self> {
        Err(Error::unimplemented("no executables yet"))
    }
    pub fn of(e: &Executable) -> Result<&Self> {
        e.backend().as_any().downcast_ref().ok_or_else(|| Error::invalid_argument("an executable of another driver"))
    }
    pub fn run(&self, _: u32, _: &DispatchArguments<'_>, _: u32) -> Result<()> {
        Ok(())
    }
}
impl ExecutableBackend for LocalExecutable {
    fn name(&self) -> &str {
        ""
    }
    fn functions(&self) -> &[FunctionInfo] {
        &[]
    }
    fn as_any(&self) -> &dyn std::any::Any {
        self
    }
}
pub fn infer_format(_: &[u8]) -> Option<&'static str> {
    None
}
pub fn is_supported(_: &str) -> bool {
    false
}
pub fn query_processor(_: &str) -> Result<i64> {
    Ok(0)
}
