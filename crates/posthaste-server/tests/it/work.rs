//! Giving out work over REST.

mod assigning;
mod handing_off;
mod output;
mod stopping;
mod stream;
