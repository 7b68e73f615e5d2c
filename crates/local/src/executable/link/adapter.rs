//! Functions that call another one with the imports that it was compiled for: it finds them by their indices
//! in its own library, and the executable that it is put into has other ones.

use super::view::{Machine, X86_64};

/// Of the environment, which an adapter copies.
const ENVIRONMENT_WORDS: u32 = 12;
/// Offsets in it of the functions of imports, and of their contexts.
const IMPORT_FUNCTIONS: u32 = 16;
const IMPORT_CONTEXTS: u32 = 24;
/// Imports for which an adapter has room on the stack and in its instructions.
pub(super) const MAX_IMPORTS: usize = 200;

/// The code of an adapter at an address, which calls `target`. `imports` has the index in the executable for
/// each import of the function.
pub(super) fn code(machine: Machine, at: u64, target: u64, imports: &[u32]) -> Vec<u8> {
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

fn x86_64(at: u64, target: u64, imports: &[u32], frame: u32, contexts: u32) -> Vec<u8> {
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
    out.extend((target.wrapping_sub(next) as u32).to_le_bytes());
    out.extend([0xC9, 0xC3]); // leave; ret
    out
}

fn arm_64(at: u64, target: u64, imports: &[u32], frame: u32, contexts: u32) -> Vec<u8> {
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
    out.push(0x9400_0000 | (distance >> 2) as u32 & 0x3FF_FFFF); // bl target
    out.extend([0x9100_03BF, 0xA8C1_7BFD, 0xD65F_03C0]); // mov sp, x29; ldp x29, x30, [sp], #16; ret
    out.iter().flat_map(|it| it.to_le_bytes()).collect()
}
