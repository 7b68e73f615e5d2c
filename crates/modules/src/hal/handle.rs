use rehal_base::Result;
use rehal_hal::{Buffer, BufferView, CommandBuffer, Device, Event, Fence, File, Semaphore};
use rehal_vm::{NamedObject, Object, Ref};

/// A HAL handle as an object that programs reference.
pub struct Handle<T>(pub T);

/// A kind of handle known to programs.
pub trait HandleType: Send + Sync + 'static {
    /// Its name in programs, without the `!`.
    const NAME: &'static str;
}

/// A device's allocator: the device itself, under the type name that programs allocate from.
#[derive(Clone)]
pub struct Allocator(pub Device);

macro_rules! kinds {
    ($($type:ty: $name:literal;)*) => {$(
        impl HandleType for $type {
            const NAME: &'static str = $name;
        }
    )*};
}

kinds! {
    Allocator: "hal.allocator";
    Buffer: "hal.buffer";
    BufferView: "hal.buffer_view";
    CommandBuffer: "hal.command_buffer";
    Device: "hal.device";
    Event: "hal.event";
    Fence: "hal.fence";
    File: "hal.file";
    Semaphore: "hal.semaphore";
}

impl<T: HandleType> Object for Handle<T> {
    fn type_name(&self) -> &'static str {
        T::NAME
    }
}

impl<T: HandleType> NamedObject for Handle<T> {
    const TYPE_NAME: &'static str = T::NAME;
}

impl<T: HandleType> Handle<T> {
    /// A new reference to a handle.
    pub fn reference(handle: T) -> Ref {
        Ref::new(Self(handle))
    }

    /// The handle behind a reference, which must be of this kind.
    pub fn of(reference: &Ref) -> Result<&T> {
        Ok(&reference.object::<Self>()?.0)
    }
}
