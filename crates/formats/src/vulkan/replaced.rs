//! Executables of the compiler with other SPIR-V in them.

use rehal_base::flatbuffer::Table;
use rehal_base::{Error, Result, listed};

use super::flatbuffer::{self, MAGIC, id};
use super::{Image, infer};
use crate::HEADER_BYTES;

/// The first word of a SPIR-V module.
const SPIRV: [u8; 4] = 0x0723_0203_u32.to_le_bytes();

/// The executable with a SPIR-V module in place of the one that has the same entry points. Everything else
/// stays: names, layouts, sources. `None` if the executable is SPIR-V itself, or the other code is not.
pub fn with_spirv(executable: &[u8], spirv: &[u8]) -> Option<Result<Vec<u8>>> {
    let is_both = executable.starts_with(MAGIC) && spirv.starts_with(&SPIRV);
    is_both.then(|| replace(executable, spirv))
}

fn replace(executable: &[u8], spirv: &[u8]) -> Result<Vec<u8>> {
    let read = |bytes: &[u8]| {
        let format = infer(bytes).ok_or_else(|| Error::incompatible("the bytes are not code for Vulkan"))?;
        Image::read(format, bytes)
    };
    let (own, other) = (read(executable)?, read(spirv)?);
    let has = |name: &str| other.pipelines.iter().any(|it| it.entry_point == name);
    let of_shader = |index: usize| own.pipelines.iter().filter(move |it| it.shader == index);
    let is_replaced = |index: &usize| {
        of_shader(*index).next().is_some() && of_shader(*index).all(|it| has(&it.entry_point))
    };
    let Some(index) = (0..own.shaders.len()).find(is_replaced) else {
        let names = |image: &Image| {
            listed(image.pipelines.iter().map(|it| it.entry_point.escape_debug().to_string()))
        };
        let message =
            format!("the SPIR-V has entry points {}, and the executable has {}", names(&other), names(&own));
        return Err(
            Error::failed_precondition(message).advise("keep the names of the compiler's entry points")
        );
    };
    let buffer = flatbuffer::flatbuffer(executable)?;
    let field = Table::root(buffer).tables(id::SHADERS).get(index).and_then(|it| it.field(id::SHADER_CODE));
    let field = field.ok_or_else(|| Error::data_loss("a shader of the executable has no code"))?;
    let bytes = with_vector(executable, buffer, field, (spirv.len() / 4, spirv))?;
    // What cannot be read is not to be written.
    read(&bytes)?;
    Ok(bytes)
}

/// The executable whose flatbuffer is `buffer`, with other bytes in the vector of `count` elements that the
/// field at `field` refers to. Everything else stays. A zero follows the bytes.
fn with_vector(
    executable: &[u8],
    buffer: &[u8],
    field: usize,
    (count, bytes): (usize, &[u8]),
) -> Result<Vec<u8>> {
    let too_large = || Error::resource_exhausted("the executable would exceed 4 GiB");
    let mut buffer = buffer.to_vec();
    let vector = buffer.len().next_multiple_of(8) + 4;
    buffer.resize(vector, 0);
    buffer.extend(u32::try_from(count).map_err(|_| too_large())?.to_le_bytes());
    buffer.extend(bytes);
    buffer.push(0);
    buffer.resize(buffer.len().next_multiple_of(8), 0);
    let distance = u32::try_from(vector - field).map_err(|_| too_large())?;
    buffer[field..field + 4].copy_from_slice(&distance.to_le_bytes());
    let mut whole = executable[..HEADER_BYTES].to_vec();
    whole[8..16].copy_from_slice(&(buffer.len() as u64).to_le_bytes());
    whole.extend(buffer);
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixture(name: &str) -> Vec<u8> {
        std::fs::read(testing::fixtures().join("vulkan/executables").join(name)).unwrap()
    }

    #[test]
    fn spirv_takes_the_place_of_that_with_the_same_entry_points() {
        let executable = fixture("add4_swapped.0.vk1");
        let own = Image::read("vulkan-spirv-fb", &executable).unwrap();
        let mut spirv = fixture("add4_swapped.0.spv");
        // The tool that made it.
        spirv[8..12].copy_from_slice(&7u32.to_le_bytes());
        let bytes = with_spirv(&executable, &spirv).unwrap().unwrap();
        let new = Image::read("vulkan-spirv-fb", &bytes).unwrap();
        let words: Vec<_> = spirv.as_chunks::<4>().0.iter().map(|it| u32::from_le_bytes(*it)).collect();
        assert_eq!(new.shaders[0].words(), words);
        assert_ne!(own.shaders[0].words(), words);
        assert_eq!(new.pipelines[0].entry_point, own.pipelines[0].entry_point);
        assert_eq!(
            (new.pipelines.len(), new.set_layouts.len()),
            (own.pipelines.len(), own.set_layouts.len())
        );
        // Of another function.
        let error = with_spirv(&executable, &fixture("add4_swapped.1.spv")).unwrap().unwrap_err();
        assert!(error.message().starts_with("the SPIR-V has entry points mul"), "{error}");
        assert!(with_spirv(&executable, &executable).is_none());
        assert!(with_spirv(&spirv, &spirv).is_none());
        assert!(with_spirv(&executable[..100], &spirv).unwrap().is_err());
        assert!(with_spirv(&executable, &spirv[..100]).unwrap().is_err());
    }
}
