use std::borrow::Cow;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use parking_lot::Mutex;
use rehal_base::{Context, Error, Result};
use rehal_devices::Profiling;
use rehal_modules::check::{CheckModule, Failures};
use rehal_vm::Module;

use super::{LoadFunctions, Program, ProgramModule, ProgramOptions, modules, resolve_substitutions};

/// The tests that a module exports: its functions without inputs and results. Each test runs in its own
/// program, so that tests share no state.
///
/// If the options name a capture, the first test that runs is recorded there, and each other test to a file
/// in the same directory with its name before the extension: `checks.ireereplay`, `checks.second.ireereplay`.
/// The same holds for the bundle of a profile.
pub struct ModuleTests {
    options: ProgramOptions,
    modules: Vec<ProgramModule>,
    tests: Vec<ModuleTest>,
    failures: Failures,
    /// The test that is recorded and profiled to the paths of the options.
    first: OnceLock<String>,
    /// Statistics of the tests that have run.
    statistics: Mutex<Vec<u8>>,
}

/// A test of a module.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ModuleTest {
    /// The name of the function.
    pub name: String,
    /// Its index among the module's exports.
    pub ordinal: usize,
}

/// The outcome of a test.
#[derive(Debug)]
#[non_exhaustive]
pub struct TestOutcome {
    /// The failed expectations, as text.
    pub failures: Vec<String>,
    /// The error of the test or of closing its capture, if any.
    pub error: Option<Error>,
}

impl ModuleTests {
    /// Reads the modules of the options and finds the tests of the last one. Fails if it exports a function
    /// that is not a test.
    pub fn load(options: &ProgramOptions) -> Result<Self> {
        Self::new(options, modules::load(options)?)
    }

    /// As [`ModuleTests::load`], with modules that have already been read. Sources that replace executables
    /// are compiled once, for all tests.
    pub fn new(options: &ProgramOptions, modules: Vec<ProgramModule>) -> Result<Self> {
        let tests = tests(modules.last().ok_or_else(modules::no_module)?)?;
        let (failures, first) = (Failures::default(), OnceLock::new());
        let (mut options, statistics) = (options.clone(), Mutex::default());
        if !options.substitutions.is_empty() {
            let devices = options.devices.open()?;
            let load: LoadFunctions<'_> =
                &|executable, module| Ok(executable.functions_on(devices.devices(), module));
            options.substitutions = resolve_substitutions(&options, &modules, load)?;
            options.build_substitutes = None;
        }
        Ok(Self { options, modules, tests, failures, first, statistics })
    }

    /// The name of the module.
    pub fn module_name(&self) -> &str {
        self.modules.last().map_or("", |module| module.name())
    }

    /// The tests, in the order of the exports.
    pub fn tests(&self) -> &[ModuleTest] {
        &self.tests
    }

    /// Runs a test.
    pub fn run(&self, name: &str) -> TestOutcome {
        let error = self.run_in_program(name).err();
        TestOutcome { failures: self.failures.take(), error }
    }

    fn run_in_program(&self, name: &str) -> Result<()> {
        let mut offer = |wanted: &str| match wanted {
            "check" => Module::native(CheckModule::new(self.failures.clone())).map(Some),
            _ => Ok(None),
        };
        let options = self.options_of(name);
        let program = Program::with_modules(&options, self.modules.clone(), &mut offer)?;
        let profiling = match (&options.profiling, program.devices()) {
            (Some(profiling), Some(devices)) => Some(Profiling::begin(devices, profiling)?),
            _ => None,
        };
        let outcome = program
            .function(name)
            .and_then(|function| program.call(&function, Vec::new()))
            .map(drop)
            .context(|| format!("test '{name}'"));
        let ended = profiling.map_or(Ok(()), |profiling| self.end(profiling, &options));
        outcome.and(ended).and(program.close_unscoped())
    }

    /// Ends the profile of a test; the statistics that are not for a bundle are kept for
    /// [`ModuleTests::take_statistics`].
    fn end(&self, profiling: Profiling, options: &ProgramOptions) -> Result<()> {
        if options.profiling.as_ref().is_some_and(|profiling| profiling.output.is_some()) {
            return profiling.end();
        }
        profiling.end_with_statistics(&mut *self.statistics.lock())
    }

    /// The statistics of the tests that have run since the last call, if the profile has no bundle.
    pub fn take_statistics(&self) -> Vec<u8> {
        std::mem::take(&mut self.statistics.lock())
    }

    /// The capture of a test that has run, if tests are recorded. It does not exist if the test used no
    /// device.
    pub fn capture_of(&self, name: &str) -> Option<PathBuf> {
        let options = self.options_of(name);
        options.recording.as_ref().map(|recording| recording.path.path().to_path_buf())
    }

    /// The files that the tests may write: captures and profiles.
    pub fn written_files(&self) -> Vec<PathBuf> {
        let recording = self.options.recording.as_ref().map(|recording| &recording.path);
        let profile = self.options.profiling.as_ref().and_then(|profiling| profiling.output.as_ref());
        let paths = || recording.into_iter().chain(profile).map(|path| path.path());
        let beside = self.tests.iter().flat_map(|test| paths().map(|path| beside(path, &test.name)));
        paths().map(Path::to_owned).chain(beside).collect()
    }

    /// The options of a test's program, with separate paths of the capture and the profile.
    fn options_of(&self, name: &str) -> Cow<'_, ProgramOptions> {
        let mut options = Cow::Borrowed(&self.options);
        let writes = self.options.recording.is_some() || self.options.profiling.is_some();
        if writes && self.first.get_or_init(|| name.to_owned()) != name {
            let options = options.to_mut();
            let recording = options.recording.as_mut().map(|recording| &mut recording.path);
            let profile = options.profiling.as_mut().and_then(|profiling| profiling.output.as_mut());
            for path in recording.into_iter().chain(profile) {
                *path = beside(path.path(), name).into();
            }
        }
        options
    }
}

/// `path` with the test's name before its extension.
fn beside(path: &Path, test: &str) -> PathBuf {
    let mut name = path.file_stem().unwrap_or_default().to_owned();
    name.push(".");
    name.push(test.replace('/', "_"));
    if let Some(extension) = path.extension() {
        name.push(".");
        name.push(extension);
    }
    path.with_file_name(name)
}

/// The tests of a module. Fails if an exported function has inputs or results.
fn tests(module: &ProgramModule) -> Result<Vec<ModuleTest>> {
    let mut tests = Vec::new();
    for (ordinal, export) in module.module().exports().iter().enumerate() {
        let name = export.name.to_string();
        if name.starts_with("__") || name.contains('$') {
            continue;
        }
        let fences = if module.is_async(&name) { 2 } else { 0 };
        let convention = &export.convention;
        if convention.arguments().len() != fences || !convention.results().is_empty() {
            return Err(Error::invalid_argument(format!(
                "expected function with no inputs or outputs, but export '{name}' has signature '{convention}'"
            ))
            .advise("call functions with inputs directly; a test has none"));
        }
        tests.push(ModuleTest { name, ordinal });
    }
    Ok(tests)
}
