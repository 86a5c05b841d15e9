//! SQLite keeps the promises of the port, in memory and on disk, and those that
//! only a file can break.

mod busy;
mod clock;
mod damage;
mod disk;
mod fuzz;
mod groups;
mod history;
mod moved;
mod profiles;
mod races;
mod records;
mod restart;
mod rig;
mod side_by_side;

mod in_memory {
    posthaste_testkit::store_suite!(crate::rig::memory());
    posthaste_testkit::profiles_suite!(crate::rig::memory());
    posthaste_testkit::working_suite!(crate::rig::memory());
}

mod on_disk {
    posthaste_testkit::store_suite!(crate::rig::file());
    posthaste_testkit::profiles_suite!(crate::rig::file());
    posthaste_testkit::working_suite!(crate::rig::file());
}
