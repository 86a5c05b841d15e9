//! Who may lead, write into a thread, and see mail that several could have taken.

mod leaders;
mod reading;
mod settled;
mod threads;
