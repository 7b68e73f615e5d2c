//! The workgroups of code that runs in place of other code.

use std::sync::Arc;

use rehal_base::terms::{Formula, FormulaFault};
use rehal_base::{Error, Remedy, Result};
use serde::{Deserialize, Serialize};

/// How many workgroups a function needs. Each computes a part of the result, and how a compiler divides the
/// work differs between variants of a function.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum NeededWorkgroups {
    /// The count of the dispatch: the function is for the same count, or for any.
    #[default]
    Same,
    /// This count in x, y and z.
    Count([u32; 3]),
    /// A count in x, y and z that is computed from the constants of the dispatch.
    Computed(Arc<Formula>),
    /// A count that is not known: why.
    Unknown(Arc<str>),
}

impl NeededWorkgroups {
    /// The count for a dispatch with these constants, little-endian, of 32 bits; `None` if it is that of the
    /// dispatch. Fails if it is not known, or has no value. `is_indirect` is whether the dispatch reads its
    /// count from a buffer: what the program writes there is not known to be for other code.
    pub fn count(&self, constants: &[u8], is_indirect: bool) -> Result<Option<[u32; 3]>> {
        match self {
            Self::Same => Ok(None),
            Self::Count(count) => Ok(Some(*count)),
            Self::Computed(_) if is_indirect => Err(not_known("the dispatch reads it from a buffer")),
            Self::Computed(formula) => {
                let words = constants.as_chunks::<4>().0;
                let count = formula.evaluate(|index| Some(u32::from_le_bytes(*words.get(index as usize)?)));
                count.map_err(|fault| failed(fault, words)).and_then(|count| match &count[..] {
                    [x, y, z] => match [*x, *y, *z].map(u32::try_from) {
                        [Ok(x), Ok(y), Ok(z)] => Ok(Some([x, y, z])),
                        _ => Err(Error::out_of_range(format!(
                            "its workgroup count is {x}x{y}x{z}, and a dispatch has up to 4294967295 in each"
                        ))),
                    },
                    _ => Err(Error::invalid_argument("a workgroup count has three numbers")),
                })
            }
            Self::Unknown(why) => Err(not_known(why)),
        }
    }

    /// The count, if it does not depend on the dispatch.
    pub fn constant(&self) -> Option<[u32; 3]> {
        match self {
            Self::Count(count) => Some(*count),
            Self::Computed(formula) => match formula.constants()?[..] {
                [x, y, z] => Some([u32::try_from(x).ok()?, u32::try_from(y).ok()?, u32::try_from(z).ok()?]),
                _ => None,
            },
            Self::Same | Self::Unknown(_) => None,
        }
    }
}

fn not_known(why: &str) -> Error {
    Error::failed_precondition(format!("its workgroup count is not known: {why}"))
        .advise(Remedy::StateWorkgroups)
}

fn failed(fault: FormulaFault, words: &[[u8; 4]]) -> Error {
    /// The constants that a message lists.
    const MAX_LISTED: usize = 16;
    let listed: Vec<_> =
        words.iter().take(MAX_LISTED).map(|it| u32::from_le_bytes(*it).to_string()).collect();
    let more = if words.len() > MAX_LISTED { ", ..." } else { "" };
    Error::out_of_range(format!(
        "its workgroup count {fault} for the constants {}{more}",
        if listed.is_empty() { "none".into() } else { listed.join(", ") }
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rehal_base::{Advice, StatusCode};

    fn computed(text: &str) -> NeededWorkgroups {
        NeededWorkgroups::Computed(Arc::new(text.parse().unwrap()))
    }

    #[test]
    fn counts_are_computed_from_constants() {
        let quotient = computed("=100 in:1 divs:0:1 =1 -> 2 3 3");
        let constants = |second: u32| [7_u32.to_le_bytes(), second.to_le_bytes()].concat();
        assert_eq!(quotient.count(&constants(20), false).unwrap(), Some([5, 1, 1]));
        let error = quotient.count(&constants(0), false).unwrap_err();
        assert_eq!(error.message(), "its workgroup count divides by zero for the constants 7, 0");
        assert!(
            quotient.count(&constants(20)[..4], false).unwrap_err().message().contains("needs constant 1")
        );
        let error = quotient.count(&constants(u32::MAX), false).unwrap_err();
        assert!(error.message().contains("-100x1x1"), "{error}");
        assert_eq!(quotient.constant(), None);
        let constant = computed("=4 =1 -> 0 1 1");
        assert_eq!(
            (constant.constant(), constant.count(&[], false).unwrap()),
            (Some([4, 1, 1]), Some([4, 1, 1]))
        );
        assert_eq!(NeededWorkgroups::Same.count(&[], true).unwrap(), None);
        assert_eq!(NeededWorkgroups::Count([1, 2, 3]).count(&[], true).unwrap(), Some([1, 2, 3]));
    }

    #[test]
    fn what_is_not_known_is_stated_by_hand() {
        for (needed, is_indirect) in
            [(NeededWorkgroups::Unknown("why".into()), false), (computed("=1 -> 0 0 0"), true)]
        {
            let error = needed.count(&[], is_indirect).unwrap_err();
            assert_eq!(error.code(), StatusCode::FailedPrecondition);
            assert_eq!(error.advice(), Some(&Advice::Remedy(Remedy::StateWorkgroups)));
        }
    }
}
