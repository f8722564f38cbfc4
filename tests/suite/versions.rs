//! A depute and files of another version: each is refused by name, and no default steps in.

use depute::policy::{self, Narrowing, Policy};
use depute::runtime::{self, Profile};

use super::project::{Project, write};
use super::support::{LAB, placed, shipped_text};

const POLICY: &str = "version: 1\ngrant: [tool:read, agent:*]\nruntime: {default: scripted}\n";

/// What the reader of policies, of a workspace's policy, and of profiles says of the same change.
fn said(change: impl Fn(&str) -> String) -> [String; 3] {
    let [policy, workspace, profile] = [POLICY, "version: 1\ngates: [tool:bash]\n", LAB].map(change);
    let read = |path, source: &str, result: Result<(), _>| match result {
        Ok(()) => "taken".to_owned(),
        Err(problem) => placed(path, source.as_bytes(), problem),
    };
    [
        read("policy.yaml", &policy, Policy::read(policy.as_bytes()).map(drop)),
        read(".depute/policy.yaml", &workspace, Narrowing::read(workspace.as_bytes()).map(drop)),
        read("lab.yaml", &profile, Profile::read(profile.as_bytes()).map(drop)),
    ]
}

fn with_version(version: &str) -> [String; 3] {
    said(|source| source.replacen("version: 1", &format!("version: {version}"), 1))
}

/// This file says what a depute that reads version 1 does. One that reads more has more to say here.
#[test]
fn version_1_is_what_is_read() {
    assert_eq!((policy::VERSION, runtime::VERSION), (1, 1));
    assert_eq!(with_version("1"), ["taken"; 3]);
}

#[test]
fn a_newer_file_says_that_it_is_for_a_newer_depute() {
    insta::assert_snapshot!(with_version("2").join("\n"), @r"
    policy.yaml:1:10: is of version 2, written for a newer depute than this one, which reads version 1; use a newer depute, or rewrite the policy for version 1
    .depute/policy.yaml:1:10: is of version 2, written for a newer depute than this one, which reads version 1; use a newer depute, or rewrite the policy for version 1
    lab.yaml:1:10: is of version 2, written for a newer depute than this one, which reads version 1; use a newer depute, or rewrite the profile for version 1
    ");
    assert_eq!(with_version("1"), ["taken"; 3]);
}

#[test]
fn an_older_file_says_that_it_has_to_be_rewritten() {
    insta::assert_snapshot!(with_version("0").join("\n"), @r"
    policy.yaml:1:10: is of version 0, older than what this depute reads, which is version 1; rewrite the policy for version 1
    .depute/policy.yaml:1:10: is of version 0, older than what this depute reads, which is version 1; rewrite the policy for version 1
    lab.yaml:1:10: is of version 0, older than what this depute reads, which is version 1; rewrite the profile for version 1
    ");
    assert_eq!(with_version("1"), ["taken"; 3]);
}

/// What a newer version has brought is not called a mistake: the version is what is wrong, wherever in
/// the file it stands.
#[test]
fn a_key_of_a_newer_version_names_the_version() {
    let newer = |version: &str| {
        said(|source| {
            let rest = source.replacen("version: 1\n", "", 1);
            format!("colour: [red]\n{rest}version: {version}\n")
        })
    };
    for found in newer("2") {
        assert!(found.contains("is of version 2, written for a newer depute"), "{found}");
        assert!(!found.contains("colour"), "{found}");
    }
    // The same key in a file of this version is one that it does not have.
    for found in newer("1") {
        assert!(found.contains("`colour` is not a key of"), "{found}");
        assert!(found.contains("the keys of version 1 are version, "), "{found}");
    }
    assert_eq!(said(str::to_owned), ["taken"; 3]);
}

#[test]
fn a_version_is_a_whole_number() {
    for version in ["'1'", "1.0", "one", "~", "[1]", "-1", "99999999999999999999"] {
        for found in with_version(version) {
            assert!(found.contains("`version` is"), "{version}: {found}");
        }
    }
    let found = said(|source| source.replacen("version: 1\n", "", 1));
    assert!(found.iter().all(|found| found.contains("has no `version`")), "{found:?}");
    assert_eq!(with_version("1"), ["taken"; 3]);
}

const PLAN: [&str; 7] = ["plan", "reader", "--trust-workspace", "--task", "x", "--runtime", "scripted"];

fn project() -> Project {
    let project = Project::new();
    project.skill("reader", "Read");
    project
}

/// The error of a plan that cannot begin; nothing where it is granted.
fn error(project: &Project, args: &[&str]) -> Option<String> {
    let (code, value) = project.json(args);
    let message = value["error"]["message"].as_str().map(str::to_owned);
    assert_eq!(code, if message.is_some() { 82 } else { 0 }, "{value}");
    message
}

/// Wherever a policy stands: one of another version is not passed over for the next.
#[test]
fn no_policy_steps_in_for_one_of_another_version() {
    let project = project();
    assert_eq!(error(&project, &PLAN), None, "the built-in one");
    let key = depute::host::key(&project.root().canonicalize().unwrap());
    let places = [
        project.config().join("policy.yaml"),
        project.config().join(format!("policies/{key}.yaml")),
        project.root().join(".depute/policy.yaml"),
        project.root().join("named.yaml"),
    ];
    for place in &places {
        let named = place.ends_with("named.yaml");
        let args: Vec<&str> = ["--policy", "named.yaml"].into_iter().filter(|_| named).chain(PLAN).collect();
        let text = if place.ends_with(".depute/policy.yaml") { "version: 1\n" } else { POLICY };
        for (version, says) in
            [("2", "written for a newer depute"), ("0", "older than what this depute reads")]
        {
            write(place, text.replace("version: 1", &format!("version: {version}")));
            let found = error(&project, &args).unwrap_or_else(|| panic!("{}", place.display()));
            assert!(found.contains(says), "{}: {found}", place.display());
        }
        write(place, text);
        assert_eq!(error(&project, &args), None, "{}", place.display());
    }
    // Not even by naming another: what a newer one locks cannot be told.
    write(&places[0], POLICY.replace("version: 1", "version: 2"));
    let named = [&["--policy", "named.yaml"][..], &PLAN].concat();
    assert!(error(&project, &named).unwrap().contains("written for a newer depute"));
}

/// A profile of another version hides the built-in one of its name, and is refused.
#[test]
fn no_profile_steps_in_for_one_of_another_version() {
    let project = project();
    let place = project.config().join("runtimes/scripted.yaml");
    let text = shipped_text("scripted");
    for (version, says) in [("2", "written for a newer depute"), ("0", "older than what this depute reads")] {
        write(&place, text.replace("version: 1", &format!("version: {version}")));
        let found = error(&project, &PLAN).unwrap();
        assert!(found.contains(says), "{found}");
        let (code, value) = project.json(&["check", place.to_str().unwrap()]);
        assert_eq!((code, value["rule"].as_str()), (82, Some("unknown-version")), "{value}");
    }
    write(&place, &text);
    assert_eq!(error(&project, &PLAN), None);
}
