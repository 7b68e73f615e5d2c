//! Processors, as ELF images number them and their relocations.

use object::elf::{
    EM_AARCH64, EM_X86_64, Machine as MachineId, R_AARCH64_ABS64, R_AARCH64_GLOB_DAT, R_AARCH64_IRELATIVE,
    R_AARCH64_JUMP_SLOT, R_AARCH64_RELATIVE, R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL, R_AARCH64_TLS_TPREL,
    R_AARCH64_TLSDESC, R_X86_64_64, R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_GLOB_DAT,
    R_X86_64_IRELATIVE, R_X86_64_JUMP_SLOT, R_X86_64_PC32, R_X86_64_RELATIVE, R_X86_64_TLSDESC,
    R_X86_64_TPOFF64, RelocationType,
};

use crate::platform;

/// An architecture, by how it numbers relocations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::executable) struct Machine {
    pub(in crate::executable) name: &'static str,
    pub(in crate::executable) id: MachineId,
    pub(in crate::executable) abs64: RelocationType,
    pub(in crate::executable) global: RelocationType,
    pub(in crate::executable) jump: RelocationType,
    pub(in crate::executable) relative: RelocationType,
    pub(in crate::executable) indirect: RelocationType,
    /// A distance of 32 bits, which only x86-64 has.
    pub(in crate::executable) distance: Option<RelocationType>,
    /// Of thread-local data: module, offset in it, offset from the thread pointer, descriptor.
    pub(in crate::executable) tls: [RelocationType; 4],
    /// Whether entries of the tables of addresses have addends.
    pub(in crate::executable) adds_to_globals: bool,
}

pub(in crate::executable) const X86_64: Machine = Machine {
    name: "x86_64",
    id: EM_X86_64,
    abs64: R_X86_64_64,
    global: R_X86_64_GLOB_DAT,
    jump: R_X86_64_JUMP_SLOT,
    relative: R_X86_64_RELATIVE,
    indirect: R_X86_64_IRELATIVE,
    distance: Some(R_X86_64_PC32),
    tls: [R_X86_64_DTPMOD64, R_X86_64_DTPOFF64, R_X86_64_TPOFF64, R_X86_64_TLSDESC],
    adds_to_globals: false,
};

pub(in crate::executable) const ARM_64: Machine = Machine {
    name: "arm_64",
    id: EM_AARCH64,
    abs64: R_AARCH64_ABS64,
    global: R_AARCH64_GLOB_DAT,
    jump: R_AARCH64_JUMP_SLOT,
    relative: R_AARCH64_RELATIVE,
    indirect: R_AARCH64_IRELATIVE,
    distance: None,
    tls: [R_AARCH64_TLS_DTPMOD, R_AARCH64_TLS_DTPREL, R_AARCH64_TLS_TPREL, R_AARCH64_TLSDESC],
    adds_to_globals: true,
};

impl Machine {
    /// That of the processor; on others, whose code does not run, x86-64.
    pub(in crate::executable) const HERE: Self = match platform::ARCHITECTURE.as_bytes() {
        b"arm_64" => ARM_64,
        _ => X86_64,
    };
}
