use rehal_base::{ElementType, Error, Result, glob};
use serde::{Deserialize, Serialize};

use crate::element_types::types_in_name;

/// How much numbers may differ: elements are the same if they are within any of the limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tolerance {
    /// The functions that it applies to, with `*` and `?`.
    pub function: String,
    /// The type of the elements that it applies to.
    pub element_type: ElementType,
    /// Maximum number of representable numbers from one to the other.
    pub ulps: Option<u64>,
    /// Maximum absolute error.
    pub absolute: Option<f64>,
    /// Maximum error relative to the expected number.
    pub relative: Option<f64>,
}

/// The type of the elements that functions write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElementTypeRule {
    /// The functions that it applies to, with `*` and `?`; `None` for all functions and for host reads.
    pub function: Option<String>,
    /// The type.
    pub element_type: ElementType,
}

impl Tolerance {
    /// Reads `GLOB:TYPE:LIMIT[,LIMIT]`, where a limit is `ulp=N`, `abs=X` or `rel=X`.
    pub fn parse(text: &str) -> Result<Self> {
        let form =
            || Error::invalid_argument(format!("'{text}' is not of the form GLOB:TYPE:ulp=N,abs=X,rel=X"));
        let (rest, limits) = text.rsplit_once(':').ok_or_else(form)?;
        let (function, element_type) = rest.rsplit_once(':').ok_or_else(form)?;
        let element_type: ElementType = element_type.parse()?;
        if !is_number(element_type) {
            return Err(Error::invalid_argument(format!(
                "elements of type {element_type} have no tolerance"
            )));
        }
        let mut this =
            Self { function: function.into(), element_type, ulps: None, absolute: None, relative: None };
        for limit in limits.split(',') {
            let (name, value) = limit.split_once('=').ok_or_else(form)?;
            let error = || value.parse().ok().filter(|error: &f64| *error >= 0.0 && error.is_finite());
            let is_valid = match name {
                "ulp" if element_type.numerical().is_float() => {
                    this.ulps = value.parse().ok();
                    this.ulps.is_some()
                }
                "abs" => {
                    this.absolute = error();
                    this.absolute.is_some()
                }
                "rel" => {
                    this.relative = error();
                    this.relative.is_some()
                }
                _ => false,
            };
            if !is_valid {
                return Err(form());
            }
        }
        Ok(this)
    }
}

impl ElementTypeRule {
    /// Reads `[GLOB:]TYPE`.
    pub fn parse(text: &str) -> Result<Self> {
        let (function, element_type) = match text.rsplit_once(':') {
            Some((function, element_type)) => (Some(function.to_owned()), element_type),
            None => (None, text),
        };
        let element_type: ElementType = element_type.parse()?;
        if !matches!(element_type.bits(), 8 | 16 | 32 | 64 | 128) {
            let message = format!("elements of type {element_type} cannot be compared");
            return Err(Error::invalid_argument(message).advise("use a type of 8, 16, 32, 64 or 128 bits"));
        }
        Ok(Self { function, element_type })
    }
}

/// The element type of what a function writes, or of a host read.
pub(crate) fn element_type_of(rules: &[ElementTypeRule], function: Option<&[u8]>) -> Option<ElementType> {
    let matches = |rule: &&ElementTypeRule| match (&rule.function, function) {
        (None, _) => true,
        (Some(pattern), Some(name)) => glob::matches_bytes(pattern.as_bytes(), name),
        (Some(_), None) => false,
    };
    rules.iter().rev().find(matches).map(|rule| rule.element_type)
}

/// The element type that the tolerances of a function state, if its name has none or several: a tolerance
/// counts if it names the function by more than `*`, and has one of several types. `None` if these differ.
pub(crate) fn type_in_tolerances(tolerances: &[Tolerance], function: &str) -> Option<ElementType> {
    let in_name = types_in_name(function);
    if in_name.iter().all(|it| *it == in_name[0]) && !in_name.is_empty() {
        return None;
    }
    let names = |it: &&Tolerance| {
        it.function.bytes().any(|byte| byte != b'*')
            && glob::matches_bytes(it.function.as_bytes(), function.as_bytes())
            && (in_name.is_empty() || in_name.contains(&it.element_type))
    };
    let mut types = tolerances.iter().filter(names).map(|it| it.element_type);
    let first = types.next()?;
    types.all(|it| it == first).then_some(first)
}

/// The tolerance of elements that a function writes: the last one that matches.
pub(crate) fn tolerance_of<'t>(
    tolerances: &'t [Tolerance],
    function: &[u8],
    element_type: ElementType,
) -> Option<&'t Tolerance> {
    tolerances
        .iter()
        .rev()
        .find(|it| it.element_type == element_type && glob::matches_bytes(it.function.as_bytes(), function))
}

/// Whether elements are real numbers in whole bytes.
fn is_number(element_type: ElementType) -> bool {
    rehal_values::Floats::for_type(element_type).is_some()
        || (element_type.numerical().is_integer() && matches!(element_type.bits(), 8 | 16 | 32 | 64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_is_read() {
        let tolerance = Tolerance::parse("matmul*:f32:ulp=4,abs=1e-6").unwrap();
        assert_eq!(tolerance.function, "matmul*");
        assert_eq!(tolerance.element_type, "f32".parse().unwrap());
        assert_eq!((tolerance.ulps, tolerance.absolute, tolerance.relative), (Some(4), Some(1e-6), None));
        assert_eq!(Tolerance::parse("*:i8:rel=0.5").unwrap().relative, Some(0.5));
        assert_eq!(Tolerance::parse("a:b:f16:ulp=1").unwrap().function, "a:b");
        for text in [
            "",
            "f32",
            "f32:ulp=1",
            "*:f32",
            "*:f32:",
            "*:f32:ulp",
            "*:f32:ulp=-1",
            "*:f32:ulp=x",
            "*:f32:abs=-1",
            "*:f32:rel=nan",
            "*:f32:abs=inf",
            "*:f32:near=1",
            "*:i32:ulp=1",
            "*:cf64:abs=1",
            "*:i4:abs=1",
            "*:q7:abs=1",
        ] {
            assert!(Tolerance::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_last_rule_that_matches_counts() {
        let rules = ["f16", "matmul*:f32", "matmul_1:i8"].map(|text| ElementTypeRule::parse(text).unwrap());
        let of = |function: Option<&str>| {
            element_type_of(&rules, function.map(str::as_bytes)).unwrap().to_string()
        };
        assert_eq!(
            [of(None), of(Some("add")), of(Some("matmul_0")), of(Some("matmul_1"))],
            ["f16", "f16", "f32", "i8"]
        );
        assert!(element_type_of(&rules[1..], None).is_none());
        assert!(
            ElementTypeRule::parse("i4").is_err()
                && ElementTypeRule::parse("i24").is_err()
                && ElementTypeRule::parse("x:y").is_err()
        );
    }

    #[test]
    fn tolerances_tell_the_type_of_functions_that_they_name() {
        let tolerances = ["*:i8:abs=1", "add*:f32:ulp=1", "add_2:f16:ulp=1", "**:i8:abs=1", "mul*:f32:ulp=1"]
            .map(|text| Tolerance::parse(text).unwrap());
        let of = |function: &str| type_in_tolerances(&tolerances, function).map(|it| it.to_string());
        assert_eq!([of("add_1"), of("mul")], [Some("f32".into()), Some("f32".into())]);
        assert_eq!([of("mul_4_i8xf32"), of("mul_4_f32xf32xf16")], [Some("f32".into()), Some("f32".into())]);
        // Named by none, by two, with a type of its own, or with several others.
        assert_eq!([of("sub"), of("add_2"), of("mul_4_i32"), of("mul_4_f16xi8")], [None, None, None, None]);
    }

    #[test]
    fn a_tolerance_is_of_one_type() {
        let tolerances = ["*:f32:ulp=1", "add:f32:ulp=2"].map(|text| Tolerance::parse(text).unwrap());
        let of = |function: &str, element_type: &str| {
            tolerance_of(&tolerances, function.as_bytes(), element_type.parse().unwrap())
                .and_then(|it| it.ulps)
        };
        assert_eq!([of("add", "f32"), of("mul", "f32"), of("add", "f16")], [Some(2), Some(1), None]);
    }
}
