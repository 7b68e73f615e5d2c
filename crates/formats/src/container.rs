//! Containers of the compiler for GPUs: a header and a flatbuffer with the images of code and the functions
//! in them.
//!
//! Source of the layouts: IREE's `cuda_executable_def.fbs`, `hip_executable_def.fbs` and
//! `amdgpu_executable_def.fbs` (release 3.13.0). A field's id is its position here. Debug information is not
//! read.

use std::collections::HashMap;

use rehal_base::flatbuffer::{self as fb, Envelope, FieldType, StructSchema, Table};
use rehal_base::{Cursor, Error, Fault, FormatError, FormatPart, Result, flatbuffer_tables};

use crate::executable::{Binding, CodeImage, Executable, Function, ImageKind};
use crate::replaced::{Replaced, replaced_functions, staying};
use crate::rewritten::Front;
use crate::{MAX_FUNCTIONS, MAX_NAME_BYTES, hsaco, nvidia};

pub(crate) use crate::HEADER_BYTES;
/// The version of the header.
const VERSION: u32 = 0;

static SIZE: StructSchema = StructSchema { members: &[("x", 4, None), ("y", 4, None), ("z", 4, None)] };
/// A 64-bit set of flags, of any alignment.
static FLAGS: StructSchema = StructSchema { members: &[("low", 4, None), ("high", 4, None)] };

flatbuffer_tables! {
    /// Debug information, which is not read.
    DEBUG_INFO = "debug.ExportDef" {}
    /// A function for CUDA or HIP. Only those for CUDA have a name beside that of their kernel.
    FUNCTION = "ExportDef" {
        "module_ordinal": FieldType::U32(0),
        "kernel_name": FieldType::Text,
        "block_dims": FieldType::Struct(&SIZE),
        "block_shared_memory_size": FieldType::U32(0),
        "constant_count": FieldType::U32(0),
        "binding_flags": FieldType::Structs(&FLAGS),
        "debug_info": FieldType::Table(&DEBUG_INFO),
        "name": FieldType::Text,
    }
    /// A function for amdgpu.
    AMDGPU_FUNCTION = "ExportDef" {
        "symbol_name": FieldType::Text,
        "workgroup_size": FieldType::Struct(&SIZE),
        "constant_count": FieldType::U32(0),
        "binding_flags": FieldType::Structs(&FLAGS),
    }
    /// An image of code, which the schemas call text.
    MODULE = "ModuleDef" {
        "image": FieldType::Bytes,
    }
    /// An executable for CUDA or HIP.
    EXECUTABLE = "ExecutableDef" {
        "exports": FieldType::Tables(&FUNCTION),
        "modules": FieldType::Tables(&MODULE),
        "source_files": FieldType::Tables(&DEBUG_INFO),
    }
    /// An executable for amdgpu.
    AMDGPU_EXECUTABLE = "ExecutableDef" {
        "isa": FieldType::Text,
        "exports": FieldType::Tables(&AMDGPU_FUNCTION),
        "modules": FieldType::Tables(&MODULE),
        "source_files": FieldType::Tables(&DEBUG_INFO),
    }
}

/// The containers of a driver.
struct Container {
    envelope: Envelope,
    /// Ids of fields of the executable.
    functions: usize,
    images: usize,
    /// Ids of fields of a function.
    ids: FunctionIds,
    /// The kinds of its images, and of files without a container.
    kinds: &'static [ImageKind],
}

struct FunctionIds {
    /// The field before the name; `None` if functions do not name their image.
    image: Option<usize>,
    name: usize,
    export_name: Option<usize>,
    workgroup_size: usize,
    dynamic_memory: Option<usize>,
    constants: usize,
    bindings: usize,
}

/// A container whose functions name their image.
const fn for_runtime(
    format: &'static str,
    identifier: &'static [u8; 4],
    kinds: &'static [ImageKind],
) -> Container {
    let ids = FunctionIds {
        image: Some(0),
        name: 1,
        export_name: Some(7),
        workgroup_size: 2,
        dynamic_memory: Some(3),
        constants: 4,
        bindings: 5,
    };
    let envelope = Envelope { format, identifier, prefix_bytes: 0, root: &EXECUTABLE };
    Container { envelope, functions: 0, images: 1, ids, kinds }
}

const CUDA: &Container =
    &for_runtime("CUDA executable", b"CDA1", &[ImageKind::Cubin, ImageKind::Fatbin, ImageKind::Ptx]);

const HIP: &Container = &for_runtime("HIP executable", b"HIP1", &[ImageKind::Hsaco, ImageKind::SpirV]);

const AMDGPU: &Container = &Container {
    envelope: Envelope {
        format: "amdgpu executable",
        identifier: b"AMD1",
        prefix_bytes: 0,
        root: &AMDGPU_EXECUTABLE,
    },
    functions: 1,
    images: 2,
    ids: FunctionIds {
        image: None,
        name: 0,
        export_name: None,
        workgroup_size: 1,
        dynamic_memory: None,
        constants: 2,
        bindings: 3,
    },
    kinds: &[ImageKind::Hsaco],
};

/// Reads an executable for CUDA: the compiler's container, or PTX, a cubin or a fatbin by itself. Fails with
/// an error that has an offset if the bytes are malformed or use an unsupported feature.
pub fn read_cuda(bytes: &[u8]) -> Result<Executable, FormatError> {
    CUDA.read(bytes)
}

/// Reads an executable for HIP: the compiler's container, or a HSACO by itself. Fails like [`read_cuda`].
pub fn read_hip(bytes: &[u8]) -> Result<Executable, FormatError> {
    HIP.read(bytes)
}

/// Reads an executable for the driver amdgpu: the compiler's container, or a HSACO by itself. Fails like
/// [`read_cuda`].
pub fn read_amdgpu(bytes: &[u8]) -> Result<Executable, FormatError> {
    AMDGPU.read(bytes)
}

/// An executable of the compiler in which an image replaces functions: PTX, a cubin or a fatbin for CUDA, a
/// HSACO for HIP and amdgpu. The image takes the place of a module of which no function stays, or becomes a
/// further one. Names, workgroup sizes, bindings and constants stay those of the executable. `None` unless
/// the executable is a container of these drivers, and the image is not.
///
/// Fails if either is malformed, and if the functions of the image cannot be called as those of the
/// executable: another number or size of parameters, another workgroup size, workgroup memory that no
/// dispatch adds, another processor.
pub fn with_image(executable: &[u8], image: &[u8], which: Replaced<'_>) -> Option<Result<Vec<u8>>> {
    let is_of = |it: &&Container| executable.starts_with(it.envelope.identifier);
    let container = [CUDA, HIP, AMDGPU].into_iter().find(is_of)?;
    let is_image = !image.starts_with(container.envelope.identifier);
    is_image.then(|| container.with_image(executable, image, which))
}

/// An image and its kernels.
struct Contents {
    image: CodeImage,
    /// Its kernels; `None` if they are unknown.
    kernels: Option<Vec<Function>>,
    /// The symbols of descriptors by kernel, if the image has them.
    symbols: Vec<String>,
}

/// The image and the kernel of a name, by the ordinal of the image, if functions name it.
type Names<'c> = HashMap<(Option<usize>, &'c str), (usize, &'c Function)>;

impl Contents {
    fn read(kind: ImageKind, bytes: &[u8], origin: usize) -> Result<Self, FormatError> {
        let (target, kernels, symbols) = match kind {
            ImageKind::Hsaco => {
                let code = hsaco::read(bytes, origin)?;
                let (kernels, symbols) = code.kernels.into_iter().map(|it| (it.function, it.symbol)).unzip();
                (code.target, Some(kernels), symbols)
            }
            // Compiled for a processor when it is loaded.
            ImageKind::SpirV => (None, None, Vec::new()),
            ImageKind::Cubin | ImageKind::Fatbin | ImageKind::Ptx => {
                let code = nvidia::read(kind, bytes, origin)?;
                (code.target, code.functions, Vec::new())
            }
        };
        let image = CodeImage { kind, bytes: origin..origin + bytes.len(), target };
        Ok(Self { image, kernels, symbols })
    }
}

impl Container {
    fn read(&'static self, bytes: &[u8]) -> Result<Executable, FormatError> {
        if bytes.starts_with(self.envelope.identifier) {
            return self.read_container(bytes);
        }
        let kind =
            self.kind(bytes, 0, "magic", &format!("'{}', ", self.envelope.identifier.escape_ascii()))?;
        let contents = Contents::read(kind, bytes, 0)?;
        let Some(functions) = contents.kernels else {
            let expected = "code that names its kernels";
            return Err(self.part().error(Fault::Unsupported, 0, "image", expected, kind.name()));
        };
        Ok(Executable { target: contents.image.target.clone(), images: vec![contents.image], functions })
    }

    fn read_container(&'static self, bytes: &[u8]) -> Result<Executable, FormatError> {
        let buffer = flatbuffer(bytes, &self.envelope)?;
        fb::verify(buffer, HEADER_BYTES, &self.envelope)?;
        let root = Table::root(buffer);
        let images = root.tables(self.images).iter().enumerate();
        let images: Vec<_> =
            images.map(|(index, table)| self.image(table, index as u64)).collect::<Result<_, _>>()?;
        let count = root.tables(self.functions).len();
        if count == 0 || count > MAX_FUNCTIONS {
            let expected = format!("1 to {MAX_FUNCTIONS}");
            return Err(self.corrupt("ExecutableDef.exports", expected, count.to_string()));
        }
        let names = self.names(&images);
        let tables = root.tables(self.functions).iter().enumerate();
        let functions = tables.map(|(index, table)| {
            self.function(table, &images, &names).map_err(|error| error.in_record(index as u64))
        });
        let functions = functions.collect::<Result<_, _>>()?;
        let images: Vec<_> = images.into_iter().map(|it| it.image).collect();
        let first = images.first().and_then(|it| it.target.clone());
        let target = first.filter(|first| images.iter().all(|it| it.target.as_ref() == Some(first)));
        // What the compiler notes of its target, if its code does not say more.
        let noted = (self.ids.image.is_none()).then(|| root.text(0)).flatten();
        let target = target.or_else(|| images.len().le(&1).then(|| noted.map(str::to_owned)).flatten());
        Ok(Executable { target, images, functions })
    }

    fn with_image(&'static self, executable: &[u8], image: &[u8], which: Replaced<'_>) -> Result<Vec<u8>> {
        let own = self.read(executable)?;
        let other = self.read(image).map_err(|error| Error::from(error).context("the replacement"))?;
        let replaced = replaced_functions(&own, &other, which)?;
        let stays = staying(&own, &replaced);
        let count = own.images.len();
        let module = stays.iter().position(|it| !it).unwrap_or(count);
        let is_moved = |ordinal: &usize| stays[own.functions[*ordinal].image];
        let moved: Vec<_> = replaced.iter().copied().filter(is_moved).collect();
        let ordinal = match self.ids.image {
            None if !moved.is_empty() => {
                let message =
                    "functions of this format do not name their module: one replacement has them all";
                return Err(
                    Error::failed_precondition(message).advise("name a file with all of its functions")
                );
            }
            id => id.unwrap_or_default(),
        };
        let buffer = flatbuffer(executable, &self.envelope)?;
        let root = Table::root(buffer);
        // Text ends before a zero.
        let end = |bytes: &[u8]| bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        let code = if other.images[0].kind == ImageKind::Ptx { &image[..end(image)] } else { image };

        let mut front = Front::new(self.envelope.identifier, buffer);
        let fields = front.table(0, self.envelope.root, Some(root), &[(self.functions, 0), (self.images, 0)]);
        let functions = root.tables(self.functions);
        let places = front.vector(fields[self.functions], functions.len());
        for (index, (place, table)) in places.zip(functions.iter()).enumerate() {
            if moved.binary_search(&index).is_ok() {
                front.table(place, &FUNCTION, Some(table), &[(ordinal, module as u32)]);
            } else {
                front.point(place, table.at());
            }
        }
        let modules = root.tables(self.images);
        let places: Vec<_> = front.vector(fields[self.images], count.max(module + 1)).collect();
        for (index, place) in places.into_iter().enumerate() {
            match modules.get(index).filter(|_| stays[index]) {
                Some(table) => front.point(place, table.at()),
                None => {
                    let fields = front.table(place, &MODULE, None, &[(0, 0)]);
                    front.point_to_code(fields[0]);
                }
            }
        }
        let whole = front.finish(executable, code)?;
        // What cannot be read is not to be written.
        self.read(&whole)?;
        Ok(whole)
    }

    fn image(&self, table: Table<'_>, index: u64) -> Result<Contents, FormatError> {
        let Some(vector) = table.vector(0).filter(|vector| !vector.is_empty()) else {
            return Err(self.corrupt("ModuleDef.image", "code", "none").in_record(index));
        };
        let (bytes, origin) = (vector.bytes(), HEADER_BYTES + vector.at());
        let kind = self.kind(bytes, origin, "ModuleDef.image", "");
        let kind = kind.map_err(|error| error.in_record(index))?;
        // Drivers get no length.
        if kind == ImageKind::Ptx && vector.part(bytes.len(), 1) != [0] {
            let error =
                self.part().error(Fault::Corrupt, origin, "ModuleDef.image", "a zero after the text", "none");
            return Err(error.in_record(index));
        }
        Contents::read(kind, bytes, origin)
    }

    /// The kind of code at `at`. `others` is what else may be there.
    fn kind(
        &self,
        bytes: &[u8],
        at: usize,
        field: &'static str,
        others: &str,
    ) -> Result<ImageKind, FormatError> {
        self.kinds.iter().copied().find(|kind| kind.fits(bytes)).ok_or_else(|| {
            let names: Vec<_> = self.kinds.iter().map(|kind| kind.name()).collect();
            let found = format!("'{}'", bytes[..bytes.len().min(4)].escape_ascii());
            self.part().error(Fault::Corrupt, at, field, format!("{others}{}", names.join(", ")), found)
        })
    }

    fn names<'c>(&self, images: &'c [Contents]) -> Names<'c> {
        let mut names = Names::new();
        for (index, it) in images.iter().enumerate() {
            let ordinal = self.ids.image.map(|_| index);
            for (kernel, function) in it.kernels.iter().flatten().enumerate() {
                let symbol = it.symbols.get(kernel).unwrap_or(&function.name);
                for name in [symbol, &function.name] {
                    names.entry((ordinal, name)).or_insert((index, function));
                }
            }
        }
        names
    }

    fn function(
        &self,
        table: Table<'_>,
        images: &[Contents],
        names: &Names<'_>,
    ) -> Result<Function, FormatError> {
        let ids = &self.ids;
        let name = table.text(ids.name).unwrap_or_default();
        if name.is_empty() || name.len() > MAX_NAME_BYTES {
            let expected = format!("1 to {MAX_NAME_BYTES} bytes");
            return Err(self.corrupt("name of a function", expected, format!("{} bytes", name.len())));
        }
        let export_name = ids.export_name.and_then(|id| table.text(id)).filter(|it| !it.is_empty());
        if let Some(long) = export_name.filter(|it| it.len() > MAX_NAME_BYTES) {
            let expected = format!("at most {MAX_NAME_BYTES} bytes");
            return Err(self.corrupt("ExportDef.name", expected, format!("{} bytes", long.len())));
        }
        let (image, kernel) = self.kernel(table, name, images, names)?;
        let size = table.structure(ids.workgroup_size);
        let size = size.and_then(|size| <[[u8; 4]; 3]>::try_from(size.part(0, 12).as_chunks().0).ok());
        let size = size.map(|size| size.map(u32::from_le_bytes));
        let Some(workgroup_size) = size.filter(|size| !size.contains(&0)) else {
            let found = format!("{:?}", size.unwrap_or_default());
            return Err(self.corrupt("workgroup size", "three numbers from 1", found));
        };
        let constants = table.u32(ids.constants, 0);
        let constant_count = u16::try_from(constants).map_err(|_| {
            self.corrupt("ExportDef.constant_count", format!("at most {}", u16::MAX), constants.to_string())
        })?;
        // Symbols of descriptors have an ending that names of kernels do not have.
        let ending = if ids.image.is_none() { ".kd" } else { "" };
        let dynamic = ids.dynamic_memory.map(|id| table.u32(id, 0));
        Ok(Function {
            name: name.strip_suffix(ending).filter(|it| !it.is_empty()).unwrap_or(name).to_owned(),
            export_name: export_name.map(str::to_owned),
            image,
            workgroup_size: Some(workgroup_size),
            is_size_limit: false,
            constant_count: Some(constant_count),
            bindings: Some(self.bindings(table)?),
            dynamic_memory_bytes: dynamic.or_else(|| kernel?.dynamic_memory_bytes),
            static_memory_bytes: kernel.and_then(|kernel| kernel.static_memory_bytes),
            registers: kernel.and_then(|kernel| kernel.registers),
            parameters: kernel.and_then(|kernel| kernel.parameters.clone()),
        })
    }

    /// The image of a function, and the kernel in it, if the image names its kernels.
    fn kernel<'c>(
        &self,
        table: Table<'_>,
        name: &str,
        images: &[Contents],
        names: &Names<'c>,
    ) -> Result<(usize, Option<&'c Function>), FormatError> {
        let ordinal = self.ids.image.map(|id| table.u32(id, 0) as usize);
        if let Some(ordinal) = ordinal {
            let Some(image) = images.get(ordinal) else {
                let expected = format!("an ordinal below {}", images.len());
                return Err(self.corrupt("ExportDef.module_ordinal", expected, ordinal.to_string()));
            };
            if image.kernels.is_none() {
                return Ok((ordinal, None));
            }
        }
        match names.get(&(ordinal, name)) {
            Some((image, kernel)) => Ok((*image, Some(kernel))),
            None => Err(self.corrupt("name of a function", "a kernel of its image", format!("'{name}'"))),
        }
    }

    fn bindings(&self, table: Table<'_>) -> Result<Vec<Binding>, FormatError> {
        let Some(flags) = table.vector(self.ids.bindings) else { return Ok(Vec::new()) };
        if flags.len() > usize::from(u16::MAX) {
            let expected = format!("at most {}", u16::MAX);
            return Err(self.corrupt("ExportDef.binding_flags", expected, flags.len().to_string()));
        }
        let binding = |index| match u64::from_le_bytes(flags.element(index).unwrap_or_default()) {
            known @ 0..4 => Ok(Binding { is_read_only: known & 1 != 0, is_indirect: known & 2 != 0 }),
            other => {
                let (at, field) = (HEADER_BYTES + flags.at() + 8 * index, "ExportDef.binding_flags");
                Err(self.part().error(Fault::Unsupported, at, field, "flags below 4", format!("{other:#x}")))
            }
        };
        (0..flags.len()).map(binding).collect()
    }

    fn part(&self) -> FormatPart {
        FormatPart { format: self.envelope.format, origin: 0 }
    }

    /// An error without a place of its own: the content of a table is wrong, not its encoding.
    fn corrupt(
        &self,
        field: &'static str,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        self.part().error(Fault::Corrupt, HEADER_BYTES, field, expected, found)
    }
}

/// The flatbuffer after the header of an executable that begins with the identifier of `envelope`.
pub(crate) fn flatbuffer<'b>(bytes: &'b [u8], envelope: &Envelope) -> Result<&'b [u8], FormatError> {
    let error = |fault, at: u64, field, expected: String, found: String| {
        Err(FormatError::new(envelope.format, fault, at, field, expected, found))
    };
    let magic = &bytes[..bytes.len().min(envelope.identifier.len())];
    if magic != envelope.identifier {
        let found = format!("'{}'", magic.escape_ascii());
        let expected = format!("'{}'", envelope.identifier.escape_ascii());
        return error(Fault::Corrupt, 0, "magic", expected, found);
    }
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        let found = format!("{} bytes", bytes.len());
        return error(Fault::Truncated, 0, "header", format!("{HEADER_BYTES} bytes"), found);
    };
    let mut cursor = Cursor::new(&header[magic.len()..]);
    let version = cursor.u32().unwrap_or(VERSION);
    if version != VERSION {
        return error(Fault::Unsupported, 4, "version", VERSION.to_string(), version.to_string());
    }
    let size = cursor.u64().unwrap_or(0);
    let left = rest.len() as u64;
    if size == 0 || size > left {
        let expected = format!("1 to the {left} bytes after the header");
        return error(Fault::Truncated, 8, "content size", expected, size.to_string());
    }
    Ok(&rest[..size as usize])
}
