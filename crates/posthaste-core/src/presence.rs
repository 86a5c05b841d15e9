//! Guards that keep an instance alive, and the forgetting of instances that are gone.

use std::fmt;
use std::sync::Arc;

use crate::Hub;
use crate::address::Mailbox;
use crate::engine::Engine;
use crate::messaging::message::Principal;
use crate::ports::OpenCall;
use crate::registry::{Instance, RegistryError};
use crate::time::Timestamp;

/// A lasting connection of an instance, until it is dropped.
pub struct Staying {
    engine: Arc<Engine>,
    who: Principal,
}

impl Staying {
    pub(crate) fn new(engine: &Arc<Engine>, who: Principal) -> Self {
        engine.connected(who);
        Self { engine: Arc::clone(engine), who }
    }
}

impl fmt::Debug for Staying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Staying({})", self.who)
    }
}

impl Drop for Staying {
    fn drop(&mut self) {
        self.engine.disconnected(self.who);
    }
}

/// An open call of an instance, until it is dropped.
pub(crate) struct Calling {
    engine: Arc<Engine>,
    who: Principal,
    call: OpenCall,
}

impl Calling {
    pub(crate) fn new(engine: &Arc<Engine>, who: Principal) -> Self {
        let call = engine.call_opened(who);
        Self { engine: Arc::clone(engine), who, call }
    }
}

impl fmt::Debug for Calling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calling({})", self.who)
    }
}

impl Drop for Calling {
    fn drop(&mut self) {
        self.engine.call_closed(self.who, self.call);
    }
}

impl Hub {
    /// Forgets every instance that is away or lost and has neither mail nor open work.
    pub async fn forget_all_gone(&self) -> Result<Vec<Instance>, RegistryError> {
        self.forget_gone(self.clock.now()).await
    }

    /// Does the same for instances without a sign of life since `before`. A forgotten
    /// instance has ended: nobody can write to it, and its history stays readable.
    pub(crate) async fn forget_gone(
        &self,
        before: Timestamp,
    ) -> Result<Vec<Instance>, RegistryError> {
        let gone = self.engine.forget_gone(before).await?;
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
