use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use rehal_base::{Context, Error, Result};

use crate::flags::*;
use crate::profile::{Identity, ReplayedCommands};
use crate::{
    Binding, Buffer, BufferBarrier, BufferRef, Command, CommandBufferParams, Dispatch, Live, WorkgroupCount,
    transfer_checks,
};

/// A driver's implementation of a command buffer. Called in order, by one thread at a time: `begin`, any
/// number of `record`, `end`.
pub trait CommandBufferBackend: Any + Send + Sync {
    /// Begins recording.
    fn begin(&self) -> Result<()>;

    /// Records a command. The objects it names must be kept alive until the command buffer is dropped.
    fn record(&self, command: &Command<Live<'_>>) -> Result<()>;

    /// The handle has refused `command` because its arguments are wrong. Decorators that log calls log this
    /// one; drivers have nothing to do.
    fn refused(&self, command: &Command<Live<'_>>, error: &Error);

    /// Ends recording and finalizes the commands for execution.
    fn end(&self) -> Result<()>;
}

/// A shared handle to commands that are recorded once and executed as often as the mode allows; cheap to
/// clone.
#[derive(Clone)]
pub struct CommandBuffer(Arc<Shared<dyn CommandBufferBackend>>);

struct Shared<B: ?Sized> {
    identity: Identity,
    params: CommandBufferParams,
    state: AtomicU8,
    replayed: ReplayedCommands,
    /// Required usage per slot, for usage that not every buffer allows: checked when a binding table supplies
    /// the buffers. A map, since slots come from captures and may be sparse.
    slot_usage: Mutex<BTreeMap<u32, BufferUsage>>,
    /// The same as a list, set when recording ends: it is read on each execution.
    final_slot_usage: OnceLock<Box<[(u32, BufferUsage)]>>,
    backend: B,
}

/// The usage that the bindings of a dispatch must allow; which of them it writes is unknown.
pub(crate) const DISPATCH_STORAGE: BufferUsage =
    BufferUsage::DISPATCH_STORAGE_READ.union(BufferUsage::DISPATCH_STORAGE_WRITE);

const INITIAL: u8 = 0;
const RECORDING: u8 = 1;
const READY: u8 = 2;

impl CommandBuffer {
    /// A command buffer over a driver's backend.
    #[doc(hidden)]
    pub fn new(params: CommandBufferParams, backend: impl CommandBufferBackend + 'static) -> Self {
        static LAST_ID: AtomicU64 = AtomicU64::new(0);
        Self::identified(Identity::new(&LAST_ID), params, backend)
    }

    /// As [`CommandBuffer::new`], with the id of the command buffer that the backend decorates.
    #[doc(hidden)]
    pub fn with_id(
        id: u64,
        params: CommandBufferParams,
        backend: impl CommandBufferBackend + 'static,
    ) -> Self {
        Self::identified(Identity::from_id(id), params, backend)
    }

    fn identified(
        identity: Identity,
        params: CommandBufferParams,
        backend: impl CommandBufferBackend + 'static,
    ) -> Self {
        Self(Arc::new(Shared {
            identity,
            params,
            state: AtomicU8::new(INITIAL),
            replayed: ReplayedCommands::default(),
            slot_usage: Mutex::default(),
            final_slot_usage: OnceLock::new(),
            backend,
        }))
    }

    /// Its id in profiles: unique in the process, and never 0.
    pub fn id(&self) -> u64 {
        self.identity().id()
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.0.identity
    }

    pub(crate) fn replayed_commands(&self) -> &ReplayedCommands {
        &self.0.replayed
    }

    /// The parameters it was created with.
    pub fn params(&self) -> &CommandBufferParams {
        &self.0.params
    }

    /// The backend.
    #[doc(hidden)]
    pub fn backend(&self) -> &dyn CommandBufferBackend {
        &self.0.backend
    }

    /// Whether both handles refer to the same command buffer.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Begins recording; a command buffer is recorded once.
    pub fn begin(&self) -> Result<()> {
        self.require_state(INITIAL, "begin")?;
        self.0.backend.begin()?;
        self.0.state.store(RECORDING, Ordering::Release);
        Ok(())
    }

    /// Records a command. Fails if recording is not active, the command's category is not allowed, or a
    /// range, a slot, a size or a usage is invalid.
    #[doc(hidden)]
    pub fn record(&self, command: &Command<Live<'_>>) -> Result<()> {
        self.require_state(RECORDING, "record")?;
        self.check(command).inspect_err(|error| self.0.backend.refused(command, error))?;
        self.0.backend.record(command)?;
        match command {
            Command::Fill { .. } | Command::Update { .. } | Command::Copy { .. } | Command::Dispatch(_) => {
                self.0.replayed.add();
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends recording.
    pub fn end(&self) -> Result<()> {
        self.require_state(RECORDING, "end")?;
        self.0.backend.end()?;
        let slot_usage = std::mem::take(&mut *self.0.slot_usage.lock());
        // A command buffer is recorded only once, so the value is unset.
        let _ = self.0.final_slot_usage.set(slot_usage.into_iter().collect());
        self.0.state.store(READY, Ordering::Release);
        Ok(())
    }

    /// Fails unless recording has ended.
    pub(crate) fn require_ready(&self) -> Result<()> {
        self.require_state(READY, "execute")
    }

    /// Fails unless each buffer of a binding table allows the usage of its slot.
    pub(crate) fn require_slot_usage(&self, bindings: &[BufferRef<&Buffer>]) -> Result<()> {
        let Some(slot_usage) = self.0.final_slot_usage.get() else { return Ok(()) };
        for (slot, usage) in slot_usage {
            if let Some(BufferRef { binding: Binding::Direct(buffer), .. }) = bindings.get(*slot as usize) {
                buffer.require_usage(*usage).context(|| format!("binding slot {slot}"))?;
            }
        }
        Ok(())
    }

    #[inline]
    fn require_state(&self, wanted: u8, verb: &str) -> Result<()> {
        let state = self.0.state.load(Ordering::Acquire);
        if state == wanted { Ok(()) } else { Err(cannot(verb, state)) }
    }

    fn check(&self, command: &Command<Live<'_>>) -> Result<()> {
        match command {
            Command::Fill { target, pattern, .. } => {
                self.require_category(CommandCategories::TRANSFER)?;
                self.check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                transfer_checks::check_fill(target.offset, target.length, pattern)
            }
            Command::Update { source, target, .. } => {
                self.require_category(CommandCategories::TRANSFER)?;
                self.check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                transfer_checks::check_update(source, target.length)
            }
            Command::Copy { source, target, .. } => {
                self.require_category(CommandCategories::TRANSFER)?;
                self.check_ref(source, BufferUsage::TRANSFER_SOURCE)?;
                self.check_ref(target, BufferUsage::TRANSFER_TARGET)?;
                transfer_checks::check_copy(source.length, target.length)
            }
            Command::Dispatch(dispatch) => {
                self.require_category(CommandCategories::DISPATCH)?;
                self.check_dispatch(dispatch)
            }
            Command::Advise { buffer, .. } => {
                self.require_validated_category(CommandCategories::TRANSFER)?;
                self.check_ref(buffer, BufferUsage::empty())
            }
            Command::ExecutionBarrier { buffer_barriers, .. } => self.check_barriers(buffer_barriers),
            Command::WaitEvents { buffer_barriers, .. } => {
                self.require_validated_category(CommandCategories::DISPATCH)?;
                self.check_barriers(buffer_barriers)
            }
            Command::SignalEvent { .. } | Command::ResetEvent { .. } => {
                self.require_validated_category(CommandCategories::DISPATCH)
            }
            Command::BeginDebugGroup { .. } | Command::EndDebugGroup => Ok(()),
        }
    }

    fn check_barriers(&self, barriers: &[BufferBarrier<&Buffer>]) -> Result<()> {
        barriers.iter().try_for_each(|it| self.check_ref(&it.buffer, BufferUsage::empty()))
    }

    fn check_dispatch(&self, dispatch: &Dispatch<Live<'_>>) -> Result<()> {
        dispatch.check_shape()?;
        if let WorkgroupCount::Indirect(buffer) = &dispatch.workgroup_count {
            self.check_ref(buffer, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?;
        }
        for binding in dispatch.bindings {
            self.check_ref(binding, DISPATCH_STORAGE)?;
        }
        Ok(())
    }

    fn check_ref(&self, reference: &BufferRef<&Buffer>, usage: BufferUsage) -> Result<()> {
        match reference.binding {
            Binding::Direct(buffer) => {
                if !self.0.params.mode.contains(CommandBufferMode::UNVALIDATED) {
                    buffer.require_usage(usage)?;
                }
                buffer.resolve(reference.offset, reference.length).map(drop)
            }
            Binding::Slot(slot) if u64::from(slot) < self.0.params.binding_capacity => {
                if !usage.is_empty() && !self.0.params.mode.contains(CommandBufferMode::UNVALIDATED) {
                    *self.0.slot_usage.lock().entry(slot).or_default() |= usage;
                }
                Ok(())
            }
            Binding::Slot(slot) => Err(Error::out_of_range(format!(
                "binding slot {slot} is out of bounds of the command buffer's {} slots",
                self.0.params.binding_capacity
            ))),
        }
    }

    /// The reference checks this for events, collectives and hints only if command buffers are validated;
    /// captures with other categories did run.
    fn require_validated_category(&self, category: CommandCategories) -> Result<()> {
        if self.0.params.mode.contains(CommandBufferMode::UNVALIDATED) {
            return Ok(());
        }
        self.require_category(category)
    }

    fn require_category(&self, category: CommandCategories) -> Result<()> {
        if self.0.params.categories.contains(category) {
            return Ok(());
        }
        Err(Error::failed_precondition(format!(
            "the command buffer does not allow {category:?} commands (allowed: {:?})",
            self.0.params.categories
        )))
    }
}

#[cold]
fn cannot(verb: &str, state: u8) -> Error {
    let is =
        ["has not begun recording", "is still recording", "has already ended recording"][usize::from(state)];
    Error::failed_precondition(format!("cannot {verb}: the command buffer {is}"))
}

impl Dispatch<Live<'_>> {
    /// Checks that do not depend on the binding table: that the function exists and gets the right number of
    /// constants and bindings.
    pub(crate) fn check_shape(&self) -> Result<()> {
        if self.flags.intersects(
            DispatchFlags::CUSTOM_DIRECT_ARGUMENTS
                | DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS
                | DispatchFlags::STATIC_INDIRECT_ARGUMENTS,
        ) {
            // Kernels of all drivers would misread arguments in another form.
            return Err(Error::unimplemented(format!(
                "dispatches support only constants and bindings as kernel arguments (flags 0x{:x})",
                self.flags.bits()
            )));
        }
        let function = self.executable.function(self.function)?;
        let constant_bytes = usize::from(function.constant_count) * size_of::<u32>();
        if self.constants.len() != constant_bytes {
            return Err(Error::invalid_argument(format!(
                "function '{}' takes {constant_bytes} bytes of constants, the dispatch has {}",
                function.name.escape_debug(),
                self.constants.len()
            )));
        }
        if self.bindings.len() != usize::from(function.binding_count) {
            return Err(Error::invalid_argument(format!(
                "function '{}' takes {} bindings, the dispatch has {}",
                function.name.escape_debug(),
                function.binding_count,
                self.bindings.len()
            )));
        }
        Ok(())
    }
}
