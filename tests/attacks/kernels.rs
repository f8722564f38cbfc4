//! Kernels that lack what a cage needs, and kernels that say yes and do nothing: answers put in by strace.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;

use super::attacker::step;
use super::harness::{Lab, Node, Outcome, Place, Ran, finish};

/// Runs a node whose kernel answers as it is told.
fn answered(place: &Place<'_>, node: &Node<'_>, answers: &[&str]) -> Ran {
    let steps = [step("write", json!({"path": "mark", "text": "it ran"}))];
    let arguments = node.arguments(&steps);
    let mut command = place.surround(Command::new("strace"));
    let calls: Vec<&str> = answers.iter().filter_map(|answer| answer.split(':').next()).collect();
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("trace={}", calls.join(","))]);
    for answer in answers {
        command.args(["-e", &format!("inject={answer}")]);
    }
    command.arg(&place.lab.depute).arg("--ledger").arg(place.ledger()).args(arguments);
    finish(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

fn strace() -> Outcome {
    let found = ["/usr/bin/strace", "/usr/local/bin/strace", "/bin/strace"]
        .iter()
        .any(|path| Path::new(path).exists());
    if found { Ok(()) } else { Err("strace is not here, so no other kernel can be played".to_owned()) }
}

#[track_caller]
fn refused(place: &Place<'_>, ran: &Ran, feature: &str, what: &str) {
    assert_eq!(ran.code, 84, "{what}: {} {}", ran.value, ran.stderr);
    let said = ran.value.to_string();
    assert!(said.contains(&format!("`{feature}")), "{what} names `{feature}`: {said}");
    assert!(!place.root().join("mark").exists(), "{what}: it ran");
    let kinds = place.kinds();
    assert!(
        !kinds.contains(&"caged".to_owned()) && !kinds.contains(&"spawned".to_owned()),
        "{what}: {kinds:?}"
    );
}

pub(crate) fn old(lab: &Lab) -> Outcome {
    strace()?;
    let cases = [
        ("retval=1", "landlock.scope"),
        ("retval=3", "landlock.scope"),
        ("retval=5", "landlock.scope"),
        ("error=ENOSYS", "landlock"),
        ("error=EOPNOTSUPP", "landlock"),
    ];
    for (answer, feature) in cases {
        let place = lab.place();
        let ran = answered(&place, &place.node("Read, Write"), &[&format!("{ASKED}:{answer}")]);
        refused(&place, &ran, feature, answer);
        assert!(!place.kinds().contains(&"spawn".to_owned()), "{answer}: {:?}", place.kinds());
    }
    // With the policy's leave, version 5 is enough for less; version 1 is enough for nothing.
    let place = lab.place();
    let ran = answered(&place, &place.node("Read, Write").tier("F"), &[&format!("{ASKED}:retval=1")]);
    refused(&place, &ran, "landlock", "tier F");
    let ran = answered(&place, &place.node("Read, Write").tier("F"), &[FIVE]);
    assert_eq!(ran.code, 0, "{} {}", ran.value, ran.stderr);
    assert!(place.root().join("mark").exists());
    assert_eq!(
        place.records().iter().rfind(|record| record["kind"] == "caged").unwrap()["body"]["tier"],
        "F"
    );
    runs_by_itself(lab);
    Ok(())
}

/// The call by which the version is asked for, first of all in each process, and rules are begun.
const ASKED: &str = "landlock_create_ruleset";
/// Each process is told of version 5, and the rest goes on.
const FIVE: &str = "landlock_create_ruleset:retval=5:when=1";

/// The control: under strace, with answers as they are, the same node runs.
#[track_caller]
fn runs_by_itself(lab: &Lab) {
    let place = lab.place();
    let ran = answered(&place, &place.node("Read, Write"), &["landlock_restrict_self:delay_enter=1"]);
    assert_eq!(ran.code, 0, "{} {}", ran.value, ran.stderr);
    assert!(place.root().join("mark").exists());
}

pub(crate) fn lying(lab: &Lab) -> Outcome {
    strace()?;
    const RESTRICTED: &str = "landlock_restrict_self:retval=0";
    const FILTERED: &str = "seccomp:retval=0";
    let cases: [(&str, &str, &[&str], &str); 4] = [
        // At K the guard tries whom it can reach; what is below it tries the rest.
        (
            lab.tier,
            "Read, Write",
            &[RESTRICTED],
            if lab.tier == "K" { "landlock.scope.signal" } else { "landlock" },
        ),
        ("F", "Read, Write", &[FIVE, RESTRICTED], "landlock"),
        (lab.tier, "Read, Write", &[FILTERED], "seccomp"),
        (lab.tier, "Bash", &[FILTERED], "seccomp"),
    ];
    for (tier, tools, answers, feature) in cases {
        let place = lab.place();
        let ran = answered(&place, &place.node(tools).tier(tier), answers);
        refused(&place, &ran, feature, &format!("{answers:?} at {tier} with {tools}"));
    }
    runs_by_itself(lab);
    Ok(())
}
