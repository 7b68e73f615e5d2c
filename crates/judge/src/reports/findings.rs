//! The findings of a verification, as JSON.

use serde::Serialize;

use crate::Verification;

/// The whole report of a verification; see the guide of `rehal verify`.
#[derive(Serialize)]
pub struct VerifyReport<'a> {
    #[serde(flatten)]
    verification: &'a Verification,
}

impl<'a> VerifyReport<'a> {
    /// Name and version of its JSON.
    pub const SCHEMA: &'static str = "rehal.verify/1";

    /// The report of a verification.
    pub fn from_verification(verification: &'a Verification) -> Self {
        Self { verification }
    }
}
