//! The schemas of our formats: they are those that are shipped, and take all that our readers take.

use std::sync::OnceLock;

use depute::diagnostic::Problem;
use depute::policy::{BUILTIN, Narrowing, Policy};
use depute::runtime::Profile;
use depute::schema::Document;
use depute::yaml::{self, Node, Value as Yaml};
use serde_json::{Value, json};

use super::project::Project;
use super::support::{LAB, manifest_dir};

/// What a reader says of a text.
fn reader(document: Document, text: &[u8]) -> Result<(), Problem> {
    match document {
        Document::Policy => Policy::read(text).map(drop),
        Document::WorkspacePolicy => Narrowing::read(text).map(drop),
        Document::Runtime => Profile::read(text).map(drop),
    }
}

/// What the schema says of a text: nothing, or what does not fit.
pub(crate) fn fits(document: Document, text: &[u8]) -> Result<(), String> {
    static VALIDATORS: OnceLock<Vec<jsonschema::Validator>> = OnceLock::new();
    let all = || Document::ALL.map(|document| jsonschema::validator_for(&document.schema()).unwrap());
    let validators = VALIDATORS.get_or_init(|| all().into());
    let at = Document::ALL.iter().position(|other| *other == document).unwrap();
    let text = std::str::from_utf8(text).map_err(|error| error.to_string())?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let value = json_of(&yaml::parse(text, 0).map_err(|problem| problem.message)?);
    let errors: Vec<String> =
        validators[at].iter_errors(&value).map(|e| format!("{}: {e}", e.instance_path())).collect();
    if errors.is_empty() { Ok(()) } else { Err(errors.join("; ")) }
}

/// Whatever a test writes: where the reader takes it, the schema does.
pub(crate) fn is_never_stricter(document: Document, text: &[u8]) {
    if reader(document, text).is_ok()
        && let Err(error) = fits(document, text)
    {
        panic!("the reader takes this, and its schema does not: {error}\n{}", String::from_utf8_lossy(text));
    }
}

/// YAML as an editor hands it to a schema.
fn json_of(node: &Node) -> Value {
    match &node.value {
        Yaml::Null => Value::Null,
        Yaml::Bool(value) => json!(value),
        Yaml::Number(text) => {
            let whole = text.parse::<u64>().map(Value::from);
            whole.or_else(|_| text.parse::<f64>().map(Value::from)).unwrap_or_else(|_| json!(text))
        }
        Yaml::Text(text) => json!(text),
        Yaml::List(items) => items.iter().map(json_of).collect(),
        Yaml::Map(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json_of(&entry.value))).collect()
        }
    }
}

#[test]
fn the_program_prints_the_schemas_that_are_shipped() {
    let project = Project::new();
    let shipped = manifest_dir().join("policies/schema");
    let ran = project.run(&["gen", "schema", "--dir", "made"]);
    assert_eq!((ran.code, ran.stdout.lines().count()), (0, 3), "{}", ran.stderr);
    for document in Document::ALL {
        let name = format!("{}.json", document.as_str());
        let ran = project.run(&["gen", "schema", document.as_str()]);
        assert_eq!(ran.code, 0, "{}", ran.stderr);
        let file = std::fs::read_to_string(shipped.join(&name)).unwrap();
        assert!(
            ran.stdout == file,
            "policies/schema/{name} is not what the program prints: run\n\n    cargo run -- gen schema --dir policies/schema\n"
        );
        assert_eq!(std::fs::read_to_string(project.root().join("made").join(&name)).unwrap(), file);
    }
    assert_eq!(std::fs::read_dir(shipped).unwrap().count(), Document::ALL.len());
    assert_eq!(project.run(&["gen", "schema"]).code, 2);
    assert_eq!(project.run(&["gen", "schema", "colours"]).code, 2);
}

#[test]
fn they_are_schemas_and_close_every_map() {
    fn open_maps(value: &Value, found: &mut Vec<Value>) {
        if let Some(map) = value.as_object() {
            if map.contains_key("properties") && map.get("additionalProperties") != Some(&json!(false)) {
                found.push(value.clone());
            }
            map.values().for_each(|value| open_maps(value, found));
        }
        value.as_array().into_iter().flatten().for_each(|value| open_maps(value, found));
    }
    for document in Document::ALL {
        let schema = document.schema();
        assert!(jsonschema::meta::is_valid(&schema), "{}", document.as_str());
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
        let mut found = Vec::new();
        open_maps(&schema, &mut found);
        assert_eq!(found, Vec::<Value>::new());
    }
}

#[test]
fn what_is_shipped_fits() {
    let directory = |name: &str| {
        let files = std::fs::read_dir(manifest_dir().join("policies").join(name)).unwrap();
        let files = files.map(|entry| entry.unwrap().path());
        let files: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "yaml")).collect();
        assert!(!files.is_empty(), "{name}");
        files
    };
    let policies = [".", "demo", "examples"].into_iter().flat_map(directory);
    let files = policies.map(|path| (Document::Policy, path));
    let files = files.chain(directory("runtimes").into_iter().map(|path| (Document::Runtime, path)));
    for (document, path) in files {
        let text = std::fs::read(&path).unwrap();
        assert_eq!(reader(document, &text), Ok(()), "{}", path.display());
        assert_eq!(fits(document, &text), Ok(()), "{}", path.display());
    }
}

/// Whether a schema can tell what is wrong.
fn is_of_structure(problem: &Problem) -> bool {
    const RULES: [&str; 9] = [
        "unknown-key",
        "missing-key",
        "wrong-type",
        "unknown-value",
        "unknown-version",
        "malformed-digest",
        "not-lockable",
        "wildcard",
        "relative-path",
    ];
    // The digits behind a point, the kinds of a place, and what only certain tools have to say.
    let finer = ["`usd` is an amount", "`find` is neither", "the tool `"];
    RULES.contains(&problem.rule) && !finer.iter().any(|message| problem.message.starts_with(message))
}

#[test]
fn what_breaks_the_structure_fits_no_schema() {
    let (mut refused, mut passed) = (0, 0);
    let policies = super::policy::not_to_be_said().into_iter().map(|text| (Document::Policy, text));
    let profiles = super::profiles::not_to_be_said().into_iter().map(|text| (Document::Runtime, text));
    for (document, text) in policies.chain(profiles) {
        let problem = reader(document, text.as_bytes()).unwrap_err();
        if fits(document, text.as_bytes()).is_err() {
            refused += 1;
        } else {
            passed += 1;
            assert!(!is_of_structure(&problem), "{problem:?} fits:\n{text}");
        }
    }
    println!("{refused} refused by their schema too, {passed} by the reader alone");
    assert!(refused > 30);
}

/// Every key taken away, renamed, or given a value of each other type: where the reader takes what is
/// left, the schema does, and where the reader misses something, the schema does.
#[test]
fn reader_and_schema_know_the_same_keys() {
    let digest = format!("sha256:{}", "0".repeat(64));
    let policy = format!(
        "version: 1
grant: {{use: [tool:read], delegate: [tool:read, agent:*]}}
gates: [tool:bash]
limits: {{depth: 2, agents: 4, concurrent: 1, deadline: 1h, child_deadline: 30s, tokens: 9, usd: 2.5}}
runtime: {{default: scripted, model: x/y}}
tier: K
accept: [{{id: tool:bash, as: advisory, why: x}}]
env: [TOKEN]
paths: {{read: [/a], write: [/a], exec: [/a], path: [/a]}}
roots: [/a]
overlays: [{{definition: a, digest: '{digest}', allow: [tool:read]}}, {{definition: b, digest: '{digest}', use: [tool:read], delegate: [agent:*]}}]
inline: true
subsumption: {{bash: [ls]}}
universal: [ext:a/b]
locked: [grant]
tests: [{{name: x, request: {{agent: a, use: [tool:read], delegate: [], runtime: x, approved: [tool:bash]}}, expect: refused, code: UNKNOWN_TOOL}}]
"
    );
    let workspace: String = policy
        .lines()
        .filter(|line| !["runtime", "subsumption", "locked", "tests"].iter().any(|key| line.starts_with(key)))
        .map(|line| format!("{line}\n"))
        .collect();
    let profile = LAB.replace("  - [lab]\n", "  - [lab]\n  - {some_tools: [a], no_tools: [b]}\n");
    let profile =
        format!("{profile}planned_only: x\ncage: {{programs: true, read: [/a], endpoints: ['a:1']}}\n");
    for (document, text) in
        [(Document::Policy, &policy), (Document::WorkspacePolicy, &workspace), (Document::Runtime, &profile)]
    {
        assert_eq!(reader(document, text.as_bytes()), Ok(()));
        let whole = json_of(&yaml::parse(text, 0).unwrap());
        let tables = whole.as_object().unwrap().keys().map(String::as_str);
        let known = document.schema()["properties"].as_object().unwrap().clone();
        assert_eq!(tables.collect::<Vec<_>>(), known.keys().collect::<Vec<_>>(), "every key is said");
        let (mut taken, mut refused) = (0, 0);
        for changed in changes(&whole) {
            let text = serde_json::to_string(&changed).unwrap();
            let fits = fits(document, text.as_bytes());
            match reader(document, text.as_bytes()) {
                Ok(()) => {
                    taken += 1;
                    assert_eq!(fits, Ok(()), "the reader takes {text}");
                }
                Err(problem) => {
                    refused += 1;
                    assert!(!is_of_structure(&problem) || fits.is_err(), "{problem:?}: {text}");
                }
            }
        }
        println!("{}: {taken} changes are taken, {refused} are refused", document.as_str());
        assert!(taken > 10 && refused > 100);
    }
}

/// The value with one thing changed, in every way and everywhere.
fn changes(value: &Value) -> Vec<Value> {
    let others = [json!(null), json!(true), json!(7), json!("a/b c"), json!([]), json!({})];
    let mut found: Vec<Value> = others.into_iter().filter(|other| other != value).collect();
    if let Value::Object(map) = value {
        for (key, inner) in map {
            let mut less = map.clone();
            less.remove(key);
            found.push(Value::Object(less.clone()));
            less.insert(format!("{key}_of_tomorrow"), inner.clone());
            found.push(Value::Object(less));
            found.extend(changes(inner).into_iter().map(|changed| {
                let mut map = map.clone();
                map.insert(key.clone(), changed);
                Value::Object(map)
            }));
        }
    }
    if let Value::Array(items) = value {
        for (at, inner) in items.iter().enumerate() {
            found.extend(changes(inner).into_iter().map(|changed| {
                let mut items = items.clone();
                items[at] = changed;
                Value::Array(items)
            }));
        }
    }
    found
}

#[test]
fn the_built_in_policy_and_an_empty_narrowing_fit() {
    assert_eq!(fits(Document::Policy, BUILTIN.as_bytes()), Ok(()));
    assert_eq!(fits(Document::WorkspacePolicy, b"version: 1\n"), Ok(()));
    assert!(fits(Document::Policy, b"version: 1\n").is_err(), "a policy grants something");
    assert!(fits(Document::WorkspacePolicy, b"version: 1\nruntime: {}\n").is_err(), "it cannot widen");
}
