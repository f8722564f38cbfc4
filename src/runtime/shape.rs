//! The keys of a runtime profile.

use crate::shape::{Field, Form, Holds, Shape};

use super::{BodyBy, ExitMeaning, Files, ModelForm, OutputForm, TaskBy};

/// Words of a profile, each with what it means here.
pub(super) type Choices<T> = &'static [(&'static str, T)];

pub(super) const BODY: Choices<BodyBy> = &[("file", BodyBy::File), ("unused", BodyBy::Unused)];
pub(super) const TASK: Choices<TaskBy> = &[("stdin", TaskBy::Stdin)];
pub(super) const MODEL: Choices<ModelForm> =
    &[("none", ModelForm::None), ("provider/model", ModelForm::ProviderSlashModel)];
pub(super) const OUTPUT: Choices<OutputForm> =
    &[("text", OutputForm::Text), ("json-lines", OutputForm::JsonLines)];
pub(super) const EXIT: Choices<ExitMeaning> = &[("code", ExitMeaning::Code), ("events", ExitMeaning::Events)];
pub(super) const FILES: Choices<Files> = &[("workspace", Files::Workspace), ("whole-disk", Files::WholeDisk)];

fn words<T>(choices: Choices<T>) -> Vec<&'static str> {
    choices.iter().map(|(word, _)| *word).collect()
}

const TEXTS: Holds = Holds::List(&Holds::Text);
const TEXT_OR_NULL: Holds = Holds::Either(&[Holds::Text, Holds::Null]);

/// A runtime profile.
pub const PROFILE: Shape = Shape {
    what: "a runtime profile",
    fields: &[
        Field::new("version", "The version of this format.", Holds::Form(Form::Version)).required(),
        Field::new("runtime", "The runtime's name, which is the file's too.", Holds::Text).required(),
        Field::new("about", "What it is, in a sentence.", Holds::Text).required(),
        Field::new("planned_only", "Why it cannot be started, where it can only be planned.", Holds::Text),
        Field::new(
            "find",
            "Where its program is: `itself`, an absolute path, or a name in the child's PATH.",
            Holds::Text,
        )
        .required(),
        Field::new("probe", "The arguments that print its version.", TEXTS).required(),
        Field::new("versions", "The range that this was measured on.", TEXT_OR_NULL).required(),
        Field::new(
            "tools",
            "Its tools by their neutral names, in the order in which it lists them.",
            Holds::Table(Form::Tool, &Holds::Map(&TOOL)),
        )
        .required(),
        Field::new(
            "allowlist",
            "What removes every tool that is not granted, in words for the plan.",
            Holds::Text,
        )
        .required(),
        Field::new(
            "argv",
            "Its arguments, piece by piece, without the program.",
            Holds::List(&Holds::Either(&[TEXTS, Holds::Map(&EACH_TOOL), Holds::Map(&BY_TOOLS)])),
        )
        .required(),
        Field::new(
            "env",
            "Variables of the child beyond the fixed set.",
            Holds::Table(Form::Any, &Holds::Text),
        )
        .required(),
        Field::new(
            "keys",
            "Variables that a policy usually passes for it; never passed by themselves.",
            TEXTS,
        )
        .required(),
        Field::new("config_files", "Files to put into its private configuration directory.", TEXTS)
            .required(),
        Field::new("body", "How the instructions reach it.", Holds::Words(|| words(BODY))).required(),
        Field::new("task", "How the task reaches it.", Holds::Words(|| words(TASK))).required(),
        Field::new("model", "How a model is named.", Holds::Words(|| words(MODEL))).required(),
        Field::new(
            "mcp",
            "How MCP servers are given to it, in words; null where they cannot be.",
            TEXT_OR_NULL,
        )
        .required(),
        Field::new("output", "What its standard output holds.", Holds::Words(|| words(OUTPUT))).required(),
        Field::new("attestation", "Where a run reports its tools; null where it does not.", TEXT_OR_NULL)
            .required(),
        Field::new("usage", "Where a run reports what it used; null where it does not.", TEXT_OR_NULL)
            .required(),
        Field::new("exit", "What its exit code means.", Holds::Words(|| words(EXIT))).required(),
        Field::new(
            "cage",
            "What the program itself needs of a cage, whatever is granted.",
            Holds::Map(&CAGE),
        ),
        Field::new(
            "cannot",
            "What it cannot do, each with the reason.",
            Holds::Table(Form::Any, &Holds::Text),
        )
        .required(),
    ],
};

pub(super) const TOOL: Shape = Shape {
    what: "a tool",
    fields: &[
        Field::new("native", "What the runtime calls it.", Holds::Text).required(),
        Field::new("scopes", "Whether the runtime bounds it by a scope.", Holds::Flag),
        Field::new("files", "How far a file tool reaches by itself.", Holds::Words(|| words(FILES))),
        Field::new("runs_programs", "Whether it can run programs.", Holds::Flag),
    ],
};

pub(super) const CAGE: Shape = Shape {
    what: "`cage`",
    fields: &[
        Field::new("programs", "Whether the program itself starts others.", Holds::Flag),
        Field::new("read", "Places that it reads.", Holds::List(&Holds::Form(Form::Path))),
        Field::new(
            "endpoints",
            "What it connects to, each as `host:port`: the provider of its model.",
            TEXTS,
        ),
    ],
};

const PIECE: &str = "a piece of `argv`";

/// Arguments once for each granted tool.
pub(super) const EACH_TOOL: Shape = Shape {
    what: PIECE,
    fields: &[Field::new("each_tool", "Once for each granted tool, with `{id}`.", TEXTS).required()],
};

/// One form where tools are granted, another where none are.
pub(super) const BY_TOOLS: Shape = Shape {
    what: PIECE,
    fields: &[
        Field::new("some_tools", "Where tools are granted, with `{tools}`.", TEXTS).required(),
        Field::new("no_tools", "The runtime's own form for no tools.", TEXTS).required(),
    ],
};
