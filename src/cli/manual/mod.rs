//! The manual: what `--help` says beyond the one line of `-h`, and the pages of `depute gen man`.

mod pages;

use std::io;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, italic, roman};

use crate::exit::Exit;

use super::{Cli, Global};
use pages::PAGES;

/// What is said of one command.
struct Page {
    /// Its words after `depute`.
    command: &'static str,
    /// What it does, in paragraphs, beyond its one line.
    about: &'static str,
    examples: &'static [Example],
    exits: Exits,
    files: &'static [File],
    /// Commands that belong to it.
    see: &'static [&'static str],
}

/// What somebody wants, and the line that does it.
struct Example(&'static str, &'static str);

impl Example {
    /// What somebody wants, as it stands before the line.
    fn lead(&self) -> String {
        if self.0.ends_with('?') { self.0.to_owned() } else { format!("{}:", self.0) }
    }
}

/// A path, and what is there.
#[derive(Clone, Copy)]
struct File(&'static str, &'static str);

/// With which codes a command ends.
enum Exits {
    /// With any of the table.
    All,
    /// With these.
    These(&'static [Exit]),
    /// With these, or with the child's own.
    AndTheChilds(&'static [Exit]),
}

/// The command line with all its words.
pub(super) fn command() -> Command {
    PAGES.iter().fold(Cli::command(), |command, page| {
        let words: Vec<&str> = page.command.split_whitespace().collect();
        described(command, &words, page)
    })
}

/// The command with what a page says put to it, or to the one of its commands that the words lead to.
fn described(command: Command, words: &[&'static str], page: &Page) -> Command {
    let Some((first, rest)) = words.split_first() else {
        let about = command.get_about().map(ToString::to_string).unwrap_or_default();
        return command
            .long_about(format!("{about}.\n\n{}", page.about))
            .after_long_help(format!("Examples:\n{}", page.examples_text()));
    };
    // A page without its command is for the test to find.
    if command.find_subcommand(first).is_none() {
        return command;
    }
    command.mut_subcommand(first, |inner| described(inner, rest, page))
}

/// The command line without the commands that only this program itself uses.
pub(super) fn shown() -> Command {
    let whole = command();
    let commands = whole.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned();
    let base = Command::new("depute").version(env!("CARGO_PKG_VERSION")).disable_help_subcommand(true);
    Global::augment_args(base).subcommands(commands)
}

/// The manual page of a command, by its words after `depute`. Nothing where there is no such command.
pub(super) fn page(words: &[String]) -> io::Result<Option<Vec<u8>>> {
    let name = words.iter().fold("depute".to_owned(), |name, word| format!("{name}-{word}"));
    let found = commands().into_iter().find(|(file, _)| *file == format!("{name}.1"));
    found.map(|(_, command)| rendered(command)).transpose()
}

/// The files of all manual pages.
pub(super) fn pages() -> io::Result<Vec<(String, Vec<u8>)>> {
    commands().into_iter().map(|(file, command)| Ok((file, rendered(command)?))).collect()
}

/// Every command that is shown, with the name of its page's file.
fn commands() -> Vec<(String, Command)> {
    fn all(command: &Command, found: &mut Vec<(String, Command)>) {
        found.push((Man::new(command.clone()).get_filename(), command.clone()));
        for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
            all(inner, found);
        }
    }
    let mut command = command();
    command.build();
    let mut found = Vec::new();
    all(&command, &mut found);
    found
}

fn rendered(command: Command) -> io::Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or("depute").to_owned();
    let words = name.trim_start_matches("depute").trim_start_matches('-').to_owned();
    let said = PAGES.iter().find(|page| page.command.replace(' ', "-") == words);
    let has_commands = command.get_subcommands().any(|inner| !inner.is_hide_set());
    // The one line is what NAME says already.
    let command = match said {
        Some(page) => command.long_about(page.about),
        None => command,
    };
    let man = Man::new(command)
        .source(concat!("depute ", env!("CARGO_PKG_VERSION")))
        // An empty argument would be left out, and the others take its place.
        .date(" ")
        .manual("Manual of depute");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    man.render_options_section(&mut page)?;
    if let Some(said) = said {
        said.render(&mut page)?;
    }
    Ok(page)
}

impl Page {
    fn examples_text(&self) -> String {
        let lines = self.examples.iter().map(|example| format!("  {}\n      {}", example.lead(), example.1));
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The sections after the options.
    fn render(&self, page: &mut Vec<u8>) -> io::Result<()> {
        let mut roff = Roff::new();
        roff.control("SH", ["EXAMPLES"]);
        for example in self.examples {
            roff.control("PP", []).text([roman(example.lead())]);
            roff.control("PP", []).control("RS", ["4"]).control("nf", []);
            roff.text([bold(example.1)]).control("fi", []).control("RE", []);
        }
        roff.control("SH", ["EXIT STATUS"]);
        for (exit, meaning) in Exit::TABLE.iter().filter(|(exit, _)| self.exits.has(*exit)) {
            roff.control("TP", ["4"]).text([bold(exit.code().to_string())]);
            roff.text([roman(format!("{meaning}."))]);
        }
        if !matches!(self.exits, Exits::These(_)) {
            roff.control("PP", []);
            roff.text([roman(
                "Any other code is the child's own, or 128 and the number of the signal that ended it.",
            )]);
        }
        if !self.files.is_empty() {
            roff.control("SH", ["FILES"]);
        }
        for File(path, what) in self.files {
            roff.control("TP", []).text([italic(*path)]).text([roman(*what)]);
        }
        if !self.files.is_empty() {
            roff.control("PP", []);
            roff.text([roman(
                "XDG_CONFIG_HOME and XDG_STATE_HOME name other places for ~/.config and ~/.local/state.",
            )]);
        }
        roff.control("SH", ["SEE ALSO"]);
        let mut names = vec!["depute".to_owned()];
        names.extend(self.see.iter().map(|words| format!("depute-{}", words.replace(' ', "-"))));
        if self.command.is_empty() {
            names.remove(0);
        }
        let mut line = Vec::new();
        for (at, name) in names.into_iter().enumerate() {
            if at > 0 {
                line.push(roman(", "));
            }
            line.extend([bold(name), roman("(1)")]);
        }
        roff.text(line);
        roff.to_writer(page)
    }
}

impl Exits {
    fn has(&self, exit: Exit) -> bool {
        match self {
            Self::All => true,
            Self::These(exits) | Self::AndTheChilds(exits) => exits.contains(&exit),
        }
    }
}
