//! Functions that call another one with the imports that it was compiled for: it finds them by their indices
//! in its own library, and the executable that it is put into has other ones.

use rehal_base::{Error, Result};

use crate::executable::elf::{Machine, X86_64, u32_at};

/// Of the environment, which an adapter copies.
const ENVIRONMENT_WORDS: u32 = 12;
/// Offsets in it of the functions of imports, and of their contexts.
const IMPORT_FUNCTIONS: u32 = 16;
const IMPORT_CONTEXTS: u32 = 24;
/// Imports for which an adapter has room on the stack and in its instructions.
pub(super) const MAX_IMPORTS: usize = 200;

/// After the call: leave; ret.
const X86_64_RETURN: [u8; 2] = [0xC9, 0xC3];
/// The same: mov sp, x29; ldp x29, x30, [sp], #16; ret.
const ARM_64_RETURN: [u32; 3] = [0x9100_03BF, 0xA8C1_7BFD, 0xD65F_03C0];
/// A call without its distance, which is below this number of bytes.
const ARM_64_CALL: u32 = 0x9400_0000;
const ARM_64_DISTANCE: i64 = 128 << 20;

/// The code of an adapter at an address, which calls `target`. `imports` has the index in the executable for
/// each import of the function. Fails if the target is too far for the instruction that calls it.
pub(super) fn code(machine: Machine, at: u64, target: u64, imports: &[u32]) -> Result<Vec<u8>> {
    let copies = ENVIRONMENT_WORDS * 8;
    let count = imports.len() as u32;
    let frame = (copies + count * 16).next_multiple_of(16);
    let contexts = copies + count * 8;
    if machine == X86_64 {
        x86_64(at, target, imports, frame, contexts)
    } else {
        arm_64(at, target, imports, frame, contexts)
    }
}

/// The target that the code of an adapter at an address calls; `None` for other code.
pub(super) fn target(machine: Machine, at: u64, code: &[u8]) -> Option<u64> {
    if machine == X86_64 {
        let call = code.len().checked_sub(5 + X86_64_RETURN.len())?;
        let distance = i64::from(u32_at(code, call + 1) as i32);
        let is_call = code[call] == 0xE8 && code.ends_with(&X86_64_RETURN);
        return is_call.then(|| at.wrapping_add(call as u64 + 5).wrapping_add_signed(distance));
    }
    let call = code.len().checked_sub(4 * (1 + ARM_64_RETURN.len()))?;
    let word = u32_at(code, call);
    // The distance in words has 26 bits.
    let distance = i64::from((word << 6) as i32 >> 6) * 4;
    let is_call = word & !0x3FF_FFFF == ARM_64_CALL;
    let returns = (ARM_64_RETURN.iter().zip(1..)).all(|(it, index)| u32_at(code, call + index * 4) == *it);
    (is_call && returns).then(|| at.wrapping_add(call as u64).wrapping_add_signed(distance))
}

fn too_far(at: u64, target: u64) -> Error {
    Error::unimplemented(format!("its code at {target:#x} is too far from {at:#x} for a call"))
        .advise("link it with smaller alignments and less static memory")
}

fn x86_64(at: u64, target: u64, imports: &[u32], frame: u32, contexts: u32) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    let mut put = |code: &[u8], immediate: Option<u32>| {
        out.extend(code);
        out.extend(immediate.iter().flat_map(|it| it.to_le_bytes()));
    };
    put(&[0x55], None); // push rbp
    put(&[0x48, 0x89, 0xE5], None); // mov rbp, rsp
    put(&[0x48, 0x81, 0xEC], Some(frame)); // sub rsp, frame
    for word in 0..ENVIRONMENT_WORDS {
        put(&[0x48, 0x8B, 0x87], Some(word * 8)); // mov rax, [rdi + word]
        put(&[0x48, 0x89, 0x84, 0x24], Some(word * 8)); // mov [rsp + word], rax
    }
    put(&[0x48, 0x8B, 0x87], Some(IMPORT_FUNCTIONS)); // mov rax, [rdi + functions]
    put(&[0x48, 0x8B, 0x8F], Some(IMPORT_CONTEXTS)); // mov rcx, [rdi + contexts]
    for (index, import) in (0..).zip(imports) {
        put(&[0x4C, 0x8B, 0x80], Some(import * 8)); // mov r8, [rax + import]
        put(&[0x4C, 0x89, 0x84, 0x24], Some(ENVIRONMENT_WORDS * 8 + index * 8)); // mov [rsp + ..], r8
        put(&[0x4C, 0x8B, 0x81], Some(import * 8)); // mov r8, [rcx + import]
        put(&[0x4C, 0x89, 0x84, 0x24], Some(contexts + index * 8)); // mov [rsp + ..], r8
    }
    for (field, start) in [(IMPORT_FUNCTIONS, ENVIRONMENT_WORDS * 8), (IMPORT_CONTEXTS, contexts)] {
        put(&[0x48, 0x8D, 0x84, 0x24], Some(start)); // lea rax, [rsp + start]
        put(&[0x48, 0x89, 0x84, 0x24], Some(field)); // mov [rsp + field], rax
    }
    put(&[0x48, 0x89, 0xE7], None); // mov rdi, rsp
    let next = at + out.len() as u64 + 5;
    out.push(0xE8); // call target
    let distance = i32::try_from(target.wrapping_sub(next) as i64).map_err(|_| too_far(at, target))?;
    out.extend(distance.to_le_bytes());
    out.extend(X86_64_RETURN);
    Ok(out)
}

fn arm_64(at: u64, target: u64, imports: &[u32], frame: u32, contexts: u32) -> Result<Vec<u8>> {
    let load = |to: u32, base: u32, offset: u32| 0xF940_0000 | (offset / 8) << 10 | base << 5 | to;
    let store = |from: u32, offset: u32| 0xF900_0000 | (offset / 8) << 10 | 31 << 5 | from;
    let add_to_sp = |to: u32, offset: u32| 0x9100_0000 | offset << 10 | 31 << 5 | to;
    let mut out = vec![
        0xA9BF_7BFD,                              // stp x29, x30, [sp, #-16]!
        0x9100_03FD,                              // mov x29, sp
        0xD100_0000 | frame << 10 | 31 << 5 | 31, // sub sp, sp, #frame
    ];
    for word in 0..ENVIRONMENT_WORDS {
        out.extend([load(9, 0, word * 8), store(9, word * 8)]);
    }
    out.extend([load(10, 0, IMPORT_FUNCTIONS), load(11, 0, IMPORT_CONTEXTS)]);
    for (index, import) in (0..).zip(imports) {
        out.extend([load(9, 10, import * 8), store(9, ENVIRONMENT_WORDS * 8 + index * 8)]);
        out.extend([load(9, 11, import * 8), store(9, contexts + index * 8)]);
    }
    for (field, start) in [(IMPORT_FUNCTIONS, ENVIRONMENT_WORDS * 8), (IMPORT_CONTEXTS, contexts)] {
        out.extend([add_to_sp(9, start), store(9, field)]);
    }
    out.push(0x9100_03E0); // mov x0, sp
    let distance = target.wrapping_sub(at + out.len() as u64 * 4) as i64;
    if distance % 4 != 0 || !(-ARM_64_DISTANCE..ARM_64_DISTANCE).contains(&distance) {
        return Err(too_far(at, target));
    }
    out.push(ARM_64_CALL | (distance >> 2) as u32 & 0x3FF_FFFF); // bl target
    out.extend(ARM_64_RETURN);
    Ok(out.iter().flat_map(|it| it.to_le_bytes()).collect())
}
