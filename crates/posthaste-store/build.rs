//! Lists the migrations by their folder, so that none is forgotten.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{fs, io};

const FOLDER: &str = "migrations/sqlite";

#[expect(clippy::disallowed_methods, reason = "cargo tells a build script where to write")]
fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={FOLDER}");
    let files = migrations(Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER).as_path())?;
    let mut list = String::from("/// Numbered steps, each applied once.\n");
    list.push_str("pub(crate) const MIGRATIONS: &[&str] = &[\n");
    for file in files {
        let _ = writeln!(list, "    include_str!({:?}),", file.display().to_string());
    }
    list.push_str("];\n");
    let out = std::env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("no OUT_DIR"))?;
    fs::write(PathBuf::from(out).join("migrations.rs"), list)
}

/// The files in order: `0001_…` is the first, and no number is left out.
fn migrations(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files: io::Result<Vec<PathBuf>> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut files = files?;
    files.retain(|file| file.extension().is_some_and(|end| end == "sql"));
    files.sort();
    for (file, number) in files.iter().zip(1..) {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with(&format!("{number:04}_")) {
            let why = format!("{}: the next migration is {number:04}_….sql", file.display());
            return Err(io::Error::other(why));
        }
    }
    Ok(files)
}
