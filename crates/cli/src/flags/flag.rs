/// One flag of a tool. Its name is written with underscores.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// The name, without dashes before it.
    pub name: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Whether it does what it says.
    pub support: Support,
    /// What it is for, in sentences; a line may be as long as it likes.
    pub help: &'static str,
}

/// What values a flag takes, and what it is when it is not given.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// `true` or `1` (or nothing), `false` or `0`.
    Switch(bool),
    /// As [`Kind::Switch`], and what else Google Benchmark takes: `yes`, `no`, `on`, `off` and so on.
    BenchmarkSwitch(bool),
    /// A whole number.
    Integer(i64),
    /// Text; `form` shows what it looks like.
    Text {
        /// When it is not given.
        default: &'static str,
        /// Such as `PATH`.
        form: &'static str,
    },
    /// Text that may be given several times.
    List {
        /// Such as `PATH`.
        form: &'static str,
        /// Whether an empty text is one too.
        may_be_empty: bool,
    },
    /// Asks the tool to print something and end; the value, where there is one, may be left out.
    Query {
        /// Such as `DRIVER`; empty where there is no value.
        form: &'static str,
    },
}

/// Whether a flag of the reference does anything here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It does what it says.
    Works,
    /// It tunes a driver that is not here, so nothing that can run would see it.
    OtherDriver,
    /// It tunes the device that the reference uses when none is named, so it is refused unless a
    /// device is named.
    DefaultDriver,
    /// It asks for something that is not built, named here, and is refused.
    Missing(&'static str),
}

/// Flags that belong together.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// What they are about.
    pub title: &'static str,
    /// The flags, in the order of the help.
    pub flags: &'static [Flag],
}

impl Flag {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, support: Support::Works, help }
    }

    /// A switch.
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Self {
        Self::new(name, Kind::Switch(default), help)
    }

    /// A switch of Google Benchmark.
    pub const fn benchmark_switch(name: &'static str, default: bool, help: &'static str) -> Self {
        Self::new(name, Kind::BenchmarkSwitch(default), help)
    }

    /// A whole number.
    pub const fn integer(name: &'static str, default: i64, help: &'static str) -> Self {
        Self::new(name, Kind::Integer(default), help)
    }

    /// Text.
    pub const fn text(
        name: &'static str,
        form: &'static str,
        default: &'static str,
        help: &'static str,
    ) -> Self {
        Self::new(name, Kind::Text { default, form }, help)
    }

    /// Text that may be given several times.
    pub const fn list(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::List { form, may_be_empty: false }, help)
    }

    /// Text that may be given several times, and may be empty.
    pub const fn list_of_any(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::List { form, may_be_empty: true }, help)
    }

    /// Prints something and ends.
    pub const fn query(name: &'static str, form: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Query { form }, help)
    }

    /// The same flag with another support.
    pub const fn support(mut self, support: Support) -> Self {
        self.support = support;
        self
    }

    /// Whether `value` is what the flag is without being given.
    pub fn is_default(&self, value: &str) -> bool {
        match self.kind {
            Kind::Switch(default) => parse_switch(value) == Some(default),
            Kind::BenchmarkSwitch(default) => parse_benchmark_switch(value) == Some(default),
            Kind::Integer(default) => value.parse() == Ok(default),
            Kind::Text { default, .. } => value == default,
            Kind::List { .. } | Kind::Query { .. } => false,
        }
    }
}

/// What a switch may be set to; nothing at all turns it on.
///
/// The reference takes any other word for `false`, `yes` among them. Here that is an error.
pub(super) fn parse_switch(value: &str) -> Option<bool> {
    match value {
        "" | "true" | "1" => Some(true),
        "false" | "0" => Some(false),
        _ => None,
    }
}

/// The words of Google Benchmark's `IsTruthyFlagValue`, without its rule that any other word is true.
pub(crate) fn parse_benchmark_switch(value: &str) -> Option<bool> {
    match value.to_ascii_lowercase().as_str() {
        "" | "true" | "t" | "yes" | "y" | "on" | "1" => Some(true),
        "false" | "f" | "no" | "n" | "off" | "0" => Some(false),
        _ => None,
    }
}
