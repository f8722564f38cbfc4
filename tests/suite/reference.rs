//! What the program says of itself: its help, its manual pages, its completions.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::project::{Project, ran};
use super::support::data;

/// The names of the commands that are shown, the program's own first, by their manual pages.
fn commands(project: &Project) -> Vec<String> {
    let mut names: Vec<String> =
        pages(project).into_keys().map(|name| name.trim_start_matches("depute").replace('-', " ")).collect();
    names.sort();
    names
}

/// Every manual page, by its name.
fn pages(project: &Project) -> BTreeMap<String, String> {
    let ran = project.run(&["gen", "man", "--dir", "man"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let read = |line: &str| {
        let path = project.root().join(line);
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    ran.stdout.lines().map(read).collect()
}

/// A program of this machine, where it is one.
fn found(program: &str) -> Option<PathBuf> {
    ["/usr/local/bin", "/usr/bin", "/bin"]
        .iter()
        .map(|dir| Path::new(dir).join(program))
        .find(|path| path.exists())
}

#[test]
fn the_whole_reference_is_as_it_was_read() {
    let project = Project::new();
    let mut text = String::new();
    for command in commands(&project) {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        let ran = project.run(&args);
        assert_eq!((ran.code, ran.stderr.as_str()), (0, ""), "{command}");
        // Lines without anything are padded by the library.
        let lines: Vec<&str> = ran.stdout.lines().map(str::trim_end).collect();
        text += &format!("$ depute {}\n{}\n\n", args.join(" "), lines.join("\n").trim_end());
    }
    let text = text.trim_end().to_owned() + "\n";
    let place = data("cli-reference.txt");
    if std::env::var_os("REWRITE_REFERENCE").is_some() {
        std::fs::write(&place, &text).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap_or_default();
    let differs = text.lines().zip(kept.lines()).position(|(new, old)| new != old);
    let at = differs.unwrap_or_else(|| text.lines().count().min(kept.lines().count()));
    assert!(
        text == kept,
        "tests/data/cli-reference.txt is not what the program says, from line {} on:\n\n    was  {}\n    is   {}\n\nRead what has changed, then take it over with\n\n    REWRITE_REFERENCE=1 cargo test -p depute --test suite the_whole_reference\n",
        at + 1,
        kept.lines().nth(at).unwrap_or("(nothing)"),
        text.lines().nth(at).unwrap_or("(nothing)"),
    );
}

/// The sections of a page, each with its text.
fn sections(page: &str) -> BTreeMap<&str, String> {
    let mut sections: BTreeMap<&str, String> = BTreeMap::new();
    let mut current = "";
    for line in page.lines() {
        match line.strip_prefix(".SH ") {
            Some(name) => current = name.trim_matches('"'),
            None => *sections.entry(current).or_default() += &format!("{line}\n"),
        }
    }
    sections
}

/// Commands that read and write no file of a user.
const WITHOUT_FILES: [&str; 6] = [
    "depute-demo",
    "depute-resolve",
    "depute-gen",
    "depute-gen-schema",
    "depute-gen-completions",
    "depute-gen-man",
];

#[test]
fn every_command_has_a_page_that_a_person_can_use() {
    let project = Project::new();
    let pages = pages(&project);
    assert!(pages.len() > 15, "{}", pages.len());
    let shown = project.run(&["--help"]).stdout;
    for name in ["check", "run", "gen"] {
        assert!(shown.contains(&format!("\n  {name}")) && pages.contains_key(&format!("depute-{name}")));
    }
    assert!(!pages.contains_key("depute-enter") && !pages.contains_key("depute-scripted-agent"));
    for (name, page) in &pages {
        let missing =
            |what: &str| panic!("{name}(1) has no {what}: say it in src/cli/manual/pages.rs\n{page}");
        let sections = sections(page);
        let section = |title: &str| sections.get(title).unwrap_or_else(|| missing(title));
        if section("DESCRIPTION").len() < 160 {
            missing("description of more than a line");
        }
        if !section("EXAMPLES").contains("depute") {
            missing("example");
        }
        assert!(section("EXIT STATUS").contains("done."), "{name}");
        assert_eq!(sections.contains_key("FILES"), !WITHOUT_FILES.contains(&name.as_str()), "{name}");
        let seen: Vec<&str> = section("SEE ALSO").split(", ").collect();
        for other in &seen {
            let other = other.replace("\\fB", "").replace("\\fR", "").replace("\\-", "-");
            let other = other.trim().trim_end_matches("(1)");
            assert!(pages.contains_key(other) && other != name, "{name}(1) names {other:?}");
        }
        // It is the page that is printed alone too.
        let mut args = vec!["gen", "man"];
        args.extend(name.split('-').skip(1));
        assert_eq!(project.run(&args).stdout, *page);
    }
    assert_eq!(project.run(&["gen", "man", "nothing"]).code, 2);
}

#[test]
fn the_pages_render() {
    let project = Project::new();
    let pages = pages(&project);
    let mut checked = 0;
    if let Some(man) = found("man") {
        for name in pages.keys() {
            let file = project.root().join("man").join(format!("{name}.1"));
            let mut command = Command::new(&man);
            command
                .args(["--warnings", "-E", "UTF-8", "-l"])
                .arg(&file)
                .env("MANWIDTH", "80")
                .env("LC_ALL", "C.UTF-8");
            let shown = ran(&command.stdin(Stdio::null()).output().unwrap());
            assert_eq!((shown.code, shown.stderr.as_str()), (0, ""), "{name}");
            for title in ["NAME", "SYNOPSIS", "DESCRIPTION", "EXAMPLES", "EXIT STATUS", "SEE ALSO"] {
                assert!(shown.stdout.lines().any(|line| line == title), "{name}: {title}\n{}", shown.stdout);
            }
            assert!(shown.stdout.contains("Manual of depute"), "{}", shown.stdout);
            checked += 1;
        }
    } else {
        println!("skipped: {} pages by man, which is not here", pages.len());
    }
    if let Some(mandoc) = found("mandoc") {
        for name in pages.keys() {
            let file = project.root().join("man").join(format!("{name}.1"));
            let linted =
                ran(&Command::new(&mandoc).args(["-T", "lint", "-W", "error"]).arg(&file).output().unwrap());
            assert_eq!(linted.code, 0, "{name}: {}", linted.stdout);
            checked += 1;
        }
    } else {
        println!("skipped: {} pages by mandoc, which is not here", pages.len());
    }
    println!("{checked} pages rendered");
}

/// Each example of the help is a line that the program takes: every command and option of it exists.
#[test]
fn every_example_is_taken() {
    let project = Project::new();
    let (mut lines, mut refused) = (0, 0);
    for command in commands(&project) {
        let mut args: Vec<&str> = command.split_whitespace().collect();
        args.push("--help");
        let help = project.run(&args).stdout;
        let examples = help.split_once("Examples:\n").map(|(_, examples)| examples).unwrap_or_default();
        for line in examples.lines().filter_map(|line| line.strip_prefix("      ")) {
            let piece = line.split(['|', '>']).find(|piece| piece.contains("depute ")).unwrap();
            let take = |piece: &str| {
                let script = format!("{piece} --help");
                ran(&project.surround(Command::new("sh"), &["-c", &script]).output().unwrap())
            };
            let taken = take(piece);
            assert_eq!(taken.code, 0, "`{line}`: {}", taken.stderr);
            assert!(taken.stdout.contains("Usage: depute"), "`{line}`: {}", taken.stdout);
            lines += 1;
            // What the program does not have is not taken.
            refused += usize::from(take(&format!("{piece} --colour-of-the-sky")).code == 2);
        }
    }
    println!("{lines} examples are taken");
    assert!(lines > 30 && refused == lines, "{refused} of {lines}");
}

#[test]
fn completions_are_scripts_that_complete() {
    let project = Project::new();
    let script = |shell: &str| {
        let ran = project.run(&["gen", "completions", shell]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        assert!(ran.stdout.contains("trust-workspace"), "{shell} offers options");
        assert!(!ran.stdout.contains("scripted-agent"), "{shell} offers what is not for people");
        project.write(&format!("completions.{shell}"), &ran.stdout);
        project.root().join(format!("completions.{shell}"))
    };
    for (shell, check) in [("bash", "-n"), ("zsh", "-n"), ("fish", "--no-execute")] {
        let place = script(shell);
        let Some(program) = found(shell) else {
            println!("skipped: 1 script by {shell}, which is not here");
            continue;
        };
        let read = ran(&Command::new(program).arg(check).arg(&place).output().unwrap());
        assert_eq!((read.code, read.stderr.as_str()), (0, ""), "{shell}");
    }
    for shell in ["elvish", "powershell"] {
        script(shell);
    }
    assert_eq!(project.run(&["gen", "completions", "tcl"]).code, 2);
    let Some(bash) = found("bash") else { return };
    let completed = |words: &[&str]| {
        let at = words.len() - 1;
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "source completions.bash; COMP_WORDS=({}); COMP_CWORD={at}; _depute depute {} {}; echo \"${{COMPREPLY[@]}}\"",
            quoted.join(" "),
            quoted[at],
            quoted[at - 1],
        );
        let ran = ran(&project.surround(Command::new(&bash), &["--norc", "-c", &script]).output().unwrap());
        assert_eq!(ran.stderr, "");
        ran.stdout.trim().to_owned()
    };
    assert_eq!(completed(&["depute", "pl"]), "plan");
    assert_eq!(completed(&["depute", "he"]), "");
    assert_eq!(completed(&["depute", "gen", "schema", "w"]), "workspace-policy");
    assert_eq!(completed(&["depute", "run", "--trust"]), "--trust-workspace");
    let all = completed(&["depute", "gen", ""]);
    assert!(all.contains("schema") && all.contains("completions") && all.contains("man"), "{all}");
}
