use std::any::Any;
use std::fmt;
use std::sync::Arc;

use rehal_base::{Error, Result};

use crate::{Buffer, List};

/// An object that a program can reference: a buffer view, a fence, a list.
///
/// Its type name is that of the modules' type tables, without the `!` ("hal.buffer_view").
pub trait Object: Any + Send + Sync {
    /// The name of the object's type, the same for all objects of one Rust type.
    fn type_name(&self) -> &'static str;
}

/// A Rust type whose type name is known statically, for errors that name the expected type.
pub trait NamedObject: Object {
    /// The value of [`Object::type_name`].
    const TYPE_NAME: &'static str;
}

/// A reference-counted reference of a program to an object, or null. Cloning it shares the object.
#[derive(Clone, Default)]
pub struct Ref(Held);

/// The referent. Buffers and lists have their own variants: programs access their elements one by one, and
/// comparing a tag is faster than a virtual call for the type.
#[derive(Clone, Default)]
enum Held {
    #[default]
    Null,
    Buffer(Arc<Buffer>),
    List(Arc<List>),
    Object(Arc<dyn Object>),
}

impl Ref {
    /// The null reference.
    pub const NULL: Self = Self(Held::Null);

    /// A reference to a new object.
    #[doc(hidden)]
    pub fn new(object: impl Object) -> Self {
        Self::from_arc(Arc::new(object))
    }

    /// A reference to a shared object.
    #[doc(hidden)]
    pub fn from_arc<T: Object>(object: Arc<T>) -> Self {
        let mut object = Some(object);
        let any: &mut dyn Any = &mut object;
        if let Some(buffer) = any.downcast_mut::<Option<Arc<Buffer>>>().and_then(Option::take) {
            return Self(Held::Buffer(buffer));
        }
        if let Some(list) = any.downcast_mut::<Option<Arc<List>>>().and_then(Option::take) {
            return Self(Held::List(list));
        }
        object.map_or(Self::NULL, |object| Self(Held::Object(object)))
    }

    /// Whether it is null.
    #[inline]
    pub fn is_null(&self) -> bool {
        matches!(self.0, Held::Null)
    }

    /// Stores a clone in `slot`. The clone of each variant is stored as it is made: a returned clone would be
    /// stored in parts and copied as a whole, without store-to-load forwarding.
    #[inline(always)]
    pub(crate) fn clone_to(&self, slot: &mut Self) {
        match &self.0 {
            Held::Null => slot.0 = Held::Null,
            Held::Buffer(buffer) => slot.0 = Held::Buffer(Arc::clone(buffer)),
            Held::List(list) => slot.0 = Held::List(Arc::clone(list)),
            Held::Object(object) => slot.0 = Held::Object(Arc::clone(object)),
        }
    }

    /// As [`Ref::clone_to`]; null if it is not a reference to a buffer.
    #[inline(always)]
    pub(crate) fn clone_buffer_to(&self, slot: &mut Self) {
        match &self.0 {
            Held::Buffer(buffer) => slot.0 = Held::Buffer(Arc::clone(buffer)),
            _ => slot.0 = Held::Null,
        }
    }

    /// Moves the reference out and leaves null.
    #[inline]
    pub fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The buffer, if it is to one.
    #[inline(always)]
    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match &self.0 {
            Held::Buffer(buffer) => Some(buffer),
            Held::Null | Held::List(_) | Held::Object(_) => None,
        }
    }

    /// The list, if it is to one.
    #[inline(always)]
    pub(crate) fn list(&self) -> Option<&List> {
        match &self.0 {
            Held::List(list) => Some(list),
            Held::Null | Held::Buffer(_) | Held::Object(_) => None,
        }
    }

    #[inline]
    fn any(&self) -> Option<&dyn Any> {
        match &self.0 {
            Held::Null => None,
            Held::Buffer(buffer) => Some(&**buffer),
            Held::List(list) => Some(&**list),
            Held::Object(object) => Some(&**object),
        }
    }

    /// The name of the object's type; `None` for null.
    pub fn type_name(&self) -> Option<&'static str> {
        match &self.0 {
            Held::Null => None,
            Held::Buffer(_) => Some(Buffer::TYPE_NAME),
            Held::List(_) => Some(List::TYPE_NAME),
            Held::Object(object) => Some(object.type_name()),
        }
    }

    /// The object, if it is a `T`.
    #[inline]
    #[doc(hidden)]
    pub fn downcast_ref<T: Object>(&self) -> Option<&T> {
        self.any()?.downcast_ref()
    }

    /// The object, which must be a `T`; the error names the expected and the actual type.
    #[inline]
    #[doc(hidden)]
    pub fn object<T: NamedObject>(&self) -> Result<&T> {
        self.downcast_ref().ok_or_else(|| self.mismatch(T::TYPE_NAME))
    }

    /// The object, which must be a `T`; `None` for null.
    #[inline]
    #[doc(hidden)]
    pub fn optional<T: NamedObject>(&self) -> Result<Option<&T>> {
        if self.is_null() { Ok(None) } else { self.object().map(Some) }
    }

    /// The object as an `Arc`; it must be a `T`.
    #[doc(hidden)]
    pub fn share<T: NamedObject>(&self) -> Result<Arc<T>> {
        let any = self.clone().into_any().ok_or_else(|| self.mismatch(T::TYPE_NAME))?;
        any.downcast().map_err(|_| self.mismatch(T::TYPE_NAME))
    }

    /// Unwraps the object if it is a `T` and this is the only reference.
    pub(crate) fn into_only<T: Object>(self) -> Option<T> {
        Arc::into_inner(self.into_any()?.downcast::<T>().ok()?)
    }

    fn into_any(self) -> Option<Arc<dyn Any + Send + Sync>> {
        match self.0 {
            Held::Null => None,
            Held::Buffer(buffer) => Some(buffer),
            Held::List(list) => Some(list),
            Held::Object(object) => Some(object),
        }
    }

    /// The address of the object.
    #[inline]
    fn address(&self) -> Option<*const ()> {
        match &self.0 {
            Held::Null => None,
            Held::Buffer(buffer) => Some(Arc::as_ptr(buffer).cast()),
            Held::List(list) => Some(Arc::as_ptr(list).cast()),
            Held::Object(object) => Some(Arc::as_ptr(object).cast()),
        }
    }

    /// Whether both reference the same object, or both are null.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        self.address() == other.address()
    }

    /// The error for a reference that is not to an object of type `expected`.
    #[cold]
    pub(crate) fn mismatch(&self, expected: &str) -> Error {
        Error::invalid_argument(match self.type_name() {
            Some(found) => format!("expected a reference to {expected}, found {found}"),
            None => format!("expected a reference to {expected}, found null"),
        })
    }
}

impl fmt::Debug for Ref {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.type_name(), self.address()) {
            (Some(name), Some(address)) => write!(f, "{name}@{address:p}"),
            _ => f.write_str("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Fence;
    impl Object for Fence {
        fn type_name(&self) -> &'static str {
            Self::TYPE_NAME
        }
    }
    impl NamedObject for Fence {
        const TYPE_NAME: &'static str = "hal.fence";
    }
    #[derive(Debug)]
    struct Event;
    impl Object for Event {
        fn type_name(&self) -> &'static str {
            Self::TYPE_NAME
        }
    }
    impl NamedObject for Event {
        const TYPE_NAME: &'static str = "hal.event";
    }

    #[test]
    fn references_are_downcast_by_type() {
        let mut fence = Ref::new(Fence);
        assert!(fence.object::<Fence>().is_ok() && fence.share::<Fence>().is_ok());
        let error = fence.object::<Event>().unwrap_err();
        assert_eq!(error.message(), "expected a reference to hal.event, found hal.fence");
        assert!(fence.is_same(&fence.clone()));
        assert!(!fence.is_same(&Ref::new(Event)) && !fence.is_same(&Ref::NULL));
        let moved = fence.take();
        assert!(fence.is_null() && fence.optional::<Fence>().unwrap().is_none());
        let error = fence.share::<Event>().unwrap_err();
        assert_eq!(error.message(), "expected a reference to hal.event, found null");
        assert_eq!(moved.type_name(), Some("hal.fence"));
        // Zero-sized objects are distinct as well.
        assert!(moved.downcast_ref::<Event>().is_none());
    }
}
