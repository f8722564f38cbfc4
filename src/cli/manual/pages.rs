//! The words of the manual, a page a command.

use crate::exit::Exit;

use super::{Example, Exits, File, Page};

const USER_POLICY: File = File("~/.config/depute/policy.yaml", "The user's policy, for every directory.");
const DIRECTORY_POLICY: File = File(
    "~/.config/depute/policies/NAME-HASH.yaml",
    "The operator's policy for one directory, as `depute init` writes it.",
);
const PROFILES: File = File(
    "~/.config/depute/runtimes/NAME.yaml",
    "A runtime profile, which goes before the built-in one of that name.",
);
const WORKSPACE_POLICY: File =
    File(".depute/policy.yaml", "The project's own policy, which can only narrow the one in force.");
const DEFINITIONS: File = File(
    ".claude/skills/NAME/SKILL.md, .claude/agents/NAME.md",
    "Definitions of the project. The same below the home directory are the user's, and other agent programs' directories are looked through too.",
);
const LEDGER: File = File(
    "~/.local/state/depute/projects/NAME-HASH/ledger",
    "The ledger of one project, where `--ledger` names no other.",
);
const SESSIONS: File = File(
    "~/.local/state/depute/projects/NAME-HASH/sessions",
    "Private directories of running children, and the answers of those that have ended.",
);
const TRUST: File = File("~/.local/state/depute/trust.json", "Which directories are trusted.");

const POLICIES: &[File] = &[USER_POLICY, DIRECTORY_POLICY, WORKSPACE_POLICY];
const DECISION: &[File] = &[USER_POLICY, DIRECTORY_POLICY, WORKSPACE_POLICY, PROFILES, DEFINITIONS, TRUST];
const RUN: &[File] =
    &[USER_POLICY, DIRECTORY_POLICY, WORKSPACE_POLICY, PROFILES, DEFINITIONS, TRUST, LEDGER, SESSIONS];

/// Every page, the program's own first.
pub(super) const PAGES: &[Page] = &[
    Page {
        command: "",
        about: "\
An agent that hands work to a sub-agent hands over whatever that one can reach. depute stands between: \
it reads the definition of the sub-agent (a SKILL.md or an agent file), takes the tools that it \
declares as the most it may get, checks them against what the operator's policy lets be handed down, \
plans the exact arguments and environment of the child, and starts it. Every decision is on a \
tamper-evident ledger before anything runs.

What is not declared is not granted, and what is not granted is refused with its reason and the \
smallest fix. Begin with `depute demo`, then `depute init` in a project of your own.",
        examples: &[
            Example("See it work, with no key and no network", "depute demo"),
            Example("Write a policy for this directory that only reads", "depute init"),
            Example("What is here, and what could it do?", "depute list"),
            Example(
                "What would the reviewer get, and what would hold it?",
                "depute plan reviewer --task 'review the last change' --runtime scripted",
            ),
        ],
        exits: Exits::All,
        files: RUN,
        see: &["demo", "init", "check", "list", "plan", "run", "explain", "ledger"],
    },
    Page {
        command: "demo",
        about: "\
Lays out two skills and a policy in a directory of its own, has one of them granted and the other \
refused, runs the granted one with the scripted agent inside this program, and verifies the ledger of \
it all. It needs no key and no network, reads nothing of yours, and leaves nothing behind.",
        examples: &[
            Example("Show it", "depute demo"),
            Example("Keep the directory, to look at the ledger and the definitions", "depute demo --keep"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::LaunchFailed]),
        files: &[],
        see: &["init", "run", "ledger verify"],
    },
    Page {
        command: "init",
        about: "\
Looks for definitions, runtimes and keys, and writes the operator's policy for this directory, outside \
of it: reading, and nothing else. What the definitions here ask for beyond that stands in it as lines \
to uncomment, each with what it confers. The command that it prints at the end has been decided under \
the new policy, and works.

A policy that is there is never overwritten. Where the user's policy locks keys, what is written says \
no more than it does.",
        examples: &[Example("Write a policy for the project here", "depute init")],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Refused, Exit::Invalid]),
        files: POLICIES,
        see: &["list", "plan", "check"],
    },
    Page {
        command: "check",
        about: "\
Reads each file as the planner would and says of it: spawnable, with its ceiling; undeclared; or \
refused, with file, line, column, the rule and the smallest fix. Policies are read with their own \
tests, and profiles as `run` reads them. A directory is looked through for definitions, policies and \
profiles.

`--fix` shows, then makes, those changes of form that let a file be read and cannot widen what it \
declares. What would widen it is marked WIDENS, and made only with `--allow-widening`. `--overlay` gives definitions that declare nothing a ceiling in the operator's policy.",
        examples: &[
            Example(
                "Everything of this project and the policy beside it",
                "depute check .claude policy.yaml",
            ),
            Example("For a code host that reads SARIF", "depute check .claude --format sarif"),
            Example("Show what would be mended, and ask before each write", "depute check .claude --fix"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage, Exit::Invalid]),
        files: DECISION,
        see: &["list", "plan", "gen schema"],
    },
    Page {
        command: "list",
        about: "\
Lists every definition that is in force in this directory: those of the policy's roots, of the user and \
of the project, with what each could do, what it goes before, and by what it is asked for where its \
name alone means another. Then what looks like a definition and is passed over, with the reason.

Nothing is granted by being listed: what a definition would get is what `plan` says.",
        examples: &[
            Example("What is in force here", "depute list"),
            Example("The same for a program", "depute list --json"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Invalid]),
        files: DECISION,
        see: &["check", "plan", "trust"],
    },
    Page {
        command: "doctor",
        about: "\
Looks at what runs would rest on, and changes nothing: what the kernel offers, which runtimes are here \
and whether they can be started or only planned, the policy in force, the directories of configuration \
and state, the ledger, the trust of this directory, and the names of keys that no policy passes on. \
Each line is ok, a note, or a problem with its fix.

It measures; it does not promise. What the kernel offers and nothing uses yet is said to be so.",
        examples: &[
            Example("Is everything in order here?", "depute doctor"),
            Example("Only what is a problem, by a program", "depute doctor --json"),
        ],
        exits: Exits::These(&[
            Exit::Done,
            Exit::Internal,
            Exit::Invalid,
            Exit::Ledger,
            Exit::NotEnforceable,
            Exit::LaunchFailed,
        ]),
        files: RUN,
        see: &["init", "check", "ledger verify"],
    },
    Page {
        command: "plan",
        about: "\
Decides a request as `run` would, and prints the decision: the verdict, what the child may use and hand \
down, what holds each capability, its exact arguments, the names of its variables, its budget. Where it \
is refused, the code, the reason and the smallest fix.

Nothing is started and nothing is recorded. Without `--use` the whole ceiling of the definition is asked \
for; one id too many refuses it all, and the fix names the part that would pass.",
        examples: &[
            Example(
                "What would the reviewer get?",
                "depute plan reviewer --task 'review the last change' --runtime scripted",
            ),
            Example(
                "Ask for less than it declares, under a policy that is not installed",
                "depute --policy policy.yaml plan fixer --task 'fix it' --use tool:read,tool:edit",
            ),
            Example(
                "A definition of this project, of a name that the user has too",
                "depute plan reviewer@workspace --task x --runtime scripted --trust-workspace",
            ),
        ],
        exits: Exits::These(&[
            Exit::Done,
            Exit::Internal,
            Exit::Usage,
            Exit::Refused,
            Exit::Held,
            Exit::Invalid,
            Exit::NotEnforceable,
        ]),
        files: DECISION,
        see: &["run", "list", "explain"],
    },
    Page {
        command: "run",
        about: "\
Decides a request, puts the decision and all that it rests on onto the ledger, and only then starts the \
child: with exactly the planned arguments, an environment built from nothing, no terminal, and the task \
on standard input. What the child leaves behind is ended with it. Its answer goes to standard output.

Where a capability waits for a yes and a person is at the terminal, they are asked, and the answer is \
recorded. A decision that cannot be recorded starts nothing.

The exit code is the child's own where it ended by itself. A program that must tell a refusal from a \
child's number reads `outcome` of `--json`.",
        examples: &[
            Example(
                "Let the reviewer work",
                "depute run reviewer --task 'review the last change' --runtime scripted",
            ),
            Example(
                "The task from a file, at most five minutes, and the result as JSON",
                "depute run reviewer --task-file task.txt --runtime scripted --deadline 5m --json",
            ),
            Example(
                "A shell, under a policy that grants it",
                "depute --policy policy.yaml run builder --runtime command --task 'make test'",
            ),
        ],
        exits: Exits::AndTheChilds(&[
            Exit::Done,
            Exit::Internal,
            Exit::Usage,
            Exit::Refused,
            Exit::Held,
            Exit::Invalid,
            Exit::Ledger,
            Exit::NotEnforceable,
            Exit::LaunchFailed,
        ]),
        files: RUN,
        see: &["plan", "output", "explain", "ledger show"],
    },
    Page {
        command: "trust",
        about: "\
Definitions inside a project are whatever its last commit made them, so they are listed and planned, but \
spawned only where the directory is trusted. This says so for good, for the directory and those below \
it; the nearest decision counts. It is recorded outside of the directory.

Read the definitions first: `depute list` says what each could do. `--trust-workspace` of `run` and \
`plan` trusts them for one run.",
        examples: &[
            Example("Trust this project", "depute trust"),
            Example("Is it trusted?", "depute trust --show"),
            Example("No longer trust another one", "depute trust /src/shop --revoke"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Refused]),
        files: &[TRUST],
        see: &["list", "run"],
    },
    Page {
        command: "explain",
        about: "\
A line of the ledger has the code of a decision, not its words. What the decision rested on is stored \
beside it, so it is made again here, by this program, and must come out the same. Then the step that \
decided, what its code means, and the fix are printed.

What cannot be made again, since an input is gone or was changed, is said to be so, and not guessed.",
        examples: &[
            Example("Why was the last one not granted?", "depute explain"),
            Example("Line 12 of another ledger", "depute --ledger /var/lib/depute/ledger explain 12"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage, Exit::Invalid, Exit::Ledger]),
        files: &[LEDGER],
        see: &["plan", "ledger show"],
    },
    Page {
        command: "output",
        about: "\
The answer of a child is kept in the state directory, at most 1 MiB of it; the ledger has only its \
digest. This prints the answer again and checks it against that digest. On a terminal, what would move \
the cursor or hide is escaped; a program gets the bytes as they are.",
        examples: &[
            Example("The newest answer of this project", "depute output"),
            Example("That of a node, by the beginning of its id", "depute output 019adc5e"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Invalid, Exit::Ledger]),
        files: &[SESSIONS, LEDGER],
        see: &["run", "gc", "ledger show"],
    },
    Page {
        command: "gc",
        about: "\
Removes answers that are older than an age, and the private directories of sessions that died before \
they could clean up. What belongs to a session that still runs stays. The ledger is never touched: what \
was decided and done stays on record.",
        examples: &[
            Example("What would go?", "depute gc --dry-run"),
            Example("Keep a week of answers, in every project", "depute gc --all --older-than 7d"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage, Exit::Refused]),
        files: &[SESSIONS],
        see: &["output"],
    },
    Page {
        command: "resolve",
        about: "\
The arithmetic of grants alone, for controllers in other languages: no policy, no definition, no \
ledger. A line of standard input is an object with `requested` and `parentGrant`, and optionally \
`ceiling`, `gated`, `approved` and `subsumption`; a line of output has `effective`, `denied`, \
`clipped`, `gated_blocked`, `universal`, `covered_by_subsumption` and `inheritable`. It stops at the \
first line that is none.",
        examples: &[Example(
            "One question",
            r#"echo '{"requested":["tool:read"],"parentGrant":["tool:bash"]}' | depute resolve"#,
        )],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Invalid]),
        files: &[],
        see: &["plan"],
    },
    Page {
        command: "ledger",
        about: "\
The ledger is a list of records, each linked to the one before by its digest, with the inputs of every \
decision stored beside them. These commands read it, and a copy elsewhere does as well; only `rotate` \
writes to it.",
        examples: &[
            Example("What was decided and done here", "depute ledger show"),
            Example("Is all of it intact?", "depute ledger verify"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Ledger]),
        files: &[LEDGER],
        see: &["ledger verify", "ledger show", "ledger query", "ledger tail", "explain"],
    },
    Page {
        command: "ledger verify",
        about: "\
Reads every line, checks that each names the digest of the one before, that the stored inputs are there \
and are the bytes that were recorded, and that nothing was started without a decision. It says what it \
found, and what it does not prove: who can write to the directory can rewrite it as a whole, or cut off \
its end.",
        examples: &[
            Example("The ledger of this project", "depute ledger verify"),
            Example("A copy elsewhere, for a program", "depute ledger verify /mnt/evidence/ledger --json"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Ledger]),
        files: &[LEDGER],
        see: &["ledger show", "explain"],
    },
    Page {
        command: "ledger show",
        about: "\
Prints a line for each record: its number, the time, its kind, and what was decided or done. With \
`--json` it prints the lines as they stand in the ledger, byte for byte. It stops at the first line that \
is damaged; those before it are what was written.",
        examples: &[
            Example("All of it", "depute ledger show"),
            Example("For a program, byte for byte", "depute ledger show --json"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Ledger]),
        files: &[LEDGER],
        see: &["ledger query", "ledger tail", "ledger verify", "explain"],
    },
    Page {
        command: "ledger query",
        about: "\
Prints the records for which all conditions hold; a condition that is given twice holds for either \
value, and `--capability` for all. `--agent` and `--node` pick out everything that happened to a node: \
its decision, the answers to its gates, its start and its end. The output is that of `ledger show`.

It reads the ledger once, and with `--reverse` segment by segment from the newest back. No more than one \
segment is in memory. A kind or code that does not exist is an error, and never an empty result.",
        examples: &[
            Example("What was refused in the last day", "depute ledger query --verdict refused --since 1d"),
            Example("Everything that the reviewer did", "depute ledger query --agent reviewer"),
            Example("The five newest decisions, newest first", "depute ledger query --kind decision --last 5 --reverse"),
            Example(
                "Where a shell was asked for, as JSON",
                "depute ledger query --kind decision --capability tool:bash --json",
            ),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage, Exit::Ledger]),
        files: &[LEDGER],
        see: &["ledger show", "ledger tail", "explain"],
    },
    Page {
        command: "ledger tail",
        about: "\
Prints the newest records, and with `--follow` those that are appended from then on, until it is \
interrupted or nobody reads it any more. It reads no more of a long ledger than it needs, never prints a \
record that is only half written, and goes on into the next segment.",
        examples: &[
            Example("The ten newest", "depute ledger tail"),
            Example("What happens now, as JSON", "depute ledger tail --follow -n 0 --json"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage, Exit::Ledger]),
        files: &[LEDGER],
        see: &["ledger show", "ledger query"],
    },
    Page {
        command: "ledger rotate",
        about: "\
Closes the newest segment of the ledger and begins another one, as happens by itself when a segment has \
reached 64 MiB. A closed segment is never written again, so it can be copied away for good; the chain \
runs through all of them, and all must stay where they are to be verified.

A segment that holds nothing yet is not closed.",
        examples: &[Example("Close it before a backup", "depute ledger rotate")],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Ledger]),
        files: &[LEDGER],
        see: &["ledger verify", "ledger tail"],
    },
    Page {
        command: "gen",
        about: "\
Prints what editors, shells and packages need, made from this very program: the schemas of its files, \
completions of its command line, and these pages.",
        examples: &[
            Example("Pages and schemas for a package", "depute gen man --dir share/man/man1"),
            Example("Completions for this shell alone", "depute gen completions bash"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage]),
        files: &[],
        see: &["gen schema", "gen completions", "gen man"],
    },
    Page {
        command: "gen schema",
        about: "\
Prints the JSON Schema (2020-12) of a policy, of a policy inside a workspace, or of a runtime profile. An \
editor that knows the schema of a file offers its keys and values and marks what does not fit.

A schema takes every file that depute takes, and some that it refuses: `depute check FILE` decides.",
        examples: &[
            Example("The schema of a policy", "depute gen schema policy"),
            Example("All of them, as files beside a policy", "depute gen schema --dir schema"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage]),
        files: &[],
        see: &["check"],
    },
    Page {
        command: "gen completions",
        about: "\
Prints a script for a shell that completes the commands, options and fixed values of this program. Put \
it where that shell looks for completions, and start a new shell.",
        examples: &[
            Example(
                "bash, for this user",
                "depute gen completions bash > ~/.local/share/bash-completion/completions/depute",
            ),
            Example(
                "fish, for this user",
                "depute gen completions fish > ~/.config/fish/completions/depute.fish",
            ),
            Example("zsh, where ~/.zfunc is in its fpath", "depute gen completions zsh > ~/.zfunc/_depute"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage]),
        files: &[],
        see: &["gen man"],
    },
    Page {
        command: "gen man",
        about: "\
Prints a manual page in roff: that of the program, or that of the command which is named. With `--dir` \
it writes every page into a directory, as depute.1, depute-check.1 and so on, and prints their paths.",
        examples: &[
            Example("Read a page without installing it", "depute gen man plan | man -l -"),
            Example("Install them for this user", "depute gen man --dir ~/.local/share/man/man1"),
        ],
        exits: Exits::These(&[Exit::Done, Exit::Internal, Exit::Usage]),
        files: &[],
        see: &["gen completions"],
    },
];
