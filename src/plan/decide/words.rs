//! Small words of the messages.

pub(super) fn near<'n>(word: &str, names: impl Iterator<Item = &'n String>) -> Vec<String> {
    crate::nearest::nearest_all(word, names.map(String::as_str)).into_iter().map(str::to_owned).collect()
}

pub(super) fn quoted(ids: &[String]) -> String {
    let quoted: Vec<String> = ids.iter().map(|id| format!("`{id}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
        None => String::new(),
    }
}

pub(super) fn is_are(ids: &[String]) -> &'static str {
    if ids.len() == 1 { "is" } else { "are" }
}

pub(super) fn it_them(ids: &[String]) -> &'static str {
    if ids.len() == 1 { "it" } else { "them" }
}

pub(super) fn agents(count: u32) -> String {
    format!("{count} agent{}", if count == 1 { "" } else { "s" })
}

/// Quoted for a shell where it needs to be, so that the printed fix can be pasted.
pub(super) fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.:,/@%+=".contains(c);
    if text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

/// A name that a program may be told, and a record may hold.
pub(super) fn is_plain_name(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 128
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.:/@".contains(c))
}
