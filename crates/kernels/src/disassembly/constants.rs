//! Constants that instructions of x86-64 load from addresses relative to the next instruction, as the
//! disassembler of the system prints them with `-M intel`.

use std::fmt::Write;

use serde::Serialize;

/// A constant that an instruction loads from memory that nothing writes.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Constant {
    /// Its address in the image.
    pub address: u64,
    /// `f32`, `f64`, `i8` to `i64`; `bits` if the instruction does not say what it reads.
    #[serde(rename = "type")]
    pub element_type: &'static str,
    /// All elements, which may not be numbers of JSON.
    pub values: Vec<String>,
    /// In hexadecimal.
    pub bytes: String,
}

/// How the bytes of a constant are read.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Element {
    F32,
    F64,
    Integer(usize),
    Bits,
}

/// The operands of `-M intel`: how many bytes are read.
const WIDTHS: [(&str, usize); 7] =
    [("byte", 1), ("word", 2), ("dword", 4), ("qword", 8), ("xmmword", 16), ("ymmword", 32), ("zmmword", 64)];

impl Constant {
    /// The constant that an instruction loads, if it loads one. `read` has the bytes at an address if no
    /// program writes them.
    pub(super) fn loaded<'b>(
        instruction: &str,
        read: impl Fn(u64, usize) -> Option<&'b [u8]>,
    ) -> Option<Self> {
        let (instruction, comment) = instruction.split_once('#')?;
        let address = comment.split_whitespace().next()?;
        let address = u64::from_str_radix(address.trim_start_matches("0x"), 16).ok()?;
        let instruction = instruction.trim().to_ascii_lowercase();
        let (mnemonic, operands) = instruction.split_once(char::is_whitespace)?;
        // `lea` reads nothing.
        let (before, _) = operands.split_once("[rip")?;
        let mut words = before.rsplit([' ', '\t', ',']).filter(|it| !it.is_empty());
        // Behind the width is `ptr`, or `bcst` for one element of AVX-512.
        let width = words.next().filter(|it| ["ptr", "bcst"].contains(it)).and(words.next())?;
        let width = WIDTHS.iter().find(|(name, _)| *name == width)?.1;
        let is_vector = ["xmm", "ymm", "zmm"].iter().any(|it| has_register(operands, it));
        let bytes = read(address, width)?;
        let (element_type, values) = element(mnemonic, is_vector, width).values(bytes);
        Some(Self { address, element_type, values, bytes: hex::encode(bytes) })
    }

    /// The text behind an instruction: equal elements once, with their number.
    pub fn text(&self) -> String {
        let mut text = format!("; {}", self.element_type);
        match &self.values[..] {
            [first, rest @ ..] if !rest.is_empty() && rest.iter().all(|it| it == first) => {
                let _ = write!(text, " {first} x{}", self.values.len());
            }
            values => values.iter().for_each(|it| text.extend([" ", it])),
        }
        text
    }
}

/// Whether an operand is such a register, and not the width of memory.
fn has_register(operands: &str, kind: &str) -> bool {
    operands
        .match_indices(kind)
        .any(|(at, _)| operands[at + kind.len()..].starts_with(|it: char| it.is_ascii_digit()))
}

/// The elements as which an instruction reads bytes.
fn element(mnemonic: &str, is_vector: bool, width: usize) -> Element {
    let plain = mnemonic.strip_prefix('v').filter(|_| is_vector).unwrap_or(mnemonic);
    let of_letter = |letter: Option<char>| match letter {
        Some('b') => Element::Integer(1),
        Some('w') => Element::Integer(2),
        Some('d') => Element::Integer(4),
        Some('q') => Element::Integer(8),
        _ => Element::Bits,
    };
    let starts = |prefixes: &[&str]| prefixes.iter().any(|it| plain.starts_with(it));
    let float = |text: &str| match text.get(text.len().saturating_sub(2)..) {
        Some("ss" | "ps") => Some(Element::F32),
        Some("sd" | "pd") => Some(Element::F64),
        _ => None,
    };
    if !is_vector {
        return match (plain.strip_prefix('f'), width) {
            // Integers on the stack of floating-point numbers.
            (Some(rest), _) if rest.starts_with('i') => Element::Integer(width),
            (Some(_), 4) => Element::F32,
            (Some(_), 8) => Element::F64,
            (Some(_), _) => Element::Bits,
            (None, _) => Element::Integer(width),
        };
    }
    if let Some((from, _)) = plain.strip_prefix("cvt").and_then(|it| it.split_once('2')) {
        return match from {
            "si" | "usi" => Element::Integer(width),
            "dq" | "udq" => Element::Integer(4),
            "qq" | "uqq" => Element::Integer(8),
            from => float(from.trim_start_matches('t')).unwrap_or(Element::Bits),
        };
    }
    // Masks, and moves of whatever it is.
    if starts(&["pand", "por", "pxor", "ptern", "pblendv", "ptest", "palignr", "movdq", "movntdq", "lddqu"]) {
        return Element::Bits;
    }
    if starts(&["pmovzx", "pmovsx", "punpck"]) {
        return of_letter(plain.chars().rev().nth(1));
    }
    if starts(&["pmaddubs", "pdpbus", "pshufb"]) {
        return Element::Integer(1);
    }
    if starts(&["pmaddwd", "pdpwss"]) {
        return Element::Integer(2);
    }
    match plain.strip_prefix('p') {
        // Comparisons such as `pcmpd` and maxima such as `pmaxsd` are of integers.
        Some(rest) if !rest.starts_with("erm") || float(rest).is_none() => {
            of_letter(rest.chars().next_back())
        }
        _ => float(plain).unwrap_or(match plain {
            "movd" => Element::Integer(4),
            "movq" => Element::Integer(8),
            "movddup" => Element::F64,
            "movshdup" | "movsldup" => Element::F32,
            _ => Element::Bits,
        }),
    }
}

impl Element {
    /// The name of the type, and the elements in order.
    fn values(self, bytes: &[u8]) -> (&'static str, Vec<String>) {
        fn each<const N: usize>(bytes: &[u8], text: impl Fn([u8; N]) -> String) -> Vec<String> {
            bytes.as_chunks().0.iter().map(|it| text(*it)).collect()
        }
        match self {
            Self::F32 if bytes.len() >= 4 => (
                "f32",
                each(bytes, |it| {
                    let value = f32::from_le_bytes(it);
                    if value.is_nan() {
                        format!("NaN({:#010x})", value.to_bits())
                    } else {
                        format!("{value:?}")
                    }
                }),
            ),
            Self::F64 if bytes.len() >= 8 => (
                "f64",
                each(bytes, |it| {
                    let value = f64::from_le_bytes(it);
                    if value.is_nan() {
                        format!("NaN({:#018x})", value.to_bits())
                    } else {
                        format!("{value:?}")
                    }
                }),
            ),
            Self::Integer(1) => ("i8", each(bytes, |it| i8::from_le_bytes(it).to_string())),
            Self::Integer(2) => ("i16", each(bytes, |it| i16::from_le_bytes(it).to_string())),
            Self::Integer(4) if bytes.len() >= 4 => {
                ("i32", each(bytes, |it| i32::from_le_bytes(it).to_string()))
            }
            Self::Integer(8) if bytes.len() >= 8 => {
                ("i64", each(bytes, |it| i64::from_le_bytes(it).to_string()))
            }
            _ if bytes.len() >= 4 => ("bits", each(bytes, |it| format!("{:#010x}", u32::from_le_bytes(it)))),
            _ => ("bits", each(bytes, |[it]| format!("{it:#04x}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text behind an instruction that loads from these bytes, which are at 0x580.
    fn text(instruction: &str, bytes: &[u8]) -> Option<String> {
        let read = |address: u64, length: usize| (address == 0x580).then_some(bytes)?.get(..length);
        Constant::loaded(instruction, read).map(|it| it.text())
    }

    fn f32s(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    fn i32s(values: &[i32]) -> Vec<u8> {
        values.iter().flat_map(|it| it.to_le_bytes()).collect()
    }

    #[test]
    fn constants_have_the_type_of_the_instruction() {
        let of = |instruction: &str, bytes: &[u8]| text(instruction, bytes).unwrap_or_default();
        let gnu = "vbroadcastss ymm1,DWORD PTR [rip+0xffffffffffffd53d]        # 580 <query-0x2b60>";
        assert_eq!(of(gnu, &f32s(&[0.5])), "; f32 0.5");
        let llvm = "vbroadcastss\tymm1, dword ptr [rip - 10947] # 0x580";
        assert_eq!(of(llvm, &f32s(&[-1e-30])), "; f32 -1e-30");
        let load = |what: &str| format!("{what} [rip+0x10]        # 580 <x>");
        let four = f32s(&[1.0, -0.0, f32::INFINITY, f32::from_bits(0x7fff_ffff)]);
        assert_eq!(of(&load("addps xmm0,XMMWORD PTR"), &four), "; f32 1.0 -0.0 inf NaN(0x7fffffff)");
        assert_eq!(of(&load("vmulps ymm0,ymm1,YMMWORD PTR"), &f32s(&[2.0; 8])), "; f32 2.0 x8");
        assert_eq!(of(&load("vfmadd213ps zmm0,zmm1,DWORD BCST"), &four), "; f32 1.0");
        assert_eq!(of(&load("movsd  xmm0,QWORD PTR"), &0.1f64.to_le_bytes()), "; f64 0.1");
        assert_eq!(of(&load("vcvtsi2sd xmm0,xmm0,DWORD PTR"), &i32s(&[-3])), "; i32 -3");
        assert_eq!(of(&load("vcvtss2sd xmm0,xmm0,DWORD PTR"), &four), "; f32 1.0");
        assert_eq!(
            of(&load("vpaddd ymm0,ymm1,YMMWORD PTR"), &i32s(&[0, 1, 2, 3, 4, 5, 6, 7])),
            "; i32 0 1 2 3 4 5 6 7"
        );
        assert_eq!(of(&load("vpmaxsd xmm0,xmm1,XMMWORD PTR"), &i32s(&[-128; 4])), "; i32 -128 x4");
        assert_eq!(of(&load("vpermps ymm0,ymm1,YMMWORD PTR"), &f32s(&[1.0; 8])), "; f32 1.0 x8");
        assert_eq!(of(&load("pshufb xmm0,XMMWORD PTR"), &[255; 16]), "; i8 -1 x16");
        assert_eq!(of(&load("vpmovsxbd xmm0,DWORD PTR"), &[1, 2, 3, 252]), "; i8 1 2 3 -4");
        assert_eq!(of(&load("pand xmm0,XMMWORD PTR"), &[15; 16]), "; bits 0x0f0f0f0f x4");
        assert_eq!(
            of(&load("vmovdqa ymm0,YMMWORD PTR"), &i32s(&[0, 1, 2, 3, 4, 5, 6, 7])).split(' ').nth(2),
            Some("0x00000000")
        );
        assert_eq!(of(&load("mov    rax,QWORD PTR"), &7i64.to_le_bytes()), "; i64 7");
        assert_eq!(of(&load("imul   eax,DWORD PTR"), &i32s(&[-9])), "; i32 -9");
        assert_eq!(of(&load("movzx  eax,BYTE PTR"), &[200]), "; i8 -56");
        assert_eq!(of(&load("fmul   DWORD PTR"), &four), "; f32 1.0");
        assert_eq!(of(&load("fild   QWORD PTR"), &7i64.to_le_bytes()), "; i64 7");
    }

    #[test]
    fn what_loads_no_constant_has_none() {
        for instruction in [
            "lea    rax,[rip+0x10]        # 580 <x>",
            "vmovss xmm0,DWORD PTR [rip+0x10]        # 1000 <x>",
            "vmovss xmm0,DWORD PTR [rax+0x10]",
            "vmovaps xmm0,XMMWORD PTR [rip+0x10]        # 580 <x>",
            "ret",
            "jmp    580 <x>        # 580",
            "fld    TBYTE PTR [rip+0x10]        # 580 <x>",
        ] {
            assert_eq!(text(instruction, &f32s(&[1.0, 2.0])), None, "{instruction}");
        }
    }
}
