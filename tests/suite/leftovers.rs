//! What runs leave behind: answers that can be read again, and what is collected when.

use std::path::PathBuf;

use super::project::{Project, write};

/// Runs the scripted agent on a task and says what its node was.
fn run(project: &Project, task: &str) -> String {
    let (_, value) =
        project.json(&["run", "reviewer", "--runtime", "scripted", "--trust-workspace", "--task", task]);
    value["node"].as_str().unwrap_or_else(|| panic!("{value}")).to_owned()
}

fn project() -> Project {
    let project = Project::new();
    project.skill("reviewer", "Read");
    project
}

fn sessions(project: &Project) -> PathBuf {
    project.ledger().with_file_name("sessions")
}

fn answers(project: &Project) -> usize {
    let mut found = 0;
    for session in std::fs::read_dir(sessions(project)).unwrap() {
        found += std::fs::read_dir(session.unwrap().path())
            .unwrap()
            .filter(|entry| entry.as_ref().unwrap().path().extension().is_some_and(|e| e == "answer"))
            .count();
    }
    found
}

#[test]
fn an_answer_is_printed_again_as_it_was_recorded() {
    let project = project();
    let first = run(&project, "say one");
    let second = run(&project, "say two");
    let print = |args: &[&str]| {
        let ran = project.run(&[&["output"], args].concat());
        (ran.code, ran.stdout, ran.stderr)
    };
    let newest = print(&[]);
    assert!(newest.0 == 0 && newest.1.contains("two"), "{newest:?}");
    assert_eq!(print(&[&second]), newest);
    assert!(print(&[&first]).1.contains("one"));
    // The beginning of an id is enough where one id begins so.
    assert!(print(&[&first[..30]]).1.contains("one"));
    let several = print(&[&first[..2]]);
    assert_eq!(several.0, 82);
    assert!(several.2.contains("several nodes begin with"), "{several:?}");
    let none = print(&["ffffffff"]);
    assert!(none.0 == 82 && none.2.contains("no answer of `ffffffff` is kept"), "{none:?}");
    let (_, value) = project.json(&["output", &first]);
    assert_eq!((&value["node"], &value["checked"]), (&first.as_str().into(), &true.into()));
    // What somebody has changed is not printed.
    write(value["file"].as_str().unwrap().as_ref(), "changed\n");
    let changed = print(&[&first]);
    assert_eq!((changed.0, changed.1.as_str()), (83, ""));
    assert!(changed.2.contains("not the answer that the ledger records"), "{changed:?}");
    assert_eq!(print(&[&second]), newest);
}

#[test]
fn a_refused_run_leaves_nothing_behind() {
    let project = project();
    run(&project, "say hello");
    let left = || std::fs::read_dir(sessions(&project)).unwrap().count();
    assert_eq!(left(), 1, "an answer is kept");
    let ran = project.run(&["run", "nobody", "--runtime", "scripted", "--task", "x"]);
    assert_eq!((ran.code, left()), (80, 1));
}

#[test]
fn old_answers_go_and_young_ones_stay() {
    let project = project();
    let node = run(&project, "say hello");
    let ledger = std::fs::read(project.ledger().join("seg-00000000000000000000.jsonl")).unwrap();
    assert_eq!(project.run(&["gc"]).code, 0);
    assert_eq!(answers(&project), 1, "younger than 30 days");
    let (_, value) = project.json(&["gc", "--older-than", "0s", "--dry-run"]);
    assert_eq!((value["garbage"][0]["what"].as_str(), answers(&project)), (Some("answer"), 1));
    let ran = project.run(&["gc", "--older-than", "0s"]);
    assert!(ran.stdout.contains(&node), "{}", ran.stdout);
    assert_eq!(std::fs::read_dir(sessions(&project)).unwrap().count(), 0);
    let after = std::fs::read(project.ledger().join("seg-00000000000000000000.jsonl")).unwrap();
    assert_eq!(after, ledger, "the ledger is left alone");
    assert_eq!(project.run(&["output", &node]).code, 82);
    assert_eq!(project.run(&["gc", "--older-than", "yesterday"]).code, 2);
}

#[test]
fn a_live_session_keeps_everything_and_a_dead_one_its_answers() {
    let project = project();
    run(&project, "say hello");
    let session = std::fs::read_dir(sessions(&project)).unwrap().next().unwrap().unwrap().path();
    // As a broker that was killed leaves it: a lock that nobody holds, and a private directory.
    let private = session.join("0198c0de-0000-7000-8000-000000000001");
    write(&private.join("home/secret"), "x");
    let lock = std::fs::File::create(session.join("lock")).unwrap();
    lock.lock().unwrap();
    let gc = |age: &str| project.json(&["gc", "--older-than", age]).1["garbage"].as_array().unwrap().len();
    assert_eq!(gc("0s"), 0, "somebody holds the lock");
    assert!(private.exists() && answers(&project) == 1);
    drop(lock);
    assert_eq!(gc("30d"), 1);
    assert!(!private.exists() && answers(&project) == 1);
    assert_eq!(gc("0s"), 2, "the answer, and then the session");
    assert!(!session.exists());
}

#[test]
fn what_is_not_of_a_session_is_left_alone() {
    let project = project();
    run(&project, "say hello");
    let other = sessions(&project).join("notes.txt");
    write(&other, "mine");
    let outside = project.root().join("outside");
    write(&outside.join("kept"), "x");
    let session = std::fs::read_dir(sessions(&project)).unwrap().flatten().map(|entry| entry.path());
    let session = session.collect::<Vec<_>>().into_iter().find(|path| path.is_dir()).unwrap();
    std::os::unix::fs::symlink(&outside, session.join("0198c0de-0000-7000-8000-000000000002")).unwrap();
    assert_eq!(project.run(&["gc", "--older-than", "0s"]).code, 0);
    assert!(other.exists(), "its name is no id");
    assert!(outside.join("kept").exists(), "a link is removed, not what it leads to");
    assert!(!session.exists());
    // Every project at once, from any of them.
    run(&project, "say again");
    let (_, value) = project.json(&["gc", "--all", "--older-than", "0s"]);
    assert_eq!(value["garbage"].as_array().unwrap().len(), 2);
}
