//! Adding overlays to a policy, with everything else in it as it was.

use std::fmt::Write as _;

use crate::diagnostic::Problem;
use crate::yaml::{Node, Value};

use super::read::root;
use super::{Overlay, Policy};

/// The policy with these overlays put behind its own. Every other byte stays.
///
/// # Errors
/// A [`Problem`] where it is no policy, or writes its overlays in a form that cannot be added to.
pub fn with_overlays(source: &[u8], added: &[Overlay]) -> Result<Vec<u8>, Problem> {
    let old = Policy::read(source)?;
    let text = std::str::from_utf8(source).unwrap_or_default();
    let root = root(source)?;
    let Value::Map(entries) = &root.value else { return Err(unwritable(&root)) };
    let items: Vec<String> = added.iter().map(Overlay::text).collect();
    let (node, written) = match entries.iter().find(|entry| entry.key == "overlays") {
        None => {
            let gap = if text.ends_with('\n') { "" } else { "\n" };
            (&root, Some(format!("{text}{gap}\noverlays:\n{}", lines(&items, "  - "))))
        }
        Some(entry) => (&entry.value, inserted(text, &entry.value, &items)),
    };
    let written = written.ok_or_else(|| unwritable(node))?.into_bytes();
    // Whatever form the file has: it must read back as what was meant.
    let new = Policy::read(&written).map_err(|_| unwritable(node))?;
    let mut meant = old.overlays;
    meant.extend(added.iter().cloned());
    if new.overlays == meant { Ok(written) } else { Err(unwritable(node)) }
}

fn unwritable(node: &Node) -> Problem {
    Problem::new("overlays-form", node.span.clone(), "writes `overlays` in a form that cannot be added to")
        .fix("write it as a list with one overlay a line")
}

/// The text with items at the end of a list.
fn inserted(text: &str, node: &Node, items: &[String]) -> Option<String> {
    let line_end = |at: usize| Some(at + text.get(at..)?.find('\n').unwrap_or(text.len() - at));
    let Value::List(old) = &node.value else { return None };
    match (old.first(), old.last()) {
        (Some(first), Some(last)) if !text.get(node.span.start..)?.starts_with('[') => {
            let line = text.get(..first.span.start)?.rfind('\n').map_or(0, |lf| lf + 1);
            let lead = text.get(line..first.span.start)?;
            // The end of a block is where the next one begins.
            let end = line_end(last.span.start + text.get(last.span.clone())?.trim_end().len())?;
            let (before, after) = text.split_at_checked(end)?;
            Some(format!("{before}\n{}{}", lines(items, lead).trim_end_matches('\n'), after))
        }
        (Some(_), Some(_)) => {
            let end = node.span.end.checked_sub(1)?;
            let (before, after) = text.split_at_checked(end)?;
            let comma = if before.trim_end().ends_with(',') { "" } else { ", " };
            Some(format!("{before}{comma}{}{after}", items.join(", ")))
        }
        _ => {
            let (before, empty) = text.split_at_checked(node.span.start)?;
            let end = line_end(node.span.end)?;
            let rest_of_line = text.get(node.span.end..end)?;
            let after = empty.get(end - node.span.start..)?;
            let lines = lines(items, "  - ");
            Some(format!(
                "{}{rest_of_line}\n{}{after}",
                before.trim_end_matches(' '),
                lines.trim_end_matches('\n')
            ))
        }
    }
}

fn lines(items: &[String], lead: &str) -> String {
    items.iter().fold(String::new(), |mut text, item| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{lead}{item}");
        text
    })
}
