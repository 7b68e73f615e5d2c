//! The functions of an executable of the compiler that an image of code replaces.

use std::collections::HashMap;

use rehal_base::{Error, Result, listed};

use crate::{Executable, Function, ImageKind, ParameterKind, target};

/// The functions of an executable that an image of code replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replaced<'n> {
    /// The functions that the image has, which must be all of a module.
    Module,
    /// The functions that the image has.
    Present,
    /// The function of this name.
    Function(&'n str),
}

/// Whether each module of an executable has functions that are not replaced, or none at all. Ordinals
/// increase.
pub(crate) fn staying(own: &Executable, replaced: &[usize]) -> Vec<bool> {
    let mut modules = vec![None; own.images.len()];
    for (ordinal, function) in own.functions.iter().enumerate() {
        *modules[function.image].get_or_insert(false) |= replaced.binary_search(&ordinal).is_err();
    }
    modules.into_iter().map(|it| it.unwrap_or(true)).collect()
}

/// The functions of an executable that code by itself replaces, by ordinal. Fails unless it can be called as
/// they are.
pub(crate) fn replaced_functions(
    own: &Executable,
    other: &Executable,
    which: Replaced<'_>,
) -> Result<Vec<usize>> {
    let kind = other.images[0].kind;
    let by_name: HashMap<_, _> = other.functions.iter().map(|it| (&it.name, it)).collect();
    let is_meant = |it: &Function| match which {
        Replaced::Function(name) => it.name == name || it.export_name.as_deref() == Some(name),
        Replaced::Module | Replaced::Present => true,
    };
    let mut replaced = Vec::new();
    for (ordinal, function) in own.functions.iter().enumerate().filter(|(_, it)| is_meant(it)) {
        let Some(found) = by_name.get(&function.name) else { continue };
        let targets = (own.images[function.image].target.as_deref(), other.target.as_deref());
        if let (Some(compiled), Some(found)) = targets
            && !target::runs(found, kind == ImageKind::Ptx, compiled)
        {
            let message = format!("the {} is for {found}, and the executable for {compiled}", kind.name());
            return Err(Error::incompatible(message).advise(format!("compile it for {compiled}")));
        }
        if let Some(what) = mismatch(function, found, kind) {
            let message =
                format!("signature mismatch of function '{}': {what}", function.name.escape_debug());
            return Err(Error::failed_precondition(message)
                .advise("a stub of the kernel has the signature that a replacement needs"));
        }
        replaced.push(ordinal);
    }
    let is_partial = || which == Replaced::Module && staying(own, &replaced).iter().all(|it| *it);
    if replaced.is_empty() || is_partial() {
        let names =
            |it: &Executable| listed(it.functions.iter().map(|it| it.name.escape_debug().to_string()));
        let message = format!(
            "the {} has functions {}, and the executable has {}",
            kind.name(),
            names(other),
            names(own)
        );
        return Err(Error::failed_precondition(message).advise("keep the names of the compiler's functions"));
    }
    Ok(replaced)
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
    // Without parameters, its file does not tell them.
    if code.parameters.is_some() && count != passed {
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
