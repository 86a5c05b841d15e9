//! Commands that do the same to several items, one after the other.

use super::Session;
use crate::failure::{Failure, told};
use crate::output::Output;

/// The failures of a command: one does not keep the others from being tried, and the
/// first decides the exit code.
#[derive(Default)]
pub(super) struct Each(Option<posthaste_api::ErrorCode>);

impl Each {
    /// Reports the failure of one item, under the word that named it.
    pub(super) fn failed(
        &mut self,
        word: &str,
        failure: Failure,
        session: &Session,
        output: &mut Output,
    ) -> Result<(), Failure> {
        let error = told(session.explain(failure));
        self.0.get_or_insert(error.code);
        // Earlier output comes first.
        output.flush()?;
        output.fail_about(word, &error);
        Ok(())
    }

    pub(super) fn end(self, output: &mut Output) -> Result<(), Failure> {
        output.flush()?;
        self.0.map_or(Ok(()), |code| Err(Failure::Shown(code)))
    }
}
