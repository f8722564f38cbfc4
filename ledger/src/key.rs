//! The key of keyed digests: 32 random bytes beside the records.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::durable::{self, at};
use crate::error::{OpenError, Unsafe};
use crate::layout::Layout;

const LEN: usize = 32;

pub(crate) type Key = [u8; LEN];

/// Reads the key. Nothing where there is none: destroying it is how the digests made with it are put
/// beyond reach.
pub(crate) fn read(path: &Path) -> Result<Option<Key>, OpenError> {
    let file = match durable::open_read(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(at(path)(error)),
    };
    let metadata = durable::check_private_file(path, &file)?;
    if metadata.len() != LEN as u64 {
        return Err(OpenError::Unsafe {
            path: path.to_owned(),
            why: Unsafe::Size { found: metadata.len(), expected: LEN as u64 },
        });
    }
    let mut key = [0; LEN];
    file.read_exact_at(&mut key, 0).map_err(at(path))?;
    Ok(Some(key))
}

/// Makes the key.
pub(crate) fn make(path: &Path) -> Result<Key, OpenError> {
    let mut key = [0; LEN];
    let random = Path::new("/dev/urandom");
    File::open(random).and_then(|mut file| file.read_exact(&mut key)).map_err(at(random))?;
    durable::publish(&Layout::tmp(path), path, &key, 0o600).map_err(at(path))?;
    Ok(key)
}
