//! The space of a search: a file in TOML that names a base and what varies of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rehal_base::{Context, Error, Result, nearest};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toml::Spanned;

use super::config::{self, ConfigField};
use crate::KernelLanguage;

/// Advice for a file that is not a space.
const FORM: &str = "a space has base = \"FILE\", and for each axis [[axis]] with values = [...] and config = \"FIELD\", \
     flag = \"--FLAG\" or macro = \"NAME\"";

/// Longer files are refused.
const MAX_SPACE_BYTES: u64 = 1 << 20;
const MAX_BASE_BYTES: u64 = 64 << 20;

/// Points beyond which a space is not searched for one that is not excluded.
const MAX_SCANNED: u64 = 1 << 20;

/// The variants of a source that a search tries.
#[derive(Clone, Debug)]
pub struct SearchSpace {
    base: PathBuf,
    kind: BaseKind,
    /// The contents of the base; `None` if they are not text.
    text: Option<String>,
    base_digest: blake3::Hash,
    flags: Vec<String>,
    /// Where the space has them, as `FILE:LINE`.
    flags_place: String,
    axes: Vec<SearchAxis>,
    excluded: Vec<Vec<(usize, usize)>>,
}

/// The kind of the base of a space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BaseKind {
    /// A dispatch as the compiler of programs dumps it.
    Dispatch,
    /// The source of a kernel.
    Kernel(KernelLanguage),
}

/// Something that varies, with its values.
#[derive(Clone, Debug)]
pub struct SearchAxis {
    name: String,
    kind: AxisKind,
    values: Vec<Value>,
}

#[derive(Clone, Debug)]
enum AxisKind {
    /// A field of the lowering configuration of an operation, or of the only one that has it.
    Config { field: ConfigField, operation: Option<String> },
    /// A flag of the compiler, and where the space has it, as `FILE:LINE`.
    Flag { flag: String, place: String },
    /// A macro of C.
    Macro(String),
}

/// A point of a space: the index of the value of each axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SearchPoint(Vec<usize>);

/// The source of a point of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PointSource {
    /// The text, if it differs from that of the base.
    pub text: Option<String>,
    /// The flags of the compiler, without macros.
    pub flags: Vec<String>,
    /// Names and values of macros.
    pub macros: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpace {
    base: Spanned<PathBuf>,
    flags: Option<Spanned<Vec<String>>>,
    #[serde(default)]
    axis: Vec<Spanned<RawAxis>>,
    #[serde(default)]
    exclude: Vec<Spanned<BTreeMap<String, toml::Value>>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawAxis {
    name: Option<String>,
    config: Option<Spanned<String>>,
    operation: Option<Spanned<String>>,
    flag: Option<Spanned<String>>,
    #[serde(rename = "macro")]
    macro_: Option<Spanned<String>>,
    values: Option<Spanned<Vec<toml::Value>>>,
}

/// The text of a space, for errors with lines.
struct SpaceText<'t> {
    path: &'t Path,
    text: &'t str,
}

impl SpaceText<'_> {
    /// `FILE:LINE`.
    fn place(&self, span: Range<usize>) -> String {
        let before = self.text.get(..span.start).unwrap_or(self.text);
        format!("{}:{}", self.path.display(), before.matches('\n').count() + 1)
    }

    fn error(&self, span: Range<usize>, message: impl AsRef<str>) -> Error {
        Error::invalid_argument(format!("{}: {}", self.place(span), message.as_ref()))
    }

    fn parse(&self) -> Result<RawSpace> {
        toml::from_str(self.text).map_err(|error| {
            // Of a table, the span begins behind its header.
            let span = error.span().unwrap_or(0..0);
            self.error(span, error.message()).advise(FORM)
        })
    }
}

impl SearchSpace {
    /// Reads a space and its base, whose path is relative to that of the space. Fails with the line of what
    /// is wrong.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read(path, MAX_SPACE_BYTES)?;
        let text = String::from_utf8(bytes).map_err(|error| {
            let line = error.as_bytes()[..error.utf8_error().valid_up_to()].split(|it| *it == b'\n').count();
            Error::invalid_argument(format!("{}:{line}: the text is not UTF-8", path.display())).advise(FORM)
        })?;
        let text = SpaceText { path, text: &text };
        let raw = text.parse()?;
        let base = path.parent().unwrap_or(Path::new("")).join(raw.base.get_ref());
        let kind = kind_of(&base).ok_or_else(|| {
            let message =
                format!("base: '{}' is neither a dispatch nor the source of a kernel", base.display());
            text.error(raw.base.span(), message).advise(
                "name a dispatch as the compiler dumps it (.mlir), or a source in C or Rust (.c, .rs)",
            )
        })?;
        let bytes = read(&base, MAX_BASE_BYTES)
            .context(|| text.error(raw.base.span(), "base").message().to_owned())?;
        let flags_place = raw.flags.as_ref().map_or_else(String::new, |it| text.place(it.span()));
        let mut this = Self {
            kind,
            base_digest: blake3::hash(&bytes),
            text: String::from_utf8(bytes).ok(),
            base,
            flags: raw.flags.map(Spanned::into_inner).unwrap_or_default(),
            flags_place,
            axes: Vec::new(),
            excluded: Vec::new(),
        };
        if raw.axis.is_empty() {
            return Err(text.error(0..0, "axis: the space has no axes").advise(FORM));
        }
        for axis in raw.axis {
            let axis = this.axis(axis, &text)?;
            this.axes.push(axis);
        }
        for excluded in &raw.exclude {
            let excluded = this.exclusion(excluded, &text)?;
            this.excluded.push(excluded);
        }
        if this.is_empty() {
            return Err(text
                .error(raw.exclude[0].span(), "exclude: all points are excluded")
                .advise("exclude fewer combinations"));
        }
        Ok(this)
    }

    fn axis(&self, raw: Spanned<RawAxis>, text: &SpaceText<'_>) -> Result<SearchAxis> {
        let span = raw.span();
        let raw = raw.into_inner();
        let (what, kind) = match (&raw.config, &raw.flag, &raw.macro_) {
            (Some(config), None, None) => {
                let operation = raw.operation.as_ref().map(|it| it.get_ref().clone());
                (
                    config,
                    AxisKind::Config { field: self.field(config, operation.as_deref(), text)?, operation },
                )
            }
            (None, Some(flag), None) => (flag, self.flag(flag, text)?),
            (None, None, Some(name)) => (name, self.macro_of(name, text)?),
            _ => {
                return Err(text
                    .error(span, "axis: it has not exactly one of config, flag and macro")
                    .advise(FORM));
            }
        };
        if let (Some(operation), false) = (&raw.operation, matches!(kind, AxisKind::Config { .. })) {
            return Err(text
                .error(operation.span(), "operation: only an axis with config has one")
                .advise(FORM));
        }
        let name = raw.name.unwrap_or_else(|| what.get_ref().trim_start_matches('-').to_owned());
        if self.axes.iter().any(|it| it.name == name) {
            return Err(text
                .error(what.span(), format!("axis: two axes have the name '{name}'"))
                .advise("give one of them another one: name = \"...\""));
        }
        let Some(values) = raw.values else {
            return Err(text.error(what.span(), format!("values: axis '{name}' has no values")).advise(FORM));
        };
        if values.get_ref().is_empty() {
            return Err(text
                .error(values.span(), format!("values: axis '{name}' has no values"))
                .advise(FORM));
        }
        let mut axis = SearchAxis { name, kind, values: Vec::new() };
        for value in values.get_ref() {
            let value = json(value);
            let wrong = match &value {
                Some(value) if axis.values.contains(value) => Some(format!("{value} is there twice")),
                Some(value) => axis.refuses(value),
                None => Some("a date or a table is not a value".into()),
            };
            match (wrong, value) {
                (None, Some(value)) => axis.values.push(value),
                (wrong, _) => {
                    let message = format!("values: axis '{}': {}", axis.name, wrong.unwrap_or_default());
                    return Err(text.error(values.span(), message)
                        .advise("give each value once: of a field, numbers, lists or text; of flags and macros no lists"));
                }
            }
        }
        self.try_out(&axis).map_err(|error| {
            let advice = error.advice().cloned();
            let located = text.error(what.span(), format!("config: {}", error.message()));
            match advice {
                Some(advice) => located.advise(advice),
                None => located,
            }
        })?;
        Ok(axis)
    }

    /// Applies each value, so that one that cannot be is found before anything runs.
    fn try_out(&self, axis: &SearchAxis) -> Result<()> {
        if let (AxisKind::Config { field, operation }, Some(text)) = (&axis.kind, &self.text) {
            for value in &axis.values {
                config::set(text, field, operation.as_deref(), value)?;
            }
        }
        Ok(())
    }

    fn field(
        &self,
        config: &Spanned<String>,
        operation: Option<&str>,
        text: &SpaceText<'_>,
    ) -> Result<ConfigField> {
        let refuse = |message: String| text.error(config.span(), format!("config: {message}"));
        if self.kind != BaseKind::Dispatch {
            return Err(refuse("only dispatches have a lowering configuration".into())
                .advise("name as the base a dispatch as the compiler dumps it (.mlir)"));
        }
        let Some(base) = &self.text else {
            return Err(
                refuse(format!("'{}' is not text", self.base.display())).advise("dump the dispatch as text")
            );
        };
        let field = ConfigField::parse(config.get_ref()).ok_or_else(|| {
            refuse(format!("'{}' is not the name of a field", config.get_ref().escape_debug()))
                .advise("write FIELD, or for an element of a list FIELD[0]")
        })?;
        config::find(base, &field, operation).map(|_| field).map_err(|error| {
            let advice = error.advice().cloned();
            let error = refuse(error.message().to_owned());
            match advice {
                Some(advice) => error.advise(advice),
                None => error,
            }
        })
    }

    fn flag(&self, flag: &Spanned<String>, text: &SpaceText<'_>) -> Result<AxisKind> {
        let is_flag = flag.get_ref().starts_with('-') && !flag.get_ref().trim_start_matches('-').is_empty();
        match is_flag && !flag.get_ref().contains(['=', ' ']) {
            true => Ok(AxisKind::Flag { flag: flag.get_ref().clone(), place: text.place(flag.span()) }),
            false => Err(text
                .error(flag.span(), format!("flag: '{}' is not the name of a flag", flag.get_ref().escape_debug()))
                .advise("write it with its dashes and without a value, such as --iree-llvmcpu-loop-unrolling or -O")),
        }
    }

    fn macro_of(&self, name: &Spanned<String>, text: &SpaceText<'_>) -> Result<AxisKind> {
        let refuse = |message: String| text.error(name.span(), format!("macro: {message}"));
        if self.kind != BaseKind::Kernel(KernelLanguage::C) {
            return Err(
                refuse("only sources in C have macros".into()).advise("name a source in C (.c) as the base")
            );
        }
        let given = name.get_ref();
        let is_letter = |it: char| it.is_ascii_alphabetic() || it == '_';
        match given.starts_with(is_letter) && given.chars().all(|it| is_letter(it) || it.is_ascii_digit()) {
            true if self.may_use(given) => Ok(AxisKind::Macro(given.clone())),
            true => Err(refuse(format!("'{given}' does not occur in '{}'", self.base.display()))
                .advise("name a macro that the source uses")),
            false => Err(refuse(format!("'{}' is not the name of a macro", given.escape_debug()))
                .advise("write a name of C")),
        }
    }

    /// Whether the source may use a macro. A file that it includes may.
    fn may_use(&self, name: &str) -> bool {
        let text = self.text.as_deref().unwrap_or_default();
        let is_name = |it: char| it.is_ascii_alphanumeric() || it == '_';
        let includes = |line: &str| line.trim_start().starts_with('#') && line.contains("include");
        text.split(|it| !is_name(it)).any(|it| it == name)
            || text.lines().any(|line| includes(line) && !line.contains('<'))
    }

    fn exclusion(
        &self,
        raw: &Spanned<BTreeMap<String, toml::Value>>,
        text: &SpaceText<'_>,
    ) -> Result<Vec<(usize, usize)>> {
        let mut excluded = Vec::new();
        for (name, value) in raw.get_ref() {
            let refuse = |message: String| text.error(raw.span(), format!("exclude: {message}"));
            let Some(index) = self.axes.iter().position(|it| it.name == *name) else {
                let names = self.axes.iter().map(|it| it.name.as_str());
                let error = refuse(format!("no axis has the name '{}'", name.escape_debug()));
                let listed = names.clone().collect::<Vec<_>>().join(", ");
                return Err(error.advise(match nearest(name, names) {
                    Some(meant) => format!("did you mean {meant}? the axes are {listed}"),
                    None => format!("the axes are {listed}"),
                }));
            };
            let value =
                json(value).and_then(|it| self.axes[index].values.iter().position(|value| *value == it));
            let Some(value) = value else {
                return Err(refuse(format!("axis '{name}' does not have this value"))
                    .advise("exclude values of axes"));
            };
            excluded.push((index, value));
        }
        if excluded.is_empty() {
            return Err(text.error(raw.span(), "exclude: it has no values").advise("write AXIS = VALUE"));
        }
        Ok(excluded)
    }

    /// The axes along which it varies.
    pub fn axes(&self) -> &[SearchAxis] {
        &self.axes
    }

    /// The file that varies.
    pub fn base(&self) -> &Path {
        &self.base
    }

    /// Fails if the base has changed since it was read: its points would be others.
    pub fn check_base(&self) -> Result<()> {
        let digest = blake3::hash(&read(&self.base, MAX_BASE_BYTES)?);
        match digest == self.base_digest {
            true => Ok(()),
            false => Err(Error::failed_precondition(format!(
                "'{}' has changed since the search began",
                self.base.display()
            ))
            .advise("start the search again: what is known of the former contents does not count")),
        }
    }

    /// The kind of the base.
    pub fn kind(&self) -> BaseKind {
        self.kind
    }

    /// Number of points, with those that are excluded.
    pub fn size(&self) -> u64 {
        self.axes.iter().fold(1, |size: u64, axis| size.saturating_mul(axis.values.len() as u64))
    }

    /// The point with this index, the last axis first; `None` if it is excluded, or beyond the space.
    pub fn point(&self, mut index: u64) -> Option<SearchPoint> {
        let mut point = vec![0; self.axes.len()];
        for (axis, place) in self.axes.iter().zip(&mut point).rev() {
            let count = axis.values.len() as u64;
            *place = (index % count) as usize;
            index /= count;
        }
        let is_excluded = |all: &Vec<(usize, usize)>| all.iter().all(|(axis, value)| point[*axis] == *value);
        (index == 0 && !self.excluded.iter().any(is_excluded)).then_some(SearchPoint(point))
    }

    /// Whether all points are excluded. One that is too large to be searched is taken
    /// to have others.
    fn is_empty(&self) -> bool {
        self.size() <= MAX_SCANNED && (0..self.size()).all(|index| self.point(index).is_none())
    }

    /// The point with these values, by the names of axes.
    pub fn parse_point(&self, values: &serde_json::Map<String, Value>) -> Result<SearchPoint> {
        let listed = || self.axes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
        if let Some(name) = values.keys().find(|name| !self.axes.iter().any(|it| it.name == **name)) {
            return Err(Error::invalid_argument(format!("no axis has the name '{}'", name.escape_debug()))
                .advise(format!("the axes are {}", listed())));
        }
        let index = |axis: &SearchAxis| {
            let name = &axis.name;
            let value = values.get(name).ok_or_else(|| {
                Error::invalid_argument(format!("the point has no value of axis '{name}'"))
                    .advise(format!("give one of each axis: {}", listed()))
            })?;
            axis.values.iter().position(|it| it == value).ok_or_else(|| {
                let known: Vec<_> = axis.values.iter().map(Value::to_string).collect();
                Error::invalid_argument(format!("axis '{name}' does not have the value {value}"))
                    .advise(format!("its values are {}", known.join(", ")))
            })
        };
        Ok(SearchPoint(self.axes.iter().map(index).collect::<Result<_>>()?))
    }

    /// The values of a point, by the names of axes.
    pub fn values(&self, point: &SearchPoint) -> serde_json::Map<String, Value> {
        let of = |(axis, index): (&SearchAxis, &usize)| (axis.name.clone(), axis.values[*index].clone());
        self.axes.iter().zip(&point.0).map(of).collect()
    }

    /// The base with the flags of all points, as no axis changes it.
    pub fn unchanged(&self) -> PointSource {
        PointSource { text: None, flags: self.flags.clone(), macros: Vec::new() }
    }

    /// The source from which a point is compiled.
    pub fn source(&self, point: &SearchPoint) -> Result<PointSource> {
        self.source_without(point, &[])
    }

    /// The same without the flags of the axes of these indices.
    pub(super) fn source_without(&self, point: &SearchPoint, left_out: &[usize]) -> Result<PointSource> {
        let mut source = self.unchanged();
        for (number, (axis, index)) in self.axes.iter().zip(&point.0).enumerate() {
            if left_out.contains(&number) && matches!(axis.kind, AxisKind::Flag { .. }) {
                continue;
            }
            let value = &axis.values[*index];
            match &axis.kind {
                AxisKind::Config { field, operation } => {
                    let text = source.text.as_ref().or(self.text.as_ref()).map_or("", String::as_str);
                    source.text = Some(config::set(text, field, operation.as_deref(), value)?);
                }
                AxisKind::Flag { flag, .. } => source.flags.extend(argument(flag, value)),
                AxisKind::Macro(name) => source.macros.push((name.clone(), plain(value, ["1", "0"]))),
            }
        }
        Ok(source)
    }

    /// The flags of the compiler: those of all points, and these with each value of each axis. Each with its
    /// place in the space, as `FILE:LINE`.
    pub fn flags(&self) -> Vec<(&str, Vec<Vec<String>>)> {
        let mut all = vec![(self.flags_place.as_str(), vec![self.flags.clone()])];
        for axis in &self.axes {
            if let AxisKind::Flag { flag, place } = &axis.kind {
                let with = |it| self.flags.iter().cloned().chain(argument(flag, it)).collect();
                all.push((place, axis.values.iter().map(with).collect()));
            }
        }
        all.retain(|(_, values)| values.iter().any(|it| !it.is_empty()));
        all
    }

    /// The file of a point: the text of a dispatch with its configuration, or a source that defines its
    /// macros. Flags of the compiler are not in it.
    pub fn file(&self, source: &PointSource) -> Result<Vec<u8>> {
        let base = || read(&self.base, MAX_BASE_BYTES);
        if let Some(text) = &source.text {
            return Ok(text.clone().into_bytes());
        }
        let mut file: Vec<u8> = source
            .macros
            .iter()
            .flat_map(|(name, value)| format!("#define {name} {value}\n").into_bytes())
            .collect();
        file.extend(base()?);
        Ok(file)
    }

    /// The digest of what a point is compiled from.
    pub(super) fn digest(&self, source: &PointSource) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new();
        let mut add = |bytes: &[u8]| {
            hasher.update(&(bytes.len() as u64).to_le_bytes());
            hasher.update(bytes);
        };
        match &source.text {
            Some(text) => add(blake3::hash(text.as_bytes()).as_bytes()),
            None => add(self.base_digest.as_bytes()),
        }
        source.flags.iter().for_each(|it| add(it.as_bytes()));
        add(b"macros");
        source.macros.iter().for_each(|(name, value)| {
            add(name.as_bytes());
            add(value.as_bytes());
        });
        hasher.finalize()
    }
}

impl SearchPoint {
    /// The index of the value of an axis, and a point for all values of it.
    pub(super) fn without(&self, axis: usize) -> (usize, Self) {
        let mut others = self.clone();
        (std::mem::take(&mut others.0[axis]), others)
    }
}

impl SearchAxis {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its values, in the order in which a grid has them.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// Why a value is not one of the axis.
    fn refuses(&self, value: &Value) -> Option<String> {
        let is_plain = !matches!(value, Value::Array(_));
        match &self.kind {
            AxisKind::Config { .. } => None,
            AxisKind::Flag { .. } | AxisKind::Macro(_) if is_plain => None,
            AxisKind::Flag { .. } => Some("a flag has no lists".into()),
            AxisKind::Macro(_) => Some("a macro has no lists".into()),
        }
    }
}

impl Serialize for SearchAxis {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Axis<'a> {
            name: &'a str,
            values: &'a [Value],
        }
        Axis { name: &self.name, values: &self.values }.serialize(serializer)
    }
}

fn kind_of(path: &Path) -> Option<BaseKind> {
    match path.extension().and_then(|it| it.to_str()) {
        Some("mlir" | "mlirbc") => Some(BaseKind::Dispatch),
        _ => KernelLanguage::from_path(path).map(BaseKind::Kernel),
    }
}

fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>> {
    let shown = path.display();
    let metadata = path
        .metadata()
        .map_err(|error| Error::io(format!("opening '{shown}'"), &error).advise("name a file that exists"))?;
    if !metadata.is_file() {
        return Err(Error::invalid_argument(format!("'{shown}' is not a regular file")).advise("name a file"));
    }
    if metadata.len() > max_bytes {
        return Err(Error::invalid_argument(format!("'{shown}' is longer than {} MiB", max_bytes >> 20))
            .advise("name a shorter file"));
    }
    std::fs::read(path).map_err(|error| Error::io(format!("reading '{shown}'"), &error))
}

/// A value as JSON; `None` of a date or a table.
fn json(value: &toml::Value) -> Option<Value> {
    match value {
        toml::Value::String(it) => Some(Value::String(it.clone())),
        toml::Value::Integer(it) => Some(Value::from(*it)),
        toml::Value::Float(it) => serde_json::Number::from_f64(*it).map(Value::Number),
        toml::Value::Boolean(it) => Some(Value::Bool(*it)),
        toml::Value::Array(it) => it.iter().map(json).collect::<Option<Vec<_>>>().map(Value::Array),
        toml::Value::Datetime(_) | toml::Value::Table(_) => None,
    }
}

/// A value without quotes.
fn plain(value: &Value, booleans: [&str; 2]) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => booleans[0].into(),
        Value::Bool(false) => booleans[1].into(),
        other => other.to_string(),
    }
}

/// A flag with a value: `--flag=value` and `-flag=value`, but `-Ovalue`. Of a flag with one dash, `true` is
/// the flag, and `false` leaves it out.
fn argument(flag: &str, value: &Value) -> Option<String> {
    let is_long = flag.starts_with("--");
    match value {
        Value::Bool(is_set) if !is_long => is_set.then(|| flag.to_owned()),
        _ if !is_long && flag.chars().count() == 2 => Some(format!("{flag}{}", plain(value, ["", ""]))),
        _ => Some(format!("{flag}={}", plain(value, ["true", "false"]))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_have_the_forms_of_compilers() {
        let of = |flag: &str, value: Value| argument(flag, &value);
        assert_eq!(of("--a-b", 3.into()).as_deref(), Some("--a-b=3"));
        assert_eq!(of("--a", true.into()).as_deref(), Some("--a=true"));
        assert_eq!(of("-O", 3.into()).as_deref(), Some("-O3"));
        assert_eq!(of("-march", "native".into()).as_deref(), Some("-march=native"));
        assert_eq!(of("-funroll-loops", true.into()).as_deref(), Some("-funroll-loops"));
        assert_eq!(of("-funroll-loops", false.into()), None);
    }

    struct Files(tempfile::TempDir);

    impl Files {
        fn space(&self, text: &str) -> Result<SearchSpace> {
            let path = self.0.path().join("space.toml");
            std::fs::write(&path, text).unwrap();
            SearchSpace::read(&path)
        }
    }

    fn files() -> Files {
        let files = Files(tempfile::tempdir().unwrap());
        std::fs::write(files.0.path().join("k.c"), "int T[TILE];\n").unwrap();
        let mlir = "linalg.matmul {lowering_config = #iree_cpu.lowering_config<distribution = [8, 8, 0]>}\n";
        std::fs::write(files.0.path().join("d.mlir"), mlir).unwrap();
        files
    }

    #[test]
    fn points_are_sources() {
        let files = files();
        let space = files
            .space(
                "base = \"k.c\"\nflags = [\"-g\"]\n[[axis]]\nmacro = \"TILE\"\nvalues = [8, 16]\n\
                 [[axis]]\nflag = \"-O\"\nvalues = [2, 3]\n[[exclude]]\nTILE = 8\nO = 3\n",
            )
            .unwrap();
        assert_eq!(space.size(), 4);
        let points: Vec<_> = (0..6).map(|it| space.point(it).is_some()).collect();
        assert_eq!(points, [true, false, true, true, false, false]);
        let last = space.point(3).unwrap();
        let source = space.source(&last).unwrap();
        assert_eq!(source.flags, ["-g", "-O3"]);
        let place = |line: u32| format!("{}:{line}", files.0.path().join("space.toml").display());
        let flags: Vec<_> = space
            .flags()
            .iter()
            .map(|(place, values)| ((*place).to_owned(), values.concat().join(" ")))
            .collect();
        assert_eq!(flags, [(place(2), "-g".to_owned()), (place(7), "-g -O2 -g -O3".to_owned())]);
        assert_eq!(space.file(&source).unwrap(), b"#define TILE 16\nint T[TILE];\n");
        space.check_base().unwrap();
        let values = space.values(&last);
        assert_eq!(serde_json::to_string(&values).unwrap(), r#"{"O":3,"TILE":16}"#);
        assert_eq!(space.parse_point(&values).unwrap(), last);
        let mut other = values.clone();
        other["O"] = 4.into();
        assert!(space.parse_point(&other).unwrap_err().report().contains("its values are 2, 3"));
        let digests: Vec<_> =
            (0..4).filter_map(|it| Some(space.digest(&space.source(&space.point(it)?).unwrap()))).collect();
        assert!(digests[0] != digests[1] && digests[1] != digests[2]);
        std::fs::write(files.0.path().join("k.c"), "int y;\n").unwrap();
        assert!(space.check_base().unwrap_err().message().contains("has changed since the search began"));
        let space =
            files.space("base = \"d.mlir\"\n[[axis]]\nconfig = \"distribution[1]\"\nvalues = [4]\n").unwrap();
        let source = space.source(&space.point(0).unwrap()).unwrap();
        assert!(source.text.unwrap().contains("<distribution = [8, 4, 0]>"));
    }

    #[test]
    fn what_is_wrong_has_a_file_a_line_and_a_key() {
        let files = files();
        let axis = "[[axis]]\nmacro = \"T\"\nvalues = [1]\n";
        for (text, line, what) in [
            ("base = \"k.c\"\n[[axis]]\nmacro = \"T\"\nvalue = [1]\n".to_owned(), 4, "unknown field `value`"),
            (format!("base = \"k.c\"\nx = 1\n{axis}"), 2, "unknown field `x`"),
            ("base = \"k.c\"\n[[axis\n".into(), 2, ""),
            ("base = \"k.c\"\n".into(), 1, "axis: the space has no axes"),
            (axis.into(), 1, "missing field `base`"),
            (format!("base = \"none.c\"\n{axis}"), 1, ""),
            (format!("base = \"k.txt\"\n{axis}"), 1, "base: "),
            ("base = \"k.c\"\n[[axis]]\nmacro = \"T\"\n".into(), 3, "values: axis 'T' has no values"),
            (
                "base = \"k.c\"\n[[axis]]\nmacro = \"T\"\nvalues = []\n".into(),
                4,
                "values: axis 'T' has no values",
            ),
            ("base = \"k.c\"\n[[axis]]\nmacro = \"T\"\nvalues = [1, 1]\n".into(), 4, "1 is there twice"),
            ("base = \"k.c\"\n[[axis]]\nmacro = \"T\"\nvalues = [[1]]\n".into(), 4, "a macro has no lists"),
            ("base = \"k.c\"\n[[axis]]\nmacro = \"T-1\"\nvalues = [1]\n".into(), 3, "macro: "),
            (
                "base = \"k.c\"\n[[axis]]\nmacro = \"TIL\"\nvalues = [1]\n".into(),
                3,
                "'TIL' does not occur in",
            ),
            ("base = \"k.c\"\n[[axis]]\nflag = \"O\"\nvalues = [1]\n".into(), 3, "flag: "),
            ("base = \"k.c\"\n[[axis]]\nflag = \"-O\"\nmacro = \"T\"\nvalues = [1]\n".into(), 2, "axis: "),
            (format!("base = \"k.c\"\n{axis}{axis}"), 6, "two axes have the name 'T'"),
            ("base = \"d.mlir\"\n[[axis]]\nmacro = \"T\"\nvalues = [1]\n".into(), 3, "only sources in C"),
            ("base = \"k.c\"\n[[axis]]\nconfig = \"x\"\nvalues = [1]\n".into(), 3, "only dispatches have"),
            (
                "base = \"d.mlir\"\n[[axis]]\nconfig = \"x\"\nvalues = [1]\n".into(),
                3,
                "no lowering configuration has",
            ),
            (
                "base = \"d.mlir\"\n[[axis]]\nconfig = \"distribution[7]\"\nvalues = [1]\n".into(),
                3,
                "config: ",
            ),
            (format!("base = \"k.c\"\n{axis}[[exclude]]\nU = 1\n"), 5, "no axis has the name 'U'"),
            (format!("base = \"k.c\"\n{axis}[[exclude]]\nT = 2\n"), 5, "does not have this value"),
            (format!("base = \"k.c\"\n{axis}[[exclude]]\nT = 1\n"), 5, "all points are excluded"),
        ] {
            let error = files.space(&text).unwrap_err();
            let report = error.report();
            assert!(report.contains(&format!("space.toml:{line}: ")), "{text}{report}");
            assert!(report.contains(what), "{text}{report}");
            assert!(error.advice().is_some(), "{report}");
        }
    }
}
