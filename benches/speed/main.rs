//! How fast, as ratios against a floor that is measured in the same run. `cargo bench --bench speed`
//! runs all; a name behind `--` runs one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a benchmark that cannot be made ends, and prints what it finds"
)]

mod check;
mod decide;
mod measure;
mod plan;
mod spawn;

fn main() {
    let wanted = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    for (name, run) in
        [("decide", decide::run as fn()), ("plan", plan::run), ("spawn", spawn::run), ("check", check::run)]
    {
        if wanted.as_ref().is_none_or(|wanted| wanted == name) {
            run();
        }
    }
}
