//! No line makes `depute resolve` panic; what it grants was asked for, is held, is inside the ceiling
//! and waits for nobody; and question and answer survive their text.
#![no_main]

use std::collections::BTreeSet;

use depute::capability::{Answer, AskedId, Bound, CapabilitySet, Cover, Question, Subsumption, resolve};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|line: &[u8]| {
    let Ok(question) = serde_json::from_slice::<Question>(line) else { return };
    let set = |ids: &[AskedId]| -> CapabilitySet { ids.iter().filter_map(AskedId::id).cloned().collect() };
    let answer = question.answer();
    assert_eq!(reread(&question), question);
    assert_eq!(reread::<Answer>(&answer), answer);

    let none = Subsumption::none();
    let table = if question.subsumption { Subsumption::builtin() } else { &none };
    let (requested, held) = (set(&question.requested), set(&question.parent_grant));
    for id in &answer.effective {
        assert!(requested.contains(id), "{id} was not asked for");
        assert_ne!(held.covers(id, table), Cover::No, "{id} is not held");
        if let Some(ceiling) = &question.ceiling {
            assert!(set(ceiling).iter().any(|named| named.names(id)), "{id} is outside of the ceiling");
        }
        assert!(!question.gated.contains(id) || set(&question.approved).contains(id), "{id} waits");
        assert_eq!(
            answer.covered_by_subsumption.contains(id),
            held.covers(id, table) == Cover::BySubsumption,
            "{id}"
        );
    }
    for part in [&answer.universal, &answer.covered_by_subsumption, &answer.inheritable] {
        assert!(part.iter().all(|id| answer.effective.contains(id)), "{part:?}");
    }

    // Each id under exactly one heading, and no other id.
    let headings = [
        answer.effective.texts(),
        answer.denied.clone(),
        answer.clipped.texts(),
        answer.gated_blocked.texts(),
    ];
    let all: BTreeSet<String> = headings.iter().flatten().cloned().collect();
    assert_eq!(all, question.requested.iter().map(ToString::to_string).collect());
    assert_eq!(all.len(), headings.iter().map(Vec::len).sum::<usize>());

    // Less held, nothing more granted.
    let half: CapabilitySet = held.iter().step_by(2).cloned().collect();
    let less = resolve(&question.requested, &half, Bound::Unbounded, table, |_| false);
    let whole = resolve(&question.requested, &held, Bound::Unbounded, table, |_| false);
    assert!(less.effective.iter().all(|id| whole.effective.contains(id)));
});

/// The same value, printed and read again.
fn reread<T: serde::Serialize + serde::de::DeserializeOwned>(value: &T) -> T {
    let text = serde_json::to_string(value).expect("prints");
    serde_json::from_str(&text).expect("what is printed is read")
}
