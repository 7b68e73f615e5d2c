use rehal_base::{Error, Result};

use crate::code;
use crate::convention::Argument;
use crate::registers::{Number, Window, look};
use crate::{Buffer, Convention, NamedObject, Ref, Value, ValueKind, Wait};

/// A call of a native function: arguments and results.
///
/// Arguments are indexed by their position in the convention; a span counts as one.
pub struct Call<'a> {
    convention: &'a Convention,
    values: Values<'a>,
    /// The start of each argument among the values, and the end of the last; `None` without spans.
    starts: Option<&'a [u32]>,
    results: &'a mut Vec<Value>,
    resumed: Option<Resumed>,
}

/// The values of arguments, spans flattened.
#[derive(Clone, Copy)]
pub(crate) enum Values<'a> {
    /// Passed by the host.
    Host(&'a [Value]),
    /// In the registers of the calling frame, where they are read without a copy.
    Registers { arguments: &'a [code::Argument], window: &'a Window, refs: &'a [Ref] },
}

impl<'a> Values<'a> {
    #[inline]
    fn len(&self) -> usize {
        match self {
            Self::Host(values) => values.len(),
            Self::Registers { arguments, .. } => arguments.len(),
        }
    }

    #[inline]
    fn part(self, start: usize, end: usize) -> Self {
        match self {
            Self::Host(values) => Self::Host(&values[start..end]),
            Self::Registers { arguments, window, refs } => {
                Self::Registers { arguments: &arguments[start..end], window, refs }
            }
        }
    }

    /// The name of the type of value `at`; `None` if there are fewer.
    #[cold]
    fn type_name(&self, at: usize) -> Option<&'static str> {
        match *self {
            Self::Host(values) => values.get(at).map(Value::type_name),
            Self::Registers { arguments, refs, .. } => {
                arguments.get(at).map(|argument| match argument.kind {
                    ValueKind::Ref => look(refs, argument.source).type_name().unwrap_or("null"),
                    kind => kind.name(),
                })
            }
        }
    }

    /// The reference at `at`; `None` for other values and beyond the last.
    #[inline(always)]
    fn reference(&self, at: usize) -> Option<&'a Ref> {
        match *self {
            Self::Host(values) => match values.get(at) {
                Some(Value::Ref(object)) => Some(object),
                _ => None,
            },
            Self::Registers { arguments, refs, .. } => match arguments.get(at) {
                Some(argument) if argument.kind == ValueKind::Ref => Some(look(refs, argument.source)),
                _ => None,
            },
        }
    }
}

/// Reads numbers of one kind: `name` returns `None` for other values and beyond the last.
macro_rules! numbers {
    ($($name:ident: $variant:ident($type:ty);)*) => {
        impl Values<'_> {
            $(
                #[inline(always)]
                fn $name(&self, at: usize) -> Option<$type> {
                    match *self {
                        Self::Host(values) => match values.get(at) {
                            Some(Value::$variant(value)) => Some(*value),
                            _ => None,
                        },
                        Self::Registers { arguments, window, .. } => match arguments.get(at) {
                            Some(argument) if argument.kind == ValueKind::$variant => {
                                Some(<$type>::get(window, argument.source))
                            }
                            _ => None,
                        },
                    }
                }
            )*
        }
    };
}

numbers! {
    i32: I32(i32);
    i64: I64(i64);
    f32: F32(f32);
    f64: F64(f64);
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

impl Resumed {
    /// The outcome of a wait that is ready.
    pub(crate) fn after(wait: &Wait) -> Self {
        match wait.outcome() {
            Ok(true) => Self::Ready,
            Ok(false) => Self::DeadlineExceeded,
            Err(error) => Self::Failed(error),
        }
    }
}

/// Accessors for arguments of one kind: `name` reads the argument at a position of the convention.
macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident($type:ty);)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self, index: usize) -> Result<$type> {
            match self.place(index).and_then(|at| self.values.$name(at)) {
                Some(value) => Ok(value),
                None => Err(self.mismatch(index, stringify!($type))),
            }
        }
    )*};
}

impl<'a> Call<'a> {
    #[inline(always)]
    pub(crate) fn new(
        convention: &'a Convention,
        values: Values<'a>,
        starts: Option<&'a [u32]>,
        results: &'a mut Vec<Value>,
        resumed: Option<Resumed>,
    ) -> Self {
        Self { convention, values, starts, results, resumed }
    }

    getters! {
        /// The i32 at `index`.
        i32(i32);
        /// The i64 at `index`.
        i64(i64);
        /// The f32 at `index`.
        f32(f32);
        /// The f64 at `index`.
        f64(f64);
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
    pub fn reference(&self, index: usize) -> Result<&'a Ref> {
        match self.place(index).and_then(|at| self.values.reference(at)) {
            Some(object) => Ok(object),
            None => Err(self.mismatch(index, "ref")),
        }
    }

    /// The object at `index`, which must be a `T`.
    #[inline]
    pub fn object<T: NamedObject>(&self, index: usize) -> Result<&'a T> {
        self.reference(index)?.object().map_err(|error| at(error, index))
    }

    /// The buffer at `index`. As [`Call::object`], without its virtual call.
    #[inline]
    pub fn buffer(&self, index: usize) -> Result<&'a Buffer> {
        match self.reference(index)?.buffer() {
            Some(buffer) => Ok(buffer),
            None => self.object(index),
        }
    }

    /// The object at `index`, which must be a `T` or null.
    #[inline]
    pub fn optional<T: NamedObject>(&self, index: usize) -> Result<Option<&'a T>> {
        self.reference(index)?.optional().map_err(|error| at(error, index))
    }

    /// The tuples of the span at `index`.
    #[inline]
    pub fn span(&self, index: usize) -> Result<Span<'a>> {
        let (Some(Argument::Span(kinds)), Some(starts)) =
            (self.convention.arguments().get(index), self.starts)
        else {
            return Err(no_argument(index, "span"));
        };
        let values = self.values.part(starts[index] as usize, starts[index + 1] as usize);
        Ok(Span { values, width: kinds.len(), index })
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

    /// The place of the value at `index` among all values. Does not consult the convention, which is rarely
    /// in cache.
    #[inline(always)]
    fn place(&self, index: usize) -> Option<usize> {
        let Some(starts) = self.starts else { return Some(index) };
        match starts.get(index..index + 2) {
            Some([start, end]) if *end == start + 1 => Some(*start as usize),
            _ => None,
        }
    }

    /// The error of an argument that is missing or of another kind.
    #[cold]
    fn mismatch(&self, index: usize, expected: &str) -> Error {
        match self.place(index).and_then(|at| self.values.type_name(at)) {
            Some(found) => mismatch(index, expected, found),
            None => no_argument(index, "value"),
        }
    }
}

/// The tuples of a span.
#[derive(Clone, Copy)]
pub struct Span<'a> {
    values: Values<'a>,
    width: usize,
    index: usize,
}

/// One tuple of a span.
#[derive(Clone, Copy)]
pub struct Tuple<'a> {
    values: Values<'a>,
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
        self.values.len() == 0
    }

    /// The tuples in order.
    #[inline]
    pub fn tuples(&self) -> impl ExactSizeIterator<Item = Tuple<'a>> + use<'a> {
        let Self { values, width, index } = *self;
        (0..self.len()).map(move |at| Tuple { values: values.part(at * width, (at + 1) * width), index })
    }
}

/// The same accessors, by position in the tuple.
macro_rules! tuple_getters {
    ($($(#[$doc:meta])* $name:ident($type:ty);)*) => {$(
        $(#[$doc])*
        #[inline]
        pub fn $name(&self, column: usize) -> Result<$type> {
            match self.values.$name(column) {
                Some(value) => Ok(value),
                None => Err(self.mismatch(column, stringify!($type))),
            }
        }
    )*};
}

impl<'a> Tuple<'a> {
    tuple_getters! {
        /// The i32 at `column`.
        i32(i32);
        /// The i64 at `column`.
        i64(i64);
        /// The f32 at `column`.
        f32(f32);
        /// The f64 at `column`.
        f64(f64);
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
        match self.values.reference(column) {
            Some(object) => Ok(object),
            None => Err(self.mismatch(column, "ref")),
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

    /// The error of a value that is missing or of another kind.
    #[cold]
    fn mismatch(&self, column: usize, expected: &str) -> Error {
        match self.values.type_name(column) {
            Some(found) => mismatch(self.index, expected, found),
            None => no_argument(self.index, "value in its tuples"),
        }
    }
}

#[cold]
fn mismatch(index: usize, expected: &str, found: &str) -> Error {
    Error::invalid_argument(format!("argument {index}: expected {expected}, found {found}"))
}

#[cold]
fn no_argument(index: usize, what: &str) -> Error {
    Error::invalid_argument(format!("the function has no {what} at argument {index}"))
}

#[cold]
fn at(error: Error, index: usize) -> Error {
    error.context(format!("argument {index}"))
}
