//! The keys by which one policy can allow more than another.

/// A key of a policy that says how much is allowed. Every other key (`version`, `runtime`, `locked`,
/// `tests`) allows nothing by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// What the root holds.
    Grant,
    /// What waits for a person's yes.
    Gates,
    /// How far a tree may grow.
    Limits,
    /// The least that the kernel must hold.
    Tier,
    /// What may be granted though nothing enforces it.
    Accept,
    /// Which variables are passed.
    Env,
    /// Which places a caged child may see.
    Paths,
    /// Where further definitions are read.
    Roots,
    /// Ceilings that the operator gives.
    Overlays,
    /// Whether tools may be asked for without a definition.
    Inline,
    /// Which tool confers which.
    Subsumption,
    /// Which ids confer everything.
    Universal,
}

impl Key {
    /// Every one, in the order in which policies are written.
    pub const ALL: [Self; 12] = [
        Self::Grant,
        Self::Gates,
        Self::Limits,
        Self::Tier,
        Self::Accept,
        Self::Env,
        Self::Paths,
        Self::Roots,
        Self::Overlays,
        Self::Inline,
        Self::Subsumption,
        Self::Universal,
    ];

    /// The key as it is written.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Grant => "grant",
            Self::Gates => "gates",
            Self::Limits => "limits",
            Self::Tier => "tier",
            Self::Accept => "accept",
            Self::Env => "env",
            Self::Paths => "paths",
            Self::Roots => "roots",
            Self::Overlays => "overlays",
            Self::Inline => "inline",
            Self::Subsumption => "subsumption",
            Self::Universal => "universal",
        }
    }

    /// Reads the key.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|key| key.as_str() == text)
    }

    /// Whether its ids are read by the subsumption table, so that other rows would make other ids of
    /// the same list.
    #[must_use]
    pub fn is_read_by_subsumption(self) -> bool {
        match self {
            Self::Grant | Self::Gates | Self::Universal => true,
            Self::Limits
            | Self::Tier
            | Self::Accept
            | Self::Env
            | Self::Paths
            | Self::Roots
            | Self::Overlays
            | Self::Inline
            | Self::Subsumption => false,
        }
    }
}
