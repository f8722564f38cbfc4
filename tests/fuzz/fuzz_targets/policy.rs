//! No bytes make the readers of policies and profiles panic, and no policy widens what it narrows.
#![no_main]

use depute::policy::{BUILTIN, Narrowing, Policy};
use depute::runtime::Profile;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Policy::read(bytes);
    let _ = Profile::read(bytes);
    if let (Ok(by), Ok(base)) = (Narrowing::read(bytes), Policy::read(BUILTIN.as_bytes())) {
        let narrowed = base.narrowed(&by);
        let table = base.subsumption();
        assert!(base.grant.uses.covers_all(&narrowed.grant.uses, &table));
        assert!(base.grant.delegate.covers_all(&narrowed.grant.delegate, &table));
        assert!(base.gates.iter().all(|gate| narrowed.gates.contains(gate)));
        assert!(narrowed.limits.depth <= base.limits.depth && narrowed.limits.agents <= base.limits.agents);
    }
});
