//! From text to statements.
//!
//! Source: the PTX ISA, "Directives" and "Instruction Statements". Debug information is skipped; any other
//! directive that is not understood is an error.

use rehal_base::{Fault, FormatError};

use super::ast::{FunctionText, InstructionText, ModuleText, Number, Operand, Statement, Variable};
use super::lexer::{Lexer, Token, error_at};
use super::op::Place;
use super::types::Type;
use crate::Limits;
use crate::words::Word;

/// The newest version of the language that is read. Later ones may change the meaning of a known word.
const NEWEST: (u32, u32) = (9, 0);

pub(crate) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) lexer: Lexer<'a>,
    limits: Limits,
    statements: usize,
}

/// Words before a variable or a function that concern linking.
const LINKING: [&str; 4] = [".visible", ".weak", ".common", ".extern"];

impl<'a> Parser<'a> {
    pub(crate) fn new(text: &'a str, limits: Limits) -> Self {
        Self { text, lexer: Lexer::new(text), limits, statements: 0 }
    }

    pub(crate) fn module(mut self) -> Result<ModuleText<'a>, FormatError> {
        self.word(".version")?;
        self.version()?;
        let mut module = ModuleText { target: "", variables: Vec::new(), functions: Vec::new() };
        let mut is_external = false;
        while let Some((at, token)) = self.lexer.next()? {
            match token {
                Token::Word(".target") => {
                    module.target = self.any_word("a target, such as sm_80")?;
                    while self.lexer.takes(',')? {
                        self.any_word("an option of the target")?;
                    }
                }
                Token::Word(".address_size") => self.address_size()?,
                Token::Word(word) if LINKING.contains(&word) => {
                    is_external |= word == ".extern";
                    continue;
                }
                Token::Word(word @ (".entry" | ".func")) => {
                    self.count_statement(at)?;
                    module.functions.push(self.function(at, word == ".entry")?);
                }
                Token::Word(word @ (".global" | ".const" | ".shared")) => {
                    self.variables(at, space(word), is_external, &mut module.variables)?;
                }
                _ => self.skip_directive(at, token)?,
            }
            is_external = false;
        }
        if module.target.is_empty() {
            return Err(self.truncated("a .target directive"));
        }
        Ok(module)
    }

    fn version(&mut self) -> Result<(), FormatError> {
        let at = self.lexer.offset();
        let word = self.any_word("a version")?;
        let parts = word
            .split_once('.')
            .and_then(|(major, minor)| Some((major.parse::<u32>().ok()?, minor.parse::<u32>().ok()?)));
        match parts {
            Some(version) if version <= NEWEST => Ok(()),
            Some(_) => {
                let expected = format!("at most version {}.{}", NEWEST.0, NEWEST.1);
                Err(self.error(at, Fault::Unsupported, expected, word))
            }
            None => Err(self.error(at, Fault::Corrupt, "a version such as 7.6", word)),
        }
    }

    fn address_size(&mut self) -> Result<(), FormatError> {
        let at = self.lexer.offset();
        match self.any_word("64")? {
            "64" => Ok(()),
            other => Err(self.error(at, Fault::Unsupported, "addresses of 64 bits", other)),
        }
    }

    /// A directive of a module or of a body without influence on what is computed.
    fn skip_directive(&mut self, at: usize, token: Token<'a>) -> Result<(), FormatError> {
        match token {
            Token::Word(".file" | ".loc") => self.lexer.skip_line(),
            Token::Mark('@') if self.lexer.takes('@')? => self.lexer.skip_line(),
            Token::Word(".section") => {
                self.any_word("the name of a section")?;
                self.mark('{')?;
                while !self.lexer.takes('}')? {
                    if self.lexer.next()?.is_none() {
                        return Err(self.truncated("'}' of a section"));
                    }
                }
            }
            Token::Word(".pragma") => {
                while !self.lexer.takes(';')? {
                    match self.lexer.next()? {
                        Some((_, Token::Quoted(_) | Token::Mark(','))) => {}
                        Some((at, _)) => {
                            return Err(self.error(at, Fault::Corrupt, "text in quotes", "another word"));
                        }
                        None => return Err(self.truncated("';' after .pragma")),
                    }
                }
            }
            _ => {
                return Err(self.error(at, Fault::Unsupported, "a known directive", shown(token)));
            }
        }
        Ok(())
    }

    fn function(&mut self, at: usize, is_entry: bool) -> Result<FunctionText<'a>, FormatError> {
        let mut function = FunctionText { at, is_entry, ..FunctionText::default() };
        if !is_entry {
            function.returns = self.parameters()?;
        }
        function.name = self.name("the name of a function")?;
        function.parameters = self.parameters()?;
        loop {
            match self.next("the body of a function")? {
                (_, Token::Mark('{')) => {
                    function.body = Some(self.body()?);
                    return Ok(function);
                }
                (_, Token::Mark(';')) => return Ok(function),
                (_, Token::Word(".maxntid")) => function.max_block = Some(self.sizes()?),
                (_, Token::Word(".reqntid")) => function.required_block = Some(self.sizes()?),
                (_, Token::Word(".minnctapersm" | ".maxnreg" | ".maxnctapersm")) => {
                    self.number("a number")?;
                }
                (_, Token::Word(".noreturn")) => {}
                (at, token) => self.skip_directive(at, token)?,
            }
        }
    }

    /// Up to three sizes after `.maxntid` or `.reqntid`.
    fn sizes(&mut self) -> Result<[u32; 3], FormatError> {
        let mut sizes = [1; 3];
        for size in &mut sizes {
            let at = self.lexer.offset();
            *size = self.number("a size")?;
            if *size == 0 {
                return Err(self.error(at, Fault::Corrupt, "a size of 1 or more", "0"));
            }
            if !self.lexer.takes(',')? {
                break;
            }
        }
        Ok(sizes)
    }

    /// Parameters or results, if there are some.
    fn parameters(&mut self) -> Result<Vec<Variable<'a>>, FormatError> {
        if !self.lexer.takes('(')? {
            return Ok(Vec::new());
        }
        let limit = self.limits.parameters;
        let mut count = 0;
        self.separated(')', |this| {
            let (at, token) = this.next("a parameter")?;
            count += 1;
            this.limited(at, count, limit, "parameters")?;
            match token {
                Token::Word(".param") => this.variable(at, Place::Param),
                Token::Word(".reg") => Ok(Variable { is_register: true, ..this.variable(at, Place::Param)? }),
                _ => Err(this.error(at, Fault::Corrupt, ".param or .reg", shown(token))),
            }
        })
    }

    /// Items with commas between them, up to a mark.
    fn separated<T>(
        &mut self,
        end: char,
        mut item: impl FnMut(&mut Self) -> Result<T, FormatError>,
    ) -> Result<Vec<T>, FormatError> {
        let mut all = Vec::new();
        while !self.lexer.takes(end)? {
            if !all.is_empty() {
                self.mark(',')?;
            }
            all.push(item(self)?);
        }
        Ok(all)
    }

    /// Statements up to the brace that closes the body.
    fn body(&mut self) -> Result<Vec<Statement<'a>>, FormatError> {
        let (mut body, mut depth) = (Vec::new(), 0);
        loop {
            let (at, token) = self.next("'}' of a function")?;
            self.count_statement(at)?;
            match token {
                Token::Mark('{') => {
                    depth += 1;
                    self.limited(at, depth, self.limits.nesting as usize, "nested blocks")?;
                    body.push(Statement::Open);
                }
                Token::Mark('}') if depth == 0 => return Ok(body),
                Token::Mark('}') => {
                    depth -= 1;
                    body.push(Statement::Close);
                }
                Token::Mark(';') => {}
                Token::Mark('@') if self.lexer.peek()? != Some(Token::Mark('@')) => {
                    let is_negated = self.lexer.takes('!')?;
                    let guard = Some((self.name("a predicate")?, is_negated));
                    let (at, opcode) = (self.lexer.offset(), self.any_word("an instruction")?);
                    body.push(Statement::Instruction(self.instruction(at, guard, opcode)?));
                }
                Token::Word(".reg") => body.push(self.registers(at)?),
                Token::Word(word @ (".local" | ".shared" | ".param" | ".global" | ".const")) => {
                    let mut variables = Vec::new();
                    self.variables(at, space(word), false, &mut variables)?;
                    body.extend(variables.into_iter().map(Statement::Variable));
                }
                Token::Word(word) if !word.starts_with('.') => {
                    body.push(self.label_or_instruction(at, word)?);
                }
                _ => self.skip_directive(at, token)?,
            }
        }
    }

    fn label_or_instruction(&mut self, at: usize, word: &'a str) -> Result<Statement<'a>, FormatError> {
        if !self.lexer.takes(':')? {
            return Ok(Statement::Instruction(self.instruction(at, None, word)?));
        }
        match self.lexer.peek()? {
            Some(Token::Word(".branchtargets")) => {
                self.lexer.next()?;
                let mut labels = vec![self.name("a label")?];
                while self.lexer.takes(',')? {
                    labels.push(self.name("a label")?);
                }
                self.mark(';')?;
                Ok(Statement::Targets { name: word, labels })
            }
            _ => Ok(Statement::Label { at, name: word }),
        }
    }

    fn registers(&mut self, at: usize) -> Result<Statement<'a>, FormatError> {
        let kind = self.kind()?;
        let mut names = Vec::new();
        loop {
            let name = self.name("a register")?;
            let count = if self.lexer.takes('<')? {
                let count = self.number("a number of registers")?;
                self.mark('>')?;
                Some(count)
            } else {
                None
            };
            names.push((name, count));
            if !self.lexer.takes(',')? {
                break;
            }
        }
        self.mark(';')?;
        Ok(Statement::Registers { at, kind, names })
    }

    fn instruction(
        &mut self,
        at: usize,
        guard: Option<(&'a str, bool)>,
        opcode: &'a str,
    ) -> Result<InstructionText<'a>, FormatError> {
        let operands = self.separated(';', |this| this.operand(0))?;
        let at = self.text.len().min(at + self.text[at..].find(opcode).unwrap_or(0));
        Ok(InstructionText { at, guard, opcode, operands })
    }

    fn operand(&mut self, depth: usize) -> Result<Operand<'a>, FormatError> {
        let before = self.lexer.clone();
        let (at, token) = self.next("an operand")?;
        if depth > 2 {
            return Err(self.error(at, Fault::Corrupt, "an operand", "nested brackets"));
        }
        Ok(match token {
            Token::Mark('{') => Operand::Vector(self.separated('}', |this| this.operand(depth + 1))?),
            Token::Mark('(') => Operand::List(self.separated(')', |this| this.operand(depth + 1))?),
            Token::Mark('[') => self.address()?,
            Token::Mark('!') => Operand::Not(self.name("a predicate")?),
            Token::Word(word) if !word.starts_with(|it: char| it.is_ascii_digit()) => {
                if self.lexer.takes('|')? {
                    Operand::Pair(word, self.name("a second destination")?)
                } else {
                    Operand::Name(word)
                }
            }
            _ => {
                self.lexer = before;
                Operand::Number(self.constant()?)
            }
        })
    }

    /// The rest of an address: a name, an offset, or both.
    fn address(&mut self) -> Result<Operand<'a>, FormatError> {
        let base = match self.lexer.peek()? {
            Some(Token::Word(word)) if !word.starts_with(|it: char| it.is_ascii_digit()) => {
                self.lexer.next()?;
                Some(word)
            }
            _ => None,
        };
        let offset = self.offset(base.is_none())?;
        self.mark(']')?;
        Ok(Operand::Address { base, offset })
    }
}

/// Tokens that have to be there.
impl<'a> Parser<'a> {
    /// An offset in bytes, which has a sign unless it `is_alone`; 0 if there is none.
    pub(super) fn offset(&mut self, is_alone: bool) -> Result<i64, FormatError> {
        let at = self.lexer.offset();
        let is_sum = self.lexer.takes('+')? || self.lexer.peek()? == Some(Token::Mark('-'));
        match if is_sum || is_alone { self.constant()? } else { Number::Integer(0) } {
            Number::Integer(offset) => Ok(offset as i64),
            _ => Err(self.error(at, Fault::Corrupt, "an offset in bytes", "a float")),
        }
    }

    pub(super) fn error(
        &self,
        at: usize,
        fault: Fault,
        expected: impl Into<String>,
        found: impl Into<String>,
    ) -> FormatError {
        let rest = &self.text[at.min(self.text.len())..];
        error_at(self.text, at + (rest.len() - rest.trim_start().len()), fault, expected, found)
    }

    fn truncated(&self, expected: &str) -> FormatError {
        self.error(self.text.len(), Fault::Truncated, expected, "the end of the text")
    }

    /// Counts a statement, of which a limited number may be.
    fn count_statement(&mut self, at: usize) -> Result<(), FormatError> {
        self.statements += 1;
        self.limited(at, self.statements, self.limits.statements, "statements")
    }

    fn limited(&self, at: usize, count: usize, limit: usize, what: &str) -> Result<(), FormatError> {
        match count > limit {
            true => Err(self.error(at, Fault::Unsupported, format!("at most {limit} {what}"), "more")),
            false => Ok(()),
        }
    }

    pub(super) fn next(&mut self, expected: &str) -> Result<(usize, Token<'a>), FormatError> {
        self.lexer.next()?.ok_or_else(|| self.truncated(expected))
    }

    pub(super) fn mark(&mut self, mark: char) -> Result<(), FormatError> {
        match self.next(&format!("'{mark}'"))? {
            (_, Token::Mark(found)) if found == mark => Ok(()),
            (at, token) => Err(self.error(at, Fault::Corrupt, format!("'{mark}'"), shown(token))),
        }
    }

    fn word(&mut self, word: &str) -> Result<(), FormatError> {
        match self.next(word)? {
            (_, Token::Word(found)) if found == word => Ok(()),
            (at, token) => Err(self.error(at, Fault::Corrupt, word, shown(token))),
        }
    }

    pub(super) fn any_word(&mut self, expected: &str) -> Result<&'a str, FormatError> {
        match self.next(expected)? {
            (_, Token::Word(word)) => Ok(word),
            (at, token) => Err(self.error(at, Fault::Corrupt, expected, shown(token))),
        }
    }

    /// An identifier ("Identifiers").
    pub(super) fn name(&mut self, expected: &str) -> Result<&'a str, FormatError> {
        let at = self.lexer.offset();
        let word = self.any_word(expected)?;
        let is_name = word.starts_with(|it: char| it.is_ascii_alphabetic() || matches!(it, '_' | '$' | '%'));
        if !is_name || word.len() > self.limits.name_bytes {
            return Err(self.error(at, Fault::Corrupt, expected, shown(Token::Word(word))));
        }
        Ok(word)
    }

    pub(super) fn number(&mut self, expected: &str) -> Result<u32, FormatError> {
        let at = self.lexer.offset();
        match self.constant()? {
            Number::Integer(value) if u32::try_from(value).is_ok() => Ok(value as u32),
            _ => Err(self.error(at, Fault::Corrupt, expected, "another constant")),
        }
    }

    pub(super) fn kind(&mut self) -> Result<Type, FormatError> {
        let at = self.lexer.offset();
        let word = self.any_word("a type")?;
        word.strip_prefix('.')
            .and_then(Type::named)
            .ok_or_else(|| self.error(at, Fault::Unsupported, "a type", rehal_base::shortened(word)))
    }
}

fn space(word: &str) -> Place {
    word.strip_prefix('.').and_then(Place::named).unwrap_or(Place::Param)
}

pub(super) fn shown(token: Token<'_>) -> String {
    match token {
        Token::Word(word) => format!("'{}'", rehal_base::shortened(word)),
        Token::Quoted(text) => format!("\"{}\"", rehal_base::shortened(text)),
        Token::Mark(mark) => format!("'{mark}'"),
    }
}
