//! Dispatches whose arguments are in a form that only other drivers support.
#![allow(unsafe_code, reason = "prepares a fixture")]
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use rehal_base::StatusCode;
use rehal_hal::{
    BufferParams, BufferRef, CachingMode, Command, CommandBufferMode, CommandBufferParams, CommandCategories,
    Dispatch, DispatchFlags, ExecutableParams, QUEUE_AFFINITY_ANY, WorkgroupCount, WorkgroupSchedule,
};
use rehal_local::LocalSync;

#[test]
fn driver_specific_arguments_are_rejected() {
    let device = LocalSync::create(Default::default());
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/cts/constants.embedded.elf");
    let params = ExecutableParams {
        label: "",
        affinity: QUEUE_AFFINITY_ANY,
        caching_mode: CachingMode::empty(),
        format: "embedded-elf-x86_64",
        data: &std::fs::read(path).unwrap(),
        constants: &[],
        workgroups: WorkgroupSchedule::All,
    };
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
            executable: &executable,
            function: 0,
            workgroup_size: [0; 3],
            workgroup_count: WorkgroupCount::Static([1; 3]),
            dynamic_local_memory: 0,
            constants: &constants[..],
            bindings: &bindings[..],
            flags,
        };
        for mode in [CommandBufferMode::ONE_SHOT, CommandBufferMode::ALLOW_INLINE_EXECUTION] {
            let params = CommandBufferParams {
                mode: mode | CommandBufferMode::ONE_SHOT,
                categories: CommandCategories::all(),
                affinity: QUEUE_AFFINITY_ANY,
                binding_capacity: 0,
            };
            let commands = device.create_command_buffer(params).unwrap();
            commands.begin().unwrap();
            let error = commands.record(&Command::Dispatch(dispatch)).unwrap_err();
            assert_eq!(error.code(), StatusCode::Unimplemented, "{error}");
        }
        let submitted = device.queue(QUEUE_AFFINITY_ANY).dispatch(&dispatch);
        assert_eq!(submitted.unwrap_err().code(), StatusCode::Unimplemented);
    }
    let mut bytes = [1; 16];
    output.read(0, &mut bytes).unwrap();
    assert_eq!(bytes, [0; 16]);
}
