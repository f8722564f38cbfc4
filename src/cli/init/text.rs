//! The policy that `init` writes, as text.

use std::fmt::Write as _;

use crate::capability::{Capability, CapabilitySet, Cover, Kind, vocabulary};
use crate::diagnostic::printable;
use crate::host::Project;
use crate::policy::{Key, Policy, quoted};

use super::{Found, READING, withheld};

/// The policy for what was found: what it grants, and as comments what could be added. `keys` are the
/// variables that are set here and that some runtime reads a key from.
pub(super) fn policy_text(
    project: &Project,
    policy: &Policy,
    definitions: &[Found],
    keys: &[String],
    user: Option<&Policy>,
) -> String {
    let mut text = String::new();
    let root = printable(&project.root.display().to_string());
    // Writing to a string does not fail.
    let _ = writeln!(text, "# The policy for {root}: reading, and nothing else.\nversion: 1\n");
    let locks = user.map(|user| &user.locked).filter(|locked| !locked.is_empty());
    if let Some(locked) = locks {
        let place = printable(&project.user_policy.display().to_string());
        let keys: Vec<&str> = locked.iter().map(|key| key.as_str()).collect();
        let _ = writeln!(text, "# {place} locks {}: this may not say more.\n", keys.join(", "));
    }
    let indent = grant_text(&mut text, policy);
    let held_back = withheld(definitions);
    let locked = locked_out(&held_back, policy, user);
    let open = held_back.filtered(|id| !locked.contains(id));
    if !open.is_empty() {
        let _ = writeln!(text, "# Withheld, though a definition here asks for it:");
        for id in &open {
            let _ = writeln!(text, "#{indent}- {:<27} # {}", quoted(id), meaning(id.as_str()));
        }
    }
    if !locked.is_empty() {
        let _ = writeln!(text, "# Locked by the user's policy, though a definition here asks for it:");
        for id in &locked {
            let _ = writeln!(text, "#    {:<27} # {}", quoted(id), meaning(id.as_str()));
        }
    }
    let _ = writeln!(text, "\n# What waits for a person's yes.\n{}\n", policy.key_text(Key::Gates));
    let _ = writeln!(
        text,
        "# The least that the kernel must hold. 0 puts no cage around anything: what holds is each runtime's flags.\n{}\n",
        policy.key_text(Key::Tier)
    );
    // Locked keys whose absence would say more than the lock allows.
    let has_lock = |key| locks.is_some_and(|locked| locked.contains(&key));
    for (key, says_something) in [
        (Key::Limits, has_lock(Key::Limits)),
        (Key::Overlays, !policy.overlays.is_empty()),
        (Key::Subsumption, !policy.subsumption_rows.is_empty()),
        (Key::Universal, !policy.universal_added.is_empty()),
    ] {
        if says_something {
            let _ = writeln!(text, "# As the user's policy locks it.\n{}\n", policy.key_text(key));
        }
    }
    if !has_lock(Key::Accept) {
        accept_text(&mut text, definitions, &locked);
    }
    if !keys.is_empty() && !has_lock(Key::Env) {
        let _ = writeln!(
            text,
            "\n# Variables that are set here. A child gets none that does not stand here.\n#env: [{}]",
            keys.join(", ")
        );
    }
    text
}

/// What may be granted though nothing enforces it. Where one id runs programs, nothing holds any other
/// beside it either, so each id of such a definition has its line.
fn accept_text(text: &mut String, definitions: &[Found], locked: &CapabilitySet) {
    let runs_programs = |id: &Capability| {
        id.tool_name().is_some_and(|name| name.as_str() == "bash")
            || matches!(id.kind(), Kind::Mcp(..) | Kind::Ext(..))
    };
    let wholes = definitions.iter().filter_map(|found| found.uses.as_ref());
    let unheld: CapabilitySet = wholes
        .filter(|uses| uses.iter().any(runs_programs) && !uses.iter().any(|id| locked.contains(id)))
        .flatten()
        .cloned()
        .collect();
    if unheld.is_empty() {
        return;
    }
    let _ = writeln!(
        text,
        "# What may be granted though nothing enforces it, as nothing does beside what runs programs.\n# Say who does bound it.\n#accept:"
    );
    for id in &unheld {
        let _ = writeln!(text, "#  - {{id: {}, as: advisory, why: …}}", quoted(id));
    }
}

/// The grant, an id a line, each with what it confers. What may be added goes below it, this far in.
fn grant_text(text: &mut String, policy: &Policy) -> &'static str {
    let grant = &policy.grant;
    if grant.uses == grant.delegate {
        ids_text(text, "", "grant", &grant.uses);
        return "  ";
    }
    let _ = writeln!(text, "grant:");
    ids_text(text, "  ", "use", &grant.uses);
    ids_text(text, "  ", "delegate", &grant.delegate);
    "    "
}

fn ids_text(text: &mut String, indent: &str, key: &str, set: &CapabilitySet) {
    let _ = writeln!(text, "{indent}{key}:{}", if set.is_empty() { " []" } else { "" });
    let known = READING.into_iter().filter_map(|id| id.parse::<Capability>().ok());
    let known: Vec<Capability> = known.filter(|id| set.contains(id)).collect();
    let others = set.iter().filter(|id| !known.contains(id));
    for id in known.iter().chain(others) {
        let _ = writeln!(text, "{indent}  - {:<28} # {}", quoted(id), meaning(id.as_str()));
    }
}

/// What of these a lock on the user's grant keeps out of this policy's.
fn locked_out(ids: &CapabilitySet, policy: &Policy, user: Option<&Policy>) -> CapabilitySet {
    let Some(user) = user.filter(|user| user.locked.contains(&Key::Grant)) else {
        return CapabilitySet::empty();
    };
    let covers = |set: &CapabilitySet, id: &Capability| set.covers(id, &user.subsumption()) != Cover::No;
    // What is added to one list for both rights has to be held by both.
    let both = policy.grant.uses == policy.grant.delegate;
    ids.filtered(|id| !covers(&user.grant.delegate, id) || both && !covers(&user.grant.uses, id))
}

fn meaning(id: &str) -> String {
    let known = |name: &str| vocabulary::TOOLS.iter().find(|(tool, _)| *tool == name).map(|(_, does)| *does);
    let tool = id.strip_prefix("tool:").map(|name| name.split('(').next().unwrap_or(name));
    match (tool, id.split_once(':')) {
        (Some("bash"), _) => {
            "run commands: all files of the project, in a cage; everything of yours at tier 0".to_owned()
        }
        (Some(name), _) => {
            known(name).map_or_else(|| "a tool that no runtime here knows".to_owned(), str::to_owned)
        }
        (None, Some(("mcp", _))) => "a tool of an MCP server, which is a program".to_owned(),
        (None, Some(("ext", _))) => "a tool of a runtime's extension, which is code of its own".to_owned(),
        (None, Some(("skill", _))) => "load this skill".to_owned(),
        (None, Some(("agent", "*"))) => {
            "spawn any definition; each gets no more than is granted here".to_owned()
        }
        (None, Some(("agent", _))) => {
            "spawn this definition; it gets no more than is granted here".to_owned()
        }
        (None, _) => "see the README".to_owned(),
    }
}
