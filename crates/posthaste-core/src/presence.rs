//! Guards that tell the store who is alive, and forgetting those who are gone.

use std::fmt;
use std::sync::Arc;

use crate::Hub;
use crate::address::Mailbox;
use crate::messaging::message::Principal;
use crate::ports::{OpenCall, Store};
use crate::registry::{Instance, RegistryError};
use crate::time::Timestamp;

/// A lasting connection of an instance, until it is dropped.
pub struct Staying {
    store: Arc<dyn Store>,
    who: Principal,
}

impl Staying {
    pub(crate) fn new(store: &Arc<dyn Store>, who: Principal) -> Self {
        store.connected(who);
        Self { store: Arc::clone(store), who }
    }
}

impl fmt::Debug for Staying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staying({})", self.who)
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        self.store.disconnected(self.who);
    }
}

/// An open call of an instance, until it is dropped.
pub(crate) struct Calling {
    store: Arc<dyn Store>,
    who: Principal,
    call: OpenCall,
}

impl Calling {
    pub(crate) fn new(store: &Arc<dyn Store>, who: Principal) -> Self {
        let call = store.call_opened(who);
        Self { store: Arc::clone(store), who, call }
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calling({})", self.who)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.store.call_closed(self.who, self.call);
    }
}

impl Hub {
    /// Forgets everybody who is away or lost and has neither mail nor open work.
    pub async fn forget_all_gone(&self) -> Result<Vec<Instance>, RegistryError> {
        self.forget_gone(self.clock.now()).await
    }

    /// The same for those without a sign of life since `before`. The forgotten have
    /// ended: nobody can write to them, and their history stays readable.
    pub(crate) async fn forget_gone(
        &self,
        before: Timestamp,
    ) -> Result<Vec<Instance>, RegistryError> {
        let gone = self.store.forget_gone(before).await?;
        for instance in &gone {
            self.desk.lock().end(Principal::Instance(instance.id));
            self.queue.cleanup(&Mailbox::Instance(instance.id));
        }
        if !gone.is_empty() {
            self.endings.send_replace(());
        }
        Ok(gone)
    }
}
