//! The conditions of `REQUIRES:` and `UNSUPPORTED:` lines: feature names, `!`, `&&`, `||` and parentheses. A
//! comma between conditions is a conjunction.

/// The features of the reference's lit configuration on Linux.
const FEATURES: [&str; 3] = ["true", "system-linux", "shell"];

/// Evaluates a condition.
pub fn holds(condition: &str) -> Result<bool, String> {
    let mut all = true;
    for part in condition.split(',') {
        let tokens = tokens(part);
        let mut reader = Parser { tokens: &tokens };
        all &= reader.any().ok_or_else(|| format!("malformed condition {condition:?}"))?;
        if !reader.tokens.is_empty() {
            return Err(format!("malformed condition {condition:?}"));
        }
    }
    Ok(all)
}

fn tokens(condition: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = condition.trim_start();
    while !rest.is_empty() {
        let operator = ["&&", "||", "!", "(", ")"].into_iter().find(|operator| rest.starts_with(operator));
        let ends_word = |character: char| character.is_whitespace() || "&|!()".contains(character);
        let length = match operator {
            Some(operator) => operator.len(),
            // A single `&` or `|` is a token that no rule accepts.
            None => rest.find(ends_word).unwrap_or(rest.len()).max(1),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

/// A recursive-descent parser; `None` for a malformed condition.
struct Parser<'a> {
    tokens: &'a [&'a str],
}

impl Parser<'_> {
    fn take(&mut self, token: &str) -> bool {
        let is_next = self.tokens.first() == Some(&token);
        if is_next {
            self.tokens = &self.tokens[1..];
        }
        is_next
    }

    fn any(&mut self) -> Option<bool> {
        let mut value = self.every()?;
        while self.take("||") {
            value |= self.every()?;
        }
        Some(value)
    }

    fn every(&mut self) -> Option<bool> {
        let mut value = self.one()?;
        while self.take("&&") {
            value &= self.one()?;
        }
        Some(value)
    }

    fn one(&mut self) -> Option<bool> {
        let mut is_negated = false;
        while self.take("!") {
            is_negated = !is_negated;
        }
        if self.take("(") {
            let value = self.any()?;
            return self.take(")").then_some(value != is_negated);
        }
        let (name, rest) = self.tokens.split_first()?;
        let is_name = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_+=.:".contains(&byte));
        self.tokens = rest;
        is_name.then(|| FEATURES.contains(name) != is_negated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_evaluated() {
        for (condition, value) in [
            ("system-linux", true),
            ("vulkan", false),
            ("!vulkan && true", true),
            ("vulkan || !(cuda || hip) && shell", true),
            ("(vulkan || true) && cuda", false),
            ("true, cuda", false),
            ("!!true", true),
        ] {
            assert_eq!(holds(condition), Ok(value), "{condition}");
        }
        for malformed in ["", "a b", "(a", "a)", "a &", "&& a", "a ||", "!", "a,"] {
            assert!(holds(malformed).is_err(), "{malformed}");
        }
    }
}
