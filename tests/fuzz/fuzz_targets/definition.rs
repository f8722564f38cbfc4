//! No bytes make the reader of definitions panic, and what it declares holds no wildcard.
#![no_main]

use depute::capability::DefinitionName;
use depute::definition::{Ceiling, Definition, DefinitionKind};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    for kind in [DefinitionKind::Skill, DefinitionKind::Agent] {
        let Ok(name) = DefinitionName::parse("probe") else { return };
        if let Ok(definition) = Definition::read(bytes.to_vec(), kind, name)
            && let Ceiling::Declared(set) = definition.ceiling()
        {
            assert!(set.iter().all(|id| !id.is_wildcard()));
            assert!(
                bytes.windows(definition.body().len().max(1)).any(|window| window == definition.body())
                    || definition.body().is_empty()
            );
        }
    }
});
