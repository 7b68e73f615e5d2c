//! Which functions of a capture are meant: by name, pattern, part of a name, or record of a dispatch.

use std::collections::HashSet;

use rehal_base::{Error, Remedy, Result, glob};
use rehal_replay::{ExecutableNames, Named, Plan, Selector, Substitution};

use super::observed::alike;

/// The functions of a capture, each name once.
#[derive(Clone, Debug, Default)]
pub struct FunctionNames {
    /// The names of the functions of executables, also of those that are never dispatched.
    all: Vec<String>,
    /// In the order in which they are first dispatched; the ordinal, such as `#0`, of one without a name.
    dispatched: Vec<String>,
    /// The meaning of the names of dumped files.
    names: ExecutableNames,
}

impl FunctionNames {
    /// The functions of a plan.
    pub fn from_plan(plan: &Plan) -> Result<Self> {
        let mut this = Self { names: ExecutableNames::from_plan(plan), ..Self::default() };
        let mut seen = HashSet::new();
        plan.distinct_dispatches(|dispatch, _| {
            let name = name_of(dispatch.name, dispatch.function);
            if seen.insert(name.clone()) {
                this.dispatched.push(name);
            }
            Ok(())
        })?;
        seen.clear();
        for executable in plan.executables() {
            for info in executable.function_infos() {
                if !info.name.is_empty() && seen.insert(info.name.clone()) {
                    this.all.push(info.name);
                }
            }
        }
        Ok(this)
    }

    /// The pattern of the dispatched functions that are meant: the name of one, by itself or by a part that
    /// no other name has; or a pattern with `*` and `?` that some match. Fails if none is meant, or if
    /// several names have the part.
    pub fn pattern(&self, wanted: &str) -> Result<String> {
        // Captures of version 1.0 have no names: only a replay knows them.
        if self.all.is_empty() {
            return Ok(wanted.to_owned());
        }
        if is_pattern(wanted) && self.dispatched.iter().any(|name| glob::matches(wanted, name)) {
            return Ok(wanted.to_owned());
        }
        match found(wanted, &self.dispatched)? {
            Some(name) => Ok(name.to_owned()),
            None => {
                let (shown, advice) = alike(wanted, self.dispatched.iter().cloned());
                let message = format!("no dispatched function matches '{}'", wanted.escape_debug());
                Err(Error::not_found(format!("{message}; the capture dispatches: {shown}")).advise(advice))
            }
        }
    }

    /// The function that is meant: by its name, that of its dispatch or of a file that the compiler dumps of
    /// it, a pattern that only it matches, or a part that no other name has; without any, the only one that
    /// is dispatched.
    pub fn one(&self, wanted: Option<&str>) -> Result<String> {
        let Some(wanted) = wanted else {
            return match &self.dispatched[..] {
                [only] => Ok(only.clone()),
                _ => {
                    let (shown, _) = alike("", self.dispatched.iter().cloned());
                    let count = self.dispatched.len();
                    let message =
                        format!("the capture dispatches {count} functions, and none is named: {shown}");
                    Err(Error::invalid_argument(message))
                }
            };
        };
        if let Some(Named::Function(name)) = self.names.find(wanted)? {
            return Ok(name);
        }
        match found(wanted, &self.all)? {
            Some(name) => Ok(name.to_owned()),
            None => Err(super::observed::no_function(wanted, self.all.iter().cloned())),
        }
    }

    /// Selects the functions of substitutions by their names, if they are named by a part or a pattern.
    /// Returns the errors of names that are not those of functions, which executables may have.
    pub fn resolve(&self, substitutions: &mut [Substitution]) -> Vec<Error> {
        let mut unresolved = Vec::new();
        for it in substitutions {
            let Selector::Name(name) = &mut it.selector else { continue };
            match self.one(Some(name)) {
                Ok(function) => *name = function,
                Err(error) => unresolved.push(error),
            }
        }
        unresolved
    }

    /// The function that the record dispatches.
    pub fn of_record(plan: &Plan, record: u32) -> Result<String> {
        let mut found = None;
        plan.dispatches(|dispatch| {
            if found.is_none() && dispatch.location.ordinal == record {
                found = Some(name_of(dispatch.name, dispatch.function));
            }
            Ok(())
        })?;
        found.ok_or_else(|| {
            Error::not_found(format!("record #{record} is not a dispatch")).advise(Remedy::ListDispatches)
        })
    }
}

fn name_of(name: &[u8], ordinal: u32) -> String {
    match name {
        [] => format!("#{ordinal}"),
        _ => String::from_utf8_lossy(name).into_owned(),
    }
}

fn is_pattern(wanted: &str) -> bool {
    wanted.contains(['*', '?'])
}

/// The name that is meant. Fails if it may be several.
fn found<'n>(wanted: &str, names: &'n [String]) -> Result<Option<&'n str>> {
    if let Some(name) = names.iter().find(|name| *name == wanted) {
        return Ok(Some(name));
    }
    let is_meant = |name: &&String| match is_pattern(wanted) {
        true => glob::matches(wanted, name),
        false => !wanted.is_empty() && name.contains(wanted),
    };
    let meant: Vec<_> = names.iter().filter(is_meant).collect();
    match &meant[..] {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        _ => {
            let (shown, _) = alike("", meant.iter().map(|name| (*name).clone()));
            let (wanted, count) = (wanted.escape_debug(), meant.len());
            Err(Error::invalid_argument(format!("'{wanted}' may be {count} functions: {shown}"))
                .advise("name one of them, by a part that no other name has"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> FunctionNames {
        let all = ["main$dispatch_1_matmul", "main$dispatch_10_matmul", "softmax", "never"];
        let all: Vec<String> = all.map(String::from).to_vec();
        let mut names = ExecutableNames::default();
        names.add(1, "", "f", all.clone());
        FunctionNames { dispatched: all[..3].to_vec(), all, names }
    }

    fn message<T: std::fmt::Debug>(result: Result<T>) -> String {
        result.unwrap_err().message().to_owned()
    }

    #[test]
    fn one_function_is_meant_by_name_pattern_or_unique_part() {
        let one = |wanted: &str| names().one(Some(wanted)).unwrap();
        assert_eq!(one("main$dispatch_1_matmul"), "main$dispatch_1_matmul");
        assert_eq!(one("dispatch_10"), "main$dispatch_10_matmul");
        assert_eq!(one("*_1_*"), "main$dispatch_1_matmul");
        assert_eq!(one("never"), "never");
        assert_eq!(
            message(names().one(Some("matmul"))),
            "'matmul' may be 2 functions: main$dispatch_1_matmul, main$dispatch_10_matmul"
        );
        assert_eq!(
            message(names().one(Some("sotfmax"))),
            "the capture has no function 'sotfmax'; it has: main$dispatch_1_matmul, main$dispatch_10_matmul, softmax, never"
        );
        assert!(message(names().one(Some(""))).starts_with("the capture has no function ''"));
    }

    #[test]
    fn the_only_function_is_meant_without_a_name() {
        let only = FunctionNames {
            all: vec!["f".into(), "g".into()],
            dispatched: vec!["f".into()],
            ..FunctionNames::default()
        };
        assert_eq!(only.one(None).unwrap(), "f");
        assert_eq!(
            message(names().one(None)),
            "the capture dispatches 3 functions, and none is named: main$dispatch_1_matmul, main$dispatch_10_matmul, softmax"
        );
    }

    #[test]
    fn patterns_may_match_several() {
        let pattern = |wanted: &str| names().pattern(wanted).unwrap();
        assert_eq!(pattern("*matmul"), "*matmul");
        assert_eq!(pattern("soft"), "softmax");
        assert!(message(names().pattern("matmul")).starts_with("'matmul' may be 2 functions"));
        assert!(message(names().pattern("never")).starts_with("no dispatched function matches 'never'"));
        assert!(message(names().pattern("x*")).starts_with("no dispatched function matches 'x*'"));
        assert_eq!(FunctionNames::default().pattern("anything").unwrap(), "anything");
    }
}
