//! `rehal tools`: lists the names of IREE's tools, and links them to this program.

use std::env::consts::EXE_SUFFIX;
use std::fs;
use std::io;
use std::path::Path;

use rehal_base::platform::link_program;
use rehal_base::{Align, Context, Error, FileId, Result, StatusCode};
use tempfile::Builder;

use crate::flags::{Flag, Group};
use crate::names::IREE_NAMES;
use crate::table::table;
use crate::{Invocation, Operands, Tool, output};

/// See the [module](self).
pub const TOOLS: Tool = Tool {
    name: "rehal tools",
    verb: "tools",
    summary: "lists the names of IREE's tools, and links them to this program",
    about: "Called by a name of IREE's tools, this program is that tool. Without flags, prints the names, each with the verb \
            that is the same. With --install, makes a link of each name in a directory. Links of an earlier installation are \
            replaced; if anything else has one of the names, nothing is changed.",
    operands: Operands::MaybeDirectory { usage: "[--install DIR]" },
    groups: &[&LINKS],
    examples: &[
        ("List the names", "{tool}"),
        ("Link them where the shell finds them", "{tool} --install ~/.local/bin"),
    ],
    guide: include_str!("../guides/tools.md"),
    answer: |_, _, _| None,
    run,
};

const INSTALL: Flag<bool> = Flag::switch(
    "install",
    false,
    "Makes the links in the directory that follows, which is created if it does not exist.",
);

const FORCE: Flag<bool> =
    Flag::switch("force", false, "Also replaces files that are not links to this program.");

const LINKS: Group = Group { title: "Links", flags: &[&INSTALL, &FORCE] };

fn run(invocation: &Invocation) -> Result<()> {
    let flags = &invocation.flags;
    match (invocation.files(), flags.get(&INSTALL)) {
        ([], false) => output::print(&list()),
        ([directory, ..], true) => {
            install(directory, flags.get(&FORCE)).context(|| format!("--install {}", directory.display()))
        }
        ([], true) => Err(Error::invalid_argument("--install needs a directory")
            .advise("name it: rehal tools --install DIR")),
        ([directory, ..], false) => {
            let directory = directory.display();
            Err(Error::invalid_argument(format!("'{directory}' is given without --install"))
                .advise(format!("rehal tools --install {directory} makes the links there")))
        }
    }
}

/// The names, and the verbs that are the same.
fn list() -> String {
    let tools = super::ALL.iter().filter(|tool| IREE_NAMES.contains(&tool.name));
    let rows: Vec<_> = tools.map(|tool| [tool.name.to_string(), format!("rehal {}", tool.verb)]).collect();
    table("", &[Align::Left, Align::Left], &rows)
}

/// Makes all links, or none if one of the names is taken.
fn install(directory: &Path, force: bool) -> Result<()> {
    let io = |what: &str, path: &Path| {
        let what = format!("{what} '{}'", path.display());
        move |error: io::Error| Error::io(what, &error)
    };
    let program = std::env::current_exe().and_then(fs::canonicalize);
    let program = program.map_err(|error| Error::io("finding this program", &error))?;
    let given = directory;
    if !given.exists() {
        let created = fs::create_dir_all(given).map_err(io("creating directory", given));
        created.advise(|| "name another directory")?;
    }
    let directory = fs::canonicalize(given).map_err(io("opening directory", given))?;
    if !directory.is_dir() {
        return Err(Error::invalid_argument(format!("'{}' is not a directory", given.display()))
            .advise("name the directory of the links"));
    }
    let names = IREE_NAMES.map(|name| format!("{name}{EXE_SUFFIX}"));
    for name in &names {
        check(&directory.join(name), &program, force)?;
    }
    let target = match program.strip_prefix(&directory) {
        Ok(name) if name.components().count() == 1 => name,
        _ => &program,
    };
    for name in &names {
        let link = directory.join(name);
        // A link is complete or absent, as a command that another process starts meanwhile needs it.
        let made = Builder::new().make_in(&directory, |path| link_program(target, path));
        let made = made.map_err(io("making a link in", &directory))?;
        made.persist(&link).map_err(|error| io("replacing", &link)(error.error))?;
    }
    Ok(())
}

/// Refuses to replace what is not a link to a program of this name, or, by force, this program.
fn check(link: &Path, program: &Path, force: bool) -> Result<()> {
    let shown = link.display();
    if link == program {
        return Err(Error::failed_precondition(format!("'{shown}' is this program"))
            .advise("rename it to rehal first"));
    }
    // A hard link.
    if FileId::at(link).is_some_and(|it| FileId::at(program) == Some(it)) {
        return Ok(());
    }
    let is_link = |to: &Path| to.file_name() == program.file_name();
    match fs::read_link(link) {
        Ok(to) if force || is_link(&to) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(_) if force && !link.is_dir() => Ok(()),
        _ => Err(Error::new(StatusCode::AlreadyExists, format!("'{shown}' is not a link to rehal")).advise(
            match link.is_dir() {
                true => "name another directory",
                false => "name another directory, or replace the file by --force",
            },
        )),
    }
}
