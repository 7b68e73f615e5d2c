use std::sync::Arc;

use rehal_base::{Error, Result};
use rehal_hal::{
    CachingMode, Device, Executable, ExecutableParams, NeededWorkgroups, ReplacedFunction, WorkgroupSchedule,
};
use rehal_vm::Call;

use super::HalState;
use super::arguments::{bytes, handle, optional_bytes, text};
use super::handle::{Handle, HandleType};

/// The code that runs in place of each function of an executable of a program, which has been prepared with
/// these parameters. `None` if the program's own code runs.
pub type Substitute = Arc<
    dyn Fn(&Device, &ExecutableParams<'_>, &Executable) -> Result<Option<Vec<ReplacedFunction>>>
        + Send
        + Sync,
>;

/// An executable of a program.
pub struct ProgramExecutable {
    own: Executable,
    /// By ordinal of the own functions, if other code runs.
    replaced: Option<Vec<ReplacedFunction>>,
}

impl HandleType for ProgramExecutable {
    const NAME: &'static str = "hal.executable";
}

impl ProgramExecutable {
    /// The executable for a function of the program, and the workgroups that it needs.
    pub(super) fn function(&self, ordinal: u32) -> (&Executable, u32, &NeededWorkgroups) {
        match self.replaced.as_ref().and_then(|functions| functions.get(ordinal as usize)) {
            Some(it) => (&it.executable, it.function, &it.workgroups),
            None => (&self.own, ordinal, &NeededWorkgroups::Same),
        }
    }
}

/// `(device, affinity, format, data, constants) -> executable`
pub(super) fn create(state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let device: &Device = handle(call, 0)?;
    let constants = constants(&optional_bytes(call, 4)?)?;
    if state.entry(device).is_none() {
        return Err(Error::not_found(
            "no executable cache for the given device found; possibly a device not registered with the HAL module",
        ));
    }
    let mut caching_mode = CachingMode::ALLOW_PERSISTENT_CACHING | CachingMode::ALLOW_OPTIMIZATION;
    if !call.object::<rehal_vm::Buffer>(3)?.is_mutable() {
        // The module's compiled data lives as long as the program.
        caching_mode |= CachingMode::ALIAS_PROVIDED_DATA;
    }
    let params = ExecutableParams {
        label: "",
        affinity: call.u64(1)?,
        caching_mode,
        format: &text(call, 2)?,
        data: &bytes(call, 3)?,
        constants: &constants,
        workgroups: WorkgroupSchedule::All,
    };
    let own = prepare(device, &params)?;
    let replaced = match &state.substitute {
        Some(substitute) => substitute(device, &params, &own)?,
        None => None,
    };
    let executable = ProgramExecutable { own, replaced };
    call.push(Handle::reference(executable));
    Ok(())
}

/// `(executable, name) -> function`
pub(super) fn lookup_function(_state: &HalState, call: &mut Call<'_>) -> Result<()> {
    let function = handle::<ProgramExecutable>(call, 0)?.own.lookup(&text(call, 1)?)?;
    call.push(i64::from(function));
    Ok(())
}

/// Prepares code of the running program.
#[allow(unsafe_code, reason = "docs/unsafe.md says what running one means")]
fn prepare(device: &Device, params: &ExecutableParams<'_>) -> Result<Executable> {
    // SAFETY: the code is part of the module that the user asked to run. Running a module implies trusting
    // its executables, which have the user's privileges.
    unsafe { device.backend().prepare_executable(params) }
}

fn constants(bytes: &[u8]) -> Result<Vec<u32>> {
    let (words, rest) = bytes.as_chunks::<4>();
    if !rest.is_empty() {
        return Err(Error::invalid_argument(format!(
            "constant buffer data must contain 4-byte elements but data length is {}",
            bytes.len()
        )));
    }
    Ok(words.iter().map(|word| u32::from_le_bytes(*word)).collect())
}
