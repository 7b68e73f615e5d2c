//! Parses inputs and expected results to values.

use std::ffi::OsStr;
use std::path::Path;

use rehal_base::{Context, Error, HostMemory, Range, Result, plural};
use rehal_values::{Contents, Input, Scalar, ScalarType, Source, Start, Take, TensorType, npy};
use rehal_vm::ValueKind;

use super::input_files::{InputFile, InputFiles};
use super::text::ValueText;

/// A parsed value; `T` is the representation of tensors.
pub enum Parsed<T> {
    /// A null reference or the number 0; as an expected result, ignored.
    Null(Option<Scalar>),
    /// A scalar.
    Scalar(Scalar),
    /// A tensor.
    Tensor(T),
    /// The storage of a tensor, without a view.
    Storage(T),
}

/// The source of a tensor's bytes.
pub enum TensorBytes<'a> {
    /// The contents of a text.
    Contents(&'a Contents),
    /// All bytes.
    Bytes(&'a [u8]),
    /// A file that is read sequentially.
    File(&'a mut InputFile),
}

impl TensorBytes<'_> {
    /// Fills a range of `memory` with the tensor's bytes from `at` on. Calls must be in order: files are read
    /// sequentially.
    pub fn fill(&mut self, at: u64, memory: &HostMemory, range: Range) -> Result<()> {
        match self {
            Self::Contents(contents) => contents.fill_memory(at, memory, range),
            // The pattern is as long as the tensor, which contains the range.
            Self::Bytes(bytes) => memory.write(range.offset, &bytes[at as usize..][..range.length as usize]),
            Self::File(file) => file.fill(memory, range),
        }
    }
}

/// Parses values for arguments (or results) of these kinds, in order. `make` creates a tensor of a type and
/// fills in its bytes; a file that is too short is refused before.
///
/// Fails if there are more values than `kinds`; the caller checks for fewer.
pub fn parse<T>(
    values: &[ValueText],
    kinds: &[ValueKind],
    make: &mut dyn FnMut(&TensorType, TensorBytes<'_>) -> Result<T>,
) -> Result<Vec<Parsed<T>>> {
    let mut reader = Reader { files: InputFiles::default(), kinds, make, values: Vec::new() };
    for value in values {
        reader.read(value.text())?;
    }
    Ok(reader.values)
}

struct Reader<'k, 'm, T> {
    files: InputFiles,
    kinds: &'k [ValueKind],
    make: &'m mut dyn FnMut(&TensorType, TensorBytes<'_>) -> Result<T>,
    values: Vec<Parsed<T>>,
}

impl<T> Reader<'_, '_, T> {
    fn read(&mut self, spec: &OsStr) -> Result<()> {
        // `*file` may have no array left, so it does not require an argument.
        let kind = self.kinds.get(self.values.len()).copied();
        let input = Input::parse(spec, kind.and_then(scalar_type));
        // Without an argument the type is unknown, so the excess value is reported rather than its text.
        if kind.is_none() && !matches!(input, Ok(Input::Npy { take: Take::Rest, .. })) {
            return Err(self.too_many()).context(|| Input::place(spec));
        }
        let input = input?;
        let value = match input {
            Input::Null => Parsed::Null(kind.and_then(scalar_type).map(ScalarType::zero)),
            Input::Scalar(scalar) => Parsed::Scalar(scalar),
            Input::Tensor { tensor_type, source, is_storage } => {
                let tensor = self.tensor(&tensor_type, &source).context(|| Input::place(spec))?;
                if is_storage { Parsed::Storage(tensor) } else { Parsed::Tensor(tensor) }
            }
            Input::Npy { path, take } => {
                return self.arrays(path, take).context(|| Input::place(spec));
            }
        };
        self.values.push(value);
        Ok(())
    }

    fn tensor(&mut self, tensor_type: &TensorType, source: &Source<'_>) -> Result<T> {
        match source {
            Source::Text(contents) => (self.make)(tensor_type, TensorBytes::Contents(contents)),
            Source::File { path, start } => {
                let file = self.files.open(path, *start)?;
                file.require(tensor_type.size_bytes()?)?;
                (self.make)(tensor_type, TensorBytes::File(file))
            }
        }
    }

    fn arrays(&mut self, path: &Path, take: Take) -> Result<()> {
        let start = match take {
            Take::One(start) => start,
            Take::Rest => Start::Continue,
        };
        loop {
            let file = self.files.open(path, start)?;
            match (file.is_at_end()?, take) {
                (true, Take::Rest) => return Ok(()),
                (true, Take::One(_)) => {
                    return Err(Error::out_of_range("no array is left in the file").context(file.place()));
                }
                (false, _) => {}
            }
            match self.kinds.get(self.values.len()) {
                Some(ValueKind::Ref) => {}
                Some(kind) => {
                    let name = kind.name();
                    return Err(Error::invalid_argument(format!("expected an {name}, found a tensor")));
                }
                None => return Err(self.too_many()),
            }
            let place = file.place();
            let (tensor_type, layout) = npy::read_header(file.reader()).context(|| place.clone())?;
            file.require(tensor_type.size_bytes()?)?;
            let tensor = match layout.is_dense(&tensor_type) {
                true => (self.make)(&tensor_type, TensorBytes::File(file))?,
                false => {
                    let bytes = layout.to_dense(&tensor_type, file.read(tensor_type.size_bytes()?)?);
                    (self.make)(&tensor_type, TensorBytes::Bytes(&bytes))?
                }
            };
            self.values.push(Parsed::Tensor(tensor));
            if take != Take::Rest {
                return Ok(());
            }
        }
    }

    fn too_many(&self) -> Error {
        let wanted = plural(self.kinds.len() as u64, "value");
        Error::invalid_argument(format!("expected {wanted}, found more"))
    }
}

/// The scalar type of an argument of this kind.
fn scalar_type(kind: ValueKind) -> Option<ScalarType> {
    match kind {
        ValueKind::I32 => Some(ScalarType::I32),
        ValueKind::I64 => Some(ScalarType::I64),
        ValueKind::F32 => Some(ScalarType::F32),
        ValueKind::F64 => Some(ScalarType::F64),
        ValueKind::Ref => None,
    }
}
