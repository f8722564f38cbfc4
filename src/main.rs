//! The `depute` program.

fn main() -> depute::exit::Exit {
    depute::cli::main()
}
