use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rehal_base::{Error, Result};

use crate::{Buffer, NamedObject, Object, Ref, Value, ValueKind};

/// Limit on the storage of one list, in bytes, so that a program cannot exhaust the machine's memory.
const STORAGE_LIMIT_BYTES: usize = 1 << 30;

/// The type of a list's elements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ElementKind {
    /// Integers of 8 bits.
    I8,
    /// Integers of 16 bits.
    I16,
    /// Integers of 32 bits.
    I32,
    /// Integers of 64 bits.
    I64,
    /// f32.
    F32,
    /// f64.
    F64,
    /// References to objects of the named type.
    Ref(Box<str>),
    /// References to any objects.
    AnyRef,
    /// Variants: values of any kind.
    Variant,
}

/// A program's list (`!vm.list<T>`): shared and mutable.
pub struct List {
    element: ElementKind,
    storage: Mutex<Storage>,
    original: Option<Original>,
}

/// The references that a list was created with, which are read without its lock until it is first modified.
struct Original {
    refs: Box<[Ref]>,
    /// Whether nothing has modified the list yet. Relaxed: accesses of one element by different threads are
    /// unordered, so a thread may read the reference that another is replacing.
    is_current: AtomicBool,
}

/// The elements, as narrow as their kind; floats as bits.
enum Storage {
    B8(Vec<u8>),
    B16(Vec<u16>),
    B32(Vec<u32>),
    B64(Vec<u64>),
    Refs(Vec<Ref>),
    Variants(Vec<Value>),
}

/// Expands the body for the vector of any storage.
macro_rules! each_storage {
    ($storage:expr, $vector:ident => $body:expr) => {
        match $storage {
            Storage::B8($vector) => $body,
            Storage::B16($vector) => $body,
            Storage::B32($vector) => $body,
            Storage::B64($vector) => $body,
            Storage::Refs($vector) => $body,
            Storage::Variants($vector) => $body,
        }
    };
}

impl List {
    /// An empty list of `element`s with capacity for `capacity` of them.
    pub fn new(element: ElementKind, capacity: usize) -> Result<Self> {
        let storage = match &element {
            ElementKind::I8 => Storage::B8(Vec::new()),
            ElementKind::I16 => Storage::B16(Vec::new()),
            ElementKind::I32 | ElementKind::F32 => Storage::B32(Vec::new()),
            ElementKind::I64 | ElementKind::F64 => Storage::B64(Vec::new()),
            ElementKind::Ref(_) | ElementKind::AnyRef => Storage::Refs(Vec::new()),
            ElementKind::Variant => Storage::Variants(Vec::new()),
        };
        let list = Self { element, storage: Mutex::new(storage), original: None };
        list.reserve(capacity)?;
        Ok(list)
    }

    /// A list of variants with these values.
    pub fn from_variants(values: Vec<Value>) -> Self {
        Self { element: ElementKind::Variant, storage: Mutex::new(Storage::Variants(values)), original: None }
    }

    /// A list of references to buffers, for programs that read it often. It keeps these references until it
    /// is dropped.
    pub fn from_buffers(buffers: impl IntoIterator<Item = Arc<Buffer>>) -> Self {
        let refs: Box<[Ref]> = buffers.into_iter().map(Ref::from_arc).collect();
        Self {
            element: ElementKind::Ref(Buffer::TYPE_NAME.into()),
            storage: Mutex::new(Storage::Refs(refs.to_vec())),
            original: Some(Original { refs, is_current: AtomicBool::new(true) }),
        }
    }

    /// The type of its elements.
    pub fn element(&self) -> &ElementKind {
        &self.element
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        each_storage!(&*self.storage.lock(), vector => vector.len())
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reserves capacity for `capacity` elements in total.
    pub fn reserve(&self, capacity: usize) -> Result<()> {
        each_storage!(&mut *self.storage.lock(), vector => grow(vector, capacity))
    }

    /// Resizes it to `length` elements; new ones are zero or null.
    pub fn resize(&self, length: usize) -> Result<()> {
        // Truncation may drop the last reference to an object, whose destructor must not run under the lock.
        let mut cut = Vec::new();
        let mut cut_variants = Vec::new();
        let mut storage = self.modify();
        each_storage!(&mut *storage, vector => grow(vector, length))?;
        match &mut *storage {
            Storage::B8(vector) => vector.resize(length, 0),
            Storage::B16(vector) => vector.resize(length, 0),
            Storage::B32(vector) => vector.resize(length, 0),
            Storage::B64(vector) => vector.resize(length, 0),
            Storage::Refs(vector) => {
                cut.extend(vector.drain(length.min(vector.len())..));
                vector.resize(length, Ref::NULL);
            }
            Storage::Variants(vector) => {
                cut_variants.extend(vector.drain(length.min(vector.len())..));
                vector.resize(length, Value::NULL);
            }
        }
        drop(storage);
        Ok(())
    }

    /// The element at `index`, unconverted.
    pub fn get(&self, index: usize) -> Result<Value> {
        let storage = self.storage.lock();
        check(index, each_storage!(&*storage, vector => vector.len()))?;
        Ok(self.element_at(&storage, index))
    }

    /// All elements, unconverted.
    pub fn to_vec(&self) -> Vec<Value> {
        let storage = self.storage.lock();
        let length = each_storage!(&*storage, vector => vector.len());
        (0..length).map(|index| self.element_at(&storage, index)).collect()
    }

    /// The number at `index` as `kind`: integers are truncated or sign-extended, floats rounded; a conversion
    /// between integer and float gives 0.
    pub fn get_value(&self, index: usize, kind: ValueKind) -> Result<Value> {
        match self.get(index)? {
            Value::Ref(_) => Err(Error::failed_precondition(format!("list element {index} is not a number"))),
            value => Ok(convert_to_kind(&value, kind)),
        }
    }

    /// The reference at `index`.
    pub fn get_ref(&self, index: usize) -> Result<Ref> {
        match self.original(index) {
            Some(object) => Ok(object.clone()),
            None => self.ref_at(self.storage.lock(), index, |object| object.clone()),
        }
    }

    /// The reference at `index`, if the list was created with it and has not been modified.
    #[inline(always)]
    pub(crate) fn original(&self, index: usize) -> Option<&Ref> {
        let original = self.original.as_ref()?;
        if original.is_current.load(Ordering::Relaxed) { original.refs.get(index) } else { None }
    }

    /// Moves the reference at `index` out and leaves null.
    pub fn take_ref(&self, index: usize) -> Result<Ref> {
        self.ref_at(self.modify(), index, Ref::take)
    }

    /// Sets the element at `index`; a number is converted to the element type as by [`List::get_value`], a
    /// reference must match the list's type.
    pub fn set(&self, index: usize, value: Value) -> Result<()> {
        let _old = {
            let mut storage = self.modify();
            self.put(&mut storage, index, value)?
        };
        Ok(())
    }

    /// Appends a value.
    pub fn push(&self, value: Value) -> Result<()> {
        let mut storage = self.modify();
        self.check_fits(&value)?;
        let index = each_storage!(&*storage, vector => vector.len());
        each_storage!(&mut *storage, vector => grow(vector, index + 1))?;
        match &mut *storage {
            Storage::B8(vector) => vector.push(0),
            Storage::B16(vector) => vector.push(0),
            Storage::B32(vector) => vector.push(0),
            Storage::B64(vector) => vector.push(0),
            Storage::Refs(vector) => vector.push(Ref::NULL),
            Storage::Variants(vector) => vector.push(Value::NULL),
        }
        self.put(&mut storage, index, value).map(drop)
    }

    /// Copies `count` elements of `source` from `source_index` to `index`. Ranges of one list must not
    /// overlap, and only lists of variants accept elements of another type.
    pub fn copy_from(&self, index: usize, source: &Self, source_index: usize, count: usize) -> Result<()> {
        if count == 0 {
            return Ok(());
        }
        let from = checked_range("source", source_index, count, source.len())?;
        let to = checked_range("target", index, count, self.len())?;
        if std::ptr::eq(self, source) && from.start < to.end && to.start < from.end {
            return Err(Error::invalid_argument(format!(
                "cannot copy elements {from:?} to {to:?}: the ranges of one list overlap"
            )));
        }
        let is_variant = |list: &Self| list.element == ElementKind::Variant;
        if !is_variant(self) && !is_variant(source) && self.element != source.element {
            return Err(Error::invalid_argument(format!(
                "cannot copy a list of {:?} to a list of {:?}",
                source.element, self.element
            )));
        }
        // Copies out first, then in: never holds the locks of two lists at once, so two threads cannot
        // deadlock.
        let values: Vec<Value> = {
            let storage = source.storage.lock();
            let length = each_storage!(&*storage, vector => vector.len());
            checked_range("source", source_index, count, length)?;
            from.map(|at| source.element_at(&storage, at)).collect()
        };
        if !is_variant(self) && is_variant(source) {
            let odd = values.iter().position(|value| !self.is_of_element(value));
            if let Some(odd) = odd {
                return Err(Error::invalid_argument(format!(
                    "list element {}: a {} cannot be stored in a list of {:?}",
                    source_index + odd,
                    values[odd].type_name(),
                    self.element
                )));
            }
        }
        let mut old = Vec::with_capacity(count);
        let mut storage = self.modify();
        for (at, value) in to.zip(values) {
            old.push(self.put(&mut storage, at, value)?);
        }
        drop(storage);
        Ok(())
    }

    fn element_at(&self, storage: &Storage, index: usize) -> Value {
        match storage {
            Storage::B8(vector) => Value::I8(vector[index] as i8),
            Storage::B16(vector) => Value::I16(vector[index] as i16),
            Storage::B32(vector) if self.element == ElementKind::F32 => {
                Value::F32(f32::from_bits(vector[index]))
            }
            Storage::B32(vector) => Value::I32(vector[index] as i32),
            Storage::B64(vector) if self.element == ElementKind::F64 => {
                Value::F64(f64::from_bits(vector[index]))
            }
            Storage::B64(vector) => Value::I64(vector[index] as i64),
            Storage::Refs(vector) => Value::Ref(vector[index].clone()),
            Storage::Variants(vector) => vector[index].clone(),
        }
    }

    /// Locks the elements to modify them.
    fn modify(&self) -> MutexGuard<'_, Storage> {
        let storage = self.storage.lock();
        if let Some(original) = &self.original {
            original.is_current.store(false, Ordering::Relaxed);
        }
        storage
    }

    fn ref_at(
        &self,
        mut storage: MutexGuard<'_, Storage>,
        index: usize,
        get: impl FnOnce(&mut Ref) -> Ref,
    ) -> Result<Ref> {
        check(index, each_storage!(&*storage, vector => vector.len()))?;
        match &mut *storage {
            Storage::Refs(vector) => Ok(get(&mut vector[index])),
            Storage::Variants(vector) => match &mut vector[index] {
                Value::Ref(object) => Ok(get(object)),
                _ => Err(Error::failed_precondition(format!("list element {index} is not a reference"))),
            },
            _ => Err(Error::failed_precondition("the list does not hold references")),
        }
    }

    /// Sets an element and returns the old one, which the caller drops after releasing the lock.
    fn put(&self, storage: &mut Storage, index: usize, value: Value) -> Result<Value> {
        check(index, each_storage!(&*storage, vector => vector.len()))?;
        self.check_fits(&value)?;
        match storage {
            Storage::B8(vector) => vector[index] = integer_of(&value) as u8,
            Storage::B16(vector) => vector[index] = integer_of(&value) as u16,
            Storage::B32(vector) if self.element == ElementKind::F32 => {
                vector[index] = (float_of(&value).0).to_bits();
            }
            Storage::B32(vector) => vector[index] = integer_of(&value) as u32,
            Storage::B64(vector) if self.element == ElementKind::F64 => {
                vector[index] = (float_of(&value).1).to_bits();
            }
            Storage::B64(vector) => vector[index] = integer_of(&value) as u64,
            Storage::Refs(vector) => {
                let Value::Ref(object) = value else { return Ok(value) };
                return Ok(Value::Ref(std::mem::replace(&mut vector[index], object)));
            }
            Storage::Variants(vector) => return Ok(std::mem::replace(&mut vector[index], value)),
        }
        Ok(Value::NULL)
    }

    /// Whether a value is compatible with the element type.
    fn check_fits(&self, value: &Value) -> Result<()> {
        match (&self.element, value) {
            (ElementKind::Variant, _) | (ElementKind::AnyRef, Value::Ref(_)) => Ok(()),
            (ElementKind::Ref(name), Value::Ref(object)) => match object.type_name() {
                Some(found) if found != &**name => Err(Error::invalid_argument(format!(
                    "a list of references to {name} cannot hold a reference to {found}"
                ))),
                _ => Ok(()),
            },
            (ElementKind::Ref(_) | ElementKind::AnyRef, _) => {
                Err(Error::failed_precondition("the list does not hold numbers"))
            }
            (_, Value::Ref(_)) => Err(Error::failed_precondition("the list does not hold references")),
            _ => Ok(()),
        }
    }

    /// Whether a value has the list's own type, without conversion.
    fn is_of_element(&self, value: &Value) -> bool {
        match (&self.element, value) {
            (ElementKind::Variant, _)
            | (ElementKind::I8, Value::I8(_))
            | (ElementKind::I16, Value::I16(_))
            | (ElementKind::I32, Value::I32(_))
            | (ElementKind::I64, Value::I64(_))
            | (ElementKind::F32, Value::F32(_))
            | (ElementKind::F64, Value::F64(_)) => true,
            (ElementKind::Ref(name), Value::Ref(object)) => object.type_name() == Some(name),
            (ElementKind::AnyRef, Value::Ref(object)) => !object.is_null(),
            _ => false,
        }
    }
}

impl Drop for List {
    /// Lists whose last reference is held by this list are dropped iteratively: recursion over deeply nested
    /// lists would overflow the stack.
    fn drop(&mut self) {
        let mut ending = Vec::new();
        end_elements(self.storage.get_mut(), &mut ending);
        while let Some(object) = ending.pop() {
            if let Some(mut list) = object.into_only::<Self>() {
                end_elements(list.storage.get_mut(), &mut ending);
            }
        }
    }
}

/// Moves the nested lists out of a list, and drops its other elements.
fn end_elements(storage: &mut Storage, ending: &mut Vec<Ref>) {
    let is_list = |object: &Ref| object.list().is_some();
    match storage {
        Storage::Refs(refs) => ending.extend(std::mem::take(refs).into_iter().filter(is_list)),
        Storage::Variants(values) => {
            let refs = std::mem::take(values).into_iter().filter_map(|value| match value {
                Value::Ref(object) => Some(object),
                _ => None,
            });
            ending.extend(refs.filter(is_list));
        }
        Storage::B8(_) | Storage::B16(_) | Storage::B32(_) | Storage::B64(_) => {}
    }
}

impl Object for List {
    fn type_name(&self) -> &'static str {
        Self::TYPE_NAME
    }
}

impl NamedObject for List {
    const TYPE_NAME: &'static str = "vm.list";
}

impl fmt::Debug for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {:?}", self.len(), self.element)
    }
}

/// Reserves capacity for `capacity` elements in total, up to the limit.
fn grow<T>(vector: &mut Vec<T>, capacity: usize) -> Result<()> {
    if capacity <= vector.capacity() {
        return Ok(());
    }
    let exhausted =
        || Error::resource_exhausted(format!("a list of {capacity} elements exceeds the limit of one list"));
    if capacity.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > STORAGE_LIMIT_BYTES) {
        return Err(exhausted());
    }
    vector.try_reserve(capacity - vector.len()).map_err(|_| exhausted())
}

fn check(index: usize, length: usize) -> Result<()> {
    if index < length {
        return Ok(());
    }
    Err(Error::out_of_range(format!("index {index} is out of bounds of a list of {length} elements")))
}

fn checked_range(what: &str, index: usize, count: usize, length: usize) -> Result<Range<usize>> {
    match index.checked_add(count) {
        Some(end) if end <= length => Ok(index..end),
        _ => Err(Error::out_of_range(format!(
            "{count} elements at {index} are out of bounds of the {what} list of {length} elements"
        ))),
    }
}

fn convert_to_kind(value: &Value, kind: ValueKind) -> Value {
    match kind {
        ValueKind::I32 => Value::I32(integer_of(value) as i32),
        ValueKind::I64 => Value::I64(integer_of(value)),
        ValueKind::F32 => Value::F32(float_of(value).0),
        ValueKind::F64 => Value::F64(float_of(value).1),
        ValueKind::Ref => Value::NULL,
    }
}

fn integer_of(value: &Value) -> i64 {
    match value {
        Value::I8(value) => (*value).into(),
        Value::I16(value) => (*value).into(),
        Value::I32(value) => (*value).into(),
        Value::I64(value) => *value,
        _ => 0,
    }
}

/// Converts in both widths, so that a number stored unconverted keeps its bits.
fn float_of(value: &Value) -> (f32, f64) {
    match value {
        Value::F32(value) => (*value, (*value).into()),
        Value::F64(value) => (*value as f32, *value),
        _ => (0.0, 0.0),
    }
}

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;

    use super::*;
    use crate::Buffer;

    fn i32_at(list: &List, index: usize) -> i32 {
        match list.get_value(index, ValueKind::I32).unwrap() {
            Value::I32(value) => value,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_are_converted_to_the_element_type() {
        let list = List::new(ElementKind::I8, 4).unwrap();
        list.push(Value::I32(0x1ff)).unwrap();
        list.push(Value::I64(127)).unwrap();
        list.push(Value::F32(3.0)).unwrap();
        assert_eq!((i32_at(&list, 0), i32_at(&list, 1), i32_at(&list, 2)), (-1, 127, 0));
        assert_eq!(list.get(3).unwrap_err().code(), StatusCode::OutOfRange);
        assert_eq!(list.get_ref(0).unwrap_err().code(), StatusCode::FailedPrecondition);
        assert!(list.push(Value::NULL).is_err());
        assert_eq!(list.len(), 3);
        let floats = List::new(ElementKind::F32, 0).unwrap();
        floats.push(Value::F64(1.5)).unwrap();
        assert!(matches!(floats.get_value(0, ValueKind::F64).unwrap(), Value::F64(1.5)));
        assert_eq!(i32_at(&floats, 0), 0);
    }

    #[test]
    fn references_must_match_the_element_type() {
        let list = List::new(ElementKind::Ref("vm.buffer".into()), 0).unwrap();
        list.resize(1).unwrap();
        assert!(list.get_ref(0).unwrap().is_null());
        let buffer = Ref::new(Buffer::allocate(1, 0).unwrap());
        list.set(0, buffer.clone().into()).unwrap();
        assert!(list.set(0, Ref::new(List::from_variants(Vec::new())).into()).is_err());
        assert!(list.get_ref(0).unwrap().is_same(&buffer));
        assert!(list.take_ref(0).unwrap().is_same(&buffer) && list.get_ref(0).unwrap().is_null());
        assert_eq!(list.set(1, Value::NULL).unwrap_err().code(), StatusCode::OutOfRange);
    }

    #[test]
    fn modifications_replace_the_buffers_of_a_list() {
        let buffers = [1, 2].map(|length| Arc::new(Buffer::allocate(length, 0).unwrap()));
        let other = Ref::new(Buffer::allocate(3, 0).unwrap());
        let list = || List::from_buffers(buffers.clone());
        let is_buffer = |list: &List, index: usize, expected: usize| {
            list.get_ref(index).unwrap().is_same(&Ref::from_arc(buffers[expected].clone()))
        };
        let unmodified = list();
        assert!(
            is_buffer(&unmodified, 0, 0) && is_buffer(&unmodified, 1, 1) && unmodified.original(0).is_some()
        );
        assert_eq!(
            (unmodified.len(), unmodified.get_ref(2).unwrap_err().code()),
            (2, StatusCode::OutOfRange)
        );
        let modifications: [fn(&List, &Ref); 4] = [
            |list, other| list.set(1, other.clone().into()).unwrap(),
            |list, _| drop(list.take_ref(1).unwrap()),
            |list, _| (list.resize(1).unwrap(), list.resize(2).unwrap()).1,
            |list, other| {
                let source = List::from_variants(vec![other.clone().into()]);
                list.copy_from(1, &source, 0, 1).unwrap();
            },
        ];
        for (case, modify) in modifications.into_iter().enumerate() {
            let list = list();
            modify(&list, &other);
            assert!(is_buffer(&list, 0, 0) && !is_buffer(&list, 1, 1), "modification {case}");
        }
        let list = list();
        list.push(other.clone().into()).unwrap();
        assert!(list.get_ref(2).unwrap().is_same(&other));
    }

    #[test]
    fn copies_reject_mismatched_types() {
        let bytes = List::new(ElementKind::I8, 0).unwrap();
        for value in [1, -2] {
            bytes.push(Value::I32(value)).unwrap();
        }
        let variants = List::from_variants(vec![Value::NULL; 3]);
        variants.copy_from(1, &bytes, 0, 2).unwrap();
        assert!(matches!(variants.get(2).unwrap(), Value::I8(-2)));
        assert_eq!(i32_at(&variants, 2), -2);
        bytes.copy_from(0, &variants, 2, 1).unwrap();
        assert_eq!(i32_at(&bytes, 0), -2);
        assert!(bytes.copy_from(0, &variants, 0, 1).unwrap_err().message().contains("null"));
        assert_eq!(bytes.copy_from(1, &bytes, 0, 2).unwrap_err().code(), StatusCode::OutOfRange);
        variants.copy_from(0, &variants, 2, 1).unwrap();
        assert!(variants.copy_from(0, &variants, 1, 2).unwrap_err().message().contains("overlap"));
        let wide = List::new(ElementKind::I32, 0).unwrap();
        wide.resize(2).unwrap();
        assert!(wide.copy_from(0, &bytes, 0, 1).is_err());
    }

    #[test]
    fn nested_lists_are_dropped_without_recursion() {
        let mut list = List::from_variants(Vec::new());
        for _ in 0..200_000 {
            list = List::from_variants(vec![Value::I32(1), Ref::new(list).into()]);
        }
        let shared = Ref::new(list);
        let outer = List::new(ElementKind::AnyRef, 0).unwrap();
        outer.push(shared.clone().into()).unwrap();
        drop(outer);
        // It is still referenced elsewhere.
        assert_eq!(shared.object::<List>().unwrap().len(), 2);
    }

    #[test]
    fn the_storage_of_a_list_is_limited() {
        let list = List::new(ElementKind::Variant, 0).unwrap();
        assert_eq!(list.resize(u32::MAX as usize).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert_eq!(list.reserve(usize::MAX).unwrap_err().code(), StatusCode::ResourceExhausted);
        assert!(list.is_empty());
    }
}
