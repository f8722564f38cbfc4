//! Printing an id and reading it gives the same, and coverage is reflexive and transitive.
#![no_main]

use depute::capability::{Capability, Cover, Subsumption};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let ids: Vec<Capability> = text.split('\n').take(3).filter_map(|line| line.parse().ok()).collect();
    let table = Subsumption::builtin();
    let covers = |a: &Capability, b: &Capability| a.covers(b, table) != Cover::No;
    for a in &ids {
        assert_eq!(a.to_string().parse::<Capability>().as_ref(), Ok(a));
        assert!(covers(a, a));
        for b in &ids {
            for c in &ids {
                assert!(!(covers(a, b) && covers(b, c)) || covers(a, c), "{a} {b} {c}");
            }
        }
    }
});
