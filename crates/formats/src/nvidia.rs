//! Machine code for NVIDIA GPUs: cubins, which are ELF files, and fatbins, which contain cubins and PTX.
//!
//! Source: LLVM's `ELF.h` (`EF_CUDA_*`), `llvm-readobj`, and files that `ptxas` and `fatbinary` of CUDA 12.9
//! write; the vendor documents neither layout.

use std::collections::HashSet;

use object::LittleEndian as LE;
use object::elf::{EM_CUDA, SHN_UNDEF, SHT_SYMTAB, STT_FUNC, Sym64};
use rehal_base::{Fault, FormatError};

use crate::elf::{self, Elf};
use crate::executable::ImageKind;
use crate::{Function, MAX_FUNCTIONS, ptx, target};

/// `STO_CUDA_ENTRY`: a symbol is a kernel.
const ENTRY: u8 = 0x10;
/// Bytes of the header of a fatbin, and of an entry.
const FATBIN_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 64;
/// The flags of an entry whose payload is compressed, by either method.
const COMPRESSED: u64 = 0xA000;

/// An image.
#[derive(Debug)]
pub(crate) struct Code {
    pub target: Option<String>,
    /// Its kernels; `None` if they are compressed, or nothing names them.
    pub functions: Option<Vec<Function>>,
}

/// Reads a cubin that begins at `origin` of a file.
pub(crate) fn read_cubin(bytes: &[u8], origin: usize) -> Result<Code, FormatError> {
    let file = elf::Reader { bytes, origin: origin as u64 };
    let elf = Elf::read(file, EM_CUDA)?;
    let symbols = elf.sections().iter().find(|it| it.sh_type.get(LE) == SHT_SYMTAB);
    let mut functions: Vec<Function> = Vec::new();
    if let Some(symbols) = symbols {
        let strings = elf.sections().get(symbols.sh_link.get(LE) as usize);
        let at = symbols.sh_offset.get(LE);
        let strings = strings.ok_or_else(|| file.corrupt(at, "sh_link", "a section of names", "none"))?;
        let table = file.table::<Sym64<LE>>(at, symbols.sh_size.get(LE), "symbols")?;
        // The names may overlap, so that they are longer than the file.
        let (mut names, mut left) = (HashSet::new(), bytes.len());
        for (at, symbol) in table.iter() {
            let is_function = symbol.st_type() == STT_FUNC && symbol.st_shndx.get(LE) != SHN_UNDEF;
            if !is_function || symbol.st_other.0 & ENTRY == 0 {
                continue;
            }
            let name = elf.text(strings, symbol.st_name.get(LE))?;
            left = match left.checked_sub(name.len()) {
                Some(left) if functions.len() < MAX_FUNCTIONS => left,
                _ => return Err(file.unsupported(at, "symbols", format!("at most {MAX_FUNCTIONS}"), "more")),
            };
            if name.is_empty() || !names.insert(name) {
                let found = format!("'{name}' again, or nothing");
                return Err(file.corrupt(at, "st_name", "a name of its own", found));
            }
            functions.push(Function { name: name.to_owned(), ..Function::default() });
        }
    }
    // Without a table of symbols, nothing names its kernels.
    let functions = symbols.map(|_| functions);
    Ok(Code { target: Some(target::nvidia(elf.flags(), elf.abi_version())), functions })
}

/// Reads a fatbin that begins at `origin` of a file. Fails if it is for several targets: which of them a
/// driver takes depends on the device.
pub(crate) fn read_fatbin(bytes: &[u8], origin: usize) -> Result<Code, FormatError> {
    let file = elf::Reader { bytes, origin: origin as u64 };
    let error = |fault, at, field, expected: String, found: String| {
        Err(FormatError::new("fatbin", fault, file.origin + at, field, expected, found))
    };
    let header = file.take(0, FATBIN_BYTES, "header")?;
    let (version, header_bytes) = (elf::u16_at(header, 4), u64::from(elf::u16_at(header, 6)));
    if version != 1 || header_bytes < FATBIN_BYTES {
        let found = format!("version {version}, {header_bytes} bytes");
        return error(Fault::Unsupported, 4, "header", "version 1, 16 bytes or more".into(), found);
    }
    let content = elf::u64_at(header, 8);
    file.take(header_bytes, content, "content size")?;
    let (mut at, end) = (header_bytes, header_bytes + content);
    let mut code = Code { target: None, functions: None };
    while at < end {
        let entry = file.take(at, ENTRY_BYTES.min(end - at), "entry")?;
        if (entry.len() as u64) < ENTRY_BYTES {
            return error(
                Fault::Truncated,
                at,
                "entry",
                format!("{ENTRY_BYTES} bytes"),
                (end - at).to_string(),
            );
        }
        let (kind, header_bytes) = (elf::u16_at(entry, 0), u64::from(elf::u32_at(entry, 4)));
        let payload_bytes = elf::u64_at(entry, 8);
        let start = at.saturating_add(header_bytes);
        let next = start.saturating_add(payload_bytes);
        if header_bytes < ENTRY_BYTES || next > end {
            let found = format!("{header_bytes} and {payload_bytes} bytes");
            return error(Fault::Corrupt, at, "entry", format!("at most {} bytes", end - at), found);
        }
        let target = format!("sm_{}", elf::u32_at(entry, 28));
        if code.target.get_or_insert_with(|| target.clone()).trim_end_matches('a') != target {
            let expected = "code for one target".to_owned();
            let found = format!("{} and {target}", code.target.unwrap_or_default());
            return error(Fault::Unsupported, at + 28, "arch", expected, found);
        }
        let payload = file.take(start, payload_bytes, "payload")?;
        let place = origin + start as usize;
        let is_compressed = elf::u64_at(entry, 40) & COMPRESSED != 0;
        match kind {
            _ if is_compressed => {}
            1 if code.functions.is_none() => {
                code.functions = Some(ptx::read(payload, place)?.functions());
            }
            1 => {}
            2 => code = read_cubin(payload, place)?,
            other => {
                return error(
                    Fault::Unsupported,
                    at,
                    "kind",
                    "PTX (1) or cubin (2)".into(),
                    other.to_string(),
                );
            }
        }
        at = next;
    }
    match code.target {
        Some(_) => Ok(code),
        None => error(Fault::Corrupt, at, "entries", "one or more".into(), "none".into()),
    }
}

/// Reads an image of one of the kinds for NVIDIA GPUs.
pub(crate) fn read(kind: ImageKind, bytes: &[u8], origin: usize) -> Result<Code, FormatError> {
    match kind {
        ImageKind::Cubin => read_cubin(bytes, origin),
        ImageKind::Fatbin => read_fatbin(bytes, origin),
        _ => {
            let ptx = ptx::read(bytes, origin)?;
            Ok(Code { target: Some(ptx.target.to_owned()), functions: Some(ptx.functions()) })
        }
    }
}
