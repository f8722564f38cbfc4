//! The keys of a policy.

use crate::shape::{Field, Form, Holds, Shape};

use super::{Expect, Key};

const ID: Holds = Holds::Form(Form::Capability);
const ONE_ID: Holds = Holds::Form(Form::OneCapability);
const ASKED_ID: Holds = Holds::Form(Form::AskedCapability);
const PATH: Holds = Holds::Form(Form::Path);
const DURATION: Holds = Holds::Form(Form::Duration);

const VERSION: Field =
    Field::new("version", "The version of this format.", Holds::Form(Form::Version)).required();
const GRANT_KEY: Field = Field::new(
    "grant",
    "What the root holds. A list means both rights: what it may use itself, and what it may hand down.",
    Holds::Either(&[Holds::List(&ID), Holds::Map(&GRANT)]),
);
const GATES: Field =
    Field::new("gates", "What waits for a person's yes before it enters somebody's hands.", Holds::List(&ID));
const LIMITS_KEY: Field =
    Field::new("limits", "How far a tree of agents may grow. A zero is a zero.", Holds::Map(&LIMITS));
const RUNTIME_KEY: Field =
    Field::new("runtime", "What is started where a request names nothing else.", Holds::Map(&RUNTIME));
const TIER: Field = Field::new(
    "tier",
    "The least that the kernel must hold: K where this is not stated. 0 puts no cage around anything, and what holds is each runtime's own flags.",
    Holds::Form(Form::Tier),
);
const ACCEPT_KEY: Field = Field::new(
    "accept",
    "Capabilities that may be granted though nothing enforces them.",
    Holds::List(&Holds::Map(&ACCEPT)),
);
const ENV: Field = Field::new(
    "env",
    "Names of the environment variables that are passed to children. Values are never recorded.",
    Holds::List(&Holds::Form(Form::Variable)),
);
const PATHS_KEY: Field = Field::new("paths", "Places that a caged child may see.", Holds::Map(&PATHS));
const ROOTS: Field = Field::new("roots", "Further directories with definitions.", Holds::List(&PATH));
const OVERLAYS: Field = Field::new(
    "overlays",
    "Ceilings given to definitions, each bound to the bytes that were reviewed.",
    Holds::List(&Holds::Either(&[Holds::Map(&OVERLAY_ALLOW), Holds::Map(&OVERLAY_RIGHTS)])),
);
const INLINE: Field =
    Field::new("inline", "Whether tools may be asked for without a definition.", Holds::Flag);
const SUBSUMPTION: Field = Field::new(
    "subsumption",
    "Rows added to the table of which tool confers which others.",
    Holds::Table(Form::Tool, &Holds::List(&Holds::Form(Form::Tool))),
);
const UNIVERSAL: Field =
    Field::new("universal", "Ids that confer everything, so are never granted.", Holds::List(&ONE_ID));
const LOCKED: Field = Field::new(
    "locked",
    "Keys of which a policy that comes after this one may not say more.",
    Holds::List(&Holds::Words(|| Key::ALL.map(Key::as_str).to_vec())),
);
const TESTS: Field = Field::new(
    "tests",
    "Examples of what this policy grants and refuses, which `depute check` decides.",
    Holds::List(&Holds::Map(&TEST)),
);

/// A policy that stands for itself.
pub const POLICY: Shape = Shape {
    what: "a policy",
    fields: &[
        VERSION,
        GRANT_KEY.required(),
        GATES,
        LIMITS_KEY,
        RUNTIME_KEY,
        TIER,
        ACCEPT_KEY,
        ENV,
        PATHS_KEY,
        ROOTS,
        OVERLAYS,
        INLINE,
        SUBSUMPTION,
        UNIVERSAL,
        LOCKED,
        TESTS,
    ],
};

/// A policy inside a workspace, which only narrows. Every other key of a policy could widen.
pub const WORKSPACE_POLICY: Shape = Shape {
    what: "a policy",
    fields: &[
        VERSION, GRANT_KEY, GATES, LIMITS_KEY, TIER, ACCEPT_KEY, ENV, PATHS_KEY, ROOTS, OVERLAYS, INLINE,
        UNIVERSAL,
    ],
};

pub(super) const GRANT: Shape = Shape {
    what: "`grant`",
    fields: &[
        Field::new("use", "What the root may do itself.", Holds::List(&ID)).required(),
        Field::new(
            "delegate",
            "What it may hand down. All that a child gets comes out of this.",
            Holds::List(&ID),
        )
        .required(),
    ],
};

pub(super) const LIMITS: Shape = Shape {
    what: "`limits`",
    fields: &[
        Field::new("depth", "How many levels of agents below the root.", Holds::Whole(MOST)),
        Field::new("agents", "How many agents in total.", Holds::Whole(MOST)),
        Field::new("concurrent", "How many agents at the same time.", Holds::Whole(MOST)),
        Field::new("deadline", "Wall clock of the whole tree.", DURATION),
        Field::new("child_deadline", "Wall clock of one agent.", DURATION),
        Field::new(
            "tokens",
            "Tokens, where a runtime reports or caps them; null is no limit.",
            Holds::Either(&[Holds::Whole(MOST_TOKENS), Holds::Null]),
        ),
        Field::new(
            "usd",
            "US dollars, where a runtime reports them; null is no limit.",
            Holds::Either(&[Holds::Amount, Holds::Null]),
        ),
    ],
};

/// The largest number of agents or levels.
pub(super) const MOST: u64 = 1_000_000;
/// The largest number of tokens.
pub(super) const MOST_TOKENS: u64 = 1 << 50;

pub(super) const RUNTIME: Shape = Shape {
    what: "`runtime`",
    fields: &[
        Field::new(
            "default",
            "The runtime where a request names none.",
            Holds::Either(&[Holds::Form(Form::Runtime), Holds::Null]),
        ),
        Field::new(
            "model",
            "The model where neither request nor definition names one.",
            Holds::Either(&[Holds::Text, Holds::Null]),
        ),
    ],
};

pub(super) const ACCEPT: Shape = Shape {
    what: "an entry of `accept`",
    fields: &[
        Field::new("id", "Exactly this capability.", ONE_ID).required(),
        Field::new("as", "What the plan and the ledger call it.", Holds::Words(|| vec![ADVISORY])).required(),
        Field::new("why", "What bounds it instead, in words that are kept on the ledger.", Holds::Text)
            .required(),
    ],
};

/// The one word of `as`.
pub(super) const ADVISORY: &str = "advisory";

pub(super) const PATHS: Shape = Shape {
    what: "`paths`",
    fields: &[
        Field::new("read", "May be read.", Holds::List(&PATH)),
        Field::new("write", "May be written.", Holds::List(&PATH)),
        Field::new("exec", "May be executed.", Holds::List(&PATH)),
        Field::new("path", "Put before the child's PATH.", Holds::List(&PATH)),
    ],
};

const OVERLAY_DEFINITION: Field =
    Field::new("definition", "The name of the definition.", Holds::Form(Form::Definition)).required();
const OVERLAY_DIGEST: Field = Field::new(
    "digest",
    "The digest of its directory as it was reviewed: `tree` of `depute check --json`. A changed file voids the overlay.",
    Holds::Form(Form::Digest),
)
.required();

/// An overlay that states one ceiling.
pub(super) const OVERLAY_ALLOW: Shape = Shape {
    what: "an overlay",
    fields: &[
        OVERLAY_DEFINITION,
        OVERLAY_DIGEST,
        Field::new("allow", "The most that the definition may use.", Holds::List(&ONE_ID)).required(),
    ],
};

/// An overlay that states the ceilings of both rights.
pub(super) const OVERLAY_RIGHTS: Shape = Shape {
    what: "an overlay",
    fields: &[
        OVERLAY_DEFINITION,
        OVERLAY_DIGEST,
        Field::new("use", "The most that the definition may use.", Holds::List(&ONE_ID)).required(),
        Field::new("delegate", "The most that it may hand down.", Holds::List(&ID)),
    ],
};

pub(super) const TEST: Shape = Shape {
    what: "a test",
    fields: &[
        Field::new("name", "What the example shows.", Holds::Text).required(),
        Field::new("request", "What the root asks for.", Holds::Map(&REQUEST)).required(),
        Field::new(
            "expect",
            "The verdict that must come out.",
            Holds::Words(|| Expect::ALL.map(Expect::as_str).to_vec()),
        )
        .required(),
        Field::new("code", "The code of the refusal that must come out.", Holds::Form(Form::Code)),
    ],
};

pub(super) const REQUEST: Shape = Shape {
    what: "`request`",
    fields: &[
        Field::new("agent", "The definition's name.", Holds::Form(Form::Definition)),
        Field::new("use", "What is asked for; the definition declares exactly this.", Holds::List(&ASKED_ID))
            .required(),
        Field::new("delegate", "What is asked to be handed down.", Holds::List(&ASKED_ID)),
        Field::new("runtime", "The runtime, where not the policy's default.", Holds::Form(Form::Runtime)),
        Field::new("approved", "What a person has said yes to.", Holds::List(&ONE_ID)),
    ],
};
