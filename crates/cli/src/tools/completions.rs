//! `rehal completions`: prints the script by which a shell completes commands.

use rehal_base::Result;

use crate::{Invocation, Operands, Tool, output, shells};

/// See the [module](self).
pub const COMPLETIONS: Tool = Tool {
    name: "rehal completions",
    verb: "completions",
    summary: "prints the script by which a shell completes commands",
    about: "Prints a script for bash, zsh or fish. With it, the shell completes verbs, flags that have an effect in this \
            build, values of flags with a fixed set of them, devices, and files with the extensions that a tool reads; also for \
            the names of IREE's tools. The script asks the program rehal, or the one whose path is typed.",
    operands: Operands::Word { what: "shell", form: "bash|zsh|fish", words: &["bash", "zsh", "fish"] },
    groups: &[],
    examples: &[
        ("Complete in this bash", "source <({tool} bash)"),
        ("Complete in every bash", "{tool} bash > ~/.local/share/bash-completion/completions/rehal"),
        ("Complete in every fish", "{tool} fish > ~/.config/fish/completions/rehal.fish"),
        ("Complete in zsh: in a directory of $fpath, before compinit", "{tool} zsh > ~/.zfunc/_rehal"),
    ],
    guide: include_str!("../guides/completions.md"),
    answer: |_, _, _| None,
    run,
};

fn run(invocation: &Invocation) -> Result<()> {
    output::print(&shells::script(invocation.word()))
}
