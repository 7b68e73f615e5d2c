//! State that kernels may change of the process by system calls, and a tool does not expect: its working
//! directory, to which the paths of its output are relative, its umask, its signals.

use std::sync::OnceLock;

use rehal_crash::ProcessState;

use crate::output;

/// The state before kernels run.
static STATE: OnceLock<ProcessState> = OnceLock::new();

/// Kernels run from now on in this process.
pub(crate) fn note() {
    let _ = STATE.set(ProcessState::capture());
}

/// The tool itself has set its umask to this.
pub(crate) fn expect_umask(umask: u32) {
    if let Some(state) = STATE.get() {
        state.expect_umask(umask);
    }
}

/// Makes the state what it was, and says what a kernel has changed. For the thread of the tool, before it
/// writes output and at its end.
pub(crate) fn restore() {
    let Some(state) = STATE.get() else { return };
    let changed = state.restore();
    if !changed.is_empty() {
        output::note(&format!(
            "warning: a kernel has changed {} of the process, which is restored: other kernels may have found it \
             changed",
            changed.join(", ")
        ));
    }
}
