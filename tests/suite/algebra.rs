//! Capability only shrinks: laws of the order, trees of grants, and a naive model beside the real one.

use std::collections::BTreeSet;

use depute::capability::{AskedId, Bound, Capability, CapabilitySet, Cover, Grant, Subsumption, resolve};
use depute::plan::{AskedDelegate, AskedUse, Decision};
use proptest::prelude::*;

use super::support::{Case, POOL, Seeded, asked, builtin, id, set};

const MALFORMED: [&str; 8] = [
    " tool:read",
    "tool:read\ntool:bash",
    "agent:x,tool:bash",
    "tool:a\0b",
    "tool:write(../x)",
    "tool:bash(*)",
    "workspace:a,b",
    "read",
];

/// The arithmetic once more: strings, no type of the product, at most 80 lines.
mod naive {
    use std::collections::BTreeSet;

    const BASH: &str = " read write edit edit-diff grep find ls glob notebook_edit ";

    fn split(id: &str) -> (&str, Option<&str>) {
        match id.split_once('(') {
            Some((head, rest)) if id.starts_with("tool:") => (head, rest.strip_suffix(')')),
            _ => (id, None),
        }
    }

    fn well_formed(id: &str) -> bool {
        let (head, scope) = split(id);
        head.contains(':')
            && head.chars().all(|c| c.is_ascii_alphanumeric() || ":._-/*@".contains(c))
            && scope.is_none_or(|scope| scope != "*" && !scope.contains(".."))
    }

    /// Whether one scope holds all of another, and whether the two share nothing.
    fn scopes(tool: &str, a: &str, b: &str) -> (bool, bool) {
        let words = |s: &str, sep: char| s.split(sep).map(str::to_owned).collect::<Vec<_>>();
        let related = |x: &[String], y: &[String]| x.starts_with(y) || y.starts_with(x);
        match tool {
            _ if a == b => (true, false),
            "tool:read" | "tool:write" | "tool:grep" => {
                if a == "**" {
                    return (true, false);
                }
                if a.contains("*.") || b.contains("*.") || b == "**" {
                    return (false, false);
                }
                let (x, y) = (words(a.trim_end_matches("/**"), '/'), words(b.trim_end_matches("/**"), '/'));
                let inside = y.starts_with(&x) && (y.len() > x.len() || b.ends_with("/**"));
                (a.ends_with("/**") && inside, !related(&x, &y))
            }
            "tool:bash" if a.contains('|') || b.contains('|') => (false, false),
            "tool:bash" => {
                let (x, y) = (words(a.trim_end_matches(":*"), ' '), words(b.trim_end_matches(":*"), ' '));
                let open = |s: &str| s.ends_with(":*");
                let shared = (open(a) && y.starts_with(&x)) || (open(b) && x.starts_with(&y));
                (open(a) && y.starts_with(&x), !shared)
            }
            "tool:web_fetch" => {
                let (x, y) = (&a["domain:".len()..], &b["domain:".len()..]);
                let under = |host: &str, wild: &str| wild.starts_with('*') && host.ends_with(&wild[1..]);
                (under(y, x), !under(y, x) && !under(x, y))
            }
            _ => (false, false),
        }
    }

    /// 0 not at all, 1 by the table, 2 directly.
    pub(super) fn covers(held: &str, asked: &str) -> u8 {
        let ((a, scope), (b, narrow)) = (split(held), split(asked));
        let tool = |id: &str| id.strip_prefix("tool:").map(|name| format!(" {name} "));
        match (scope, narrow) {
            _ if held == asked || held == "tool:*" => 2,
            _ if held.ends_with(":*") && scope.is_none() => 2 * u8::from(b.starts_with(&a[..a.len() - 1])),
            _ if held.ends_with("/*") && scope.is_none() => 2 * u8::from(b.starts_with(&a[..a.len() - 1])),
            (None, _) if a == b && a.starts_with("tool:") => 2,
            (Some(wide), Some(narrow)) if a == b => 2 * u8::from(scopes(a, wide, narrow).0),
            (None, _) if a == "tool:bash" => tool(b).map_or(0, |name| u8::from(BASH.contains(&name))),
            _ => 0,
        }
    }

    fn waits(id: &str, gate: &str) -> bool {
        let ((a, x), (b, y)) = (split(id), split(gate));
        let overlap = a == b && x.zip(y).is_some_and(|(x, y)| !scopes(a, x, y).1 && !scopes(a, y, x).1);
        covers(id, gate) > 0 || covers(gate, id) == 2 || overlap
    }

    /// effective, denied, clipped, gated, subsumed.
    pub(super) fn resolve<'a>(
        asked: &[&'a str],
        held: &[&str],
        ceiling: Option<&[&str]>,
        gates: &[&str],
    ) -> [BTreeSet<&'a str>; 5] {
        let mut out = <[BTreeSet<&str>; 5]>::default();
        for id in asked {
            let cover = held.iter().map(|held| covers(held, id)).max().unwrap_or(0);
            let names = |named: &&str| *named == *id || (covers(named, id) == 2 && !named.ends_with('*'));
            let heading = match ceiling {
                _ if !well_formed(id) || cover == 0 => 1,
                Some(ceiling) if !ceiling.iter().any(names) => 2,
                _ if gates.iter().any(|gate| waits(id, gate)) => 3,
                _ => 0,
            };
            out[heading].insert(*id);
            if heading == 0 && cover == 1 {
                out[4].insert(*id);
            }
        }
        out
    }
}

#[test]
fn a_naive_model_agrees_on_100_000_random_cases() {
    let table = builtin();
    let mut random = Seeded::new(1);
    let with_malformed: Vec<&str> = POOL.iter().chain(&MALFORMED).copied().collect();
    let mut seen = [0_usize; 5];
    for number in 0..100_000 {
        let request = random.some(&with_malformed, 6);
        let held = random.some(&POOL, 5);
        let ceiling = (random.below(4) > 0).then(|| random.some(&POOL, 8));
        let gates = random.some(&POOL, 2);
        let model = naive::resolve(&request, &held, ceiling.as_deref(), &gates);
        let (held_set, gate_set) = (set(&held), set(&gates));
        let ceiling_set = ceiling.as_deref().map(set);
        let bound = ceiling_set.as_ref().map_or(Bound::Unbounded, Bound::Ceiling);
        let real = resolve(&asked(&request), &held_set, bound, &table, |id| {
            gate_set.iter().any(|gate| id.touches(gate, &table))
        });
        let denied: CapabilityTexts = real.denied.iter().map(ToString::to_string).collect();
        let real =
            [texts(&real.effective), denied, texts(&real.clipped), texts(&real.gated), texts(&real.subsumed)];
        for (heading, (real, model)) in real.iter().zip(&model).enumerate() {
            seen[heading] += model.len();
            assert!(
                real.iter().map(String::as_str).eq(model.iter().copied()),
                "case {number}, heading {heading}: {real:?}, the model {model:?}\n\
                 asked {request:?} held {held:?} ceiling {ceiling:?} gates {gates:?}"
            );
        }
    }
    println!("100000 cases: effective, denied, clipped, gated, subsumed = {seen:?}");
    assert!(seen.iter().all(|count| *count > 1000), "a heading is hardly met: {seen:?}");
}

type CapabilityTexts = BTreeSet<String>;

fn texts(set: &CapabilitySet) -> CapabilityTexts {
    set.texts().into_iter().collect()
}

#[test]
fn covers_is_reflexive_and_transitive() {
    let rows = [("tool:grep", "tool:web_fetch"), ("tool:web_fetch", "tool:bash")];
    let tool = |text: &str| id(text).tool_name().unwrap().clone();
    let rows = rows.iter().map(|(broad, narrow)| (tool(broad), BTreeSet::from([tool(narrow)]))).collect();
    for table in [Subsumption::none(), builtin(), builtin().with_rows(&rows)] {
        let ids: Vec<Capability> = POOL.iter().map(|text| id(text)).collect();
        let covers = |a: &Capability, b: &Capability| a.covers(b, &table) != Cover::No;
        for a in &ids {
            assert_eq!(a.covers(a, &table), Cover::Direct, "{a}");
            for b in ids.iter().filter(|b| covers(a, b)) {
                for c in ids.iter().filter(|c| covers(b, c)) {
                    assert!(covers(a, c), "{a} covers {b} covers {c}");
                }
            }
        }
    }
    // An added row is closed with the ones that are there.
    let table = builtin().with_rows(&rows);
    assert_eq!(id("tool:grep").covers(&id("tool:write(docs/**)"), &table), Cover::BySubsumption);
    assert_eq!(id("tool:grep").covers(&id("tool:write(docs/**)"), &builtin()), Cover::No);
}

/// An id is its text: equal, ordered and hashed by it.
#[test]
fn ids_compare_and_hash_as_their_texts() {
    use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
    let hash = |id: &Capability| BuildHasherDefault::<DefaultHasher>::new().hash_one(id);
    for a in POOL.map(id) {
        for b in POOL.map(id) {
            let order = a.as_str().cmp(b.as_str());
            assert_eq!((a.cmp(&b), a.partial_cmp(&b), a == b), (order, Some(order), order.is_eq()));
            assert_eq!(hash(&a) == hash(&b), a == b, "{a} {b}");
        }
    }
}

#[test]
fn an_empty_set_covers_nothing() {
    for text in POOL {
        assert_eq!(CapabilitySet::empty().covers(&id(text), &builtin()), Cover::No, "{text}");
        assert_eq!(set(&[text]).covers(&id(text), &builtin()), Cover::Direct, "{text}");
    }
}

/// Every descendant of a random tree stays within what its parent could hand down.
#[test]
fn no_descendant_exceeds_its_parent_in_20_000_random_trees() {
    let accept: String = POOL
        .iter()
        .filter(|text| !text.ends_with('*'))
        .map(|text| format!("  - {{id: '{text}', as: advisory, why: a test}}\n"))
        .collect();
    let mut random = Seeded::new(2);
    let table = builtin();
    let base = Case::new().policy(&format!("version: 1\ngrant: []\nlimits: {{depth: 9}}\naccept:\n{accept}"));
    let (mut granted, mut refused, mut deepest, mut narrowed) = (0, 0, 0, 0);
    let usable = |from: &[&'static str]| -> Vec<&'static str> {
        from.iter().copied().filter(|text| text.starts_with("tool:") || text.starts_with("agent:")).collect()
    };
    let (wide, narrow) = (usable(&POOL), usable(&POOL[1..]));
    for _ in 0..20_000 {
        let mut uses = random.some(&wide, 6);
        uses.extend(["agent:helper"]);
        let mut delegate = random.some(&wide, 6);
        delegate.extend(["tool:delegate", "agent:helper"]);
        let root = Grant { uses: set(&uses), delegate: set(&delegate) };
        let mut holder = root.clone();
        for depth in 1..=4 {
            let mut ceiling = random.some(&narrow, 4);
            ceiling.retain(|text| !text.ends_with('*') && !text.starts_with("tool:find"));
            ceiling.extend(["tool:delegate", "agent:helper"]);
            let list = serde_json::to_string(&ceiling).unwrap();
            let mut case = base.clone().tools(&list).with(|case| {
                case.situation.facts.holder = holder.clone();
                case.situation.facts.node.depth = depth;
            });
            if random.below(2) == 0 {
                let mut ids = random.some(&ceiling, 4);
                ids.extend(["tool:delegate", "agent:helper"]);
                case = case.asks(&ids);
            }
            if random.below(2) == 0 {
                let mut ids = random.some(&narrow, 2);
                ids.extend(["tool:delegate", "agent:helper"]);
                case = case.hands(&ids);
            }
            let Decision::Granted(plan) = case.decide() else {
                refused += 1;
                break;
            };
            let child = Grant::from(&*plan);
            for (right, set) in [("use", &child.uses), ("delegate", &child.delegate)] {
                assert!(holder.delegate.covers_all(set, &table), "{right} {set:?} of {:?}", holder.delegate);
                assert!(root.delegate.covers_all(set, &table), "{right} {set:?} of the root");
                let stray = set.iter().find(|id| !asked_for(&case, id) && right == "use");
                assert_eq!(stray, None, "nobody asked for it");
            }
            assert!(set_of_declared(&case).covers_all(&child.uses, &Subsumption::none()));
            narrowed += usize::from(child != holder);
            granted += 1;
            deepest = deepest.max(depth);
            holder = child;
        }
    }
    println!(
        "20000 trees: {granted} granted, {narrowed} narrower than their parent, {refused} refused, {deepest} deep"
    );
    assert!(granted > 10_000 && refused > 5_000 && deepest == 4);
}

fn set_of_declared(case: &Case) -> CapabilitySet {
    match case.situation.definition.as_ref().unwrap().ceiling() {
        depute::definition::Ceiling::Declared(set) => set.clone(),
        depute::definition::Ceiling::Undeclared(_) => CapabilitySet::empty(),
    }
}

fn asked_for(case: &Case, id: &Capability) -> bool {
    match &case.request.uses {
        AskedUse::WholeCeiling => set_of_declared(case).contains(id),
        AskedUse::Exactly(ids) => ids.contains(&AskedId::Id(id.clone())),
    }
}

/// Asking for more never brings in what was not asked for, and never loses what was granted.
#[test]
fn a_larger_request_adds_only_what_it_names() {
    let mut random = Seeded::new(3);
    let table = builtin();
    let ids: Vec<&str> = POOL.iter().chain(&MALFORMED).copied().collect();
    for _ in 0..20_000 {
        let (small, held, ceiling) =
            (random.some(&ids, 4), set(&random.some(&POOL, 4)), set(&random.some(&POOL, 6)));
        let extra = ids[random.below(ids.len())];
        let large: Vec<&str> = small.iter().copied().chain([extra]).collect();
        let resolve = |ids: &[&str]| resolve(&asked(ids), &held, Bound::Ceiling(&ceiling), &table, |_| false);
        let (before, after) = (resolve(&small), resolve(&large));
        let added: Vec<String> = after
            .effective
            .iter()
            .filter(|id| !before.effective.contains(id))
            .map(ToString::to_string)
            .collect();
        assert!(added.is_empty() || added == [extra], "{added:?} by asking for {extra}");
        assert!(before.effective.iter().all(|id| after.effective.contains(id)));
    }
    // The same through the planner: `write` is held, and appears only where it is asked for.
    let case = Case::new().grant("[tool:read, tool:grep, tool:write, agent:*]").tools("Read, Grep, Write");
    assert_eq!(case.clone().asks(&["tool:read"]).uses(), ["tool:read"]);
    assert_eq!(case.asks(&["tool:read", "tool:write"]).uses(), ["tool:read", "tool:write"]);
}

fn pooled() -> impl Strategy<Value = Capability> {
    prop::sample::select(&POOL[..]).prop_map(id)
}

fn sets() -> impl Strategy<Value = CapabilitySet> {
    prop::collection::vec(pooled(), 0..7).prop_map(|ids| ids.into_iter().collect())
}

/// Texts that are nearly ids.
fn near_ids() -> impl Strategy<Value = String> {
    prop_oneof![
        "(tool|mcp|ext|skill|agent|workspace|x):[-A-Za-z0-9._/@:*() ,]{0,12}",
        "tool:(write|Read|bash|web_fetch|find|edit-diff)\\([-./~* a-c:|$]{0,9}\\)",
        "tool:bash\\((git|npm|[a-c ]{0,3})( |:|)( |\\*|:\\*|){0,3}\\)",
        "tool:web_search\\((domain:|)(\\*\\.|)[A-Ca-c.-]{0,6}\\)",
        "tool:write\\((\\./|)[~ *.a]{0,3}(/|)[ *.a]{0,3}(/\\*\\*|/\\.|)\\)",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printing_then_parsing_is_the_identity(text in near_ids()) {
        if let Ok(parsed) = text.parse::<Capability>() {
            let printed = parsed.to_string();
            let again: Capability = printed.parse()
                .map_err(|error| TestCaseError::fail(format!("{text:?} prints {printed:?}, which {error}")))?;
            prop_assert_eq!(again.kind(), parsed.kind(), "{:?} prints {:?}", text, printed);
            prop_assert_eq!(again.as_str(), parsed.as_str());
            let json = serde_json::to_string(&parsed).unwrap();
            prop_assert_eq!(serde_json::from_str::<Capability>(&json).unwrap(), parsed);
        }
    }

    #[test]
    fn parsing_anything_never_panics(text in any::<String>()) {
        let parsed = text.parse::<Capability>();
        prop_assert_eq!(AskedId::parse(&text).error(), parsed.err());
        prop_assert_eq!(AskedId::parse(&text).to_string().is_empty(), text.is_empty());
    }

    #[test]
    fn sets_survive_their_text(ids in sets()) {
        let json = serde_json::to_string(&ids).unwrap();
        prop_assert_eq!(&serde_json::from_str::<CapabilitySet>(&json).unwrap(), &ids);
        let again: CapabilitySet = ids.texts().iter().map(|text| id(text)).collect();
        prop_assert_eq!(again, ids);
    }

    #[test]
    fn meet_is_idempotent_commutative_and_associative(a in sets(), b in sets(), c in sets()) {
        let table = builtin();
        prop_assert_eq!(a.meet(&a, &table), a.clone());
        prop_assert_eq!(a.meet(&b, &table), b.meet(&a, &table));
        prop_assert_eq!(a.meet(&b, &table).meet(&c, &table), a.meet(&b.meet(&c, &table), &table));
    }

    #[test]
    fn meet_is_monotone_and_within_both(a in sets(), b in sets(), more in sets()) {
        let table = builtin();
        let meet = a.meet(&b, &table);
        prop_assert!(a.covers_all(&meet, &table) && b.covers_all(&meet, &table));
        prop_assert!(a.union(&more).meet(&b, &table).covers_all(&meet, &table));
        prop_assert!(meet.iter().all(|id| a.contains(id) || b.contains(id)), "an id from nowhere");
        let grants = (Grant { uses: a.clone(), delegate: b.clone() }, Grant { uses: b, delegate: more });
        prop_assert_eq!(grants.0.meet(&grants.1, &table).uses, meet);
    }

    #[test]
    fn a_gate_catches_what_covers_it(a in pooled(), gate in pooled()) {
        let table = builtin();
        if a.covers(&gate, &table) != Cover::No {
            prop_assert!(a.touches(&gate, &table), "{} holds the gated {}", a, gate);
        }
        if gate.covers(&a, &table) == Cover::Direct {
            prop_assert!(a.touches(&gate, &table), "{} is a part of the gated {}", a, gate);
        }
    }
}

/// What the planner is asked in these trees is what the types say.
#[test]
fn an_unstated_delegate_is_not_an_empty_one() {
    let case = Case::new().grant("[tool:read, tool:delegate, agent:*]").tools("Read, Agent");
    assert_eq!(case.request.delegate, AskedDelegate::Unstated);
    assert_eq!(case.delegates(), ["tool:delegate", "tool:read"]);
    assert_eq!(case.hands(&[]).delegates(), Vec::<String>::new());
}
