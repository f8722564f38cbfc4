//! What a file is by its path alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::definition::DefinitionKind;
use crate::plan::Origin;

use super::roots::{self, RootKind};
use super::scan::{single, unqualified};
use super::site::Site;
use super::{Access, Candidate, Root};

/// What a file named to `check` is taken for, by its path alone.
#[derive(Clone, Debug)]
pub enum FileKind {
    /// A definition.
    Definition(Candidate),
    /// A policy.
    Policy,
    /// A runtime profile.
    Profile,
    /// Nothing that is read here; why.
    Other(&'static str),
}

/// Takes a path for what its name and directory say it is.
#[must_use]
pub fn classify(site: &Site) -> FileKind {
    let real = site.directory();
    let inside = |word: &str| real.file_name().is_some_and(|name| name == word);
    let Some(file) = site.called().file_name().and_then(|name| name.to_str()) else {
        return FileKind::Other("has a name that is not UTF-8");
    };
    let definition = |name: &str, kind, root: &Path, directory: PathBuf| match (
        unqualified(name),
        Root::open(root),
    ) {
        (Ok(name), Ok(opened)) => FileKind::Definition(Candidate {
            name,
            kind,
            origin: Origin::Workspace,
            place: root.to_owned(),
            root: Arc::new(opened),
            directory,
            file: PathBuf::from(file),
            access: Access::Open,
        }),
        (_, Err(_)) => FileKind::Other("is in a directory that cannot be opened"),
        _ => FileKind::Other(
            "has a name that no definition may have; names hold letters, digits, `.`, `_` and `-`, and begin with a letter or digit",
        ),
    };
    let directory_name = || real.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
    let above = || real.parent().unwrap_or(Path::new("/")).to_owned();
    let root = roots::kind_of(&real);
    if let Some(why) = roots::other_form(file, root) {
        return FileKind::Other(why);
    }
    match file {
        "SKILL.md" => {
            definition(&directory_name(), DefinitionKind::Skill, &above(), PathBuf::from(directory_name()))
        }
        "AGENT.md" => {
            definition(&directory_name(), DefinitionKind::Harness, &above(), PathBuf::from(directory_name()))
        }
        other if other.eq_ignore_ascii_case("SKILL.md") => {
            FileKind::Other("is not a skill: the name is exactly `SKILL.md`")
        }
        other if other.ends_with(".yaml") || other.ends_with(".yml") => {
            if inside("runtimes") {
                FileKind::Profile
            } else {
                FileKind::Policy
            }
        }
        _ if inside("commands") => FileKind::Other("is a slash command, which is no definition"),
        other => match single(other, root.unwrap_or(RootKind::Agents)) {
            Some((name, kind)) => definition(name, kind, &real, PathBuf::new()),
            None => FileKind::Other("is neither a definition (`.md`) nor a policy (`.yaml`)"),
        },
    }
}
