//! Parts that all doors share: parameters, drafts, work.
//!
//! REST, MCP and CAO's routes have their own forms of requests and answers. The common
//! parts are read and written here, so a door depends on no other door.

pub(crate) mod brief;
pub(crate) mod draft;
pub(crate) mod params;
pub(crate) mod work;
