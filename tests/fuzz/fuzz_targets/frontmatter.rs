//! No text between two fences makes the reader, its messages or the mender panic; what is declared
//! can be written down; what is mended can be read.
#![no_main]

use depute::capability::{Capability, DefinitionName};
use depute::definition::{Ceiling, Definition, DefinitionKind, mends};
use depute::diagnostic::Diagnostic;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|yaml: &[u8]| {
    let file = [b"---\n", yaml, b"\n---\nDo it.\n"].concat();
    let Ok(name) = DefinitionName::parse("probe") else { return };
    for kind in [DefinitionKind::Skill, DefinitionKind::Agent, DefinitionKind::Harness] {
        match Definition::read(file.clone(), kind, name.clone()) {
            Ok(definition) => {
                assert!(definition.findings().iter().all(|finding| finding.span.end <= file.len()));
                match definition.ceiling() {
                    Ceiling::Declared(set) => {
                        assert!(definition.ceiling_span().end <= file.len());
                        for id in set {
                            assert!(!id.is_wildcard());
                            assert_eq!(id.to_string().parse::<Capability>().as_ref(), Ok(id));
                            assert!(!definition.removed().contains(id), "{id} was taken away");
                        }
                    }
                    Ceiling::Undeclared(undeclared) => assert!(undeclared.problem.span.end <= file.len()),
                }
            }
            Err(problem) => {
                assert!(problem.span.start <= problem.span.end && problem.span.end <= file.len());
                let shown = Diagnostic::new("probe.md", &file, problem).render("CODE", false);
                assert!(!shown.contains(['\u{1b}', '\r', '\0', '\u{2028}']), "{shown:?}");
            }
        }
        for mend in mends(&file, kind, &name, Some(&|_| false)) {
            assert!(mend.bytes != file);
        }
        if let Some(last) = mends(&file, kind, &name, None).last() {
            assert!(Definition::read(last.bytes.clone(), kind, name.clone()).is_ok());
        }
    }
});
