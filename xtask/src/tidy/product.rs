//! Product code: what is left of `src` without tests. The rules about what ships, and its weight, read this.

use super::tree::Tree;

/// A file of product code.
pub struct Product {
    /// Its path below the root.
    pub path: String,
    /// The directory of its crate below `crates`, or `xtask`.
    pub name: String,
    /// Its text. The items of tests are blank lines.
    pub text: String,
}

/// The files of product code, by path.
pub fn files(tree: &Tree) -> Vec<Product> {
    let product = |path: &str| {
        let name = match path.split('/').collect::<Vec<_>>()[..] {
            ["crates", name, "src", ..] => name,
            ["xtask", "src", ..] => "xtask",
            _ => return None,
        };
        let (path, name) = (path.to_owned(), name.to_owned());
        (!is_test(tree, &path)).then(|| Product { text: without_tests(&tree.text(&path)), path, name })
    };
    tree.rust().filter_map(product).collect()
}

/// Whether a file is a module that exists only in tests: by its name, or by how its parent declares it.
fn is_test(tree: &Tree, path: &str) -> bool {
    let parts: Vec<_> = path.trim_end_matches(".rs").split('/').collect();
    (3..=parts.len()).any(|end| {
        let (above, name) = (parts[..end - 1].join("/"), parts[end - 1]);
        let is_named = name == "tests" || name.starts_with("tests_");
        let parents = [".rs", "/mod.rs", "/lib.rs", "/main.rs"].map(|it| format!("{above}{it}"));
        let declares = |parent: &String| {
            let text = tree.text(parent);
            let mut lines = text.lines().map(str::trim);
            let mut is_after = false;
            lines.any(|line| {
                let declared = line.rsplit_once("mod ").is_some_and(|(_, it)| it == format!("{name};"));
                let is_it = is_after && declared;
                is_after = is_test_attribute(line) || (is_after && line.starts_with("#["));
                is_it
            })
        };
        is_named || parents.iter().filter(|it| tree.has(it)).any(declares)
    })
}

fn is_test_attribute(line: &str) -> bool {
    line.starts_with("#[cfg(") && line.contains("test") && !line.contains("not(test")
}

/// The text of a file with blank lines in place of the items of tests.
pub fn without_tests(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    let indentation = |line: &str| line.len() - line.trim_start().len();
    let (mut product, mut at) = (String::with_capacity(text.len()), 0);
    while let Some(line) = lines.get(at) {
        let mut end = at + 1;
        if is_test_attribute(line.trim()) {
            let is_attribute = |line: &&&str| line.trim().starts_with("#[");
            let item = at + lines[at..].iter().take_while(is_attribute).count();
            let ends = |it: &&str| indentation(it) <= indentation(line) && it.trim().starts_with('}');
            let one_line = lines.get(item).is_some_and(|it| it.ends_with(';') || it.ends_with('}'));
            let rest = lines.get(item..).unwrap_or_default();
            end = item + if one_line { 1 } else { 1 + rest.iter().position(ends).unwrap_or(rest.len()) };
        } else {
            product.push_str(line);
        }
        product.extend(std::iter::repeat_n('\n', end.min(lines.len()) - at));
        at = end;
    }
    product
}

/// The lines of product code without comments and blank lines.
pub fn lines(product: &str) -> usize {
    product.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = "//! Words.\n\n/// A word.\npub mod a;\n#[cfg(test)]\nmod b;\n\nfn f() {\n    g(); // why\n}\n\n\
                    #[cfg(test)]\n#[path = \"x\"]\nmod tests {\n    fn t() {\n    }\n}\n";
        let product = without_tests(text);
        assert_eq!((lines(&product), product.lines().count()), (4, text.lines().count()));
        assert_eq!(product.lines().nth(8), Some("    g(); // why"));
        let count = |text| lines(&without_tests(text));
        assert_eq!(count("#[cfg(test)]\nfn f() {\n    {\n    }\n}\nfn g() {}\n"), 1);
        assert_eq!(count("#[cfg(test)]\nuse a::b;\nuse c;\n"), 1);
        assert_eq!(count("#[cfg(not(test))]\nuse a::b;\n"), 2);
        assert_eq!(count("#[cfg(test)]\nmod tests {"), 0);
    }
}
