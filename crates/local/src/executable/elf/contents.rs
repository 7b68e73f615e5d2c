//! What the functions of an image consist of: their code, and the constants and the functions that they refer to. Addresses do not
//! count, so that functions of two images can be compared.

use std::collections::{BTreeSet, HashMap};

use iced_x86::{Code as Mnemonic, Decoder, DecoderOptions, Instruction, OpKind};

use super::MAGIC;
use super::image::{Image, file_offset};
use super::recover::after;
use super::strip::{Code, sections, word};

/// Maximum number of bytes of the contents of all functions of an image.
const MAX_BYTES: usize = 64 << 20;

/// Marks in contents what is not bytes of the image.
const REFERENCE: u8 = 0;
const BRANCH: u8 = 1;
const BYTES: u8 = 2;
const ZEROS: u8 = 3;

/// The contents of the exported functions, by ordinal: those of two functions are equal if they are the same but for their
/// addresses. `None` for a function that refers to what is not known to be a function or a constant; `None` if the ranges of
/// functions are unknown.
pub fn function_contents(bytes: &[u8]) -> Option<Vec<Option<Vec<u8>>>> {
    // Not a container of several images.
    if !bytes.starts_with(&MAGIC) {
        return None;
    }
    let image = Image::parse(bytes).ok()?;
    // Without debug symbols, the compiler writes no list of functions.
    let code = Code::read(&image).or_else(|| Code::followed(&image))?;
    let objects = Objects::of(&code)?;
    let mut left = MAX_BYTES;
    let contents = |start: &u64| {
        let mut walk = Walk::new(&code, &objects, left);
        let contents = walk.run(*start);
        left = walk.left;
        contents
    };
    Some(code.exports.iter().map(contents).collect())
}

/// Where constants begin and end.
struct Objects {
    /// The addresses that code and pointers refer to, and the begins and ends of sections.
    bounds: BTreeSet<u64>,
}

impl Objects {
    fn of(code: &Code<'_, '_>) -> Option<Self> {
        let mut bounds: BTreeSet<u64> = code.pointers.values().copied().collect();
        for section in sections(code.image.file)? {
            bounds.extend([section.address, section.address.saturating_add(section.length)]);
        }
        for (start, end) in &code.functions {
            let mut decoder = Decoder::with_ip(
                64,
                bytes_at(code.image, *start, end - start)?,
                *start,
                DecoderOptions::NONE,
            );
            while decoder.can_decode() {
                let instruction = decoder.decode();
                if instruction.is_ip_rel_memory_operand() {
                    bounds.insert(instruction.ip_rel_memory_address());
                }
            }
        }
        Some(Self { bounds })
    }

    /// The end of what begins at an address: the next that something refers to.
    fn end(&self, start: u64) -> Option<u64> {
        after(&self.bounds, start)
    }
}

/// What a function refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Item {
    /// By its address.
    Function(u64),
    /// Constants, which may be distances to places in the function.
    Data { start: u64, end: u64, function: u64 },
}

/// Collects the contents of a function.
struct Walk<'w> {
    code: &'w Code<'w, 'w>,
    objects: &'w Objects,
    contents: Vec<u8>,
    /// What has been found, in order; each is named by its index.
    items: Vec<Item>,
    indices: HashMap<Item, u32>,
    left: usize,
}

impl<'w> Walk<'w> {
    fn new(code: &'w Code<'_, '_>, objects: &'w Objects, left: usize) -> Self {
        Self { code, objects, contents: Vec::new(), items: Vec::new(), indices: HashMap::new(), left }
    }

    fn run(&mut self, start: u64) -> Option<Vec<u8>> {
        self.items.push(Item::Function(start));
        self.indices.insert(Item::Function(start), 0);
        let mut next = 0;
        while let Some(item) = self.items.get(next).copied() {
            match item {
                Item::Function(start) => self.function(start)?,
                Item::Data { start, end, function } => self.data(start, end, function)?,
            }
            next += 1;
        }
        Some(std::mem::take(&mut self.contents))
    }

    fn put(&mut self, kind: u8, bytes: &[u8]) -> Option<()> {
        self.left = self.left.checked_sub(bytes.len() + 5)?;
        self.contents.push(kind);
        self.contents.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
        self.contents.extend_from_slice(bytes);
        Some(())
    }

    fn refer(&mut self, item: Item) -> Option<()> {
        let next = u32::try_from(self.items.len()).ok()?;
        let index = *self.indices.entry(item).or_insert(next);
        if index == next {
            self.items.push(item);
        }
        self.put(REFERENCE, &index.to_le_bytes())
    }

    /// Refers to what is at an address, of which `length` bytes are accessed, if that is known.
    fn refer_to(&mut self, address: u64, length: Option<u64>, function: u64) -> Option<()> {
        if self.is_code(address) {
            return match self.code.functions.contains_key(&address) {
                true => self.refer(Item::Function(address)),
                false => None,
            };
        }
        let end = match length {
            Some(length) => address.checked_add(length)?,
            None => self.objects.end(address)?,
        };
        self.refer(Item::Data { start: address, end, function })
    }

    fn is_code(&self, address: u64) -> bool {
        self.code.image.segments().iter().any(|it| it.is_executable() && it.holds(address, 1))
    }

    fn function(&mut self, start: u64) -> Option<()> {
        let end = *self.code.functions.get(&start)?;
        let bytes = bytes_at(self.code.image, start, end - start)?;
        let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            instructions.push((instruction, decoder.get_constant_offsets(&instruction)));
        }
        // The padding depends on what follows.
        let is_padding = |it: &Instruction| {
            it.is_invalid() || it.code() == Mnemonic::Int3 || it.mnemonic() == iced_x86::Mnemonic::Nop
        };
        let count = instructions.iter().rposition(|(it, _)| !is_padding(it))? + 1;
        for (instruction, offsets) in &instructions[..count] {
            if instruction.is_invalid() {
                return None;
            }
            let at = (instruction.ip() - start) as usize;
            let mut encoded = bytes.get(at..at + instruction.len())?.to_vec();
            let is_branch = (0..instruction.op_count())
                .any(|operand| instruction.op_kind(operand) == OpKind::NearBranch64);
            if is_branch && offsets.has_immediate() {
                encoded.get_mut(offsets.immediate_offset()..)?.fill(0);
            }
            if instruction.is_ip_rel_memory_operand() {
                let displacement = offsets.displacement_offset();
                encoded.get_mut(displacement..displacement + offsets.displacement_size())?.fill(0);
            }
            self.put(BYTES, &encoded)?;
            if is_branch {
                let target = instruction.near_branch_target();
                match (start..end).contains(&target) && target != start {
                    true => self.put(BRANCH, &(target - start).to_le_bytes())?,
                    false => self.refer_to(target, None, start)?,
                }
            }
            if instruction.is_ip_rel_memory_operand() {
                let size = instruction.memory_size().size() as u64;
                let length = (size != 0).then_some(size);
                self.refer_to(instruction.ip_rel_memory_address(), length, start)?;
            }
        }
        Some(())
    }

    /// Adds constants: pointers and distances to code by what they lead to.
    fn data(&mut self, start: u64, end: u64, function: u64) -> Option<()> {
        let code = function..*self.code.functions.get(&function)?;
        let mut at = start;
        let mut is_table = true;
        while at < end {
            if let Some(target) = self.code.pointers.get(&at).filter(|_| end - at >= 8) {
                self.refer_to(*target, None, function)?;
                at += 8;
                continue;
            }
            let distance = word(self.code.image, at).filter(|_| is_table && end - at >= 4);
            let target = distance.map(|it| start.wrapping_add_signed(i64::from(it.cast_signed())));
            if let Some(target) = target.filter(|it| code.contains(it)) {
                self.put(BRANCH, &(target - function).to_le_bytes())?;
                at += 4;
                continue;
            }
            is_table = false;
            let next = self.code.pointers.range(at + 1..end).next().map_or(end, |(next, _)| *next);
            match bytes_at(self.code.image, at, next - at) {
                Some(bytes) => self.put(BYTES, bytes)?,
                // Beyond what the file has.
                None => self.put(ZEROS, &(next - at).to_le_bytes())?,
            }
            at = next;
        }
        Some(())
    }
}

fn bytes_at<'a>(image: &Image<'a>, address: u64, length: u64) -> Option<&'a [u8]> {
    let offset = file_offset(image.segments(), address, length)?;
    image.file.take(offset, length, "code").ok()
}

#[cfg(test)]
mod tests {
    use super::super::strip::tests::captured;
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Vec<u8>> {
        function_contents(bytes).unwrap().into_iter().map(Option::unwrap).collect()
    }

    /// Such an image as the compiler makes without debug symbols: nothing lists its functions.
    fn unlisted(mut bytes: Vec<u8>) -> Vec<u8> {
        const NAME: &[u8] = b".eh_frame\0";
        let at = bytes.windows(NAME.len()).rposition(|it| it == NAME).unwrap();
        bytes[at + 1] = b'x';
        let image = Image::parse(&bytes).unwrap();
        assert!(Code::read(&image).is_none() && Code::followed(&image).is_some());
        bytes
    }

    /// The functions whose contents differ.
    fn differing(before: &[u8], after: &[u8]) -> Vec<usize> {
        let (before, after) = (all(before), all(after));
        assert_eq!(before.len(), after.len());
        (0..before.len()).filter(|it| before[*it] != after[*it]).collect()
    }

    #[test]
    fn an_instruction_belongs_to_its_function() {
        let listed = captured("mlp.mlp.local-sync.ireereplay");
        let starts = Code::read(&Image::parse(&listed).unwrap()).unwrap().exports;
        assert_eq!(starts.len(), 5);
        for bytes in [unlisted(listed.clone()), listed] {
            let image = Image::parse(&bytes).unwrap();
            for (ordinal, start) in starts.iter().enumerate() {
                let mut changed = bytes.clone();
                let at = file_offset(image.segments(), *start, 1).unwrap() as usize;
                // Another register is pushed.
                assert_eq!(changed[at], 0x55);
                changed[at] = 0x56;
                assert_eq!(differing(&bytes, &changed), [ordinal]);
            }
        }
    }

    /// The functions of images of the compiler are those that `.eh_frame` lists.
    #[test]
    fn functions_are_found_by_following_the_code() {
        let mut compared = 0;
        for entry in std::fs::read_dir(testing::fixtures().join("captures")).unwrap() {
            let path = entry.unwrap().path();
            let bytes = std::fs::read(&path).unwrap();
            let is_image = |it: &[u8]| it == b"\x7FELF\x02\x01";
            if !bytes.windows(6).any(is_image) {
                continue;
            }
            let bytes = captured(path.file_name().unwrap().to_str().unwrap());
            let Ok(image) = Image::parse(&bytes) else { continue };
            let Some(listed) = Code::read(&image) else { continue };
            let followed = Code::followed(&image).unwrap();
            assert_eq!(followed.exports, listed.exports, "{}", path.display());
            for (start, end) in &followed.functions {
                let listed_end = listed.functions[start];
                assert!(*end <= listed_end && listed_end - end < 16, "{start:#x} of {}", path.display());
            }
            let missing = followed.exports.iter().filter(|it| !followed.functions.contains_key(it)).count();
            assert_eq!(missing, 0, "{}", path.display());
            compared += 1;
        }
        assert!(compared > 5, "{compared} images");
    }

    #[test]
    fn a_constant_belongs_to_the_functions_that_refer_to_it() {
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let image = Image::parse(&bytes).unwrap();
        let code = Code::read(&image).unwrap();
        let objects = Objects::of(&code).unwrap();
        let referred = |start: &u64| {
            let mut walk = Walk::new(&code, &objects, MAX_BYTES);
            walk.run(*start).unwrap();
            let data = walk.items.into_iter().filter_map(|item| match item {
                Item::Data { start, end, .. } => Some(start..end),
                Item::Function(_) => None,
            });
            data.collect::<Vec<_>>()
        };
        let referred: Vec<_> = code.exports.iter().map(referred).collect();
        let constants: BTreeSet<u64> = referred.iter().flatten().map(|range| range.start).collect();
        assert!(constants.len() > 3, "{constants:?}");
        for address in constants {
            let users = (0..5).filter(|it| referred[*it].iter().any(|range| range.contains(&address)));
            let mut changed = bytes.clone();
            changed[file_offset(image.segments(), address, 1).unwrap() as usize] ^= 0x40;
            assert_eq!(differing(&bytes, &changed), users.collect::<Vec<_>>(), "{address:#x}");
        }
    }

    #[test]
    fn what_is_not_certain_has_no_contents() {
        let read = |name: &str| std::fs::read(testing::fixtures().join("cts").join(name)).unwrap();
        // Without debug symbols.
        assert_eq!(all(&read("entry_points.embedded.elf")).len(), 3);
        assert_eq!(function_contents(b""), None);
        // No instruction.
        let bytes = captured("mlp.mlp.local-sync.ireereplay");
        let image = Image::parse(&bytes).unwrap();
        let start = Code::read(&image).unwrap().exports[1];
        let mut changed = bytes.clone();
        changed[file_offset(image.segments(), start, 1).unwrap() as usize] = 0x06;
        let contents = function_contents(&changed).unwrap();
        assert_eq!(contents.iter().map(Option::is_some).collect::<Vec<_>>(), [true, false, true, true, true]);
        // Nor is anything known of a function that another one calls in its middle, and of that one.
        let mut bytes = unlisted(bytes);
        let image = Image::parse(&bytes).unwrap();
        let exports = Code::followed(&image).unwrap().exports;
        let at = file_offset(image.segments(), exports[0], 1).unwrap() as usize;
        let middle = exports[2] + 1;
        bytes[at] = 0xE8;
        bytes[at + 1..at + 5].copy_from_slice(&(middle.wrapping_sub(exports[0] + 5) as u32).to_le_bytes());
        let contents = function_contents(&bytes).unwrap();
        assert!(contents[2].is_none() && contents[1].is_some() && contents[4].is_some());
    }

    #[test]
    fn hostile_images_without_lists_of_functions_are_refused_or_followed() {
        let bytes = unlisted(captured("mlp.mlp.local-sync.ireereplay"));
        let mut random = fastrand::Rng::with_seed(12);
        let mut followed = 0;
        for _ in 0..500 {
            let mut changed = bytes.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(..changed.len());
                changed[at] = random.u8(..);
            }
            followed += usize::from(function_contents(&changed).is_some());
        }
        assert!((1..500).contains(&followed), "{followed}");
    }
}
