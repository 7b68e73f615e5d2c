//! Constants of the ELF format that the loader uses, named as in the specification.

pub(super) const EHDR_BYTES: u64 = 64;
pub(super) const PHDR_BYTES: u64 = 56;
pub(super) const SHDR_BYTES: u64 = 64;
pub(super) const SYM_BYTES: u64 = 24;
pub(super) const RELA_BYTES: u64 = 24;
pub(super) const DYN_BYTES: u64 = 16;

pub(super) const ELFCLASS64: u8 = 2;
pub(super) const ELFDATA2LSB: u8 = 1;
pub(super) const EV_CURRENT: u32 = 1;
pub(super) const ET_DYN: u16 = 3;
pub(super) const EM_X86_64: u16 = 62;

pub(super) const PT_LOAD: u32 = 1;
pub(super) const PT_DYNAMIC: u32 = 2;
pub(super) const PT_TLS: u32 = 7;
pub(super) const PT_GNU_RELRO: u32 = 0x6474_E552;
pub(super) const PT_GNU_PROPERTY: u32 = 0x6474_E553;
pub(super) const PF_X: u32 = 1;
pub(super) const PF_W: u32 = 2;
pub(super) const PF_R: u32 = 4;

pub(super) const DT_NULL: u64 = 0;
pub(super) const DT_NEEDED: u64 = 1;
pub(super) const DT_PLTRELSZ: u64 = 2;
pub(super) const DT_HASH: u64 = 4;
pub(super) const DT_STRTAB: u64 = 5;
pub(super) const DT_SYMTAB: u64 = 6;
pub(super) const DT_RELA: u64 = 7;
pub(super) const DT_RELASZ: u64 = 8;
pub(super) const DT_RELAENT: u64 = 9;
pub(super) const DT_STRSZ: u64 = 10;
pub(super) const DT_SYMENT: u64 = 11;
pub(super) const DT_INIT: u64 = 12;
pub(super) const DT_REL: u64 = 17;
pub(super) const DT_RELSZ: u64 = 18;
pub(super) const DT_PLTREL: u64 = 20;
pub(super) const DT_JMPREL: u64 = 23;
pub(super) const DT_INIT_ARRAY: u64 = 25;
pub(super) const DT_INIT_ARRAYSZ: u64 = 27;
pub(super) const DT_RELRSZ: u64 = 35;
pub(super) const DT_RELR: u64 = 36;
pub(super) const DT_RELRENT: u64 = 37;
pub(super) const DT_GNU_HASH: u64 = 0x6FFF_FEF5;

pub(super) const SHN_UNDEF: u16 = 0;
pub(super) const SHN_ABS: u16 = 0xFFF1;
pub(super) const STB_GLOBAL: u8 = 1;
pub(super) const STB_WEAK: u8 = 2;
pub(super) const STT_TLS: u8 = 6;
pub(super) const STT_GNU_IFUNC: u8 = 10;

pub(super) const R_X86_64_NONE: u32 = 0;
pub(super) const R_X86_64_64: u32 = 1;
pub(super) const R_X86_64_PC32: u32 = 2;
pub(super) const R_X86_64_GLOB_DAT: u32 = 6;
pub(super) const R_X86_64_JUMP_SLOT: u32 = 7;
pub(super) const R_X86_64_RELATIVE: u32 = 8;

pub(super) const NT_GNU_PROPERTY_TYPE_0: u32 = 5;
pub(super) const GNU_PROPERTY_X86_ISA_1_NEEDED: u32 = 0xC000_8002;

/// The name of a machine, as in executable formats.
pub(super) fn machine_name(machine: u16, class: u8) -> String {
    let name = match (machine, class) {
        (3, _) => "x86_32",
        (40, _) => "arm_32",
        (EM_X86_64, _) => "x86_64",
        (183, _) => "arm_64",
        (243, 1) => "riscv_32",
        (243, _) => "riscv_64",
        (224, _) => "amdgpu",
        (190, _) => "cuda",
        _ => return format!("machine {machine}"),
    };
    name.to_string()
}
