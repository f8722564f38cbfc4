//! `depute check`: read files as the planner would, and say what is wrong with them.

mod judge;
mod mend;
mod overlay;
mod print;
mod report;
mod sarif;
mod walk;

use std::io::IsTerminal;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::broker::Terminal;
use crate::diagnostic::printable;
use crate::exit::Exit;
use crate::host;

use super::out::{Output, Tone};
use super::{Failure, Global};
use judge::Judge;
use print::Printer;
use report::{Report, Summary};
use sarif::Sarif;
use walk::Found;

/// How many files are judged before their reports are printed, which bounds what is held in memory.
const CHUNK: usize = 1024;
/// From how many files on a bar shows how far it is.
const MANY: usize = 200;

/// What to check.
#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Definitions, policies, or directories with them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// How to print what was found; `--json` is `--format json`
    #[arg(long, value_name = "FORMAT", default_value = "text")]
    format: Format,
    /// Show as a diff, then make, the changes that would help and cannot widen what a file declares
    #[arg(long)]
    fix: bool,
    /// Also read a tool that no runtime has as the one it is nearest to, which widens
    #[arg(long, requires = "fix")]
    names: bool,
    /// Give definitions that declare no tools a ceiling in the operator's policy, bound to their bytes
    #[arg(
        long,
        value_name = "CEILING",
        num_args = 0..=1,
        default_missing_value = "none",
        require_equals = true,
        conflicts_with = "fix"
    )]
    overlay: Option<overlay::Suggested>,
    /// Make also the changes that are marked WIDENS
    #[arg(long)]
    allow_widening: bool,
    /// Do not ask before writing
    #[arg(short, long)]
    yes: bool,
}

/// How reports are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// One object a file, and one with the summary
    Json,
    /// One SARIF 2.1.0 document
    Sarif,
}

pub(super) fn main(args: &CheckArgs, global: &Global, out: &mut Output) -> Result<Exit, Failure> {
    let mut judge = Judge::here(global, out.colour())?;
    let files = walk::files(&args.paths)?;
    if files.is_empty() {
        out.say("no definition or policy is there");
    }
    let changed = if args.fix {
        mend::main(args, &judge, &files, out)?
    } else if let Some(suggested) = args.overlay {
        overlay::main(suggested, args, global, &judge, &files, out)?
    } else {
        false
    };
    if changed {
        judge = Judge::here(global, out.colour())?;
    }
    let mut printer = match args.format {
        Format::Sarif => Printer::Sarif(Sarif::new()),
        Format::Json => Printer::Json,
        Format::Text if out.json => Printer::Json,
        Format::Text => Printer::text(out.quiet()),
    };
    let mut summary = Summary::default();
    let bar = bar(files.len(), out);
    for chunk in files.chunks(CHUNK) {
        for mut report in examine(chunk, &judge) {
            summary.count(&mut report);
            printer.report(&report, out)?;
        }
        bar.inc(chunk.len() as u64);
    }
    bar.finish_and_clear();
    printer.finish(&summary, out)?;
    if args.format == Format::Text && !out.json {
        hints(&summary, out);
    }
    Ok(if summary.not_in_order() == 0 { Exit::Done } else { Exit::Invalid })
}

/// A bar on standard error, where that is a terminal and it would be seen.
fn bar(files: usize, out: &Output) -> ProgressBar {
    let hidden = files < MANY || out.quiet() || !std::io::stderr().is_terminal();
    let target = if hidden { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
    let bar = ProgressBar::with_draw_target(Some(files as u64), target);
    match ProgressStyle::with_template("{bar:30} {human_pos}/{human_len} checked, {eta} left") {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Whether the operator wants what was shown to be written: by `--yes`, or by an answer at the terminal.
fn consent(question: &str, args: &CheckArgs, out: &mut Output) -> Result<bool, Failure> {
    let yes = match Terminal::controlling() {
        _ if args.yes => true,
        Some(mut terminal) => terminal.confirm(question)?,
        None => false,
    };
    if !yes {
        out.say("nothing is written; `--yes` writes without asking");
    }
    Ok(yes)
}

/// The difference between two states of a file.
fn show(path: &str, before: &[u8], after: &[u8], out: &mut Output) {
    let (before, after) = (String::from_utf8_lossy(before), String::from_utf8_lossy(after));
    let diff = similar::TextDiff::from_lines(&before, &after);
    for line in diff.unified_diff().context_radius(1).header(path, path).to_string().lines() {
        let tone = match line.chars().next() {
            Some('+') => Tone::Good,
            Some('-') => Tone::Bad,
            _ => Tone::Dim,
        };
        let line = out.paint(tone, &printable(line));
        out.say(&line);
    }
}

/// The reports on some files, in their order, made on every core.
fn examine(files: &[Found], judge: &Judge) -> Vec<Report> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(file) = files.get(at) else { return done };
            let report = match file {
                Ok(site) => judge.examine(site),
                Err((path, error)) => judge.unseen(path, error),
            };
            done.push((at, report));
        }
    };
    let helpers = host::cores().min(files.len()).saturating_sub(1);
    let mut done = std::thread::scope(|scope| {
        // Where the system gives no more threads, fewer do the work.
        let helper = |_| std::thread::Builder::new().spawn_scoped(scope, work).ok();
        let helpers: Vec<_> = (0..helpers).map_while(helper).collect();
        let mut done = work();
        for helper in helpers {
            match helper.join() {
                Ok(theirs) => done.extend(theirs),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, report)| report).collect()
}

/// What to do next, for a person.
fn hints(summary: &Summary, out: &mut Output) {
    let of = |count: usize| if count == 1 { "1 file".to_owned() } else { format!("{count} files") };
    if summary.mendable > 0 {
        out.say(&format!("{} would be mended by `--fix`, which cannot widen", of(summary.mendable)));
    }
    if summary.widening > 0 {
        out.say(&format!(
            "{} would be mended by `--fix --names --allow-widening`: look at its diff before you say yes",
            of(summary.widening)
        ));
    }
    if summary.silent > 0 {
        out.say(&format!(
            "{} may be given a ceiling in your policy: `--overlay` for none, `--overlay=read` for reading",
            of(summary.silent)
        ));
    }
}
