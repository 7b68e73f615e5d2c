use rehal_base::{Error, Result};

use crate::convention::Argument;
use crate::{Buffer, Convention, NamedObject, Ref, Value};

/// A call of a native function: arguments and results.
///
/// Arguments are indexed by their position in the convention; a span counts as one.
pub struct Call<'a> {
    convention: &'a Convention,
    /// All values, spans flattened.
    arguments: &'a mut [Value],
    /// The start of each argument among the values, and the end of the last; `None` without spans.
    starts: Option<&'a [u32]>,
    results: &'a mut Vec<Value>,
    resumed: Option<Resumed>,
}

/// The outcome of the wait that a function requested.
#[derive(Debug)]
pub enum Resumed {
    /// The function yielded, or its wait source is ready.
    Ready,
    /// The deadline passed first.
    DeadlineExceeded,
    /// The wait source failed.
    Failed(Error),
}

/// Accessors for arguments of one kind: `name` reads the argument at a position of the convention.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident($type:ty);)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self, index: usize) -> Result<$type> {
            match self.value(index)? {
                Value::$variant(value) => Ok(*value),
                other => Err(mismatch(index, stringify!($type), other)),
            }
        }
    )*};
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        convention: &'a Convention,
        arguments: &'a mut [Value],
        starts: Option<&'a [u32]>,
        results: &'a mut Vec<Value>,
        resumed: Option<Resumed>,
    ) -> Self {
        Self { convention, arguments, starts, results, resumed }
    }

    getters! {
        /// The i32 at `index`.
        i32: I32(i32);
        /// The i64 at `index`.
        i64: I64(i64);
        /// The f32 at `index`.
        f32: F32(f32);
        /// The f64 at `index`.
        f64: F64(f64);
    }

    /// The i32 at `index` as an unsigned integer (sizes and flags).
    #[inline]
    pub fn u32(&self, index: usize) -> Result<u32> {
        Ok(self.i32(index)? as u32)
    }

    /// The i64 at `index` as an unsigned integer (sizes and offsets).
    #[inline]
    pub fn u64(&self, index: usize) -> Result<u64> {
        Ok(self.i64(index)? as u64)
    }

    /// The reference at `index`.
    #[inline]
    pub fn reference(&self, index: usize) -> Result<&Ref> {
        match self.value(index)? {
            Value::Ref(object) => Ok(object),
            other => Err(mismatch(index, "ref", other)),
        }
    }

    /// The object at `index`, which must be a `T`.
    #[inline]
    pub fn object<T: NamedObject>(&self, index: usize) -> Result<&T> {
        self.reference(index)?.object().map_err(|error| at(error, index))
    }

    /// The buffer at `index`. As [`Call::object`], without its virtual call.
    #[inline]
    pub fn buffer(&self, index: usize) -> Result<&Buffer> {
        match self.reference(index)?.buffer() {
            Some(buffer) => Ok(buffer),
            None => self.object(index),
        }
    }

    /// The object at `index`, which must be a `T` or null.
    #[inline]
    pub fn optional<T: NamedObject>(&self, index: usize) -> Result<Option<&T>> {
        self.reference(index)?.optional().map_err(|error| at(error, index))
    }

    /// The tuples of the span at `index`.
    #[inline]
    pub fn span(&self, index: usize) -> Result<Span<'_>> {
        let (Some(Argument::Span(kinds)), Some(starts)) =
            (self.convention.arguments().get(index), self.starts)
        else {
            return Err(no_argument(index, "span"));
        };
        let range = starts[index] as usize..starts[index + 1] as usize;
        Ok(Span { values: &self.arguments[range], width: kinds.len(), index })
    }

    /// All values, spans flattened.
    pub fn values(&self) -> &[Value] {
        self.arguments
    }

    /// Adds the next result.
    #[inline]
    pub fn push(&mut self, result: impl Into<Value>) {
        self.results.push(result.into());
    }

    /// The outcome of the wait, if the function previously returned [`Flow::Wait`](crate::Flow::Wait) or
    /// [`Flow::Yield`](crate::Flow::Yield); `None` on the first call.
    pub fn resumed(&mut self) -> Option<Resumed> {
        self.resumed.take()
    }

    /// The value at `index`. Does not consult the convention, which is rarely in cache.
    #[inline]
    fn value(&self, index: usize) -> Result<&Value> {
        let at = match self.starts {
            None => Some(index),
            Some(starts) => match starts.get(index..index + 2) {
                Some([start, end]) if *end == start + 1 => Some(*start as usize),
                _ => None,
            },
        };
        debug_assert!(
            at.is_none() || !matches!(self.convention.arguments().get(index), Some(Argument::Span(_)))
        );
        let value = at.and_then(|at| self.arguments.get(at));
        value.ok_or_else(|| no_argument(index, "value"))
    }
}

/// The tuples of a span.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    values: &'a [Value],
    width: usize,
    index: usize,
}

/// One tuple of a span.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    values: &'a [Value],
    /// Index of the span's argument, for errors.
    index: usize,
}

impl<'a> Span<'a> {
    /// Number of tuples.
    #[inline]
    pub fn len(&self) -> usize {
        self.values.len() / self.width
    }

    /// Whether there are no tuples.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The tuples in order.
    #[inline]
    pub fn tuples(&self) -> impl ExactSizeIterator<Item = Tuple<'a>> + use<'a> {
        let index = self.index;
        self.values.chunks_exact(self.width).map(move |values| Tuple { values, index })
    }

    /// All values, the tuples flattened.
    pub fn values(&self) -> &'a [Value] {
        self.values
    }
}

/// The same accessors, by position in the tuple.
macro_rules! tuple_getters {
    ($($(#[$doc:meta])* $name:ident: $variant:ident($type:ty);)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self, column: usize) -> Result<$type> {
            match self.values.get(column) {
                Some(Value::$variant(value)) => Ok(*value),
                Some(other) => Err(mismatch(self.index, stringify!($type), other)),
                None => Err(no_argument(self.index, "value in its tuples")),
            }
        }
    )*};
}

impl<'a> Tuple<'a> {
    tuple_getters! {
        /// The i32 at `column`.
        i32: I32(i32);
        /// The i64 at `column`.
        i64: I64(i64);
        /// The f32 at `column`.
        f32: F32(f32);
        /// The f64 at `column`.
        f64: F64(f64);
    }

    /// The i32 at `column` as an unsigned integer.
    #[inline]
    pub fn u32(&self, column: usize) -> Result<u32> {
        Ok(self.i32(column)? as u32)
    }

    /// The i64 at `column` as an unsigned integer.
    #[inline]
    pub fn u64(&self, column: usize) -> Result<u64> {
        Ok(self.i64(column)? as u64)
    }

    /// The reference at `column`.
    #[inline]
    pub fn reference(&self, column: usize) -> Result<&'a Ref> {
        match self.values.get(column) {
            Some(Value::Ref(object)) => Ok(object),
            Some(other) => Err(mismatch(self.index, "ref", other)),
            None => Err(no_argument(self.index, "reference in its tuples")),
        }
    }

    /// The object at `column`, which must be a `T`.
    #[inline]
    pub fn object<T: NamedObject>(&self, column: usize) -> Result<&'a T> {
        self.reference(column)?.object().map_err(|error| at(error, self.index))
    }

    /// The object at `column`, which must be a `T` or null.
    #[inline]
    pub fn optional<T: NamedObject>(&self, column: usize) -> Result<Option<&'a T>> {
        self.reference(column)?.optional().map_err(|error| at(error, self.index))
    }
}

#[cold]
fn mismatch(index: usize, expected: &str, found: &Value) -> Error {
    Error::invalid_argument(format!("argument {index}: expected {expected}, found {}", found.type_name()))
}

#[cold]
fn no_argument(index: usize, what: &str) -> Error {
    Error::invalid_argument(format!("the function has no {what} at argument {index}"))
}

#[cold]
fn at(error: Error, index: usize) -> Error {
    error.context(format!("argument {index}"))
}
