//! What the maps of our own formats hold: one table, by which the readers know their keys and from
//! which the JSON Schemas are made.
//!
//! A table says no more than the schema can: the reader decides, and may refuse what fits here.

#![forbid(unsafe_code)]

/// A map whose keys are all known.
#[derive(Debug)]
pub struct Shape {
    /// What it is called in messages: `a policy`.
    pub what: &'static str,
    /// Its keys, in the order in which they are written.
    pub fields: &'static [Field],
}

/// One key of a map.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The key as it is written.
    pub name: &'static str,
    /// Whether it has to be there.
    pub required: bool,
    /// What it is for, in a sentence for who writes it.
    pub about: &'static str,
    /// What it holds.
    pub holds: Holds,
}

/// What a key or an item of a list holds.
#[derive(Clone, Copy, Debug)]
pub enum Holds {
    /// Nothing, written `null`.
    Null,
    /// `true` or `false`.
    Flag,
    /// Any text.
    Text,
    /// A whole number up to this.
    Whole(u64),
    /// A number, not negative.
    Amount,
    /// One of these words.
    Words(fn() -> Vec<&'static str>),
    /// Text or a number of a form that has a name of its own.
    Form(Form),
    /// A list of these.
    List(&'static Holds),
    /// A map with known keys.
    Map(&'static Shape),
    /// A map whose keys its author chooses.
    Table(Form, &'static Holds),
    /// Any of these.
    Either(&'static [Holds]),
}

/// Forms of text that readers check further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// The version of the format.
    Version,
    /// A capability.
    Capability,
    /// A capability that is no wildcard.
    OneCapability,
    /// An id in a test: any text, most often a capability.
    AskedCapability,
    /// The name of a tool.
    Tool,
    /// The name of a definition.
    Definition,
    /// The name of a runtime.
    Runtime,
    /// A time.
    Duration,
    /// A tier.
    Tier,
    /// The name of a variable that may be passed.
    Variable,
    /// Any text.
    Any,
    /// An absolute path.
    Path,
    /// The digest of a definition's directory.
    Digest,
    /// The code of a refusal.
    Code,
}

impl Field {
    /// A key that may be left out.
    #[must_use]
    pub const fn new(name: &'static str, about: &'static str, holds: Holds) -> Self {
        Self { name, required: false, about, holds }
    }

    /// The same key where it has to be there.
    #[must_use]
    pub const fn required(self) -> Self {
        Self { required: true, ..self }
    }
}
