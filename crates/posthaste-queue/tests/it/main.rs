//! The queue in this process keeps the promises of the port.

use std::sync::Arc;

use posthaste_queue::LocalQueue;

posthaste_testkit::queue_suite!(Arc::new(LocalQueue::new()));
