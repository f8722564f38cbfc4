//! A record of what was decided, on disk before it is acted on, and checkable by anyone later.
//!
//! A ledger is a directory. Its lines are JSON records, each naming the hash of the line before it,
//! so that a changed, missing, moved or added line shows. An append is acknowledged when the disk
//! has it. A crash loses nothing that was acknowledged, and what it left unfinished is declared in
//! the ledger, never cut away. `FORMAT.md` says what the bytes are; this crate is one reading of it.
//!
//! ```no_run
//! use depute_ledger::record::Close;
//! use depute_ledger::{Ledger, Reader, VerifyOptions, Who, verify};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = std::path::Path::new("ledger");
//! let who = Who {
//!     tool: "example 1.0".to_owned(),
//!     login: None,
//!     host: "build7".to_owned(),
//!     tty: None,
//!     ci: None,
//! };
//! let ledger = Ledger::open(dir, &who)?;
//! let receipt = ledger.append(uuid::Uuid::now_v7(), Close { reason: "done".to_owned() })?;
//! println!("on disk as line {}", receipt.seq);
//!
//! for line in Reader::open(dir)? {
//!     println!("{}", line?.record.body.kind());
//! }
//! assert!(verify(dir, &VerifyOptions::new())?.is_intact());
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises, and what it does not
//!
//! The directory and everything in it are *not* trusted: whoever can write there can rewrite the
//! whole ledger, links included. Such a forgery is found by whoever kept the leaf hash of a line
//! ([`Report::leaf`], [`Receipt::leaf`]) out of the forger's reach. What the ledger finds by itself
//! are accidents and changes that do not redo every link behind them. A writer that lies, and what
//! happened beside the ledger, it cannot find.
//!
//! Durability is the kernel's word: a disk that lies about flushes, or a network file system, may
//! lose what was acknowledged.
//!
//! # How it is built
//!
//! | module | does | must not |
//! |---|---|---|
//! | [`record`] | the envelope, the bodies, the one encoding | do I/O |
//! | `lines` | cuts lines from a stream and hashes them | know what they should say |
//! | `chain` | judges the place of lines and segments | know files |
//! | `scan` | a stretch of a segment for the chain, read by several threads | judge lines itself |
//! | `layout` | the names in the directory | open anything |
//! | `durable` | the file operations the promises rest on | retry a failed flush |
//! | `head` | how far the disk is known to be good | be relied on for integrity |
//! | `key` | the key of keyed digests | leave the process |
//! | `objects` | the inputs of decisions, by digest | trust what a file says it is |
//! | `open` | check, lock, verify the newest segment, settle | repair, or read all segments |
//! | `commit` | one batch, from the lock to the disk; closing a segment | wait for anything else |
//! | `writer` | the handle, and the queue behind it | touch a file |
//! | `reader`, `verify` | read and report | create or change anything |
//!
//! The path of one record: [`Ledger::append`] queues it; the caller that leads takes the lock, reads
//! what other processes appended, encodes and links the batch, writes it with one call, lets go of
//! the lock, flushes, checks that the path still leads to the file, and acknowledges. `durable` lists
//! the system calls.

#![forbid(unsafe_code)]

mod body;
mod chain;
mod clock;
mod commit;
mod digest;
mod durable;
mod error;
mod finding;
mod head;
mod key;
mod layout;
mod lines;
mod objects;
mod open;
mod reader;
pub mod record;
mod scan;
mod verify;
mod writer;

pub use chain::TornLine;
pub use clock::{BootId, ParseBootIdError, Timestamp};
pub use digest::{Digest, KeyedDigest, ParseDigestError};
pub use error::{AppendError, Newer, OpenError, Poison, Unsafe};
pub use finding::{Code, Finding, Severity};
pub use lines::leaf_hash;
pub use objects::{OBJECT_LIMIT, ObjectError};
pub use reader::{Line, ReadError, Reader, VerifyError};
pub use record::{Body, Kind, LineError, Record, decode_line};
pub use verify::{OpenSpawn, Report, Semantics, VerifyOptions, verify};
pub use writer::{Ledger, OpenOptions, Receipt, Recorded, Who};
