//! The suite's kernels as Rust functions. "Code" is the kernel's name, padded.

use rehal_base::{Error, Result};
use rehal_hal::{ExecutableBackend, FunctionInfo};

use super::step::{BufferSlice, words_of};

/// The name of the device's only format.
pub const FORMAT: &str = "memory-kernels";

/// The "code" of a kernel: its file name, padded.
pub fn code(name: &str) -> Vec<u8> {
    format!("{name:.<96}").into_bytes()
}

/// The arguments of a workgroup.
pub(super) struct Workgroup<'a> {
    id: [u32; 3],
    count: [u32; 3],
    constants: &'a [u32],
    bindings: &'a [BufferSlice],
}

type Body = fn(&Workgroup<'_>) -> Result<()>;

/// A function: name, constants, bindings, and its body per workgroup.
type Function = (&'static str, u16, u16, Body);

const KERNELS: [(&str, &[Function]); 5] = [
    ("affine", &[("affine", 2, 2, affine)]),
    ("constants", &[("write_constants", 4, 1, write_constants)]),
    ("entry_points", &[("negate", 0, 2, negate), ("twice", 0, 2, twice), ("sum", 0, 3, sum)]),
    ("indirect", &[("write_count", 3, 1, write_constants)]),
    ("workgroups", &[("write_ids", 0, 1, write_ids)]),
];

/// The functions of a kernel, if `data` is one.
pub(super) fn find(data: &[u8]) -> Option<&'static [Function]> {
    KERNELS.iter().find(|(name, _)| code(name) == data).map(|(_, functions)| *functions)
}

pub(super) struct MemoryExecutable {
    functions: &'static [Function],
    infos: Vec<FunctionInfo>,
}

impl MemoryExecutable {
    pub(super) fn prepare(data: &[u8]) -> Result<Self> {
        let functions = find(data).ok_or_else(|| Error::invalid_argument("unknown kernel"))?;
        let info = |(name, constants, bindings, _): &Function| FunctionInfo {
            name: (*name).into(),
            workgroup_size: [1; 3],
            constant_count: *constants,
            binding_count: *bindings,
            ..FunctionInfo::default()
        };
        Ok(Self { functions, infos: functions.iter().map(info).collect() })
    }

    pub(super) fn run(
        &self,
        function: u32,
        count: [u32; 3],
        constants: &[u32],
        bindings: &[BufferSlice],
    ) -> Result<()> {
        if count.contains(&0) {
            return Ok(());
        }
        let (.., body) = self.functions[function as usize];
        for z in 0..count[2] {
            for y in 0..count[1] {
                for x in 0..count[0] {
                    body(&Workgroup { id: [x, y, z], count, constants, bindings })?;
                }
            }
        }
        Ok(())
    }
}

impl ExecutableBackend for MemoryExecutable {
    fn name(&self) -> &str {
        "memory"
    }

    fn functions(&self) -> &[FunctionInfo] {
        &self.infos
    }

    fn lookup(&self, name: &str) -> Option<u32> {
        FunctionInfo::find(&self.infos, name)
    }
}

impl Workgroup<'_> {
    fn input(&self, binding: usize, count: usize) -> Result<Vec<u32>> {
        let words = words_of(&self.bindings[binding].read()?);
        words.get(..count).map(<[u32]>::to_vec).ok_or_else(|| Error::out_of_range("the binding is too short"))
    }

    /// Writes words at `start`; the rest of the binding is unchanged.
    fn output(&self, binding: usize, start: usize, words: &[u32]) -> Result<()> {
        let mut bytes = self.bindings[binding].read()?;
        let new: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let target = bytes.get_mut(4 * start..4 * start + new.len());
        target.ok_or_else(|| Error::out_of_range("the binding is too short"))?.copy_from_slice(&new);
        self.bindings[binding].write(&bytes)
    }
}

fn affine(it: &Workgroup<'_>) -> Result<()> {
    let of = |x: &u32| x.wrapping_mul(it.constants[0]).wrapping_add(it.constants[1]);
    it.output(1, 0, &it.input(0, 16)?.iter().map(of).collect::<Vec<_>>())
}

fn write_constants(it: &Workgroup<'_>) -> Result<()> {
    it.output(0, 0, it.constants)
}

fn negate(it: &Workgroup<'_>) -> Result<()> {
    it.output(1, 0, &it.input(0, 4)?.iter().map(|x| x.wrapping_neg()).collect::<Vec<_>>())
}

fn twice(it: &Workgroup<'_>) -> Result<()> {
    it.output(1, 0, &it.input(0, 4)?.iter().map(|x| x.wrapping_mul(2)).collect::<Vec<_>>())
}

fn sum(it: &Workgroup<'_>) -> Result<()> {
    let (a, b) = (it.input(0, 4)?, it.input(1, 4)?);
    it.output(2, 0, &a.iter().zip(&b).map(|(a, b)| a.wrapping_add(*b)).collect::<Vec<_>>())
}

fn write_ids(it: &Workgroup<'_>) -> Result<()> {
    let ([x, y, z], [nx, ny, nz]) = (it.id, it.count);
    it.output(0, ((z * ny + y) * nx + x) as usize * 6, &[x, y, z, nx, ny, nz])
}
