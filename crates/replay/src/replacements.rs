//! Replacements of the executables of a program or a capture.

use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};

use rehal_base::{Context, Error, Result};
use rehal_hal::{
    Device, Executable, ExecutableFormat, ExecutableParams, FunctionInfo, NeededWorkgroups, ReplacedFunction,
};

use crate::prepare::functions;
use crate::substitute::{
    Candidate, Layer, OpenReplacement, Selector, Substitute, SubstituteCode, Substitution,
};
use crate::{ExecutableNames, ExecutableRecord, Plan, prepare};

/// The replacements of executables of a program: files are opened.
pub struct ProgramSubstitutes {
    selected: Vec<(Substitution, OpenReplacement)>,
    /// Whether each has replaced code.
    is_used: Vec<AtomicBool>,
}

impl ProgramSubstitutes {
    /// Opens the files. Fails if selectors conflict. Ids are numbers of the program's executables, from 1.
    pub fn open(substitutions: &[Substitution]) -> Result<Self> {
        check_selectors(substitutions)?;
        let is_used = substitutions.iter().map(|_| AtomicBool::new(false)).collect();
        Ok(Self { selected: open_all(substitutions)?, is_used })
    }

    /// The function that runs in place of each function of `original`, the executable `id` of a program,
    /// which has been prepared with `params`. `None` if it is not selected.
    ///
    /// A replacement whose format is not stated has that of `params` if `keeps_format`; otherwise the device
    /// infers it.
    ///
    /// Replacements are native code with the privileges of the process: a user who names one asks for it to
    /// run.
    pub fn replace(
        &self,
        id: u64,
        device: &Device,
        params: &ExecutableParams<'_>,
        original: &Executable,
        keeps_format: bool,
    ) -> Result<Option<Vec<ReplacedFunction>>> {
        let selecting = self.selecting(id, original.functions(), original.backend().name())?;
        if selecting.is_empty() {
            return Ok(None);
        }
        let layers: Vec<_> = selecting.iter().map(|(layer, _)| Layer { keeps_format, ..*layer }).collect();
        let replaced = prepare::replace(device, params, original, id, &layers)?;
        selecting.iter().for_each(|(_, is_used)| is_used.store(true, Ordering::Relaxed));
        Ok(Some(replaced))
    }

    /// The replacements of functions of the executable `id`, each with whether it has replaced code. Fails if
    /// an id and a name select it.
    fn selecting(
        &self,
        id: u64,
        functions: &[FunctionInfo],
        own_name: &str,
    ) -> Result<Vec<(Layer<'_>, &AtomicBool)>> {
        let names = || functions.iter().map(|function| function.name.as_bytes());
        let all = self.selected.iter().zip(&self.is_used);
        let selecting = all
            .filter_map(|((it, opened), is_used)| Some((it.layer(opened, id, names(), own_name)?, is_used)));
        let selected = self.selected.iter().map(|(it, _)| it);
        check_overlap(selected, id, |it| it.selects(id, names()), own_name)?;
        Ok(selecting.collect())
    }

    /// Whether a selector may select the executable with this id, whose functions are not known.
    pub fn may_select(&self, id: u64) -> bool {
        let may = |selector: &Selector| match selector {
            Selector::All => true,
            Selector::Id(selected) => *selected == id,
            // Its name may be that of a function here, which cannot be told.
            Selector::Name(_) => false,
        };
        self.selected.iter().any(|(it, _)| may(&it.selector))
    }

    /// The replacements of functions of the executable `id` of a module, of which only the file is read:
    /// `own` are its functions in the code `replaced`, and `read` finds those of a replacement. `None` if it
    /// is not selected.
    pub fn in_file<'s>(
        &'s self,
        id: u64,
        (own, own_name, replaced): (&[FunctionInfo], &str, &[u8]),
        read: &dyn Fn(&SubstituteCode<'s>) -> Result<Vec<FunctionInfo>>,
    ) -> Result<Option<FileReplacements<'s>>> {
        let selecting = self.selecting(id, own, own_name)?;
        if selecting.is_empty() {
            return Ok(None);
        }
        let (mut layers, mut code, mut functions) = (Vec::new(), Vec::new(), Vec::new());
        for (layer, _) in &selecting {
            let it = layer.replacement.substitute_code(layer.function.is_none());
            functions.push(read(&it).context(|| format!("'{}'", it.place.trim_matches('\'')))?);
            prepare::check_stated(layer, &functions[functions.len() - 1])?;
            layers.push(*layer);
            code.push(it);
        }
        let read: Vec<_> = functions.iter().map(Vec::as_slice).collect();
        let found = prepare::match_functions(id, own, &layers, &read)?;
        selecting.iter().for_each(|(_, is_used)| is_used.store(true, Ordering::Relaxed));
        let workgroups = found.iter().map(|found| {
            let Some((layer, ordinal)) = *found else { return NeededWorkgroups::Same };
            let name = functions[layer].get(ordinal as usize).map_or("", |function| &function.name);
            layers[layer].replacement.workgroups_of(name, replaced)
        });
        let workgroups = workgroups.collect();
        Ok(Some(FileReplacements { code, functions: found, workgroups }))
    }

    /// The code that replaces an executable, if something does: images by themselves are put into the code
    /// `own`, one after the other.
    pub fn code_for(
        &self,
        id: u64,
        original: &Executable,
        (format, own): (Option<&ExecutableFormat>, &[u8]),
    ) -> Result<Option<WholeCode<'_>>> {
        let selecting = self.selecting(id, original.functions(), original.backend().name())?;
        let Some((first, _)) = selecting.first() else { return Ok(None) };
        let code = first.replacement.substitute_code(true);
        let mut whole = None;
        for (layer, _) in &selecting {
            let container = whole.as_deref().unwrap_or(own);
            let stated = layer.replacement.format.as_deref();
            let format = format.filter(|it| stated.is_none_or(|name| name.starts_with(it.prefix)));
            whole = match format.and_then(|it| layer.in_container(it, container)) {
                Some(other) => Some(other.context(|| layer.replacement.place.clone())?),
                None if selecting.len() == 1 => break,
                None => {
                    let message =
                        format!("{} and others replace functions of one executable", layer.replacement.place);
                    return Err(Error::failed_precondition(message).advise(REPLACE_WHOLE));
                }
            };
        }
        let bytes = whole.map_or(Cow::Borrowed(code.data), Cow::Owned);
        Ok(Some(WholeCode { is_in_container: matches!(bytes, Cow::Owned(_)), bytes, code }))
    }

    /// The selectors that have selected nothing so far.
    pub fn unused(&self) -> impl Iterator<Item = &Selector> {
        let pairs = self.selected.iter().zip(&self.is_used);
        pairs.filter(|(_, is_used)| !is_used.load(Ordering::Relaxed)).map(|((it, _), _)| &it.selector)
    }
}

/// The code that replaces an executable.
#[derive(Clone, Debug)]
pub struct WholeCode<'s> {
    /// The first replacement.
    pub code: SubstituteCode<'s>,
    /// The code that takes the place of the executable.
    pub bytes: Cow<'s, [u8]>,
    /// Whether that is the executable with images in it, so that it has all of its functions.
    pub is_in_container: bool,
}

/// The replacements of functions of an executable of a module.
#[derive(Clone, Debug)]
pub struct FileReplacements<'s> {
    /// The replacements.
    pub code: Vec<SubstituteCode<'s>>,
    /// For each function of the executable: the index of what replaces it, and the ordinal of the function
    /// there.
    pub functions: Vec<Option<(usize, u32)>>,
    /// The workgroups that what replaces each function needs.
    pub workgroups: Vec<NeededWorkgroups>,
}

/// Fails if selectors leave functions of an executable of a module as they are: a module has one code for all
/// of them. Replacements are not opened. What they lack is found when they replace it.
pub fn check_whole(substitutions: &[Substitution], id: u64, original: &Executable) -> Result<()> {
    let names = || original.functions().iter().map(|function| function.name.as_bytes());
    let selects =
        |it: &&Substitution| it.selects(id, names()) || it.selects_by_own_name(original.backend().name());
    let selecting: Vec<_> = substitutions.iter().filter(selects).collect();
    let Some(first) = selecting.first() else { return Ok(()) };
    let place = first.replacement.place();
    let refused = |message: String| Err(Error::failed_precondition(message).advise(REPLACE_WHOLE));
    if let Some(second) = selecting.get(1) {
        let second = second.replacement.place();
        return refused(format!("{place} and {second} replace functions of one executable"));
    }
    if let Selector::Name(name) = &first.selector
        && first.selects(id, names())
        && original.functions().len() > 1
    {
        let others = names().filter(|it| *it != name.as_bytes());
        return refused(format!(
            "{place} replaces function '{}' only, and the executable also has {}",
            name.escape_debug(),
            functions(others)
        ));
    }
    Ok(())
}

/// Advice about a replacement of some functions of an executable of a module that is not an ELF image.
pub const REPLACE_WHOLE: &str = "of this format, a file replaces an executable of a module as a whole: name one that has all its functions in \
     their order, or compile the program with --iree-hal-link-executables=false, so that each executable has one";

/// Fails if one substitution excludes another.
fn check_selectors(substitutions: &[Substitution]) -> Result<()> {
    for (index, substitution) in substitutions.iter().enumerate() {
        if substitution.selector == Selector::All && substitutions.len() > 1 {
            return Err(Error::invalid_argument(
                "a substitution of all executables excludes other substitutions",
            ));
        }
        let is_same = |other: &&Substitution| other.selector == substitution.selector;
        if let Some(other) = substitutions[..index].iter().find(is_same) {
            let text = substitution.selector.text();
            let places = [other, substitution].map(|it| it.replacement.place());
            let message = format!("{text} is substituted twice: by {} and by {}", places[0], places[1]);
            return Err(Error::invalid_argument(message).advise("name one replacement for each function"));
        }
    }
    Ok(())
}

fn open_all(substitutions: &[Substitution]) -> Result<Vec<(Substitution, OpenReplacement)>> {
    let open = |it: &Substitution| {
        let opened = it.replacement.open();
        Ok((it.clone(), opened.context(|| format!("the substitute for {}", it.selector))?))
    };
    substitutions.iter().map(open).collect()
}

/// The replacements of a replay: files are opened, and each selector matches an executable.
pub(crate) struct Replacements {
    selected: Vec<(Substitution, OpenReplacement)>,
    /// The results of the program's [`Substitute`], by the executable's index in the plan.
    given: Vec<Option<OpenReplacement>>,
}

impl Replacements {
    /// Opens the files. Fails if two selectors conflict or one selects no executable; what depends on own
    /// names is left to [`Replacements::check_names`].
    pub(crate) fn open(substitutions: &[Substitution], plan: &Plan) -> Result<Self> {
        if substitutions.is_empty() {
            return Ok(Self { selected: Vec::new(), given: Vec::new() });
        }
        let names = ExecutableNames::from_plan(plan);
        let substitutions = &names.resolve(substitutions)?.substitutions;
        check_selectors(substitutions)?;
        for substitution in substitutions {
            if !plan.executables().any(|record| substitution.selects_by_capture(&record))
                && !matches!(substitution.selector, Selector::Name(_))
            {
                return Err(names.nothing_selected(&substitution.selector, plan));
            }
        }
        for record in plan.executables() {
            check_overlap(substitutions.iter(), record.id, |it| it.selects_by_capture(&record), "")?;
        }
        Ok(Self { selected: open_all(substitutions)?, given: Vec::new() })
    }

    /// Calls the substitute for each executable; its results take precedence over selectors. `own_name`
    /// returns the own name of the executable at an index.
    pub(crate) fn ask(
        &mut self,
        substitute: &Substitute,
        plan: &Plan,
        own_name: &dyn Fn(usize) -> Result<String>,
    ) -> Result<()> {
        for (index, record) in plan.executables().enumerate() {
            let (id, location) = (record.id, record.location);
            let own_name = || own_name(index);
            let given = substitute(&Candidate { record, own_name: &own_name });
            let opened = given.and_then(|given| given.map(|given| given.open()).transpose());
            self.given.push(
                opened
                    .context(|| format!("the substitute for executable {id}"))
                    .context(|| location.to_string())?,
            );
        }
        Ok(())
    }

    /// Whether a selector must be matched against own names, which are known only after preparation.
    pub(crate) fn need_own_names(&self, plan: &Plan) -> bool {
        self.selected.iter().any(|(it, _)| !plan.executables().any(|record| it.selects_by_capture(&record)))
    }

    /// The replacements for the executable at `index` of the plan: the callback's, or those of all its
    /// selectors. Several names may select functions of one executable.
    pub(crate) fn layers<'r>(
        &'r self,
        index: usize,
        record: &ExecutableRecord<'_>,
        own_name: &str,
    ) -> Vec<Layer<'r>> {
        if let Some(replacement) = self.given.get(index).and_then(Option::as_ref) {
            return vec![Layer { replacement, function: None, keeps_format: false }];
        }
        let layer = |(it, replacement): &'r (Substitution, OpenReplacement)| {
            it.layer(replacement, record.id, record.function_names(), own_name)
        };
        self.selected.iter().filter_map(layer).collect()
    }

    /// Fails if a name selects no executable, or one that its id selects too, given their own names.
    pub(crate) fn check_names(&self, plan: &Plan, own_names: &[String]) -> Result<()> {
        for (record, own_name) in plan.executables().zip(own_names) {
            let selected = self.selected.iter().map(|(it, _)| it);
            check_overlap(selected, record.id, |it| it.selects_by_capture(&record), own_name)?;
        }
        for (it, _) in &self.selected {
            let by_capture = plan.executables().any(|record| it.selects_by_capture(&record));
            if !by_capture && !own_names.iter().any(|name| it.selects_by_own_name(name)) {
                let mut names = ExecutableNames::from_plan(plan);
                names.add_own(plan, own_names);
                return Err(names.nothing_selected(&it.selector, plan));
            }
        }
        Ok(())
    }
}

/// Fails if an executable is selected by its id and by a name: one of the replacements would have no effect,
/// or only on functions that the other lacks. `selects` tells what its id and its functions are selected by.
fn check_overlap<'s>(
    substitutions: impl Iterator<Item = &'s Substitution> + Clone,
    id: u64,
    selects: impl Fn(&Substitution) -> bool,
    own_name: &str,
) -> Result<()> {
    let is_id = |it: &Substitution| it.selector == Selector::Id(id);
    if !substitutions.clone().any(is_id) {
        return Ok(());
    }
    for it in substitutions {
        let Selector::Name(name) = &it.selector else { continue };
        let what = match (selects(it), it.selects_by_own_name(own_name)) {
            (true, _) => "the name of its function",
            (false, true) => "its own name",
            (false, false) => continue,
        };
        let message =
            format!("executable {id} is selected by its id and by {what} '{}'", name.escape_debug());
        return Err(Error::invalid_argument(message)
            .advise("select each function by name, or select the executable by its id only"));
    }
    Ok(())
}
