//! YAML as values with their places, under strict rules. The one module that names the YAML crate.
//!
//! Refused: control characters, anchors, aliases, tags, merge keys, directives, more than one document, duplicate or
//! non-string keys, nesting deeper than [`MAX_DEPTH`] and more than [`MAX_NODES`] values. Scalars
//! keep the type they were written with: a plain `no` is a boolean, `1.10` a number, `~` null, and
//! neither is ever read as a name.

#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, options};

use crate::diagnostic::Problem;
use crate::nearest::nearest;
use crate::shape::Shape;

/// The deepest nesting of lists and maps.
pub const MAX_DEPTH: usize = 16;
/// The most values in one document.
pub const MAX_NODES: usize = 4096;

/// A value and where it stands, in bytes of the whole file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// What it is.
    pub value: Value,
    /// Where it stands.
    pub span: Range<usize>,
}

/// A value by its written type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Nothing, `~` or `null`.
    Null,
    /// `true`, `false`, and the older `yes`, `no`, `on`, `off`.
    Bool(bool),
    /// A plain number or date, as it was written.
    Number(String),
    /// Quoted, block or any other plain text.
    Text(String),
    /// A list.
    List(Vec<Node>),
    /// A map with distinct string keys, in written order.
    Map(Vec<Entry>),
}

/// One entry of a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// Where the key stands.
    pub key_span: Range<usize>,
    /// The value.
    pub value: Node,
}

impl Node {
    /// The type in words, for messages.
    #[must_use]
    pub fn type_name(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number or date",
            Value::Text(_) => "text",
            Value::List(_) => "a list",
            Value::Map(_) => "a map",
        }
    }
}

/// Reads one document. `base` is where `text` begins in its file.
///
/// # Errors
/// A [`Problem`] with the place, for text that is not YAML and for everything this module refuses.
pub fn parse(text: &str, base: usize) -> Result<Node, Problem> {
    refuse_controls(text, base)?;
    let options = options! {
        disallow_directives: true,
        emit_comments: false,
        flow_nesting_limit: 64,
        block_nesting_limit: 64,
    };
    let mut reader =
        Reader { parser: Parser::new_from_str_with_options(text, options), base, len: text.len(), nodes: 0 };
    let node = loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (Event::StreamEnd | Event::DocumentEnd, span) => break Node { value: Value::Null, span },
            (event, span) => break reader.node(event, span, 0)?,
        }
    };
    loop {
        match reader.next()? {
            (Event::DocumentEnd, _) => {}
            (Event::StreamEnd, _) => return Ok(node),
            (_, span) => {
                return Err(Problem::new("one-document", span, "holds more than one YAML document")
                    .fix("keep the first and remove the rest"));
            }
        }
    }
}

/// A lone CR or U+2028 ends a line for some readers and not for others, so a key could hide in what
/// looks like a comment.
fn refuse_controls(yaml: &str, base: usize) -> Result<(), Problem> {
    let mut chars = yaml.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let allowed = match c {
            '\n' | '\t' => true,
            '\r' => chars.peek().is_some_and(|(_, next)| *next == '\n'),
            '\u{2028}' | '\u{2029}' => false,
            // The reader of a format takes off the one byte-order mark that it allows.
            '\u{feff}' => at > 0,
            c => !c.is_control(),
        };
        if !allowed {
            let span = base + at..base + at + c.len_utf8();
            return Err(control_character(span, c));
        }
    }
    Ok(())
}

fn control_character(span: Range<usize>, c: char) -> Problem {
    Problem::new("control-character", span, format!("holds the character U+{:04X}", u32::from(c)))
        .fix("remove it")
}

struct Reader<'t> {
    parser: Parser<'t, granit_parser::StrInput<'t>>,
    base: usize,
    len: usize,
    nodes: usize,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<(Event<'t>, Range<usize>), Problem> {
        match self.parser.next_event() {
            Some(Ok((event, span))) => {
                let span = self.place(&span);
                Ok((event, span))
            }
            Some(Err(error)) => {
                let at = self.base + error.marker().byte_offset().unwrap_or(0).min(self.len);
                let info = error.info();
                // The commonest mistake in public files deserves its own help.
                let colon = info.contains("mapping values are not allowed") || info.contains("':'");
                Err(Problem::new("yaml", at..at + 1, format!("is not YAML: {info}")).fix(if colon {
                    "put the whole value in double quotes: a colon and a blank end a plain value"
                } else {
                    "quote the value on this line"
                }))
            }
            None => Ok((Event::StreamEnd, self.base..self.base)),
        }
    }

    fn place(&self, span: &Span) -> Range<usize> {
        let range = span.byte_range().unwrap_or(0..0);
        self.base + range.start..self.base + range.end
    }

    fn node(&mut self, event: Event<'t>, span: Range<usize>, depth: usize) -> Result<Node, Problem> {
        self.nodes += 1;
        if depth > MAX_DEPTH {
            return Err(Problem::new(
                "yaml-depth",
                span,
                format!("is nested deeper than {MAX_DEPTH} levels"),
            )
            .fix("write it flatter"));
        }
        if self.nodes > MAX_NODES {
            return Err(Problem::new("yaml-size", span, format!("holds more than {MAX_NODES} values"))
                .fix("leave out what is not needed"));
        }
        if event.tag().is_some() {
            return Err(Problem::new("yaml-tag", span, "has a tag, and tags are not read")
                .fix("remove the `!…`, or quote the text"));
        }
        if event.anchor_id().is_some_and(|id| id != 0) {
            return Err(Problem::new("yaml-anchor", span, "has an anchor, and anchors are not read")
                .fix("remove the `&…`, or quote the text"));
        }
        #[expect(
            clippy::wildcard_enum_match_arm,
            reason = "the crate may add events; none of them is a value"
        )]
        match event {
            Event::Scalar(text, style, ..) => {
                // An escape may write what the text itself may not hold.
                if let Some(c) = text.chars().find(|c| c.is_control() && !matches!(c, '\n' | '\t')) {
                    return Err(control_character(span, c));
                }
                let plain = style == ScalarStyle::Plain;
                let value = if plain { plain_value(&text) } else { Value::Text(text.into_owned()) };
                Ok(Node { value, span })
            }
            Event::SequenceStart(..) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, end) => {
                            return Ok(Node { value: Value::List(items), span: span.start..end.end });
                        }
                        (event, at) => items.push(self.node(event, at, depth + 1)?),
                    }
                }
            }
            Event::MappingStart(..) => self.map(span, depth),
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                Err(Problem::new("yaml-alias", span, "is an alias, and aliases are not read")
                    .fix("write the value out, or quote the text"))
            }
            _ => Err(Problem::new("yaml", span, "is not YAML: a value is missing").fix("write a value here")),
        }
    }

    fn map(&mut self, span: Range<usize>, depth: usize) -> Result<Node, Problem> {
        let mut entries: Vec<Entry> = Vec::new();
        loop {
            let (event, key_span) = match self.next()? {
                (Event::MappingEnd, end) => {
                    return Ok(Node { value: Value::Map(entries), span: span.start..end.end });
                }
                found => found,
            };
            let key = match self.node(event, key_span.clone(), depth + 1)?.value {
                Value::Text(text) if text == "<<" => {
                    return Err(Problem::new(
                        "yaml-merge",
                        key_span,
                        "is a merge key, and merge keys are not read",
                    )
                    .fix("write the entries out"));
                }
                Value::Text(text) => text,
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                    return Err(
                        Problem::new("yaml-key", key_span, "is a key that is not text").fix("quote it")
                    );
                }
            };
            if entries.iter().any(|entry| entry.key == key) {
                return Err(Problem::new("duplicate-key", key_span, format!("`{key}` is written twice"))
                    .fix("keep one of the two"));
            }
            let (event, at) = self.next()?;
            let value = self.node(event, at, depth + 1)?;
            entries.push(Entry { key, key_span, value });
        }
    }
}

/// The type that a plain scalar has under YAML 1.2, or had under 1.1: whoever wrote `no` may have
/// meant either, so it is never taken for a name.
fn plain_value(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        _ => {}
    }
    if ["true", "yes", "on"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Value::Bool(true);
    }
    if ["false", "no", "off"].iter().any(|word| text.eq_ignore_ascii_case(word)) {
        return Value::Bool(false);
    }
    if is_number(text) { Value::Number(text.to_owned()) } else { Value::Text(text.to_owned()) }
}

fn is_number(text: &str) -> bool {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let radix = |prefix: &str, valid: fn(&char) -> bool| {
        digits
            .strip_prefix(prefix)
            .is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| valid(&c) || c == '_'))
    };
    radix("0x", char::is_ascii_hexdigit)
        || radix("0o", char::is_ascii_digit)
        || radix("0b", char::is_ascii_digit)
        || [".inf", ".nan"].iter().any(|word| digits.eq_ignore_ascii_case(word))
        || (digits.starts_with(|c: char| c.is_ascii_digit() || c == '.')
            && digits.contains(|c: char| c.is_ascii_digit())
            && digits
                .chars()
                .all(|c| c.is_ascii_digit() || matches!(c, '.' | '_' | ':' | 'e' | 'E' | '+' | '-')))
}

/// Reads the map of a format that this project owns: every key is known or the file is refused.
pub struct Fields<'n> {
    entries: Vec<(&'n Entry, bool)>,
    span: Range<usize>,
    shape: &'static Shape,
}

impl<'n> Fields<'n> {
    /// The entries of a map of this shape.
    ///
    /// # Errors
    /// Where the node is no map.
    pub fn of(node: &'n Node, shape: &'static Shape) -> Result<Self, Problem> {
        let Value::Map(entries) = &node.value else {
            return Err(wrong_type(node, shape.what, Type::Map));
        };
        Ok(Self {
            entries: entries.iter().map(|entry| (entry, false)).collect(),
            span: node.span.start..node.span.start + 1,
            shape,
        })
    }

    /// The value of a key, where it is written. A key that the shape does not name is never there.
    pub fn optional(&mut self, key: &'static str) -> Option<&'n Node> {
        self.shape.fields.iter().find(|field| field.name == key)?;
        let (entry, taken) = self.entries.iter_mut().find(|(entry, _)| entry.key == key)?;
        *taken = true;
        Some(&entry.value)
    }

    /// The value of a key.
    ///
    /// # Errors
    /// Where it is not written.
    pub fn required(&mut self, key: &'static str) -> Result<&'n Node, Problem> {
        let (span, what) = (self.span.clone(), self.shape.what);
        if let Some(node) = self.optional(key) {
            return Ok(node);
        }
        // A misspelt key is the likelier cause than a forgotten one.
        let known = |key: &str| self.shape.fields.iter().any(|field| field.name == key);
        let unread = self.entries.iter().map(|(entry, _)| entry).filter(|entry| !known(&entry.key));
        if let Some(entry) = unread.into_iter().find(|entry| nearest(&entry.key, [key]).is_some()) {
            let message = format!("`{}` is not a key of {what}", entry.key);
            return Err(Problem::new("unknown-key", entry.key_span.clone(), message)
                .fix(format!("did you mean `{key}`?")));
        }
        Err(Problem::new("missing-key", span, format!("{what} has no `{key}`")).fix(format!("add `{key}:`")))
    }

    /// Ends the reading.
    ///
    /// # Errors
    /// For the first key that nothing asked for, with the near one named.
    pub fn finish(self) -> Result<(), Problem> {
        let Some((entry, _)) = self.entries.iter().find(|(_, taken)| !taken) else {
            return Ok(());
        };
        let message = format!("`{}` is not a key of {}", entry.key, self.shape.what);
        let problem = Problem::new("unknown-key", entry.key_span.clone(), message);
        let known: Vec<&str> = self.shape.fields.iter().map(|field| field.name).collect();
        Err(match nearest(&entry.key, known.iter().copied()) {
            Some(near) => problem.fix(format!("did you mean `{near}`?")),
            None => problem.fix(format!("the keys{} are {}", self.of_version(), known.join(", "))),
        })
    }

    /// The version that the map itself says it is of, in words: others may have more keys.
    fn of_version(&self) -> String {
        let version = self.entries.iter().find(|(entry, _)| entry.key == "version");
        match version.map(|(entry, _)| &entry.value.value) {
            Some(Value::Number(number)) => format!(" of version {number}"),
            _ => String::new(),
        }
    }
}

/// Whether a map has a key, where a node is a map at all.
#[must_use]
pub fn has_key(node: &Node, key: &str) -> bool {
    matches!(&node.value, Value::Map(entries) if entries.iter().any(|entry| entry.key == key))
}

/// The type that a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text.
    Text,
    /// `true` or `false`.
    Boolean,
    /// A whole number in decimal digits.
    Whole,
    /// A list.
    List,
    /// Keys and values.
    Map,
}

impl Type {
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Text => ("text", "write it as text"),
            Self::Boolean => ("true or false", "write `true` or `false`"),
            Self::Whole => ("a whole number", "write it in decimal digits, such as `3`"),
            Self::List => ("a list", "write it as `[…]`"),
            Self::Map => ("a map", "write it as keys and values"),
        }
    }
}

/// A value of another type than its key takes.
#[must_use]
pub fn wrong_type(node: &Node, what: &str, expected: Type) -> Problem {
    let (expected, fix) = expected.words();
    Problem::new("wrong-type", node.span.clone(), format!("{what} is {expected}, not {}", node.type_name()))
        .fix(fix)
}

/// A word that is none of those that a key takes.
#[must_use]
pub fn unknown_value(node: &Node, what: &str, word: &str, words: &[&str]) -> Problem {
    let fix = match words {
        [only] => format!("write `{only}`"),
        _ => format!("write one of {}", words.join(", ")),
    };
    Problem::new("unknown-value", node.span.clone(), format!("{what} cannot be `{word}`")).fix(fix)
}

/// The text of a file.
///
/// # Errors
/// At the first byte that is not UTF-8.
pub fn utf8(source: &[u8]) -> Result<&str, Problem> {
    std::str::from_utf8(source).map_err(|error| {
        let at = error.valid_up_to();
        Problem::new("not-utf8", at..at + 1, "is not UTF-8 here").fix("save the file as UTF-8")
    })
}

/// The version that a file says it is of. It is asked for before any other key, so that what a newer
/// version has brought is not taken for a mistake.
///
/// # Errors
/// Where it is no whole number, or not the version that is read: then which way it is to go.
pub fn version(node: &Node, what: &str, read: u64) -> Result<(), Problem> {
    let written = whole(node, "`version`", u64::MAX)?;
    let (message, fix) = match written.cmp(&read) {
        Ordering::Equal => return Ok(()),
        Ordering::Greater => (
            format!(
                "is of version {written}, written for a newer depute than this one, which reads version {read}"
            ),
            format!("use a newer depute, or rewrite the {what} for version {read}"),
        ),
        Ordering::Less => (
            format!("is of version {written}, older than what this depute reads, which is version {read}"),
            format!("rewrite the {what} for version {read}"),
        ),
    };
    Err(Problem::new("unknown-version", node.span.clone(), message).fix(fix))
}

/// Text.
///
/// # Errors
/// For any other type; a number or boolean gets the hint to quote it.
pub fn text<'n>(node: &'n Node, what: &str) -> Result<&'n str, Problem> {
    match &node.value {
        Value::Text(text) => Ok(text),
        Value::Number(_) | Value::Bool(_) => Err(wrong_type(node, what, Type::Text).fix("quote it")),
        Value::Null | Value::List(_) | Value::Map(_) => Err(wrong_type(node, what, Type::Text)),
    }
}

/// A boolean written `true` or `false`.
///
/// # Errors
/// For any other type.
pub fn boolean(node: &Node, what: &str) -> Result<bool, Problem> {
    match &node.value {
        Value::Bool(value) => Ok(*value),
        Value::Null | Value::Number(_) | Value::Text(_) | Value::List(_) | Value::Map(_) => {
            Err(wrong_type(node, what, Type::Boolean))
        }
    }
}

/// A whole number in decimal digits.
///
/// # Errors
/// For any other type, for signs, points and separators, and above `most`.
pub fn whole(node: &Node, what: &str, most: u64) -> Result<u64, Problem> {
    let Value::Number(digits) = &node.value else {
        return Err(wrong_type(node, what, Type::Whole));
    };
    let value =
        Some(digits.as_str()).filter(|d| d.bytes().all(|b| b.is_ascii_digit())).and_then(|d| d.parse().ok());
    match value {
        Some(value) if value <= most => Ok(value),
        Some(_) => Err(Problem::new("out-of-range", node.span.clone(), format!("{what} is at most {most}"))
            .fix(format!("write {most} or less"))),
        None => {
            let message = format!("{what} is a whole number, not `{digits}`");
            Err(Problem::new("wrong-type", node.span.clone(), message).fix(Type::Whole.words().1))
        }
    }
}

/// The absolute path at a node, without `..`.
///
/// # Errors
/// A [`Problem`] where it is none.
pub fn absolute(node: &Node) -> Result<String, Problem> {
    let path = text(node, "a path")?;
    if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
        return Err(Problem::new(
            "relative-path",
            node.span.clone(),
            format!("`{path}` is not an absolute path without `..`"),
        )
        .fix("begin it with `/`, and leave out `..`"));
    }
    Ok(path.to_owned())
}

/// The items of a list.
///
/// # Errors
/// For any other type.
pub fn list<'n>(node: &'n Node, what: &str) -> Result<&'n [Node], Problem> {
    match &node.value {
        Value::List(items) => Ok(items),
        Value::Null | Value::Text(_) | Value::Bool(_) | Value::Number(_) | Value::Map(_) => {
            Err(wrong_type(node, what, Type::List))
        }
    }
}
