//! Dispatches whose arguments are in a form that no driver supports.
#![allow(unsafe_code, reason = "prepares a fixture")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use rehal_base::StatusCode;
use rehal_hal::{
    BufferParams, BufferRef, Command, CommandBufferMode, CommandBufferParams, Dispatch, DispatchFlags,
    ExecutableParams, QUEUE_AFFINITY_ANY,
};
use rehal_local::LocalSync;

#[test]
fn driver_specific_arguments_are_rejected() {
    let device = LocalSync::create(Default::default());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cts/constants.embedded.elf");
    let data = std::fs::read(path).unwrap();
    let params = ExecutableParams::new("embedded-elf-x86_64", &data);
    // SAFETY: our fixture.
    let executable = unsafe { device.backend().prepare_executable(&params) }.unwrap();
    let output = device.allocate_buffer(BufferParams::default(), 16).unwrap();
    for flags in [
        DispatchFlags::CUSTOM_DIRECT_ARGUMENTS,
        DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS,
        DispatchFlags::STATIC_INDIRECT_ARGUMENTS,
    ] {
        let bindings = [BufferRef::whole(&output)];
        let constants = [1u8; 16];
        let dispatch = Dispatch {
            flags,
            ..Dispatch::new(&executable, 0, [1; 3]).constants(&constants[..]).bindings(&bindings[..])
        };
        let mut refused = Vec::new();
        for mode in [CommandBufferMode::ONE_SHOT, CommandBufferMode::ALLOW_INLINE_EXECUTION] {
            let params = CommandBufferParams {
                mode: mode | CommandBufferMode::ONE_SHOT,
                ..CommandBufferParams::default()
            };
            let commands = device.create_command_buffer(params).unwrap();
            commands.begin().unwrap();
            let error = commands.record(&Command::Dispatch(dispatch)).unwrap_err();
            refused.push(error);
        }
        refused.push(device.queue(QUEUE_AFFINITY_ANY).dispatch(&dispatch).unwrap_err());
        for error in refused {
            assert_eq!(error.code(), StatusCode::Unimplemented, "{error}");
            let words = "dispatches support only constants and bindings as kernel arguments";
            assert_eq!(error.message(), format!("{words} (flags 0x{:x})", flags.bits()));
        }
    }
    let mut bytes = [1; 16];
    output.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 16]);
}
