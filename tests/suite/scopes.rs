//! Scopes against a model of them: a scope is the set of things that it allows, and every pair of
//! small ones has the relation that the sets have. And the edges of what a name and a scope may be.

use std::collections::BTreeSet;

use depute::capability::scope::{MAX_SCOPE, Relation, Scope};
use depute::capability::{
    Capability, CapabilitySet, DefinitionName, IdError, MAX_NAME, Name, PackageName, ToolName, WorkspaceId,
};

use super::support::{builtin, id, set};

/// Sequences of at most `most` of these words, with nothing as the first.
fn sequences(words: &[&str], most: usize) -> Vec<Vec<String>> {
    let mut all = vec![Vec::new()];
    let mut longest = all.clone();
    for _ in 0..most {
        let longer = longest.iter().flat_map(|head: &Vec<String>| {
            words.iter().map(|word| head.iter().cloned().chain([(*word).to_owned()]).collect())
        });
        longest = longer.collect();
        all.extend(longest.clone());
    }
    all
}

/// A scope, what it allows for certain, and what it may allow at most.
struct Modelled {
    text: String,
    least: BTreeSet<Vec<String>>,
    most: BTreeSet<Vec<String>>,
}

fn modelled(
    text: String,
    world: &[Vec<String>],
    least: impl Fn(&[String]) -> bool,
    most: impl Fn(&[String]) -> bool,
) -> Modelled {
    let of =
        |allows: &dyn Fn(&[String]) -> bool| world.iter().filter(|thing| allows(thing)).cloned().collect();
    Modelled { text, least: of(&least), most: of(&most) }
}

/// Every pair has the relation of its sets: what is covered lies inside for certain, what is apart
/// cannot meet, and what is neither is unproven.
fn agree(tool: &str, scopes: &[Modelled]) {
    let tool = ToolName::parse(tool).unwrap();
    let mut seen = BTreeSet::new();
    for a in scopes {
        for b in scopes {
            let [wide, narrow] = [a, b].map(|scope| Scope::parse(&tool, &scope.text).unwrap());
            let expected = if a.text == b.text || b.most.is_subset(&a.least) {
                Relation::Covers
            } else if a.most.is_disjoint(&b.most) {
                Relation::Disjoint
            } else {
                Relation::Unproven
            };
            assert_eq!(wide.relation(&narrow), expected, "{} and {}", a.text, b.text);
            seen.insert(format!("{expected:?}"));
        }
    }
    assert_eq!(seen.len(), 3, "all three relations occur: {seen:?}");
}

/// `p/**` is what lies below `p`; `p` may be a file, or a directory with all below it.
#[test]
fn paths_relate_as_the_files_that_they_allow() {
    let world = sequences(&["a", "b"], 4);
    let mut scopes = Vec::new();
    for path in sequences(&["a", "b"], 2) {
        let text = path.join("/");
        let below = |file: &[String]| file.len() > path.len() && file.starts_with(&path);
        let whole = if path.is_empty() { "**".to_owned() } else { format!("{text}/**") };
        scopes.push(modelled(whole, &world, below, below));
        if !path.is_empty() {
            scopes.push(modelled(text, &world, |file| file == path, |file| file.starts_with(&path)));
        }
    }
    agree("read", &scopes);
}

/// `git log:*` is every command that begins with these words; `git log` is that command.
#[test]
fn commands_relate_as_the_lines_that_they_allow() {
    let world = sequences(&["git", "log"], 4);
    let mut scopes = Vec::new();
    for words in sequences(&["git", "log"], 2).into_iter().filter(|words| !words.is_empty()) {
        let text = words.join(" ");
        let begins = |line: &[String]| line.starts_with(&words);
        let is = |line: &[String]| line == words;
        scopes.push(modelled(format!("{text}:*"), &world, begins, begins));
        scopes.push(modelled(text.clone(), &world, is, is));
    }
    agree("bash", &scopes);
}

/// `domain:*.x` is every host below `x`, not `x`; `domain:x` is that host.
#[test]
fn domains_relate_as_the_hosts_that_they_allow() {
    // From the top down, so that below is behind.
    let world = sequences(&["com", "a", "ba"], 4);
    let mut scopes = Vec::new();
    for labels in sequences(&["com", "a", "ba"], 2).into_iter().filter(|labels| !labels.is_empty()) {
        let host = labels.iter().rev().cloned().collect::<Vec<_>>().join(".");
        let below = |found: &[String]| found.len() > labels.len() && found.starts_with(&labels);
        let is = |found: &[String]| found == labels;
        scopes.push(modelled(format!("domain:*.{host}"), &world, below, below));
        scopes.push(modelled(format!("domain:{host}"), &world, is, is));
    }
    agree("web_fetch", &scopes);
}

/// What is not modelled covers its equal alone, and is apart from nothing.
#[test]
fn what_is_not_understood_is_neither_covered_nor_apart() {
    for (tool, odd, plain) in [
        ("read", "*.md", "docs/**"),
        ("read", "docs/*/x", "docs/a/x"),
        ("bash", "git log | sh", "git:*"),
        ("web_fetch", "https://example.com", "domain:example.com"),
        ("delegate", "reviewer", "tester"),
    ] {
        let tool = ToolName::parse(tool).unwrap();
        let [odd, plain] = [odd, plain].map(|text| Scope::parse(&tool, text).unwrap());
        assert_eq!(odd.relation(&odd), Relation::Covers);
        assert_eq!((odd.relation(&plain), plain.relation(&odd)), (Relation::Unproven, Relation::Unproven));
    }
    // The whole workspace holds every glob in it.
    let read = ToolName::parse("read").unwrap();
    let [all, glob] = ["**", "*.md"].map(|text| Scope::parse(&read, text).unwrap());
    assert_eq!((all.relation(&glob), glob.relation(&all)), (Relation::Covers, Relation::Unproven));
}

/// What a ceiling, a gate and a grant make of scopes.
#[test]
fn two_scopes_of_two_tools_have_nothing_to_do_with_each_other() {
    let table = builtin();
    let touch = |a: &str, b: &str| id(a).touches(&id(b), &table);
    assert!(
        touch("tool:read(docs)", "tool:read(docs/x.md)") && touch("tool:read(docs/x.md)", "tool:read(docs)")
    );
    assert!(!touch("tool:read(docs)", "tool:write(docs)") && !touch("tool:read(docs)", "tool:read(src)"));
    assert!(!id("tool:read(docs/**)").names(&id("tool:write(docs/x)")));
    assert!(id("tool:read(docs/**)").names(&id("tool:read(docs/x)")));
}

#[test]
fn a_set_covers_another_where_it_covers_each_of_it() {
    let table = builtin();
    let covers = |wide: &[&str], narrow: &[&str]| set(wide).covers_all(&set(narrow), &table);
    assert!(covers(&["tool:bash", "tool:grep"], &["tool:read", "tool:grep(docs/**)"]));
    assert!(!covers(&["tool:bash", "tool:grep"], &["tool:read", "tool:web_fetch"]));
    assert!(covers(&[], &[]) && !covers(&[], &["tool:read"]));
    assert_eq!((set(&[]).len(), set(&["tool:read", "tool:read", "tool:ls"]).len()), (0, 2));
    assert!(CapabilitySet::empty().is_empty() && !set(&["tool:ls"]).is_empty());
}

/// The longest that is read, and one byte more.
#[test]
fn names_and_scopes_are_read_up_to_their_limit() {
    let text = |bytes: usize| "x".repeat(bytes);
    let edge = |parse: &dyn Fn(&str) -> Option<IdError>, most: usize| {
        for bytes in [1, 2, most - 1, most] {
            assert_eq!(parse(&text(bytes)), None, "{bytes} of {most} bytes");
        }
        for bytes in [most + 1, most + 2, 2 * most] {
            assert_eq!(parse(&text(bytes)), Some(IdError::TooLong(most)), "{bytes} of {most} bytes");
        }
    };
    edge(&|text| Name::parse(text).err(), MAX_NAME);
    edge(&|text| ToolName::parse(text).err(), MAX_NAME);
    edge(&|text| PackageName::parse(text).err(), MAX_NAME);
    edge(&|text| DefinitionName::parse(text).err(), MAX_NAME);
    edge(&|text| WorkspaceId::parse(text).err(), MAX_NAME);
    // Each part is short, and the whole is not.
    let parts = |bytes: usize| format!("{}/{}", text(100), text(bytes - 101));
    assert!(WorkspaceId::parse(&parts(MAX_NAME)).is_ok());
    assert_eq!(WorkspaceId::parse(&parts(MAX_NAME + 1)), Err(IdError::TooLong(MAX_NAME)));
    for tool in ["read", "bash", "delegate"] {
        let tool = ToolName::parse(tool).unwrap();
        edge(&|text| Scope::parse(&tool, text).err(), MAX_SCOPE);
    }
    // A host has its own limit, and its labels their form.
    let host = |labels: &str| format!("tool:web_fetch(domain:{labels})").parse::<Capability>();
    let long = |bytes: usize| format!("{}.{}", text(bytes - 4), "com");
    assert!(host(&long(253)).is_ok());
    assert_eq!((host(&long(254)), host(&long(255))), (Err(IdError::Host), Err(IdError::Host)));
    for good in ["a-b.c_d", "1.2", "*.x-y.com", "EXAMPLE.com"] {
        assert!(host(good).is_ok(), "{good}");
    }
    for bad in ["-a.com", "a-.com", "a..com", ".com", "com.", "a b", "ä.com", "*", "*.", "*.*.com", "a.*"] {
        assert_eq!(host(bad), Err(IdError::Host), "{bad}");
    }
}
