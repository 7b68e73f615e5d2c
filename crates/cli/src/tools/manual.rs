//! `rehal man`: writes manual pages.

use std::fs;
use std::path::PathBuf;

use rehal_base::{Error, Result};

use crate::flags::{Flag, Group};
use crate::{Invocation, Operands, Tool, roff};

/// See the [module](self).
pub const MANUAL: Tool = Tool {
    name: "rehal man",
    verb: "man",
    summary: "writes manual pages, one for each verb",
    about: "Writes rehal.1, and a page for each verb, such as rehal-run.1, into a directory. The pages have what --help=all \
            prints. Pages of an earlier version are replaced.",
    operands: Operands::None { usage: "--to=DIR" },
    groups: &[&PAGES],
    examples: &[("Write them where man finds them", "{tool} --to=~/.local/share/man/man1")],
    guide: include_str!("../guides/man.md"),
    answer: |_, _, _| None,
    run,
};

const TO: Flag<Option<PathBuf>> =
    Flag::path("to", "The directory for the pages, which is created if it does not exist.");

const PAGES: Group = Group { title: "Pages", flags: &[&TO] };

fn run(invocation: &Invocation) -> Result<()> {
    let Some(directory) = invocation.flags.get(&TO) else {
        return Err(Error::invalid_argument("--to is missing")
            .advise("name the directory for the pages: rehal man --to=DIR"));
    };
    fs::create_dir_all(&directory).map_err(|error| {
        Error::io(format_args!("creating directory '{}'", directory.display()), &error)
            .advise("name another directory for the pages")
    })?;
    for (name, text) in roff::pages(super::ALL) {
        let path = directory.join(name);
        fs::write(&path, text).map_err(|error| {
            Error::io(format_args!("writing '{}'", path.display()), &error)
                .advise("name a directory that can be written to")
        })?;
    }
    Ok(())
}
