//! SARIF 2.1.0, as code hosts and editors read it. Written as it comes, so that its length costs no
//! memory.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::cli::Failure;
use crate::cli::out::Output;

use super::report::{Report, State};

/// A document that has been begun.
pub(super) struct Sarif {
    /// Every rule that a result names, with the words of its first result.
    rules: BTreeMap<String, &'static str>,
    begun: bool,
}

impl Sarif {
    pub(super) fn new() -> Self {
        Self { rules: BTreeMap::new(), begun: false }
    }

    pub(super) fn report(&mut self, report: &Report, out: &mut Output) -> Result<(), Failure> {
        if let (Some(rule), Some(message)) = (&report.rule, &report.message) {
            let level = if report.state == State::Undeclared { "warning" } else { "error" };
            let fix = report.fix.as_ref().map(|fix| format!(" Fix: {fix}.")).unwrap_or_default();
            let text = format!("{message}.{fix}");
            let place = (report.line.unwrap_or(1), report.column.unwrap_or(1));
            self.result(rule, level, &text, &report.path, place, out)?;
        }
        for note in &report.findings {
            let text = format!("{}.", note.message);
            self.result(&note.rule, "note", &text, &report.path, (note.line, note.column), out)?;
        }
        Ok(())
    }

    fn result(
        &mut self,
        rule: &str,
        level: &'static str,
        text: &str,
        path: &str,
        (line, column): (usize, usize),
        out: &mut Output,
    ) -> Result<(), Failure> {
        self.begin(out)?;
        let comma = if self.rules.is_empty() { "" } else { "," };
        self.rules.entry(rule.to_owned()).or_insert(level);
        let result = json!({
            "ruleId": rule,
            "level": level,
            "message": { "text": text },
            "locations": [{ "physicalLocation": {
                "artifactLocation": { "uri": uri(path) },
                "region": { "startLine": line, "startColumn": column },
            }}],
        });
        out.bytes(comma.as_bytes())?;
        Ok(out.json(&result)?)
    }

    fn begin(&mut self, out: &mut Output) -> Result<(), Failure> {
        if !self.begun {
            self.begun = true;
            out.line(concat!(
                r#"{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","#,
                r#""runs":[{"columnKind":"unicodeCodePoints","results":["#
            ))?;
        }
        Ok(())
    }

    pub(super) fn finish(mut self, out: &mut Output) -> Result<(), Failure> {
        self.begin(out)?;
        let rule =
            |(id, level): (&String, &&str)| json!({ "id": id, "defaultConfiguration": { "level": level } });
        let rules: Vec<Value> = self.rules.iter().map(rule).collect();
        let driver = json!({
            "name": "depute",
            "semanticVersion": env!("CARGO_PKG_VERSION"),
            "rules": rules,
        });
        out.bytes(br#"],"tool":{"driver":"#)?;
        out.json(&driver)?;
        Ok(out.line("}}]}")?)
    }
}

/// A path as a URI reference: everything that is not unreserved is escaped, byte by byte.
fn uri(path: &str) -> String {
    use std::fmt::Write as _;
    let mut uri = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    if path.starts_with('/') { format!("file://{uri}") } else { uri }
}
