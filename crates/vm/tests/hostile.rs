//! Malformed and mutated modules must fail with an error or run to completion: no panic, hang, or memory out
//! of proportion to the input.

use std::path::{Path, PathBuf};

use rehal_vm::ModuleFile;
use rehal_vm::dump::{AssemblyOptions, assembly};
use rehal_vm::fuzzing::{Reached, exercise, exercise_instructions};

/// Marsaglia's xorshift64: the same mutations in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}

fn fixtures(directory: &str, limit_bytes: u64) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(directory);
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|extension| extension == "vmfb")
            && std::fs::metadata(path).unwrap().len() <= limit_bytes
    });
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), std::fs::read(path).unwrap())).collect()
}

/// Changes a few bytes: bits, whole values that overflow, or runs copied from elsewhere.
fn mutate(bytes: &mut [u8], random: &mut Random) {
    const EXTREMES: [u32; 7] = [0, 1, u32::MAX, 0x8000_0000, 0x7FFF_FFFF, 0xFFFF_0000, 0x0001_0000];
    for _ in 0..=random.below(3) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] ^= 1 << random.below(8),
            1 => bytes[at] = random.next() as u8,
            2 => {
                let value = EXTREMES[random.below(EXTREMES.len())].to_le_bytes();
                let length = value.len().min(bytes.len() - at);
                bytes[at..at + length].copy_from_slice(&value[..length]);
            }
            3 => {
                // Offsets between tables: slightly larger or smaller.
                let at = at & !3;
                if let Some(word) = bytes.get_mut(at..at + 4) {
                    let value = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    let step = (random.below(17) as u32).wrapping_sub(8).wrapping_mul(4);
                    word.copy_from_slice(&value.wrapping_add(step).to_le_bytes());
                }
            }
            _ => {
                let length = random.below(64).min(bytes.len() - at);
                let from = random.below(bytes.len() - length);
                bytes.copy_within(from..from + length, at);
            }
        }
    }
}

/// The layout of a module's instructions: byte ranges in the file, function by function.
struct Instructions {
    functions: Vec<Function>,
    /// Offset of the function descriptors, of 20 bytes each.
    descriptors: usize,
}

struct Function {
    /// Offset of its first instruction.
    start: usize,
    /// Starts of its instructions and the end of the last, counted from `start`.
    offsets: Vec<usize>,
    /// The blocks' starts among them.
    blocks: Vec<usize>,
}

impl Instructions {
    fn from_bytes(bytes: &[u8]) -> Self {
        let file = ModuleFile::copy(bytes).unwrap();
        let mut text = Vec::new();
        assembly(&file, AssemblyOptions { bytecode_offsets: true, ..Default::default() }, &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let mut functions = Vec::new();
        let bytecode = file.bytecode_range().start;
        for (ordinal, body) in text.split("\nvm.func @").skip(1).enumerate() {
            let range = file.function(ordinal).unwrap().bytecode;
            let mut function =
                Function { start: bytecode + range.start, offsets: Vec::new(), blocks: Vec::new() };
            for line in body.lines().filter_map(|line| line.strip_prefix('[')) {
                let offset = usize::from_str_radix(&line[..8], 16).unwrap();
                function.offsets.push(offset);
                if line[9..].starts_with("^bb") {
                    function.blocks.push(offset);
                }
            }
            function.offsets.push(range.len());
            functions.push(function);
        }
        let descriptors =
            file.root().vector(rehal_vm::module_file::schema::id::MODULE_FUNCTIONS).unwrap().at();
        Self { functions, descriptors: file.flatbuffer_range().start + descriptors }
    }

    /// Mutates instructions such that some still verify: other instructions, registers, targets,
    /// types, constants, block and register counts.
    fn mutate(&self, bytes: &mut [u8], random: &mut Random) {
        for _ in 0..=random.below(2) {
            let ordinal = random.below(self.functions.len());
            let function = &self.functions[ordinal];
            let index = random.below(function.offsets.len() - 1);
            let start = function.start + function.offsets[index];
            let end = function.start + function.offsets[index + 1];
            match random.below(8) {
                // Another opcode, of the core set or an extension.
                0 if bytes[start] >= 0xE0 => bytes[start + 1] = random.below(0x42) as u8,
                0 => bytes[start] = random.below(0x8A) as u8,
                // Another register: low ones exist, high ones may not.
                1..=3 => {
                    let kinds = [0, 0, 0, 0x8000, 0x8000, 0xC000];
                    let register = kinds[random.below(kinds.len())] | random.below(12) as u16;
                    store(bytes, start + 1 + random.below(end - start), &register.to_le_bytes(), end);
                }
                // A jump target, or one byte past it.
                4 => {
                    let block = function.blocks[random.below(function.blocks.len())];
                    let target = block as u32 + u32::from(random.below(8) == 0);
                    store(bytes, start + 1 + random.below(end - start), &target.to_le_bytes(), end);
                }
                // A small ordinal: of types, functions, imports, globals, segments.
                5 => {
                    let import = [0, 0x8000_0000][random.below(2)];
                    let ordinal = import | random.below(6) as u32;
                    store(bytes, start + 1 + random.below(end - start), &ordinal.to_le_bytes(), end);
                }
                // Another instruction of the same length.
                6 => {
                    let other = &self.functions[random.below(self.functions.len())];
                    let from = random.below(other.offsets.len() - 1);
                    let range = other.start + other.offsets[from]..other.start + other.offsets[from + 1];
                    if range.len() == end - start {
                        bytes.copy_within(range, start);
                    }
                }
                // Requirements, blocks and registers of the function's descriptor.
                _ => {
                    let field = [8, 12, 14, 16, 18][random.below(5)];
                    bytes[self.descriptors + 20 * ordinal + field] = random.below(20) as u8;
                }
            }
        }
    }
}

/// Stores `value` at `at` if it ends before `end`.
fn store(bytes: &mut [u8], at: usize, value: &[u8], end: usize) {
    if at + value.len() <= end {
        bytes[at..at + value.len()].copy_from_slice(value);
    }
}

#[test]
fn truncation_anywhere_is_an_error() {
    let archives = fixtures("modules", 9_000);
    assert!(archives.len() > 2);
    for (path, bytes) in fixtures("vm", 3_000).into_iter().chain(archives) {
        // Only trailing padding after the flatbuffer and its data may be missing.
        let whole = ModuleFile::copy(&bytes).unwrap();
        let data_ends = whole.rodata_segments().map(|segment| segment.range.end);
        let end = data_ends.fold(whole.flatbuffer_range().end, usize::max);
        for length in 0..bytes.len() {
            let reached = exercise(&bytes[..length]);
            let tables = length >= whole.flatbuffer_range().end;
            assert_eq!(reached >= Reached::Tables, tables, "{} truncated to {length}", path.display());
            assert_eq!(reached > Reached::Tables, length >= end, "{} truncated to {length}", path.display());
        }
    }
}

#[test]
fn mutations_of_real_modules_and_archives() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut count, mut read) = (0, 0);
    for (_, seed) in fixtures("modules", 64 << 10) {
        // Most of a module is kernels, which are not read here: mutate the bytes before them more.
        let tables = ModuleFile::copy(&seed).unwrap().flatbuffer_range().end;
        for round in 0..280 {
            let mut bytes = seed.clone();
            let end = if round % 8 == 0 { bytes.len() } else { tables };
            mutate(&mut bytes[..end], &mut random);
            read += usize::from(exercise(&bytes) >= Reached::Tables);
            count += 1;
        }
    }
    assert!(count >= 5_000, "{count}");
    assert!(read > count / 4 && read < count, "{read} of {count} were read");
}

#[test]
fn mutations_of_programs() {
    let mut random = Random(42);
    let (mut count, mut verified, mut returned) = (0, 0, 0);
    for (_, seed) in fixtures("vm", 10_000) {
        let instructions = Instructions::from_bytes(&seed);
        for round in 0..560 {
            let mut bytes = seed.clone();
            match round % 8 {
                0 => mutate(&mut bytes, &mut random),
                _ => instructions.mutate(&mut bytes, &mut random),
            }
            let reached = exercise(&bytes);
            count += 1;
            verified += usize::from(reached >= Reached::Verified);
            if let Reached::Run { returned: functions } = reached {
                returned += functions;
            }
        }
    }
    assert!(count >= 5_000, "{count}");
    assert!(verified > count / 4 && verified < count, "{verified} of {count} were verified");
    assert!(returned > 5 * verified, "{returned} functions of {verified} programs returned");
}

#[test]
fn random_instructions() {
    let template =
        fixtures("vm", 10_000).into_iter().find(|(path, _)| path.ends_with("template.vmfb")).unwrap().1;
    let instructions = Instructions::from_bytes(&template);
    let first = &instructions.functions[0];
    // The template's own instructions as input: they verify and execute.
    let mut input = vec![1, 8, 0, 0];
    input.extend(&template[first.start..first.start + first.offsets.last().unwrap()]);
    assert!(matches!(exercise_instructions(&template, &input), Reached::Run { returned } if returned > 0));
    let mut random = Random(7);
    for _ in 0..2_000 {
        let length = 8 + random.below(120);
        let mut input: Vec<u8> = (0..length).map(|_| random.below(12) as u8).collect();
        input[3] = 15;
        input[4] = 0x79;
        input[5] = random.below(0x8A) as u8;
        exercise_instructions(&template, &input);
    }
}
