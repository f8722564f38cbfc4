//! The child's side of a start: this binary again, for the moment between fork and the program.
//!
//! It leaves the terminal and the session of whoever asked, lets go of every descriptor but the
//! three standard ones, ties its life to the broker's, and becomes the program. What it cannot do is
//! told through a file whose name the program never learns.

use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;
use nix::unistd::{Pid, close, getppid, setsid};

use crate::exit::Exit;

/// The exit code of a start that failed, beside which the file says why.
pub(super) const FAILED: i32 = 127;

/// Becomes the program, or writes why not into `report`.
#[must_use]
pub fn enter(broker: i32, report: &Path, program: &Path, argv: &[String]) -> Exit {
    let error = match prepare(broker) {
        Err(error) => error,
        Ok(()) => {
            let mut command = Command::new(program);
            if let Some((name, arguments)) = argv.split_first() {
                command.arg0(name).args(arguments);
            }
            command.exec()
        }
    };
    let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(report);
    // Without the file the broker sees the exit code alone, and says less.
    let _ = file.and_then(|mut file| write!(file, "{error}"));
    Exit::Child(u8::try_from(FAILED).unwrap_or(u8::MAX))
}

fn prepare(broker: i32) -> std::io::Result<()> {
    setsid()?;
    set_pdeathsig(Signal::SIGKILL)?;
    // A broker that ended before the line above would never be noticed.
    if getppid() != Pid::from_raw(broker) {
        return Err(std::io::Error::other("the broker is gone"));
    }
    let open: Vec<i32> = std::fs::read_dir("/proc/self/fd")?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|fd| *fd > 2)
        .collect();
    for fd in open {
        // One of them was the listing itself and is closed already.
        let _ = close(fd);
    }
    Ok(())
}

/// Where a start that failed says why: a name that cannot be guessed.
pub(super) fn report_path(private: &Path) -> PathBuf {
    private.join(format!("{}.start", crate::host::new_id()))
}
