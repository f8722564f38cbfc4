//! The words that capability ids are made of.
//!
//! One grammar: first character alphanumeric, then alphanumerics, dot, underscore, dash. Anything
//! else (a comma, a line break, a blank, a control character) cannot be held by these types.

use std::fmt;

use super::id::IdError;

/// The longest name, in bytes.
pub const MAX_NAME: usize = 200;

/// A name by the grammar above, its case kept.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(String);

impl Name {
    /// Parses a name.
    ///
    /// # Errors
    /// [`IdError`] where the text is empty, longer than [`MAX_NAME`] or holds another character.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        let mut chars = text.chars();
        let first = chars.next().ok_or(IdError::EmptyName)?;
        if !first.is_ascii_alphanumeric() {
            return Err(IdError::NameStart(first));
        }
        if let Some(bad) = chars.find(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))) {
            return Err(IdError::NameCharacter(bad));
        }
        if text.len() > MAX_NAME {
            return Err(IdError::TooLong(MAX_NAME));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The runtime-neutral name of a tool: a [`Name`] in lower case.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ToolName(Name);

impl ToolName {
    /// Parses a tool name and lower-cases it.
    ///
    /// # Errors
    /// As [`Name::parse`].
    pub fn parse(text: &str) -> Result<Self, IdError> {
        Name::parse(&text.to_ascii_lowercase()).map(Self)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }
}

impl fmt::Display for ToolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The name of a definition: `review`, or `package:review` where a package provides it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DefinitionName {
    package: Option<Name>,
    name: Name,
}

impl DefinitionName {
    /// Parses `name` or `package:name`.
    ///
    /// # Errors
    /// As [`Name::parse`], for either part.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        match text.split_once(':') {
            Some((package, name)) => {
                Ok(Self { package: Some(Name::parse(package)?), name: Name::parse(name)? })
            }
            None => Ok(Self { package: None, name: Name::parse(text)? }),
        }
    }

    /// The name without its package.
    #[must_use]
    pub fn short(&self) -> &Name {
        &self.name
    }
}

impl fmt::Display for DefinitionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.package {
            Some(package) => write!(f, "{package}:{}", self.name),
            None => self.name.fmt(f),
        }
    }
}

/// The id of a registered workspace: names joined by `/`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct WorkspaceId(String);

impl WorkspaceId {
    /// Parses names joined by `/`.
    ///
    /// # Errors
    /// As [`Name::parse`], for each part.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        for part in text.split('/') {
            Name::parse(part)?;
        }
        if text.len() > MAX_NAME {
            return Err(IdError::TooLong(MAX_NAME));
        }
        Ok(Self(text.to_owned()))
    }
}

/// The package of a runtime extension: a name, or an npm scope and a name (`@scope/name`).
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PackageName(String);

impl PackageName {
    /// Parses `name` or `@scope/name`.
    ///
    /// # Errors
    /// As [`Name::parse`], for each part.
    pub fn parse(text: &str) -> Result<Self, IdError> {
        match text.strip_prefix('@').and_then(|rest| rest.split_once('/')) {
            Some((scope, name)) => {
                Name::parse(scope)?;
                Name::parse(name)?;
            }
            None => {
                Name::parse(text)?;
            }
        }
        Ok(Self(text.to_owned()))
    }
}

macro_rules! as_text {
    ($($type:ident),+) => {$(
        impl $type {
            /// It as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

as_text!(Name, WorkspaceId, PackageName);
