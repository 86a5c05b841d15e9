//! The agent that the operator names.

use super::ChatError;
use crate::Hub;
use crate::address::{Address, Name};
use crate::registry::{InstanceFilter, InstanceView, Status};

/// Most instances of one name that are looked at.
const LOOKED_AT: usize = 1_000;

impl Hub {
    /// Returns the agent that this text names: an id or an address with one, also of an
    /// agent that has ended; or a name that means exactly one living agent.
    pub fn chat_partner(&self, text: &str) -> Result<InstanceView, ChatError> {
        let (name, team) = match text.parse::<Address>()? {
            Address::Exact { instance, .. } => {
                let found = self.instance(instance);
                return found.ok_or_else(|| ChatError::NoSuchAgent(text.to_owned()));
            }
            Address::Named { name, team } => (name, team),
            _ => return Err(ChatError::NotOne(text.to_owned())),
        };
        let mut here = self.living(name, team);
        match here.len() {
            0 => Err(ChatError::NobodyHere { name: text.to_owned() }),
            1 => Ok(here.remove(0)),
            _ => Err(several(text, &here)),
        }
    }

    /// Returns the agents of a name that have not ended. Lost ones count only if no other
    /// is here.
    pub(super) fn living(&self, name: Name, team: Option<Name>) -> Vec<InstanceView> {
        let filter = InstanceFilter {
            agent: Some(name),
            team,
            limit: LOOKED_AT,
            ..InstanceFilter::default()
        };
        let mut here = self.instances(&filter);
        here.retain(|view| !view.instance.status.has_ended());
        let is_lost = |view: &InstanceView| view.instance.status == Status::Lost;
        if !here.iter().all(is_lost) {
            here.retain(|view| !is_lost(view));
        }
        here
    }
}

/// Makes the error of a name that several agents have.
pub(super) fn several(name: &str, here: &[InstanceView]) -> ChatError {
    let candidates = here.iter().map(|view| view.instance.address.to_string()).collect();
    ChatError::Several { name: name.to_owned(), candidates }
}
