# Lists the routines.
default:
    @just --list

# What CI runs: format, lints, tests, docs, dependencies, release build.
check:
    ./scripts/test

# Every test, in full length.
test:
    ./scripts/test test

# Format, lints and the shortened tests.
quick:
    ./scripts/test --quick

# Formats the code.
fmt:
    cargo fmt

# Starts a hub; flags go to `posthaste up`.
run *flags:
    cargo run --release --locked -- up {{ flags }}

# The hub and its limits, measured in one run; both are built as for a release.
bench *flags:
    cargo build --profile dist --locked -p posthaste
    cargo run --profile dist --locked -p posthaste-bench -- {{ flags }}

# Builds the documentation of all crates and opens it.
doc:
    cargo doc --workspace --no-deps --locked --open

# Who may depend on whom, licences, sources.
deny:
    ./scripts/test deny

# The story of the README, told to the real binary.
story:
    cargo test --locked -p posthaste --test it story -- --nocapture

# A static program for Linux with completions, manual pages and a unit, in one archive.
dist *flags:
    ./scripts/dist {{ flags }}
