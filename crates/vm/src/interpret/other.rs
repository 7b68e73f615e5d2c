use rehal_base::{Error, Result, StatusCode};

use crate::Ref;
use crate::code::Division;
use crate::list::ElementKind;
use crate::operation::Op;
use crate::program::Program;
use crate::registers::{Number, Window};

use super::Instance;
use super::refs::{check, look, put, take};
use super::{buffers, lists};

/// Runs an instruction that is not worth a place in the loop.
pub(super) fn run(
    op: Op,
    operands: [u16; 6],
    program: &Program,
    instance: &Instance,
    window: &mut Window,
    refs: &mut [Ref],
) -> Result<()> {
    let [a, b, c, d, e, f] = operands;
    let globals = &instance.globals;
    let kind = |type_id: u16| {
        let kind = program.tables.types.get(usize::from(type_id));
        kind.unwrap_or(&ElementKind::AnyRef)
    };
    match op {
        Op::GlobalLoadIndirectI32 | Op::GlobalLoadIndirectF32 => {
            globals.load_32(u32::get(window, a))?.put(window, b);
        }
        Op::GlobalStoreIndirectI32 | Op::GlobalStoreIndirectF32 => {
            globals.store_32(u32::get(window, a), u32::get(window, b))?;
        }
        Op::GlobalLoadIndirectI64 | Op::GlobalLoadIndirectF64 => {
            globals.load_64(u32::get(window, a))?.put(window, b);
        }
        Op::GlobalStoreIndirectI64 | Op::GlobalStoreIndirectF64 => {
            globals.store_64(u32::get(window, a), u64::get(window, b))?;
        }
        Op::GlobalLoadIndirectRef => {
            super::load_global_ref(instance, u32::get(window, a), kind(b), c, refs)?;
        }
        Op::GlobalStoreIndirectRef => {
            super::store_global_ref(instance, u32::get(window, a), kind(b), c, refs)?;
        }
        Op::ConstRefZero => put(refs, a, Ref::NULL),
        Op::CastAnyRef => {
            check(look(refs, a), kind(b))?;
            let object = take(refs, a);
            put(refs, c, object);
        }
        Op::SelectRef => {
            let (chosen, other) = if i32::get(window, a) != 0 { (c, d) } else { (d, c) };
            check(look(refs, chosen), kind(b))?;
            let object = take(refs, chosen);
            // The other is given up as well, where it is said to be.
            if other & crate::verify::MOVE_BIT != 0 {
                drop(take(refs, other));
            }
            put(refs, e, object);
        }
        Op::CmpEQRef => i32::from(look(refs, a).is_same(look(refs, b))).put(window, c),
        Op::CmpNERef => i32::from(!look(refs, a).is_same(look(refs, b))).put(window, c),
        Op::CmpNZRef => i32::from(!look(refs, a).is_null()).put(window, b),
        Op::BufferAlloc => put(refs, c, buffers::allocate(operands, window)?),
        Op::BufferClone => {
            let copy = buffers::clone(operands, window, refs)?;
            put(refs, e, copy);
        }
        Op::BufferLength => buffers::buffer(refs, a)?.length().put(window, b),
        Op::BufferCopy => buffers::copy(operands, window, refs)?,
        Op::BufferCompare => i32::from(buffers::compare(operands, window, refs)?).put(window, f),
        Op::BufferFillI8 => {
            buffers::fill(operands, (u32::get(window, d) as u8).to_le_bytes(), window, refs)?;
        }
        Op::BufferFillI16 => {
            buffers::fill(operands, (u32::get(window, d) as u16).to_le_bytes(), window, refs)?;
        }
        Op::BufferFillI32 | Op::BufferFillF32 => {
            buffers::fill(operands, u32::get(window, d).to_le_bytes(), window, refs)?;
        }
        Op::BufferFillI64 | Op::BufferFillF64 => {
            buffers::fill(operands, u64::get(window, d).to_le_bytes(), window, refs)?;
        }
        Op::BufferHash => {
            let [offset, length] = [b, c].map(|register| u64::get(window, register));
            buffers::buffer(refs, a)?.hash(offset, length)?.put(window, d);
        }
        _ => lists::run(op, operands, &program.tables, window, refs)?,
    }
    Ok(())
}

/// Bytes that an instruction allocates, or reads or writes in bulk.
pub(super) fn bulk_bytes(op: Op, operands: [u16; 6], window: &Window) -> u64 {
    /// An element of a list of anything.
    const ELEMENT_BYTES: u64 = 16;
    let [a, b, c, _, e, _] = operands;
    let elements = |register, size: u64| u64::get(window, register).saturating_mul(size);
    match op {
        Op::BufferAlloc => elements(a, 1),
        Op::BufferClone | Op::BufferHash | Op::BufferFillI8 => elements(c, 1),
        Op::BufferCopy | Op::BufferCompare => elements(e, 1),
        Op::BufferFillI16 => elements(c, 2),
        Op::BufferFillI32 | Op::BufferFillF32 => elements(c, 4),
        Op::BufferFillI64 | Op::BufferFillF64 => elements(c, 8),
        Op::ListAlloc | Op::ListReserve | Op::ListResize => u64::from(u32::get(window, b)) * ELEMENT_BYTES,
        _ => 0,
    }
}

/// Divides integers. Fails on a divisor of 0; the quotient that does not fit wraps.
#[inline]
pub(super) fn divide(op: Division, registers: [u16; 3], window: &mut Window) -> Result<()> {
    let [left, right, result] = registers;
    macro_rules! divide {
        ($type:ty, $method:ident) => {{
            let divisor = <$type>::get(window, right);
            if divisor == 0 {
                return Err(by_zero());
            }
            <$type>::get(window, left).$method(divisor).put(window, result);
        }};
    }
    match op {
        Division::DivI32S => divide!(i32, wrapping_div),
        Division::DivI32U => divide!(u32, wrapping_div),
        Division::RemI32S => divide!(i32, wrapping_rem),
        Division::RemI32U => divide!(u32, wrapping_rem),
        Division::DivI64S => divide!(i64, wrapping_div),
        Division::DivI64U => divide!(u64, wrapping_div),
        Division::RemI64S => divide!(i64, wrapping_rem),
        Division::RemI64U => divide!(u64, wrapping_rem),
    }
    Ok(())
}

#[cold]
fn by_zero() -> Error {
    Error::invalid_argument("an integer is divided by 0")
}

/// The error of a program that fails with a status of its own, which is not 0. As in the reference, its lower five bits
/// count; where they name no failure, the text says what they were part of.
#[cold]
pub(super) fn failure(status: u32, text: &str) -> Error {
    match StatusCode::from_u32(status & 0x1F) {
        None | Some(StatusCode::Ok) => {
            Error::new(StatusCode::Unknown, format!("{text} (status {})", status as i32))
        }
        Some(code) => Error::new(code, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_the_code_that_the_program_says() {
        let code = |status: i32| failure(status as u32, "said so").code();
        assert_eq!((code(1), code(18)), (StatusCode::Cancelled, StatusCode::Incompatible));
        assert_eq!((code(33), code(-32 + 5)), (StatusCode::Cancelled, StatusCode::NotFound));
        for status in [19, 31, 32, 64, -1, i32::MIN, i32::MAX] {
            let error = failure(status as u32, "said so");
            assert_eq!(error.code(), StatusCode::Unknown);
            assert_eq!(error.message(), format!("said so (status {status})"));
        }
        assert_eq!(failure(9, "said so").message(), "said so");
    }
}
