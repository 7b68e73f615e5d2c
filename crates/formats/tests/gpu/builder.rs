//! Containers with what the compiler does not write: several modules, shared kernels, malformed fields.

/// A function for CUDA or HIP.
#[derive(Clone)]
pub struct Export {
    pub module: u32,
    pub name: String,
    pub export_name: Option<String>,
    pub size: [u32; 3],
    pub memory: u32,
    pub constants: u32,
    pub bindings: Vec<u64>,
}

impl Default for Export {
    fn default() -> Self {
        Self {
            module: 0,
            name: "f".into(),
            export_name: None,
            size: [32, 1, 1],
            memory: 0,
            constants: 0,
            bindings: Vec::new(),
        }
    }
}

/// A field of a table.
enum Field {
    Word(u32),
    Words([u32; 3]),
    /// An offset that is set later.
    Later,
    Absent,
}

struct Buffer(Vec<u8>);

impl Buffer {
    /// Adds a table after its vtable; returns the places of its fields.
    fn table(&mut self, fields: &[Field]) -> (usize, Vec<usize>) {
        let vtable_bytes = 4 + 2 * fields.len();
        while !(self.0.len() + vtable_bytes).is_multiple_of(4) {
            self.0.push(0);
        }
        let vtable = self.0.len();
        let table = vtable + vtable_bytes;
        let (mut at, mut places) = (4, Vec::new());
        for field in fields {
            let bytes = match field {
                Field::Words(_) => 12,
                Field::Absent => 0,
                Field::Word(_) | Field::Later => 4,
            };
            places.push(if bytes == 0 { 0 } else { at });
            at += bytes;
        }
        self.0.extend((vtable_bytes as u16).to_le_bytes());
        self.0.extend((at as u16).to_le_bytes());
        places.iter().for_each(|place| self.0.extend((*place as u16).to_le_bytes()));
        self.0.extend(((table - vtable) as i32).to_le_bytes());
        for field in fields {
            match field {
                Field::Word(word) => self.0.extend(word.to_le_bytes()),
                Field::Words(words) => words.iter().for_each(|word| self.0.extend(word.to_le_bytes())),
                Field::Later => self.0.extend([0; 4]),
                Field::Absent => {}
            }
        }
        (table, places.iter().map(|place| table + place).collect())
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }

    /// Adds a vector, to which the offset at `place` points; returns where its elements begin.
    fn vector(&mut self, place: usize, count: usize, bytes: &[u8]) -> usize {
        self.align();
        self.point(place, self.0.len());
        self.0.extend((count as u32).to_le_bytes());
        let start = self.0.len();
        self.0.extend(bytes);
        self.0.push(0);
        start
    }

    fn point(&mut self, place: usize, target: usize) {
        self.0[place..place + 4].copy_from_slice(&((target - place) as u32).to_le_bytes());
    }
}

/// A container with these images and functions.
pub fn container(magic: &[u8; 4], images: &[&[u8]], exports: &[Export]) -> Vec<u8> {
    let mut buffer = Buffer(Vec::new());
    buffer.0.extend([0; 4]);
    buffer.0.extend(magic);
    let (root, fields) = buffer.table(&[Field::Later, Field::Later]);
    buffer.point(0, root);
    let offsets = buffer.vector(fields[0], exports.len(), &vec![0; 4 * exports.len()]);
    for (index, it) in exports.iter().enumerate() {
        let words = [Field::Word(it.module), Field::Later, Field::Words(it.size), Field::Word(it.memory)];
        let mut words =
            words.into_iter().chain([Field::Word(it.constants), Field::Later]).collect::<Vec<_>>();
        if it.export_name.is_some() {
            words.extend([Field::Absent, Field::Later]);
        }
        let (table, fields) = buffer.table(&words);
        buffer.point(offsets + 4 * index, table);
        buffer.vector(fields[1], it.name.len(), it.name.as_bytes());
        let flags: Vec<u8> = it.bindings.iter().flat_map(|flags| flags.to_le_bytes()).collect();
        buffer.vector(fields[5], it.bindings.len(), &flags);
        if let Some(name) = &it.export_name {
            buffer.vector(fields[7], name.len(), name.as_bytes());
        }
    }
    let offsets = buffer.vector(fields[1], images.len(), &vec![0; 4 * images.len()]);
    for (index, image) in images.iter().enumerate() {
        let (table, fields) = buffer.table(&[Field::Later]);
        buffer.point(offsets + 4 * index, table);
        buffer.vector(fields[0], image.len(), image);
    }
    buffer.align();
    let mut bytes = vec![0; 64];
    bytes[..4].copy_from_slice(magic);
    bytes[8..16].copy_from_slice(&(buffer.0.len() as u64).to_le_bytes());
    bytes.extend(buffer.0);
    bytes
}

/// An ELF file for AMD GPUs, whose only segment is a note with this description.
pub fn hsaco(flags: u32, description: &[u8]) -> Vec<u8> {
    let mut note = Vec::new();
    [7, description.len() as u32, 32].iter().for_each(|word: &u32| note.extend(word.to_le_bytes()));
    note.extend(b"AMDGPU\0\0");
    note.extend(description);
    note.resize(note.len().next_multiple_of(4), 0);
    let mut bytes = vec![0; 120];
    bytes[..9].copy_from_slice(&[0x7F, b'E', b'L', b'F', 2, 1, 1, 64, 2]);
    let mut set = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
    set(16, &3_u16.to_le_bytes());
    set(18, &224_u16.to_le_bytes());
    set(32, &64_u64.to_le_bytes());
    set(48, &flags.to_le_bytes());
    set(54, &56_u16.to_le_bytes());
    set(56, &1_u16.to_le_bytes());
    set(64, &4_u32.to_le_bytes());
    set(72, &120_u64.to_le_bytes());
    set(96, &(note.len() as u64).to_le_bytes());
    bytes.extend(note);
    bytes
}

/// MessagePack, as values of these types.
pub enum Pack {
    Text(&'static str),
    Number(u32),
    Array(Vec<Pack>),
    Map(Vec<(&'static str, Pack)>),
}

impl Pack {
    pub fn bytes(&self) -> Vec<u8> {
        let text = |it: &str| [&[0xDA][..], &(it.len() as u16).to_be_bytes(), it.as_bytes()].concat();
        match self {
            Self::Text(it) => text(it),
            Self::Number(it) => [&[0xCE][..], &it.to_be_bytes()].concat(),
            Self::Array(all) => {
                let head = [&[0xDC][..], &(all.len() as u16).to_be_bytes()].concat();
                all.iter().fold(head, |head, it| [head, it.bytes()].concat())
            }
            Self::Map(all) => {
                let head = [&[0xDE][..], &(all.len() as u16).to_be_bytes()].concat();
                all.iter().fold(head, |head, (key, it)| [head, text(key), it.bytes()].concat())
            }
        }
    }
}

/// A fatbin with code of these kinds (1 PTX, 2 cubin), for these processors.
pub fn fatbin(entries: &[(u16, u32, &[u8])]) -> Vec<u8> {
    let mut content = Vec::new();
    for (kind, target, payload) in entries {
        let start = content.len();
        content.resize(start + 64, 0);
        let mut set = |at: usize, value: &[u8]| content[start + at..][..value.len()].copy_from_slice(value);
        set(0, &kind.to_le_bytes());
        set(4, &64_u32.to_le_bytes());
        set(8, &(payload.len() as u64).to_le_bytes());
        set(28, &target.to_le_bytes());
        content.extend(*payload);
    }
    let mut bytes = 0xBA55_ED50_u32.to_le_bytes().to_vec();
    bytes.extend([1, 0, 16, 0]);
    bytes.extend((content.len() as u64).to_le_bytes());
    bytes.extend(content);
    bytes
}
