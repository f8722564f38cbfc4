//! Which of several failing checks decides, and the table of codes.

use std::collections::BTreeSet;

use depute::capability::AskedId;
use depute::plan::{AskedUse, Code, DefinitionFact, Disposition};
use depute::runtime::Tier;

use super::support::{Case, id, set};

// --- the order of checks ---

/// A case in which each check can be made to fail without touching the others.
fn everything() -> Case {
    Case::new()
        .policy("version: 1\ngrant: [tool:read, tool:grep, tool:super, tool:fabric_exec, agent:*]\nsubsumption: {super: [bash]}\n")
        .tools("Read, Write, Bash, fabric_exec, Reed")
        .asks(&["tool:read"])
        .uncaged()
}

fn ask_also(case: &mut Case, text: &str) {
    if let AskedUse::Exactly(ids) = &mut case.request.uses {
        ids.push(AskedId::parse(text));
    }
}

type Break = (&'static str, fn(&mut Case));

const BREAKS: [Break; 18] = [
    ("REQUEST_MALFORMED", |case| case.request.task.nul = true),
    ("DEPTH_EXCEEDED", |case| case.situation.facts.node.depth = 9),
    ("TASK_MISSING", |case| case.request.task.blank = true),
    ("WORKSPACE_NOT_REGISTERED", |case| case.request.workspace = Some("elsewhere".into())),
    ("WORKSPACE_NOT_AUTHORIZED", |case| {
        case.request.workspace = Some("side".into());
        case.situation.facts.workspaces = vec!["side".into()];
    }),
    ("UNKNOWN_DEFINITION", |case| {
        case.situation.facts.definition = DefinitionFact::Unknown { near: Vec::new() }
    }),
    ("DEFINITION_NOT_AUTHORIZED", |case| case.situation.facts.holder.uses = set(&["tool:read"])),
    ("DEFINITION_NOT_TRUSTED", |case| {
        if let DefinitionFact::Read { trusted, .. } | DefinitionFact::Unreadable { trusted, .. } =
            &mut case.situation.facts.definition
        {
            *trusted = false;
        }
    }),
    ("DEFINITION_UNREADABLE", |case| *case = case.clone().unreadable()),
    ("UNDECLARED_TOOLS", |case| *case = case.clone().file("color: red")),
    ("UNKNOWN_TOOL", |case| ask_also(case, "tool:reed")),
    ("NOT_INHERITABLE", |case| ask_also(case, "tool:*")),
    ("CAPABILITY_ESCALATION", |case| ask_also(case, "tool:web_fetch")),
    ("NARROWING_VIOLATED", |case| ask_also(case, "tool:fabric_exec")),
    ("IMPLIED_NOT_HELD", |case| ask_also(case, "tool:bash")),
    ("NOT_ENFORCEABLE", |case| case.policy.tier = Tier::K),
    ("GATED_UNAPPROVED", |case| case.policy.gates = set(&["tool:read"])),
    ("FANOUT_EXCEEDED", |case| case.situation.facts.used.agents = 99),
];

#[test]
fn each_check_fails_alone() {
    assert_eq!(everything().outcome(), "granted");
    for (code, break_it) in BREAKS {
        let decision = everything().with(break_it).decide();
        assert_eq!(decision.refusal().unwrap().code.as_str(), code);
    }
}

#[test]
fn the_earlier_of_two_failing_checks_decides() {
    // One definition is unknown, unreadable, undeclared or none of these; one request names one workspace.
    let states = ["UNKNOWN_DEFINITION", "DEFINITION_UNREADABLE", "UNDECLARED_TOOLS"];
    let workspaces = ["WORKSPACE_NOT_REGISTERED", "WORKSPACE_NOT_AUTHORIZED"];
    let (mut tried, mut apart) = (0, 0);
    for (first, (earlier, break_first)) in BREAKS.iter().enumerate() {
        for (later, break_later) in &BREAKS[first + 1..] {
            if [&states[..], &workspaces[..]]
                .iter()
                .any(|group| group.contains(earlier) && group.contains(later))
            {
                apart += 1;
                continue;
            }
            // What replaces the definition comes before what changes it.
            let mut case = everything();
            let order: [&fn(&mut Case); 2] =
                if states.contains(later) { [break_later, break_first] } else { [break_first, break_later] };
            order.into_iter().for_each(|break_it| break_it(&mut case));
            let decision = case.decide();
            assert_eq!(decision.refusal().unwrap().code.as_str(), *earlier, "and not {later}");
            tried += 1;
        }
    }
    println!("{tried} pairs of failing checks; {apart} pairs cannot fail together");
    assert_eq!((tried, apart), (149, 4));
}

/// Everything that can be wrong is wrong, and is set right from the first check on.
#[test]
fn checks_fail_one_after_the_other() {
    let alone =
        ["WORKSPACE_NOT_REGISTERED", "DEFINITION_UNREADABLE", "UNDECLARED_TOOLS", "UNKNOWN_DEFINITION"];
    let breaks: Vec<Break> = BREAKS.into_iter().filter(|(code, _)| !alone.contains(code)).collect();
    for first in 0..breaks.len() {
        let mut case = everything();
        breaks[first..].iter().for_each(|(_, break_it)| break_it(&mut case));
        assert_eq!(case.decide().refusal().unwrap().code.as_str(), breaks[first].0);
    }
}

// --- the table ---

#[test]
fn the_table_of_codes_is_as_documented() {
    let steps: [(u8, &[&str]); 17] = [
        (1, &["REQUEST_MALFORMED"]),
        (2, &["DEPTH_EXCEEDED"]),
        (3, &["TASK_MISSING"]),
        (4, &["WORKSPACE_NOT_REGISTERED", "WORKSPACE_NOT_AUTHORIZED"]),
        (5, &["UNKNOWN_DEFINITION"]),
        (6, &["DEFINITION_NOT_AUTHORIZED", "DEFINITION_NOT_TRUSTED"]),
        (7, &["DEFINITION_UNREADABLE"]),
        (8, &["UNDECLARED_TOOLS"]),
        (9, &["UNKNOWN_TOOL", "NOT_EXPRESSIBLE"]),
        (10, &["NOT_INHERITABLE"]),
        (11, &["CAPABILITY_ESCALATION"]),
        (12, &["NARROWING_VIOLATED"]),
        (13, &["IMPLIED_NOT_HELD"]),
        (14, &["NOT_ENFORCEABLE"]),
        (15, &["GATED_UNAPPROVED", "APPROVAL_EXPIRED", "APPROVAL_SCOPE_MISMATCH"]),
        (16, &["FANOUT_EXCEEDED", "BUDGET_EXCEEDED"]),
        (17, &["RESOURCE_NOT_FOUND"]),
    ];
    let of_step = |step: Option<u8>| -> Vec<&str> {
        Code::ALL.iter().filter(|code| code.step() == step).map(|code| code.as_str()).collect()
    };
    for (step, codes) in steps {
        assert_eq!(of_step(Some(step)), codes, "step {step}");
    }
    let after = [
        "NOTHING_GRANTED",
        "LEDGER_WRITE_FAILED",
        "WORKSPACE_WRITE_CONFLICT",
        "EXECUTOR_UNAVAILABLE",
        "RUNTIME_ATTESTATION_FAILED",
        "CHILD_TIMED_OUT",
        "CHILD_CANCELLED",
        "CHILD_EXIT_NONZERO",
    ];
    assert_eq!(of_step(None), after);
    let texts: BTreeSet<&str> = Code::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!((texts.len(), Code::ALL.len()), (31, 31), "codes are unique");
    for code in Code::ALL {
        let text = code.as_str();
        assert!(text.chars().all(|c| c.is_ascii_uppercase() || c == '_'), "{text}");
        assert!(!text.starts_with('_') && !text.ends_with('_') && !text.contains("__"), "{text}");
        assert_eq!(text, code.to_string());
        assert_eq!(serde_json::to_string(code).unwrap(), format!("\"{text}\""));
        assert!(code.meaning().ends_with('.'), "{text}");
    }
    assert!(Code::ALL.is_sorted(), "the table is in the order of the checks");
}

#[test]
fn dispositions_have_the_documented_exit_codes() {
    use Disposition::{Failed, Malformed, NotEnforceable, NotHeld, OverBudget, Undeclared, WaitingOnHuman};
    let exits = [
        (Malformed, "malformed", 82),
        (Undeclared, "undeclared", 82),
        (NotHeld, "not-held", 80),
        (OverBudget, "over-budget", 80),
        (WaitingOnHuman, "waiting-on-human", 81),
        (NotEnforceable, "not-enforceable", 84),
        (Failed, "failed", 85),
    ];
    for (disposition, word, exit) in exits {
        assert_eq!((disposition.as_str(), disposition.exit().code()), (word, exit));
        assert!(Code::ALL.iter().any(|code| code.disposition() == disposition), "{word} is never used");
    }
    // Exactly the codes that wait are held; what is held never has another disposition.
    for code in Code::ALL {
        assert_eq!(code.disposition() == WaitingOnHuman, code.step() == Some(15), "{code}");
    }
}

#[test]
fn a_refusal_is_one_object_for_programs() {
    let refusal = Case::new().tools("Read, Write").decide().refusal().unwrap().clone();
    let json = serde_json::to_value(&refusal).unwrap();
    let keys: Vec<&String> = json.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["code", "details", "disposition", "fix", "message"]);
    assert_eq!(json["code"], "CAPABILITY_ESCALATION");
    assert_eq!(json["disposition"], "not-held");
    assert_eq!(json["details"]["ids"], serde_json::json!(["tool:write"]));
    assert_eq!(refusal.details.ids, [id("tool:write").to_string()]);
}
