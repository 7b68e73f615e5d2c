//! Executables and the commands that run them.
#![allow(unsafe_code, reason = "prepares the tests' libraries")]

use rehal_hal::{
    Buffer, BufferRef, Command, CommandBuffer, Device, Dispatch, Executable, ExecutableParams,
    ExecutionStage, Live,
};

/// An executable of embedded ELF, for `device`.
pub fn load(device: &Device, data: &[u8]) -> Executable {
    let params = ExecutableParams { label: "executable 4", ..ExecutableParams::new(super::EMBEDDED, data) };
    // SAFETY: the tests' own code.
    unsafe { device.backend().prepare_executable(&params) }.unwrap()
}

/// A dispatch of a function over `workgroups`.
pub fn dispatch<'a>(
    executable: &'a Executable,
    function: &str,
    workgroups: [u32; 3],
    constants: &'a [u8],
    bindings: &'a [BufferRef<&'a Buffer>],
) -> Dispatch<Live<'a>> {
    Dispatch::new(executable, executable.lookup(function).unwrap(), workgroups)
        .constants(constants)
        .bindings(bindings)
}

pub fn barrier(commands: &CommandBuffer) {
    let stages = ExecutionStage::empty();
    let barrier = Command::<Live<'_>>::ExecutionBarrier {
        source_stages: stages,
        target_stages: stages,
        flags: 0,
        memory_barriers: &[],
        buffer_barriers: &[],
    };
    commands.record(&barrier).unwrap();
}
