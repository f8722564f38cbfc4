//! JSON Schemas (2020-12) of the files that people write, for editors and for checks elsewhere.
//!
//! Their keys are the tables that our readers read by. A schema takes every file that the reader
//! takes; the reader is the one that decides, and refuses some that a schema cannot tell apart.

#![forbid(unsafe_code)]

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::capability::vocabulary;
use crate::plan::Code;
use crate::policy::{self, NEVER_PASSED, NEVER_PASSED_PREFIXES};
use crate::runtime::{self, Tier};
use crate::shape::{Form, Holds, Shape};

/// A kind of file that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Document {
    /// A policy that stands for itself.
    Policy,
    /// A policy inside a workspace, which only narrows.
    WorkspacePolicy,
    /// A runtime profile.
    Runtime,
}

impl Document {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::Policy, Self::WorkspacePolicy, Self::Runtime];

    /// The name of its schema, which is that of the schema's file without `.json`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::WorkspacePolicy => "workspace-policy",
            Self::Runtime => "runtime",
        }
    }

    fn shape(self) -> &'static Shape {
        match self {
            Self::Policy => &policy::POLICY,
            Self::WorkspacePolicy => &policy::WORKSPACE_POLICY,
            Self::Runtime => &runtime::PROFILE,
        }
    }

    fn version(self) -> u64 {
        match self {
            Self::Policy | Self::WorkspacePolicy => policy::VERSION,
            Self::Runtime => runtime::VERSION,
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::Policy => "A policy of depute",
            Self::WorkspacePolicy => "A policy of depute inside a workspace, which only narrows",
            Self::Runtime => "A runtime profile of depute",
        }
    }

    /// The schema, as one JSON object.
    #[must_use]
    pub fn schema(self) -> Value {
        let mut maker = Maker { document: self, forms: BTreeSet::new() };
        let Value::Object(mut schema) = maker.map(self.shape()) else { return Value::Null };
        let forms: Map<String, Value> =
            maker.forms.iter().map(|form| (name(*form).to_owned(), maker.form(*form))).collect();
        schema.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
        schema
            .insert("$comment".to_owned(), json!(format!("Made by `depute gen schema {}`.", self.as_str())));
        schema.insert("title".to_owned(), json!(self.title()));
        schema.insert("$defs".to_owned(), Value::Object(forms));
        Value::Object(schema)
    }
}

struct Maker {
    document: Document,
    /// The forms that are referred to.
    forms: BTreeSet<Form>,
}

impl Maker {
    fn map(&mut self, shape: &Shape) -> Value {
        let required: Vec<&str> =
            shape.fields.iter().filter(|field| field.required).map(|field| field.name).collect();
        let properties: Map<String, Value> = shape
            .fields
            .iter()
            .map(|field| {
                let mut value = self.holds(&field.holds);
                if let Value::Object(value) = &mut value {
                    value.insert("description".to_owned(), json!(field.about));
                }
                (field.name.to_owned(), value)
            })
            .collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
    }

    fn holds(&mut self, holds: &Holds) -> Value {
        match holds {
            Holds::Null => json!({ "type": "null" }),
            Holds::Flag => json!({ "type": "boolean" }),
            Holds::Text => json!({ "type": "string" }),
            Holds::Whole(most) => json!({ "type": "integer", "minimum": 0, "maximum": most }),
            Holds::Amount => json!({ "type": "number", "minimum": 0 }),
            Holds::Words(words) => json!({ "enum": words() }),
            Holds::Form(form) => {
                self.forms.insert(*form);
                json!({ "$ref": format!("#/$defs/{}", name(*form)) })
            }
            Holds::List(items) => json!({ "type": "array", "items": self.holds(items) }),
            Holds::Map(shape) => self.map(shape),
            Holds::Table(keys, values) => json!({
                "type": "object",
                "propertyNames": self.holds(&Holds::Form(*keys)),
                "additionalProperties": self.holds(values),
            }),
            Holds::Either(several) => {
                json!({ "anyOf": several.iter().map(|one| self.holds(one)).collect::<Vec<_>>() })
            }
        }
    }

    fn form(&self, form: Form) -> Value {
        const NAME: &str = "[A-Za-z0-9][A-Za-z0-9._-]*";
        let text = |pattern: &str| json!({ "type": "string", "pattern": pattern });
        // An editor offers what the first branch lists, and takes what any branch does.
        let offering = |words: Vec<String>, any: Value| json!({ "anyOf": [{ "enum": words }, any] });
        match form {
            Form::Version => json!({ "const": self.document.version() }),
            Form::Capability => offering(capabilities(true), text(CAPABILITY)),
            Form::OneCapability => offering(
                capabilities(false),
                json!({
                    "type": "string",
                    "pattern": CAPABILITY,
                    "not": { "pattern": "^((tool|agent|workspace):\\*|mcp:[^/]*/\\*)$" },
                }),
            ),
            Form::AskedCapability => offering(capabilities(true), json!({ "type": "string" })),
            Form::Tool => {
                let tools = vocabulary::TOOLS.iter().map(|(tool, _)| (*tool).to_owned()).collect();
                offering(tools, text(&format!("^(tool:)?{NAME}$")))
            }
            Form::Definition => text(&format!("^{NAME}(:{NAME})?$")),
            Form::Runtime | Form::Any => json!({ "type": "string" }),
            Form::Duration => text("^[0-9]+(h|m|s|ms)$"),
            Form::Tier => {
                let letters = Tier::ALL.iter().map(|tier| json!(tier.as_str()));
                let numbers = Tier::ALL.iter().filter_map(|tier| tier.as_str().parse::<u64>().ok());
                json!({ "enum": numbers.map(Value::from).chain(letters).collect::<Vec<_>>() })
            }
            Form::Variable => json!({
                "type": "string",
                "pattern": "^[A-Za-z_][A-Za-z0-9_]*$",
                "not": { "anyOf": [
                    { "enum": NEVER_PASSED },
                    { "pattern": format!("^({})", NEVER_PASSED_PREFIXES.join("|")) },
                ]},
            }),
            Form::Path => json!({
                "type": "string",
                "pattern": "^/",
                "not": { "pattern": "(^|/)\\.\\.(/|$)" },
            }),
            Form::Digest => text("^sha256:[0-9a-f]{64}$"),
            Form::Code => {
                let codes = Code::ALL.iter().map(ToString::to_string).collect();
                offering(codes, json!({ "type": "string" }))
            }
        }
    }
}

/// How every capability begins.
const CAPABILITY: &str = "^(tool|mcp|ext|skill|agent|workspace):";

/// Capabilities that are known by name.
fn capabilities(wildcards: bool) -> Vec<String> {
    let tools = vocabulary::TOOLS.iter().map(|(tool, _)| format!("tool:{tool}"));
    let wide = ["tool:*", "agent:*", "workspace:*"].into_iter().filter(|_| wildcards);
    tools.chain(wide.map(str::to_owned)).collect()
}

fn name(form: Form) -> &'static str {
    match form {
        Form::Version => "version",
        Form::Capability => "capability",
        Form::OneCapability => "one-capability",
        Form::AskedCapability => "asked-capability",
        Form::Tool => "tool",
        Form::Definition => "definition",
        Form::Runtime => "runtime",
        Form::Any => "any-text",
        Form::Duration => "duration",
        Form::Tier => "tier",
        Form::Variable => "variable",
        Form::Path => "path",
        Form::Digest => "digest",
        Form::Code => "code",
    }
}
