//! Looking candidates and roots up by name and path, however many there are.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::capability::DefinitionName;

use super::{Candidate, Catalog};

/// Where each candidate and each root of a catalog stands in its list, by path. Where two have one
/// path, the first is meant.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    candidates: HashMap<PathBuf, usize>,
    roots: HashMap<PathBuf, usize>,
}

impl Places {
    /// By the paths that `named` makes of those that candidates and roots are called by.
    pub(super) fn of(catalog: &Catalog, named: impl Fn(PathBuf) -> Option<PathBuf>) -> Self {
        let index = |paths: &mut dyn Iterator<Item = PathBuf>| {
            let mut index = HashMap::new();
            for (at, path) in paths.enumerate() {
                if let Some(path) = named(path) {
                    index.entry(path).or_insert(at);
                }
            }
            index
        };
        Self {
            candidates: index(&mut catalog.candidates.iter().map(Candidate::path)),
            roots: index(&mut catalog.roots.iter().map(|(root, _)| root.clone())),
        }
    }

    pub(super) fn candidate(&self, path: &Path) -> Option<usize> {
        self.candidates.get(path).copied()
    }

    /// The nearest root above a path.
    pub(super) fn root_above(&self, path: &Path) -> Option<usize> {
        path.ancestors().find_map(|above| self.roots.get(above)).copied()
    }
}

/// Where the candidates of each name stand, nearest first.
pub(super) type Names = HashMap<DefinitionName, Vec<usize>>;

pub(super) fn names(candidates: &[Candidate]) -> Names {
    let mut names = Names::new();
    for (at, candidate) in candidates.iter().enumerate() {
        names.entry(candidate.name.clone()).or_default().push(at);
    }
    names
}
