use std::cell::RefCell;

use rehal_base::{Error, Result};
use rehal_vm::{Call, Export, Flow, NativeModule, State};

use super::elementwise::{self, Binary, Unary};
use super::mmt4d::Mmt4d;
use super::movement;
use super::span::{Operand, Scratch};
use super::tile_sizes;
use super::tiles::Tiling;

/// The module `vmvx`: the microkernels that executables import (source: `modules/vmvx/exports.inl`).
///
/// A buffer argument is followed by its offset and strides in elements. A call checks all operands before it
/// accesses them; an output may overlap an input.
pub(super) struct VmvxModule;

/// The operation of an export.
#[derive(Clone, Copy)]
enum Function {
    Unary(Unary),
    Binary(Binary),
    /// With the size of an element in bytes.
    Copy(usize),
    Fill,
    Mmt4d,
    Pack,
    Unpack,
    QueryTileSizes,
}

const UNARY: &str = "0rIIIrIIIII_v";
const BINARY: &str = "0rIIIrIIIrIIIII_v";

const TABLE: [(Export, Function); 32] = [
    (Export::new("abs.2d.f32", UNARY), Function::Unary(Unary::AbsF32)),
    (Export::new("add.2d.f32", BINARY), Function::Binary(Binary::AddF32)),
    (Export::new("add.2d.i32", BINARY), Function::Binary(Binary::AddI32)),
    (Export::new("and.2d.i32", BINARY), Function::Binary(Binary::AndI32)),
    (Export::new("ceil.2d.f32", UNARY), Function::Unary(Unary::CeilF32)),
    (Export::new("copy.2d.x16", UNARY), Function::Copy(2)),
    (Export::new("copy.2d.x32", UNARY), Function::Copy(4)),
    (Export::new("copy.2d.x64", UNARY), Function::Copy(8)),
    (Export::new("copy.2d.x8", UNARY), Function::Copy(1)),
    (Export::new("ctlz.2d.i32", UNARY), Function::Unary(Unary::CountLeadingZerosI32)),
    (Export::new("div.2d.f32", BINARY), Function::Binary(Binary::DivF32)),
    (Export::new("divs.2d.i32", BINARY), Function::Binary(Binary::DivSignedI32)),
    (Export::new("divu.2d.i32", BINARY), Function::Binary(Binary::DivUnsignedI32)),
    (Export::new("exp.2d.f32", UNARY), Function::Unary(Unary::ExpF32)),
    (Export::new("fill.2d.x32", "0irIIII_v"), Function::Fill),
    (Export::new("floor.2d.f32", UNARY), Function::Unary(Unary::FloorF32)),
    (Export::new("log.2d.f32", UNARY), Function::Unary(Unary::LogF32)),
    (Export::new("mmt4d", "0rIIrIIrIIIIIiiii_v"), Function::Mmt4d),
    (Export::new("mul.2d.f32", BINARY), Function::Binary(Binary::MulF32)),
    (Export::new("mul.2d.i32", BINARY), Function::Binary(Binary::MulI32)),
    (Export::new("neg.2d.f32", UNARY), Function::Unary(Unary::NegF32)),
    (Export::new("or.2d.i32", BINARY), Function::Binary(Binary::OrI32)),
    (Export::new("pack", "0rIIIrIIIIIIIIIIi_v"), Function::Pack),
    (Export::new("query_tile_sizes.2d", "0IIi_II"), Function::QueryTileSizes),
    (Export::new("rsqrt.2d.f32", UNARY), Function::Unary(Unary::RsqrtF32)),
    (Export::new("shl.2d.i32", BINARY), Function::Binary(Binary::ShlI32)),
    (Export::new("shrs.2d.i32", BINARY), Function::Binary(Binary::ShrSignedI32)),
    (Export::new("shru.2d.i32", BINARY), Function::Binary(Binary::ShrUnsignedI32)),
    (Export::new("sub.2d.f32", BINARY), Function::Binary(Binary::SubF32)),
    (Export::new("sub.2d.i32", BINARY), Function::Binary(Binary::SubI32)),
    (Export::new("unpack", "0rIIIrIIIIIIIIIi_v"), Function::Unpack),
    (Export::new("xor.2d.i32", BINARY), Function::Binary(Binary::XorI32)),
];

const EXPORTS: [Export; TABLE.len()] = {
    let mut exports = [TABLE[0].0; TABLE.len()];
    let mut index = 0;
    while index < TABLE.len() {
        exports[index] = TABLE[index].0;
        index += 1;
    }
    exports
};

impl NativeModule for VmvxModule {
    fn name(&self) -> &str {
        "vmvx"
    }

    fn version(&self) -> u32 {
        0
    }

    fn exports(&self) -> &[Export] {
        &EXPORTS
    }

    fn new_state(&self) -> Result<State> {
        Ok(Box::new(()))
    }

    fn call(&self, _state: &State, ordinal: usize, call: &mut Call<'_>) -> Result<Flow> {
        let Some((_, function)) = TABLE.get(ordinal) else {
            return Err(Error::out_of_range(format!("module vmvx has no function {ordinal}")));
        };
        if let Function::QueryTileSizes = function {
            let [rows, columns] = tile_sizes::query(call.u32(2)?, [call.i64(0)?, call.i64(1)?])?;
            call.push(rows);
            call.push(columns);
        } else {
            with_scratch(|scratch| run(*function, call, scratch))?;
        }
        Ok(Flow::Return)
    }
}

/// Reads the arguments, in the order of the calling convention, and runs the kernel.
fn run(function: Function, call: &Call<'_>, scratch: &mut Scratch) -> Result<()> {
    let sizes = |at: usize| -> Result<[i64; 2]> { Ok([call.i64(at)?, call.i64(at + 1)?]) };
    match function {
        Function::Unary(op) => {
            elementwise::unary(op, operand(call, "in", 0)?, operand(call, "out", 4)?, sizes(8)?, scratch)
        }
        Function::Binary(op) => {
            let (lhs, rhs) = (operand(call, "lhs", 0)?, operand(call, "rhs", 4)?);
            elementwise::binary(op, lhs, rhs, operand(call, "out", 8)?, sizes(12)?, scratch)
        }
        Function::Copy(element_bytes) => {
            let (input, out) = (operand(call, "in", 0)?, operand(call, "out", 4)?);
            movement::copy(element_bytes, input, out, sizes(8)?, scratch)
        }
        Function::Fill => {
            movement::fill(call.i32(0)?.to_ne_bytes(), rows(call, "out", 1)?, sizes(4)?, scratch)
        }
        Function::Mmt4d => Mmt4d {
            lhs: rows(call, "lhs", 0)?,
            rhs: rows(call, "rhs", 3)?,
            out: rows(call, "out", 6)?,
            tiles: [call.i64(9)?, call.i64(10)?, call.i64(11)?],
            tile: [call.i32(12)?, call.i32(13)?, call.i32(14)?],
            flags: call.u32(15)?,
        }
        .run(scratch),
        Function::Pack => {
            let [outer, tile] = [sizes(10)?, sizes(12)?];
            let tiling = Tiling {
                matrix: operand(call, "in", 0)?,
                tiled: tiled(operand(call, "out", 4)?),
                sizes: sizes(8)?,
                tiled_sizes: [outer[0], outer[1], tile[0], tile[1]],
                flags: call.u32(15)?,
            };
            tiling.pack(call.u64(14)?, scratch)
        }
        Function::Unpack => {
            let [outer, tile] = [sizes(8)?, sizes(10)?];
            let tiling = Tiling {
                matrix: operand(call, "out", 4)?,
                tiled: tiled(operand(call, "in", 0)?),
                sizes: sizes(12)?,
                tiled_sizes: [outer[0], outer[1], tile[0], tile[1]],
                flags: call.u32(14)?,
            };
            tiling.unpack(scratch)
        }
        Function::QueryTileSizes => Ok(()),
    }
}

/// The operand whose buffer, offset and two strides start at argument `at`.
#[inline(always)]
fn operand<'a>(call: &'a Call<'_>, name: &'static str, at: usize) -> Result<Operand<'a>> {
    let buffer = call.buffer(at)?;
    Ok(Operand {
        name,
        memory: buffer.memory(),
        is_mutable: buffer.is_mutable(),
        offset: call.i64(at + 1)?,
        strides: [call.i64(at + 2)?, call.i64(at + 3)?],
    })
}

/// The operand whose buffer, offset and row stride start at argument `at`; its rows are contiguous.
#[inline(always)]
fn rows<'a>(call: &'a Call<'_>, name: &'static str, at: usize) -> Result<Operand<'a>> {
    let buffer = call.buffer(at)?;
    Ok(Operand {
        name,
        memory: buffer.memory(),
        is_mutable: buffer.is_mutable(),
        offset: call.i64(at + 1)?,
        strides: [call.i64(at + 2)?, 1],
    })
}

/// The packed operand of a tiling: its inner dimensions are contiguous, so the second stride is ignored.
fn tiled(operand: Operand<'_>) -> Operand<'_> {
    Operand { strides: [operand.strides[0], 1], ..operand }
}

thread_local! {
    /// Scratch memory of this thread's kernels, grown on demand.
    static SCRATCH: RefCell<Scratch> = const { RefCell::new(Scratch::NEW) };
}

fn with_scratch<R>(run: impl FnOnce(&mut Scratch) -> R) -> R {
    // Kernels call nothing that could borrow it again.
    SCRATCH.with_borrow_mut(|scratch| {
        let result = run(scratch);
        scratch.shrink();
        result
    })
}

#[cfg(test)]
mod tests {
    use rehal_base::StatusCode;
    use rehal_vm::{Buffer, Context, Module, Ref, Value};

    use super::*;

    fn context() -> Context {
        Context::new(&[Module::native(VmvxModule).unwrap()]).unwrap()
    }

    fn call(name: &str, arguments: &[Value]) -> Result<Vec<Value>> {
        context().function(&format!("vmvx.{name}"))?.call(arguments)
    }

    fn buffer(words: &[u32]) -> Ref {
        let buffer = Buffer::allocate(words.len() as u64 * 4, 4).unwrap();
        for (index, word) in words.iter().enumerate() {
            buffer.store(index as u64 * 4, word.to_ne_bytes()).unwrap();
        }
        Ref::new(buffer)
    }

    fn words(buffer: &Ref) -> Vec<u32> {
        let bytes = buffer.object::<Buffer>().unwrap().to_vec();
        bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
    }

    /// A buffer, followed by its offset, its strides and other 64-bit arguments.
    fn arguments(buffer: &Ref, numbers: &[i64]) -> Vec<Value> {
        std::iter::once(Value::Ref(buffer.clone())).chain(numbers.iter().map(|n| Value::I64(*n))).collect()
    }

    #[test]
    fn exports_are_sorted_and_have_the_references_calling_conventions() {
        assert!(TABLE.is_sorted_by_key(|(export, _)| export.name));
        let context = context();
        for (export, function) in TABLE {
            let arguments = context.function(&format!("vmvx.{}", export.name)).unwrap();
            let count = arguments.convention().arguments().len();
            let expected = match function {
                Function::Unary(_) | Function::Copy(_) => 10,
                Function::Binary(_) => 14,
                Function::Fill => 6,
                Function::Mmt4d | Function::Pack => 16,
                Function::Unpack => 15,
                Function::QueryTileSizes => 3,
            };
            assert_eq!(count, expected, "{}", export.name);
        }
    }

    #[test]
    fn arguments_reach_their_operands() {
        // 2x2 elements, with other strides for each operand.
        let (lhs, rhs, out) = (buffer(&[0, 40, 30, 20, 10]), buffer(&[4, 2, 3, 1]), buffer(&[9; 6]));
        let list = [
            arguments(&lhs, &[1, 2, 1]),
            arguments(&rhs, &[0, 1, 2]),
            arguments(&out, &[1, 3, 1]),
            vec![Value::I64(2), Value::I64(2)],
        ];
        call("sub.2d.i32", &list.concat()).unwrap();
        assert_eq!(words(&out), [9, 36, 27, 9, 18, 9]);
        call("copy.2d.x64", &[arguments(&lhs, &[0, 0, 1]), arguments(&out, &[1, 0, 1, 1, 2])].concat())
            .unwrap();
        assert_eq!(words(&out), [9, 36, 0, 40, 30, 20]);
        call("neg.2d.f32", &[arguments(&rhs, &[3, 1, 1]), arguments(&out, &[5, 1, 1, 1, 1])].concat())
            .unwrap();
        assert_eq!(words(&out), [9, 36, 0, 40, 30, 0x8000_0001]);
        call("fill.2d.x32", &[vec![Value::I32(7)], arguments(&out, &[1, 2, 2, 1])].concat()).unwrap();
        assert_eq!(words(&out), [9, 7, 0, 7, 30, 0x8000_0001]);
        let tiles = call("query_tile_sizes.2d", &[Value::I64(i64::MIN), Value::I64(5), Value::I32(0x103)]);
        assert!(matches!(tiles.unwrap()[..], [Value::I64(8 | 16), Value::I64(4 | 8 | 16)]));
    }

    #[test]
    fn a_packed_matrix_product_is_unpacked() {
        // 3x2 times 2x3, in tiles of 2x2 by 2.
        let bits = |values: &[f32]| buffer(&values.iter().map(|value| value.to_bits()).collect::<Vec<_>>());
        let (lhs, rhs) = (bits(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), bits(&[1.0, 0.0, 2.0, 3.0, 1.0, 0.0]));
        let (lhs_tiles, rhs_tiles, tiles, out) =
            (bits(&[9.0; 8]), bits(&[9.0; 8]), bits(&[9.0; 16]), bits(&[9.0; 9]));
        let pack = |from: &Ref, to: &Ref, sizes: [i64; 6], flags| {
            let to = arguments(to, &[0, 4, 4, sizes[0], sizes[1], sizes[2], sizes[3], sizes[4], sizes[5], 0]);
            let list = [arguments(from, &[0, sizes[1], 1]), to, vec![Value::I32(flags)]];
            call("pack", &list.concat()).unwrap();
        };
        pack(&lhs, &lhs_tiles, [3, 2, 2, 1, 2, 2], 1);
        // The right operand is transposed, in its outer and inner dimensions.
        pack(&rhs, &rhs_tiles, [2, 3, 2, 1, 2, 2], 1 | 0x300);
        let list = [
            arguments(&lhs_tiles, &[0, 4]),
            arguments(&rhs_tiles, &[0, 4]),
            arguments(&tiles, &[0, 8, 2, 2, 1]),
            [2, 2, 2, 1].map(Value::I32).to_vec(),
        ];
        call("mmt4d", &list.concat()).unwrap();
        let out_arguments = arguments(&out, &[0, 3, 1, 2, 2, 2, 2, 3, 3]);
        let list = [arguments(&tiles, &[0, 8, 4]), out_arguments, vec![Value::I32(1)]];
        call("unpack", &list.concat()).unwrap();
        let found: Vec<_> = words(&out).into_iter().map(f32::from_bits).collect();
        assert_eq!(found, [7.0, 2.0, 2.0, 15.0, 4.0, 6.0, 23.0, 6.0, 10.0]);
    }

    #[test]
    fn wrong_arguments_are_errors_that_name_the_function() {
        let out = buffer(&[0; 4]);
        let unary = |input: Value, out: &Ref, size: i64| {
            let head = [input, Value::I64(0), Value::I64(4), Value::I64(1)];
            call("exp.2d.f32", &[head.to_vec(), arguments(out, &[0, 4, 1, 1, size])].concat())
        };
        let good = Value::Ref(buffer(&[0; 4]));
        assert!(unary(good.clone(), &out, 4).is_ok());
        let too_far = unary(good.clone(), &out, 5).unwrap_err();
        assert_eq!(too_far.code(), StatusCode::OutOfRange);
        assert!(too_far.report().to_string().contains("vmvx.exp.2d.f32"), "{}", too_far.report());
        assert!(unary(Value::NULL, &out, 4).unwrap_err().report().to_string().contains("null"));
        let constant = Ref::new(Buffer::from_bytes(&[0; 16]).unwrap());
        assert_eq!(unary(good, &constant, 4).unwrap_err().code(), StatusCode::PermissionDenied);
    }
}
