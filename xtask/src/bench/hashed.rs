//! A process that hashes bytes at the speed of memory, to compare with digests that our tools add.

use super::measure::Invocation;
use crate::Outcome;
use std::error::Error;
use std::hint::black_box;

/// The argument of `bench` that makes a process write this many bytes, and the one with which it also hashes them.
const WRITTEN: &str = "--written-bytes=";
const HASHED: &str = "--hashed-bytes=";

/// Does what arguments of [`hashing`] request; `None` for others.
pub fn perform(arguments: &[String]) -> Option<Outcome> {
    let [argument] = arguments else { return None };
    let (is_hashed, count) = match (argument.strip_prefix(HASHED), argument.strip_prefix(WRITTEN)) {
        (Some(count), _) => (true, count),
        (None, Some(count)) => (false, count),
        (None, None) => return None,
    };
    Some(count.parse().map_err(|error| format!("{argument}: {error}").into()).map(|count: usize| {
        let bytes = black_box(vec![1_u8; count]);
        if is_hashed {
            black_box(blake3::hash(&bytes));
        }
    }))
}

/// A process that hashes bytes on one thread with the hash of ledgers, and one that only writes them to memory.
pub fn hashing(bytes: u64) -> Result<(Invocation, Invocation), Box<dyn Error>> {
    let program = std::env::current_exe()?;
    let invocation = |argument: &str| Invocation {
        program: program.clone(),
        arguments: vec!["bench".to_owned(), format!("{argument}{bytes}")],
    };
    Ok((invocation(HASHED), invocation(WRITTEN)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_its_own_arguments_are_performed() {
        let perform = |argument: &str| perform(&[argument.to_owned()]);
        assert!(perform("--hashed-bytes=1000").is_some_and(|it| it.is_ok()));
        assert!(perform("--written-bytes=0").is_some_and(|it| it.is_ok()));
        assert!(perform("--hashed-bytes=many").is_some_and(|it| it.is_err()));
        assert!(perform("--rounds").is_none() && super::perform(&[]).is_none());
    }
}
