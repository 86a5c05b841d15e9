//! Corrects the suggestion in an error about a bad address by the names that exist.
//!
//! The parser of addresses knows no names: it makes a suggestion from the good parts of
//! the text. A suggestion that would be refused in its turn is no help.

use crate::Hub;
use crate::address::{Address, AddressError, Name};
use crate::registry::nearest;

impl Hub {
    /// Returns the error with a suggestion that names an existing recipient, or with
    /// none.
    pub fn vetted(&self, error: AddressError) -> AddressError {
        let meant = error.suggestion.as_deref().and_then(|text| text.parse().ok());
        let meant = meant.and_then(|meant| self.known(meant));
        AddressError { suggestion: meant.map(|meant| meant.to_string()), ..error }
    }

    /// Returns the names of profiles that are nearest to an unknown one.
    pub fn nearest_profiles(&self, name: &Name) -> Vec<String> {
        self.engine.ledger(|l| l.nearest_profiles(name.as_str()))
    }

    /// Returns the address if its name, team or instance exists.
    fn known(&self, address: Address) -> Option<Address> {
        match address {
            Address::Human => Some(Address::Human),
            Address::Exact { instance, .. } => {
                self.engine.ledger(|l| l.instance(instance)).is_some().then_some(address)
            }
            Address::Named { name, team } => {
                let team = self.known_team(team)?;
                self.has_profile(&name).then_some(Address::Named { name, team })
            }
            Address::Anyone { team } => Some(Address::Anyone { team: self.known_team(team)? }),
            // `@mason` may be a team or, as people write elsewhere, a name.
            Address::Everyone { team: Some(name) } if self.is_name_only(&name) => {
                Some(Address::Named { name, team: None })
            }
            Address::Everyone { team } => Some(Address::Everyone { team: self.known_team(team)? }),
        }
    }

    /// Returns the team, or the known one that it is a slip of; `None` if there is
    /// neither.
    fn known_team(&self, team: Option<Name>) -> Option<Option<Name>> {
        let Some(team) = team else { return Some(None) };
        let known = self.engine.ledger(|l| l.team_names());
        if known.contains(&team) {
            return Some(Some(team));
        }
        let near = nearest(team.as_str(), known.iter().map(Name::as_str));
        near.first().and_then(|near| near.parse().ok()).map(Some)
    }

    fn is_name_only(&self, name: &Name) -> bool {
        !self.engine.ledger(|l| l.team_names()).contains(name) && self.has_profile(name)
    }

    fn has_profile(&self, name: &Name) -> bool {
        self.nearest_profiles(name).iter().any(|known| known == name.as_str())
    }
}
