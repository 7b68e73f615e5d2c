//! PTX text: the signatures of its kernels.
//!
//! Source: the PTX ISA, "Kernel and Function Directives" and "Performance-Tuning Directives". Of bodies only
//! variables in workgroup memory and whether they are used are read: instructions are not checked.

use std::collections::{HashMap, HashSet};

use rehal_base::{Fault, FormatError, FormatPart};

use crate::{Function, MAX_FUNCTIONS, MAX_NAME_BYTES, MAX_PARAMETERS, Parameter, ParameterKind};

const FORMAT: &str = "PTX";

/// A module.
#[derive(Debug)]
pub(crate) struct Ptx<'a> {
    /// Such as `sm_80`.
    pub target: &'a str,
    kernels: Vec<Kernel<'a>>,
}

#[derive(Debug, Default)]
struct Kernel<'a> {
    name: &'a str,
    parameters: Vec<Declared>,
    /// `.reqntid`, or `.maxntid`, with which compilers state the size that they compile for.
    workgroup_size: Option<[u32; 3]>,
    is_size_limit: bool,
    static_memory_bytes: u64,
    uses_dynamic_memory: bool,
    /// Whether functions that it calls may use more.
    calls: bool,
}

#[derive(Debug)]
struct Declared {
    size: u64,
    align: u64,
    is_pointer: bool,
}

/// Reads a module that begins at `origin` of a file.
pub(crate) fn read(bytes: &[u8], origin: usize) -> Result<Ptx<'_>, FormatError> {
    let part = FormatPart { format: FORMAT, origin: origin as u64 };
    // Drivers take text up to a zero.
    let bytes = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
    let text = str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to();
        part.error(Fault::Corrupt, at, "text", "UTF-8", format!("{:#04x}", bytes[at]))
    })?;
    let mut parser =
        Parser { lexer: Lexer { text, at: 0 }, part, shared: HashMap::new(), calls_may_add: false };
    parser.module()
}

impl Ptx<'_> {
    /// Its kernels, in order. If no parameter is marked as a pointer, those of 64 bits are bindings.
    pub fn functions(&self) -> Vec<Function> {
        self.kernels.iter().map(Kernel::function).collect()
    }
}

impl Kernel<'_> {
    /// Adds the size of a variable in workgroup memory; `None` if the dispatch gives it.
    fn add_memory(&mut self, bytes: Option<u64>) {
        self.static_memory_bytes = self.static_memory_bytes.saturating_add(bytes.unwrap_or(0));
        self.uses_dynamic_memory |= bytes.is_none();
    }

    fn function(&self) -> Function {
        let has_marks = self.parameters.iter().any(|it| it.is_pointer);
        let mut end: u64 = 0;
        let parameter = |it: &Declared| {
            let offset = end.next_multiple_of(it.align);
            end = offset + it.size;
            let is_buffer = if has_marks { it.is_pointer } else { it.may_be_pointer() };
            let kind = if is_buffer { ParameterKind::Buffer } else { ParameterKind::Value };
            Parameter { kind, offset: offset as u32, size: it.size as u32 }
        };
        let parameters = Some(self.parameters.iter().map(parameter).collect());
        let is_known = !self.calls;
        let mut function = Function {
            name: self.name.to_owned(),
            workgroup_size: self.workgroup_size,
            is_size_limit: self.is_size_limit,
            static_memory_bytes: is_known.then_some(self.static_memory_bytes.try_into().ok()).flatten(),
            dynamic_memory_bytes: (is_known && !self.uses_dynamic_memory).then_some(0),
            parameters,
            ..Function::default()
        };
        // Compilers mark all pointers, or none; people need not. One of 64 bits beside marked ones may be
        // either.
        let is_ambiguous = |it: &Declared| !it.is_pointer && it.may_be_pointer();
        if !(has_marks && self.parameters.iter().any(is_ambiguous)) {
            function.derive_from_parameters();
        }
        function
    }
}

impl Declared {
    fn may_be_pointer(&self) -> bool {
        self.size == 8 && self.align == 8
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    part: FormatPart,
    /// Variables in workgroup memory by name, with their bytes; `None` if the dispatch gives the size.
    shared: HashMap<&'a str, Option<u64>>,
    /// Whether functions have variables in workgroup memory that a call would add.
    calls_may_add: bool,
}

impl<'a> Parser<'a> {
    fn module(&mut self) -> Result<Ptx<'a>, FormatError> {
        let (mut target, mut kernels, mut names) = (None, Vec::new(), HashSet::new());
        while let Some((at, token)) = self.lexer.next() {
            match token {
                Token::Word(".target") => target = Some(self.word("target")?),
                Token::Word(".shared") => {
                    let declared = self.variables()?;
                    self.shared.extend(declared);
                }
                Token::Word(".entry") => {
                    let Some(kernel) = self.kernel()? else { continue };
                    if !names.insert(kernel.name) {
                        let found = format!("a second '{}'", kernel.name);
                        return Err(self.part.error(
                            Fault::Corrupt,
                            at,
                            ".entry",
                            "a name of its own",
                            found,
                        ));
                    }
                    if kernels.len() == MAX_FUNCTIONS {
                        let expected = format!("at most {MAX_FUNCTIONS}");
                        return Err(self.part.error(Fault::Unsupported, at, ".entry", expected, "more"));
                    }
                    kernels.push(kernel);
                }
                // A state space that follows is that of what a parameter points to.
                Token::Word(".ptr") => drop(self.lexer.next()),
                // The body of a function, an initializer or a section.
                Token::Mark('{') => self.calls_may_add |= self.body(at, &mut Kernel::default())?,
                _ => {}
            }
        }
        let end = self.lexer.at;
        let Some(target) = target else {
            return Err(self.part.error(Fault::Corrupt, end, ".target", "a target such as sm_80", "none"));
        };
        if kernels.is_empty() {
            return Err(self.part.error(Fault::Corrupt, end, ".entry", "a kernel", "none"));
        }
        let may_add = self.calls_may_add || !self.shared.is_empty();
        kernels.iter_mut().for_each(|kernel| kernel.calls &= may_add);
        Ok(Ptx { target, kernels })
    }

    /// A kernel after `.entry`; `None` if it is only declared.
    fn kernel(&mut self) -> Result<Option<Kernel<'a>>, FormatError> {
        let mut kernel = Kernel { name: self.word("name of a kernel")?, ..Kernel::default() };
        let (mut is_pragma, mut required) = (false, None);
        loop {
            let (at, token) = self.token("body of a kernel")?;
            match token {
                Token::Mark('(') => self.parameters(&mut kernel)?,
                Token::Word(".maxntid") => kernel.workgroup_size = Some(self.sizes()?),
                Token::Word(".reqntid") => required = Some(self.sizes()?),
                Token::Word(".pragma") => is_pragma = true,
                Token::Mark(';') if !std::mem::take(&mut is_pragma) => return Ok(None),
                Token::Mark('{') => {
                    self.body(at, &mut kernel)?;
                    kernel.is_size_limit = required.is_none() && kernel.workgroup_size.is_some();
                    kernel.workgroup_size = required.or(kernel.workgroup_size);
                    return Ok(Some(kernel));
                }
                _ => {}
            }
        }
    }

    /// Parameters up to the closing parenthesis.
    fn parameters(&mut self, kernel: &mut Kernel<'a>) -> Result<(), FormatError> {
        let mut total: u64 = 0;
        loop {
            let start = self.lexer.at;
            let (mut size, mut align, mut is_pointer, mut is_empty) = (0, None, false, true);
            let is_last = loop {
                let (at, token) = self.token("parameters")?;
                is_empty &= matches!(token, Token::Mark(_));
                match token {
                    // The alignment after it is that of what it points to.
                    Token::Word(".ptr") => is_pointer = true,
                    Token::Word(".align") if !is_pointer => align = Some(u64::from(self.number(".align")?)),
                    Token::Word(word) if size == 0 => size = type_bytes(word).unwrap_or(0),
                    Token::Mark('[') => {
                        align.get_or_insert(size);
                        size = size.saturating_mul(u64::from(self.number("size of a parameter")?));
                    }
                    Token::Mark(',') => break false,
                    Token::Mark(')') => break true,
                    Token::Mark('{' | ';') => {
                        return Err(self.part.error(
                            Fault::Corrupt,
                            at,
                            ".param",
                            "a parenthesis after it",
                            "none",
                        ));
                    }
                    _ => {}
                }
            };
            // Kernels may have none.
            if is_last && is_empty && kernel.parameters.is_empty() {
                return Ok(());
            }
            let align = align.unwrap_or(size);
            if size == 0 || !align.is_power_of_two() || align > MAX_PARAMETERS as u64 {
                let found = format!("{size} bytes aligned to {align}");
                return Err(self.part.error(
                    Fault::Corrupt,
                    start,
                    ".param",
                    "a type and an alignment",
                    found,
                ));
            }
            kernel.parameters.push(Declared { size, align, is_pointer });
            total = total.saturating_add(size);
            if total > MAX_PARAMETERS as u64 {
                let expected = format!("at most {MAX_PARAMETERS} bytes of parameters");
                return Err(self.part.error(Fault::Unsupported, start, ".param", expected, "more"));
            }
            if is_last {
                return Ok(());
            }
        }
    }

    /// Up to three sizes after `.maxntid` or `.reqntid`.
    fn sizes(&mut self) -> Result<[u32; 3], FormatError> {
        let mut sizes = [1; 3];
        for size in &mut sizes {
            let at = self.lexer.at;
            *size = self.number("workgroup size")?;
            if *size == 0 {
                return Err(self.part.error(Fault::Corrupt, at, "workgroup size", "1 or more", "0"));
            }
            if !self.lexer.takes(',') {
                break;
            }
        }
        Ok(sizes)
    }

    /// Adds to `kernel` the memory that it uses up to the brace that closes the one at `start`. Returns
    /// whether variables in workgroup memory are declared within.
    fn body(&mut self, start: usize, kernel: &mut Kernel<'a>) -> Result<bool, FormatError> {
        let (mut depth, mut used, mut declares, mut own) = (1_u32, HashSet::new(), false, HashSet::new());
        // Text of a section is anything.
        while let Some((_, token)) = self.lexer.next() {
            match token {
                Token::Mark('{') => depth += 1,
                Token::Mark('}') if depth == 1 => return Ok(declares),
                Token::Mark('}') => depth -= 1,
                Token::Word(".shared") => {
                    for (name, bytes) in self.variables()? {
                        kernel.add_memory(bytes);
                        own.insert(name);
                    }
                    declares = true;
                }
                Token::Word(".ptr") => drop(self.lexer.next()),
                Token::Word(word) if word == "call" || word.starts_with("call.") => kernel.calls = true,
                Token::Word(word) if !self.shared.is_empty() => {
                    let Some((name, bytes)) = self.shared.get_key_value(word) else { continue };
                    if !own.contains(name) && used.insert(*name) {
                        kernel.add_memory(*bytes);
                    }
                }
                _ => {}
            }
        }
        Err(self.part.error(Fault::Truncated, start, "body", "a closing brace", "the end of the text"))
    }

    /// The names and sizes of the variables after their state space; `None` for an array without a size.
    fn variables(&mut self) -> Result<Vec<(&'a str, Option<u64>)>, FormatError> {
        let (mut all, mut element_bytes, mut components) = (Vec::new(), 0, 1);
        let (mut count, mut name) = (Some(1_u64), "");
        loop {
            let (at, token) = self.token("variable")?;
            match token {
                Token::Word(".align") => drop(self.number(".align")?),
                Token::Word(".v2") => components = 2,
                Token::Word(".v4") => components = 4,
                Token::Word(word) if word.starts_with('.') => {
                    element_bytes = type_bytes(word).unwrap_or(element_bytes);
                }
                Token::Word(word) => name = word,
                Token::Mark('[') if self.lexer.takes(']') => count = None,
                Token::Mark('[') => {
                    let length = u64::from(self.number("size of a variable")?);
                    count = count.map(|it| it.saturating_mul(length));
                }
                Token::Mark(';' | '=' | ',') if name.is_empty() => {
                    return Err(self.part.error(Fault::Corrupt, at, ".shared", "a name", "none"));
                }
                Token::Mark(mark @ (';' | '=' | ',')) => {
                    all.push((name, count.map(|it| it.saturating_mul(element_bytes * components))));
                    if mark != ',' {
                        return Ok(all);
                    }
                    (count, name) = (Some(1), "");
                }
                Token::Mark('{' | '}') => {
                    return Err(self.part.error(Fault::Corrupt, at, ".shared", "a variable", "a brace"));
                }
                _ => {}
            }
        }
    }

    fn token(&mut self, field: &'static str) -> Result<(usize, Token<'a>), FormatError> {
        let at = self.lexer.at;
        self.lexer.next().ok_or_else(|| self.part.error(Fault::Truncated, at, field, "more text", "its end"))
    }

    fn word(&mut self, field: &'static str) -> Result<&'a str, FormatError> {
        match self.token(field)? {
            (at, Token::Word(word)) if word.len() > MAX_NAME_BYTES => {
                let expected = format!("at most {MAX_NAME_BYTES} bytes");
                Err(self.part.error(Fault::Unsupported, at, field, expected, format!("{} bytes", word.len())))
            }
            (_, Token::Word(word)) => Ok(word),
            (at, Token::Mark(mark)) => {
                Err(self.part.error(Fault::Corrupt, at, field, "a name", format!("'{mark}'")))
            }
        }
    }

    fn number(&mut self, field: &'static str) -> Result<u32, FormatError> {
        let at = self.lexer.at;
        let word = self.word(field)?;
        word.parse().map_err(|_| {
            let found = format!("'{}'", word.chars().take(40).collect::<String>());
            self.part.error(Fault::Corrupt, at, field, "a number of 32 bits", found)
        })
    }
}

/// The bytes of a type such as `.u64`, `.bf16` or `.f16x2`; `None` for other words.
fn type_bytes(word: &str) -> Option<u64> {
    let digits = word.strip_prefix('.')?.trim_start_matches(|letter: char| letter.is_ascii_lowercase());
    match digits {
        "8" => Some(1),
        "16" => Some(2),
        "32" | "16x2" => Some(4),
        "64" | "32x2" => Some(8),
        "128" => Some(16),
        _ => None,
    }
}

/// A word is a name, a number, a directive or an instruction with its modifiers.
#[derive(Clone, Copy, Debug)]
enum Token<'a> {
    Word(&'a str),
    Mark(char),
}

/// Splits text into tokens, without comments and quoted text.
struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    /// The next token and its offset.
    fn next(&mut self) -> Option<(usize, Token<'a>)> {
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let byte = *bytes.get(start)?;
            self.at += 1;
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' => {}
                b'/' if bytes.get(self.at) == Some(&b'/') => self.skip_to("\n"),
                b'/' if bytes.get(self.at) == Some(&b'*') => {
                    self.at += 1;
                    self.skip_to("*/");
                }
                b'"' => self.skip_to("\""),
                _ if is_word(byte) => {
                    let rest = &bytes[self.at..];
                    self.at += rest.iter().position(|byte| !is_word(*byte)).unwrap_or(rest.len());
                    return Some((start, Token::Word(&self.text[start..self.at])));
                }
                _ if byte.is_ascii() => return Some((start, Token::Mark(byte.into()))),
                // Only comments have others; they are skipped byte by byte.
                _ => {}
            }
        }
    }

    /// Whether the next token is this mark, which it then is past.
    fn takes(&mut self, mark: char) -> bool {
        let before = self.at;
        let is_next = matches!(self.next(), Some((_, Token::Mark(it))) if it == mark);
        if !is_next {
            self.at = before;
        }
        is_next
    }

    fn skip_to(&mut self, end: &str) {
        let rest = &self.text.as_bytes()[self.at..];
        let found = rest.windows(end.len()).position(|part| part == end.as_bytes());
        self.at = found.map_or(self.text.len(), |found| self.at + found + end.len());
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$' | b'%')
}
