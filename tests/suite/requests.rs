//! What a request is made of: references to definitions, models, tasks, and the examples of a policy.

use depute::capability::{AskedId, CapabilitySet};
use depute::plan::{
    Decision, DefinitionRef, Enforcer, NoDefinitionRef, Origin, Request, TaskFacts, Which, example,
};
use depute::policy::Policy;

use super::support::{Case, LAB, asked, holding, id, name, outcome, policy, profile, set, shipped};

fn reference(text: &str) -> Result<DefinitionRef, NoDefinitionRef> {
    DefinitionRef::try_from(text.to_owned())
}

/// Every form is read as what it names, and written as it was read.
#[test]
fn a_reference_names_the_nearest_one_of_an_origin_or_one_place() {
    for (text, short, which) in [
        ("review", "review", Which::Nearest),
        ("pkg:review", "pkg:review", Which::Nearest),
        ("review@policy", "review", Which::From(Origin::Policy)),
        ("review@user", "review", Which::From(Origin::User)),
        ("review@workspace", "review", Which::From(Origin::Workspace)),
        ("review@/a/b@c/SKILL.md", "review", Which::At("/a/b@c/SKILL.md".into())),
    ] {
        let read = reference(text).unwrap();
        assert_eq!((&read.name, &read.which), (&name(short), &which), "{text}");
        assert_eq!((read.to_string(), String::from(read.clone())), (text.into(), text.into()));
        let json = serde_json::to_value(&read).unwrap();
        assert_eq!((json.as_str(), serde_json::from_value(json.clone()).ok()), (Some(text), Some(read)));
    }
    let wrong = |text: &str| {
        let error = reference(text).unwrap_err();
        assert!(serde_json::from_value::<DefinitionRef>(text.into()).is_err());
        format!("{error}; {}", error.fix)
    };
    insta::assert_snapshot!(
        ["review@nowhere", "review@relative/SKILL.md", "a b", "@/a/SKILL.md"].map(wrong).join("\n"),
        @r"
    `nowhere` is no origin of definitions; write `review@policy`, `review@user` or `review@workspace`
    `relative/SKILL.md` is no origin of definitions; write `review@policy`, `review@user` or `review@workspace`
    `a b` is no name of a definition: it holds ' ' in a name; keep to letters, digits, `.`, `_` and `-`
    `` is no name of a definition: it has an empty name; write the name
    "
    );
}

#[test]
fn a_request_of_a_whole_ceiling_asks_for_nothing_else() {
    let request = Request::of_whole_ceiling(reference("helper").unwrap(), b"look around");
    assert_eq!(request, Case::new().request);
}

#[test]
fn only_length_and_shape_of_a_task_are_known() {
    let facts = |bytes: &[u8]| {
        let TaskFacts { bytes, blank, nul } = TaskFacts::of(bytes);
        (bytes, blank, nul)
    };
    assert_eq!(facts(b""), (0, true, false));
    assert_eq!(facts(b" \t\r\n"), (4, true, false));
    assert_eq!(facts(b" x "), (3, false, false));
    assert_eq!(facts(b"\0"), (1, false, true));
    assert_eq!(facts("é".as_bytes()), (2, false, false));
}

/// A model is told to a program and written into a record, so its name is plain and short.
#[test]
fn a_model_is_named_plainly() {
    let with = |model: &str| {
        let mut case = Case::new();
        case.request.model = Some(model.to_owned());
        case.outcome()
    };
    // A plain name comes as far as the runtime, which takes none.
    let long = "m".repeat(128);
    for plain in ["mock/large", "a-b_c.d:e@f", "4", &long] {
        assert_eq!(with(plain), "refused NOT_EXPRESSIBLE", "{plain}");
    }
    let too_long = "m".repeat(129);
    for odd in ["", "a b", "a\nb", "ä", "a;b", &too_long] {
        assert_eq!(with(odd), "refused REQUEST_MALFORMED", "{odd:?}");
    }
}

fn shown(policy: &Policy, ids: &[&str], delegate: Option<&[&str]>, approved: &CapabilitySet) -> Decision {
    let delegate: Option<Vec<AskedId>> = delegate.map(asked);
    example(policy, &name("anyone"), asked(ids), delegate, approved, profile(LAB), 7)
}

/// A policy's own tests stand for a definition that declares what is asked.
#[test]
fn an_example_of_a_policy_declares_exactly_what_it_asks_for() {
    let policy = policy(
        "version: 1\ngrant: ['tool:*', 'agent:*']\ngates: [agent:deploy]\naccept: [{id: tool:bash, as: advisory, why: x}]\n",
    );
    let none = set(&[]);
    let decided = |ids: &[&str]| outcome(&shown(&policy, ids, None, &none));
    assert_eq!(decided(&["tool:read", "tool:write(it's here/**)"]), "granted");
    assert_eq!(decided(&["tool:bash"]), "granted");
    assert_eq!(decided(&["agent:deploy"]), "held GATED_UNAPPROVED");
    assert_eq!(decided(&["tool:*"]), "refused NOT_INHERITABLE");
    assert_eq!(decided(&["not an id"]), "refused CAPABILITY_ESCALATION");
    assert_eq!(decided(&[]), "granted");
    let granted = shown(&policy, &["tool:read", "agent:x"], None, &none);
    assert_eq!(granted.considered().effective, set(&["tool:read", "agent:x"]));
    assert_eq!(granted.considered().ceiling, Some(set(&["tool:read", "agent:x"])));
    // What is approved is open, and what is handed down is weighed.
    let approved = shown(&policy, &["agent:deploy"], None, &set(&["agent:deploy"]));
    assert_eq!((outcome(&approved), approved.considered().approvals.len()), ("granted".into(), 1));
    let hands = |ids: &[&str]| shown(&policy, &["tool:read", "tool:delegate"], Some(ids), &none);
    assert_eq!(hands(&["tool:ls"]).considered().delegate, set(&["tool:ls"]));
    assert_eq!(outcome(&hands(&["workspace:*"])), "refused NOT_INHERITABLE");
}

/// What the operator accepts is said to be accepted only where nothing holds it.
#[test]
fn what_is_accepted_by_name_is_still_held_by_what_holds_it() {
    let accepted = "accept: [{id: tool:read, as: advisory, why: a container}]\n";
    let row = |case: &Case| {
        let decision = case.decide();
        let row = decision.considered().enforcement.iter().find(|row| row.capability == id("tool:read"));
        let row = row.unwrap().clone();
        (row.by, row.how)
    };
    let case = holding("[tool:read, agent:*]", accepted).tools("Read");
    let (by, how) = row(&case);
    assert_eq!((by, how.as_str()), (Enforcer::Kernel, "the kernel opens the workspace for reading"));
    let (by, how) = row(&case.clone().uncaged());
    assert_eq!((by, how.as_str()), (Enforcer::Runtime, "the list of tools"));
    let wide = case.uncaged().with(|case| {
        case.situation.profile = shipped("pi");
        case.request.model = Some("mock/mock-model".into());
    });
    let (by, how) = row(&wide);
    assert_eq!(by, Enforcer::Advisory);
    assert!(how.ends_with("; accepted: a container"), "{how}");
}

/// A word is the same to a person and to a program.
#[test]
fn words_are_the_same_in_text_and_in_json() {
    fn same<T: serde::Serialize>(values: &[T], text: impl Fn(&T) -> &'static str) {
        for value in values {
            assert_eq!(serde_json::to_value(value).unwrap(), text(value));
        }
    }
    use Enforcer::{Advisory, Broker, Kernel, Nothing, Runtime};
    same(&[Kernel, Runtime, Broker, Advisory, Nothing], |enforcer| enforcer.as_str());
    same(&[Origin::Policy, Origin::User, Origin::Workspace], |origin| origin.as_str());
    use depute::runtime::Tier::{C, F, K, N, Zero};
    same(&[Zero, F, K, N, C], |tier| tier.as_str());
    use depute::definition::DefinitionKind::{Agent, Harness, Skill};
    same(&[Skill, Agent, Harness], |kind| kind.as_str());
}
