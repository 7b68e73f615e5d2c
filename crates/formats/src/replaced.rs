//! Executables of the compiler with another image of code in them.

use rehal_base::{Error, Result, listed};

use crate::{Executable, Function, HEADER_BYTES, ImageKind, ParameterKind, target};

/// The executable whose flatbuffer is `buffer`, with other bytes in the vector of `count` elements that the
/// field at `field` refers to. Everything else stays. A zero follows the bytes.
pub(crate) fn with_vector(
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

/// The image of an executable that has the same functions as the only image of `other`, whose code can be
/// called as the executable's functions are.
pub(crate) fn replaced_image(own: &Executable, other: &Executable) -> Result<usize> {
    let find = |name: &str| other.functions.iter().find(|it| it.name == name);
    let of_image = |index: usize| own.functions.iter().filter(move |it| it.image == index);
    let is_replaced = |index: &usize| {
        of_image(*index).next().is_some() && of_image(*index).all(|it| find(&it.name).is_some())
    };
    let kind = other.images[0].kind;
    let Some(index) = (0..own.images.len()).find(is_replaced) else {
        let names =
            |it: &Executable| listed(it.functions.iter().map(|it| it.name.escape_debug().to_string()));
        let message = format!(
            "the {} has functions {}, and the executable has {}",
            kind.name(),
            names(other),
            names(own)
        );
        return Err(Error::failed_precondition(message).advise("keep the names of the compiler's functions"));
    };
    let targets = (own.images[index].target.as_deref(), other.target.as_deref());
    if let (Some(compiled), Some(found)) = targets
        && !target::runs(found, kind == ImageKind::Ptx, compiled)
    {
        let message = format!("the {} is for {found}, and the executable for {compiled}", kind.name());
        return Err(Error::incompatible(message).advise(format!("compile it for {compiled}")));
    }
    for function in of_image(index) {
        let Some(found) = find(&function.name) else { continue };
        if let Some(what) = mismatch(function, found, kind) {
            let message =
                format!("signature mismatch of function '{}': {what}", function.name.escape_debug());
            return Err(Error::failed_precondition(message)
                .advise("a stub of the kernel has the signature that a replacement needs"));
        }
    }
    Ok(index)
}

/// Why code cannot be called as a function is: the driver passes the address of each binding and then each
/// 32-bit constant.
fn mismatch(function: &Function, code: &Function, kind: ImageKind) -> Option<String> {
    let bindings = usize::from(function.binding_count().unwrap_or_default());
    let passed = bindings + usize::from(function.constant_count.unwrap_or_default());
    let is_passed = |kind: &ParameterKind| !matches!(kind, ParameterKind::Hidden(_));
    let parameters = code.parameters.iter().flat_map(|it| it.iter()).filter(|it| is_passed(&it.kind));
    let mut count = 0;
    for (index, parameter) in parameters.enumerate() {
        let expected = if index < bindings { 8 } else { 4 };
        if index < passed && parameter.size != expected {
            let size = parameter.size;
            return Some(format!("program={expected} bytes of parameter {index} replacement={size}"));
        }
        count = index + 1;
    }
    // It need not declare the last ones.
    if count > passed {
        return Some(format!("program={passed} parameters replacement={count}"));
    }
    let text = |[x, y, z]: [u32; 3]| format!("{x}x{y}x{z}");
    let total = |size: [u32; 3]| size.iter().map(|it| u128::from(*it)).product::<u128>();
    if let (Some(own), Some(other)) = (function.workgroup_size, code.workgroup_size)
        && (own != other && (!code.is_size_limit || total(own) > total(other)))
    {
        let most = if code.is_size_limit { "at most " } else { "" };
        return Some(format!("program=workgroups of {} replacement={most}{}", text(own), text(other)));
    }
    match (function.dynamic_memory_bytes, code.dynamic_memory_bytes) {
        // What calls may use it is not known.
        (Some(0), None) if kind == ImageKind::Ptx && code.static_memory_bytes.is_some() => {
            Some("program=no dynamic workgroup memory replacement=some".into())
        }
        _ => None,
    }
}
