use object::pod::{Pod, slice_from_bytes};
use rehal_base::{Fault, FormatError};

const FORMAT: &str = "ELF";

/// Bounds-checked reads of little-endian values at untrusted offsets of an image.
#[derive(Clone, Copy)]
pub(in crate::executable) struct Reader<'a> {
    pub(in crate::executable) bytes: &'a [u8],
    /// Offset of the image in the caller's bytes (after a FatELF container's header).
    pub(in crate::executable) origin: u64,
}

/// Entries of the file, read in place.
pub(in crate::executable) struct Table<'a, T> {
    /// File offset of the first one.
    pub(in crate::executable) offset: u64,
    pub(in crate::executable) entries: &'a [T],
}

impl<T> Table<'_, T> {
    pub(in crate::executable) const EMPTY: Self = Self { offset: 0, entries: &[] };
}

impl<'a, T: Pod> Table<'a, T> {
    /// The entries, with their file offsets.
    pub(in crate::executable) fn iter(&self) -> impl Iterator<Item = (u64, &'a T)> + use<'a, T> {
        (self.offset..).step_by(size_of::<T>()).zip(self.entries)
    }
}

impl<'a> Reader<'a> {
    pub(super) fn size(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// `length` bytes at `offset`.
    pub(super) fn take(
        &self,
        offset: u64,
        length: u64,
        field: &'static str,
    ) -> Result<&'a [u8], FormatError> {
        let range = offset.checked_add(length).and_then(|end| {
            let (start, end) = (usize::try_from(offset).ok()?, usize::try_from(end).ok()?);
            self.bytes.get(start..end)
        });
        range.ok_or_else(|| {
            self.error(
                Fault::Truncated,
                offset,
                field,
                format!("{length} bytes"),
                format!("{} left in {} bytes", self.size().saturating_sub(offset), self.size()),
            )
        })
    }

    /// The entries in `length` bytes at `offset`.
    pub(super) fn table<T: Pod>(
        &self,
        offset: u64,
        length: u64,
        field: &'static str,
    ) -> Result<Table<'a, T>, FormatError> {
        let bytes = self.take(offset, length, field)?;
        // Fails only for types with an alignment, which those of ELF lack.
        let entries = slice_from_bytes(bytes, bytes.len() / size_of::<T>());
        Ok(Table { offset, entries: entries.map_or(&[], |(entries, _)| entries) })
    }

    pub(super) fn u16(&self, offset: u64, field: &'static str) -> Result<u16, FormatError> {
        Ok(u16_at(self.take(offset, 2, field)?, 0))
    }

    pub(super) fn u32(&self, offset: u64, field: &'static str) -> Result<u32, FormatError> {
        Ok(u32_at(self.take(offset, 4, field)?, 0))
    }

    pub(super) fn error(
        &self,
        fault: Fault,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        FormatError::new(FORMAT, fault, self.origin.saturating_add(offset), field, expected, found)
    }

    pub(super) fn corrupt(
        &self,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        self.error(Fault::Corrupt, offset, field, expected, found)
    }

    pub(super) fn unsupported(
        &self,
        offset: u64,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        self.error(Fault::Unsupported, offset, field, expected, found)
    }
}

/// The value at `at` of bytes whose length the caller has checked.
pub(in crate::executable) fn u16_at(bytes: &[u8], at: usize) -> u16 {
    let mut value = [0; 2];
    value.copy_from_slice(&bytes[at..at + 2]);
    u16::from_le_bytes(value)
}

/// The value at `at` of bytes whose length the caller has checked.
pub(in crate::executable) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut value = [0; 4];
    value.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(value)
}

/// The value at `at` of bytes whose length the caller has checked.
pub(in crate::executable) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut value = [0; 8];
    value.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(value)
}
