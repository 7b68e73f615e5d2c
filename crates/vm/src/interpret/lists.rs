use rehal_base::Result;

use crate::list::ElementKind;
use crate::operation::Op;
use crate::registers::{Number, Window};
use crate::tables::Tables;
use crate::verify::MOVE_BIT;
use crate::{List, Ref, Value, ValueKind};

use super::refs::{is_of, look, put, take};

fn list(refs: &[Ref], register: u16) -> Result<&List> {
    look(refs, register).object()
}

fn index(window: &Window, register: u16) -> usize {
    u32::get(window, register) as usize
}

/// `list.*`
pub(super) fn run(
    op: Op,
    operands: [u16; 6],
    tables: &Tables,
    window: &mut Window,
    refs: &mut [Ref],
) -> Result<()> {
    let [a, b, c, d, ..] = operands;
    match op {
        Op::ListAlloc => {
            let element = tables.types.get(usize::from(a)).cloned().unwrap_or(ElementKind::Variant);
            let list = List::new(element, index(window, b))?;
            put(refs, c, Ref::new(list));
        }
        Op::ListReserve => list(refs, a)?.reserve(index(window, b))?,
        Op::ListSize => (list(refs, a)?.len() as u32).put(window, b),
        Op::ListResize => list(refs, a)?.resize(index(window, b))?,
        Op::ListGetI32 => get(ValueKind::I32, operands, window, refs)?,
        Op::ListGetI64 => get(ValueKind::I64, operands, window, refs)?,
        Op::ListGetF32 => get(ValueKind::F32, operands, window, refs)?,
        Op::ListGetF64 => get(ValueKind::F64, operands, window, refs)?,
        Op::ListSetI32 => list(refs, a)?.set(index(window, b), i32::get(window, c).into())?,
        Op::ListSetI64 => list(refs, a)?.set(index(window, b), i64::get(window, c).into())?,
        Op::ListSetF32 => list(refs, a)?.set(index(window, b), f32::get(window, c).into())?,
        Op::ListSetF64 => list(refs, a)?.set(index(window, b), f64::get(window, c).into())?,
        Op::ListGetRef => {
            let list = list(refs, a)?;
            let at = index(window, b);
            let object = if d & MOVE_BIT == 0 { list.get_ref(at)? } else { list.take_ref(at)? };
            // What is of another type than the program asks for is null to it.
            let is_asked = tables.types.get(usize::from(c)).is_some_and(|kind| is_of(&object, kind));
            put(refs, d, if is_asked { object } else { Ref::NULL });
        }
        _ => {
            debug_assert_eq!(op, Op::ListSetRef);
            let at = index(window, b);
            let object = look(refs, c).clone();
            list(refs, a)?.set(at, Value::Ref(object))?;
            // Given up only once the list has it: where it fails, the register keeps it.
            drop(take(refs, if c & MOVE_BIT == 0 { return Ok(()) } else { c }));
        }
    }
    Ok(())
}

fn get(kind: ValueKind, operands: [u16; 6], window: &mut Window, refs: &[Ref]) -> Result<()> {
    let [source, at, result, ..] = operands;
    match list(refs, source)?.get_value(index(window, at), kind)? {
        Value::I32(value) => value.put(window, result),
        Value::I64(value) => value.put(window, result),
        Value::F32(value) => value.put(window, result),
        Value::F64(value) => value.put(window, result),
        // `get_value` gives what is asked for, and only numbers are asked for.
        Value::I8(_) | Value::I16(_) | Value::Ref(_) => {}
    }
    Ok(())
}
