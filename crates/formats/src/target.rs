//! The processors that `e_flags` of ELF files name.
//!
//! Source: LLVM's `AMDGPUUsage` (`EF_AMDGPU_MACH`, feature flags by version of the ABI) and `ELF.h`
//! (`EF_CUDA_*`).

/// Processors of AMD by the lowest byte of the flags, from [`FIRST_AMD`]; empty if the number is reserved.
const AMD: &[&str] = &[
    "gfx600",
    "gfx601",
    "gfx700",
    "gfx701",
    "gfx702",
    "gfx703",
    "gfx704",
    "",
    "gfx801",
    "gfx802",
    "gfx803",
    "gfx810",
    "gfx900",
    "gfx902",
    "gfx904",
    "gfx906",
    "gfx908",
    "gfx909",
    "gfx90c",
    "gfx1010",
    "gfx1011",
    "gfx1012",
    "gfx1030",
    "gfx1031",
    "gfx1032",
    "gfx1033",
    "gfx602",
    "gfx705",
    "gfx805",
    "gfx1035",
    "gfx1034",
    "gfx90a",
    "gfx940",
    "gfx1100",
    "gfx1013",
    "gfx1150",
    "gfx1103",
    "gfx1036",
    "gfx1101",
    "gfx1102",
    "gfx1200",
    "gfx1250",
    "gfx1151",
    "gfx941",
    "gfx942",
    "",
    "gfx1201",
    "gfx950",
    "gfx1310",
    "gfx9-generic",
    "gfx10-1-generic",
    "gfx10-3-generic",
    "gfx11-generic",
    "gfx1152",
    "",
    "gfx1154",
    "gfx1153",
    "gfx12-generic",
    "gfx1251",
    "gfx12-5-generic",
    "gfx1172",
    "gfx1170",
    "gfx1171",
    "gfx9-4-generic",
    "",
    "",
    "gfx11-7-generic",
    "gfx13-generic",
];
const FIRST_AMD: u32 = 0x20;

/// The target of a HSACO: the processor and its features, if they are chosen; `None` for an unknown one.
/// Before version 2 of the ABI (code object V4), flags do not tell "on" from "any".
pub(crate) fn amd(flags: u32, abi_version: u8) -> Option<String> {
    let index = (flags & 0xFF).checked_sub(FIRST_AMD)?;
    let name = AMD.get(index as usize).filter(|name| !name.is_empty())?;
    let feature = |name: &str, shift: u32| match (flags >> shift & 3, abi_version >= 2) {
        (2, true) => format!(":{name}-"),
        (3, true) => format!(":{name}+"),
        _ => String::new(),
    };
    Some(format!("{name}{}{}", feature("sramecc", 10), feature("xnack", 8)))
}

/// The target of a cubin. From version 8 of the ABI, the number is in the second byte.
pub(crate) fn nvidia(flags: u32, abi_version: u8) -> String {
    let (number, is_accelerated) = match abi_version {
        0..8 => (flags & 0xFF, flags & 0x800 != 0),
        8.. => (flags >> 8 & 0xFF, flags & 8 != 0),
    };
    format!("sm_{number}{}", if is_accelerated { "a" } else { "" })
}
/// Whether code for the processor `own` runs where code for `other` does. Text, which drivers compile, also
/// runs on later processors of NVIDIA; code for AMD that states no feature runs with either setting of it.
pub(crate) fn runs(own: &str, is_text: bool, other: &str) -> bool {
    let number = |target: &str| target.strip_prefix("sm_")?.parse::<u32>().ok();
    if let (true, Some(own), Some(other)) = (is_text, number(own), number(other)) {
        return own <= other;
    }
    let parts = |target: &'_ str| target.split(':').map(str::to_owned).collect::<Vec<_>>();
    let (own, other) = (parts(own), parts(other));
    let contradicts = |feature: &String| {
        let name = feature.trim_end_matches(['+', '-']);
        other.iter().any(|it| it != feature && it.trim_end_matches(['+', '-']) == name)
    };
    own.first() == other.first() && !own[1..].iter().any(contradicts)
}
