use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use rehal_base::{Error, Result};

use crate::Ref;

/// The globals of a bytecode module in one context, shared by all invocations.
///
/// Accesses are atomic with acquire and release ordering: a load that reads a value happens-after everything
/// before the store of it.
pub(crate) struct Globals {
    numbers: Numbers,
    length_bytes: usize,
    refs: Box<[Mutex<Ref>]>,
}

/// Numbers by byte offset.
enum Numbers {
    /// No instruction accesses 8 bytes.
    Narrow(Box<[AtomicU32]>),
    /// Units of 8 bytes.
    Wide(Box<[AtomicU64]>),
}

impl Globals {
    /// Zeros and nulls. `is_wide` says whether 8-byte accesses are possible.
    pub(crate) fn new(length_bytes: usize, ref_count: usize, is_wide: bool) -> Self {
        let numbers = if is_wide {
            Numbers::Wide((0..length_bytes.div_ceil(8)).map(|_| AtomicU64::new(0)).collect())
        } else {
            Numbers::Narrow((0..length_bytes.div_ceil(4)).map(|_| AtomicU32::new(0)).collect())
        };
        let refs = (0..ref_count).map(|_| Mutex::new(Ref::NULL)).collect();
        Self { numbers, length_bytes, refs }
    }

    /// The 4 bytes at `offset`.
    #[inline]
    pub(crate) fn load_32(&self, offset: u32) -> Result<u32> {
        let at = self.check(offset, 4)?;
        match &self.numbers {
            Numbers::Narrow(words) => words.get(at / 4).map(|word| word.load(Ordering::Acquire)),
            Numbers::Wide(units) => {
                units.get(at / 8).map(|unit| (unit.load(Ordering::Acquire) >> (at % 8 * 8)) as u32)
            }
        }
        .ok_or_else(|| self.out_of_range(offset, 4))
    }

    /// Stores 4 bytes at `offset`.
    #[inline]
    pub(crate) fn store_32(&self, offset: u32, value: u32) -> Result<()> {
        let at = self.check(offset, 4)?;
        match &self.numbers {
            Numbers::Narrow(words) => words.get(at / 4).map(|word| word.store(value, Ordering::Release)),
            Numbers::Wide(units) => units.get(at / 8).map(|unit| {
                let shift = at % 8 * 8;
                let (mask, value) = (u64::from(u32::MAX) << shift, u64::from(value) << shift);
                // Cannot fail: the closure always returns a value.
                let _ =
                    unit.fetch_update(Ordering::Release, Ordering::Relaxed, |old| Some(old & !mask | value));
            }),
        }
        .ok_or_else(|| self.out_of_range(offset, 4))
    }

    /// The 8 bytes at `offset`; in two halves if `offset` is not a multiple of 8.
    #[inline]
    pub(crate) fn load_64(&self, offset: u32) -> Result<u64> {
        let at = self.check(offset, 8)?;
        match &self.numbers {
            Numbers::Wide(units) if at.is_multiple_of(8) => units
                .get(at / 8)
                .map(|unit| unit.load(Ordering::Acquire))
                .ok_or_else(|| self.out_of_range(offset, 8)),
            _ => Ok(u64::from(self.load_32(offset)?) | u64::from(self.load_32(offset + 4)?) << 32),
        }
    }

    /// Stores 8 bytes at `offset`; in two halves if `offset` is not a multiple of 8.
    #[inline]
    pub(crate) fn store_64(&self, offset: u32, value: u64) -> Result<()> {
        let at = self.check(offset, 8)?;
        match &self.numbers {
            Numbers::Wide(units) if at.is_multiple_of(8) => units
                .get(at / 8)
                .map(|unit| unit.store(value, Ordering::Release))
                .ok_or_else(|| self.out_of_range(offset, 8)),
            _ => {
                self.store_32(offset, value as u32)?;
                self.store_32(offset + 4, (value >> 32) as u32)
            }
        }
    }

    /// The global reference with that ordinal.
    pub(crate) fn reference(&self, ordinal: u32) -> Result<&Mutex<Ref>> {
        self.refs.get(ordinal as usize).ok_or_else(|| {
            Error::out_of_range(format!("global reference {ordinal} is out of bounds of {}", self.refs.len()))
        })
    }

    #[inline]
    fn check(&self, offset: u32, size: usize) -> Result<usize> {
        let at = offset as usize;
        if at + size > self.length_bytes || !at.is_multiple_of(4) {
            return Err(self.out_of_range(offset, size));
        }
        Ok(at)
    }

    #[cold]
    fn out_of_range(&self, offset: u32, size: usize) -> Error {
        if !offset.is_multiple_of(4) {
            return Error::invalid_argument(format!("a global at offset {offset} is not aligned to 4"));
        }
        Error::out_of_range(format!(
            "{size} bytes at offset {offset} are out of bounds of the globals of {} bytes",
            self.length_bytes
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_share_their_bytes() {
        let globals = Globals::new(20, 1, true);
        globals.store_64(8, 0x1122_3344_5566_7788).unwrap();
        assert_eq!(globals.load_32(8).unwrap(), 0x5566_7788);
        globals.store_32(12, 7).unwrap();
        assert_eq!(globals.load_64(8).unwrap(), 7 << 32 | 0x5566_7788);
        globals.store_64(4, u64::MAX).unwrap();
        assert_eq!(globals.load_64(0).unwrap(), 0xFFFF_FFFF_0000_0000);
        assert_eq!(globals.load_32(16).unwrap(), 0);
        assert!(globals.load_32(20).is_err() && globals.load_64(16).is_err());
        assert!(globals.load_32(u32::MAX).is_err() && globals.store_32(2, 0).is_err());
        assert!(globals.reference(0).is_ok() && globals.reference(1).is_err());

        let narrow = Globals::new(8, 0, false);
        narrow.store_32(4, 3).unwrap();
        assert_eq!(narrow.load_64(0).unwrap(), 3 << 32);
        assert!(narrow.store_32(8, 0).is_err());
    }
}
