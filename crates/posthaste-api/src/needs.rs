//! `/v1/needs`: what waits for the operator.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ErrorCode::{AlreadyAnswered, Conflict, InvalidAddress, NotFound, RecipientGone};
use crate::messages::Receipt;
use crate::openapi::{Who, call_table, delete, get, json, of, post};

call_table![
    LIST = get(
        "/v1/needs",
        "What waits for the operator",
        Who::Operator,
        &[json(200, "Oldest first.", of::<Needs>)],
    )
    .query(of::<NeedsQuery>),
    SHOW = get(
        "/v1/needs/{id}",
        "One thing that waits for the operator, or did",
        Who::Operator,
        &[json(200, "As it is now.", of::<NeedView>)],
    )
    .part("The need's number.")
    .fails(&[NotFound]),
    ANSWER = post(
        "/v1/needs/{id}/answer",
        "Answer a question, a permission request, a failure or dead mail",
        Who::Operator,
        &[json(200, "As it is now, and the message that went to the asker.", of::<AnsweredNeed>)],
    )
    .part("The need's number.")
    .body(of::<AnswerRequest>)
    .fails(&[NotFound, AlreadyAnswered, Conflict, RecipientGone]),
    REMEMBERED = get(
        "/v1/needs/remembered",
        "Verdicts that are given without asking",
        Who::Operator,
        &[json(200, "By profile and subject.", of::<RememberedVerdicts>)],
    ),
    FORGET = delete(
        "/v1/needs/remembered/{profile}",
        "Ask again: forget a remembered verdict, or all of a profile",
        Who::Operator,
        &[json(200, "How many were forgotten.", of::<ForgottenVerdicts>)],
    )
    .part("The profile's name.")
    .query(of::<ForgetQuery>)
    .fails(&[NotFound, InvalidAddress]),
];

/// `GET /v1/needs` (operator); each field is a query parameter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NeedsQuery {
    /// Only `question`, `permission`, `failed` or `dead`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Default true: only what is open. False: what was answered or withdrawn as well.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<bool>,
    /// 1 to 1000, default 100.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// From a former answer: the page after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Needs {
    /// Oldest first.
    pub needs: Vec<NeedView>,
    /// How many are open in all.
    pub open: usize,
    /// Give it back as `cursor` for the next page; absent at the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// Something that waits for the operator, or did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NeedView {
    /// The need's number.
    pub id: u64,
    /// `question`, `permission` (an agent wants to do something), `failed` (a worker ended
    /// without a result) or `dead` (a message was refused for the last time).
    pub kind: String,
    /// The asker does nothing until it is answered.
    pub blocking: bool,
    /// The address of the asker, of the worker that failed, or of the dead message's
    /// sender; it stays readable when the instance is forgotten.
    pub from: String,
    /// The instance behind that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// The question, the request, the report, or what became of the message; of a long one
    /// the beginning.
    pub text: String,
    /// The answers that are offered.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The number of the question, of the report, or of the dead message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<u64>,
    /// What `remember` would remember of a permission request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When it was opened.
    pub created_at: String,
    /// When an open permission request is denied because nobody answered
    /// (`agents.permission_timeout`); not in events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    /// When it was answered, or withdrawn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    /// `answered`, `seen`, `requeued`, `dismissed`, `allowed`, `denied`, `timed_out` (denied,
    /// because nobody answered within `agents.permission_timeout`) or `withdrawn` (its asker
    /// took it back or has ended).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The operator's words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The number of the message that answers the question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer_message: Option<u64>,
}

/// `POST /v1/needs/{id}/answer` (operator). A question takes `text` or `option`; a permission
/// takes `allow`, and `remember` if it is to hold from now on; dead mail takes `allow` or one
/// of its options; a failure takes nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AnswerRequest {
    /// The answer in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// One of the offered answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// Of a permission: yes or no. Of dead mail: queue it again, or leave it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allow: Option<bool>,
    /// The same verdict from now on, without asking, for every instance of the asker's
    /// profile and the same `subject`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub remember: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AnsweredNeed {
    /// The need as it is now; `outcome` is the verdict.
    pub need: NeedView,
    /// The message that went to the asker of a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RememberedVerdicts {
    /// By profile and subject.
    pub remembered: Vec<RememberedView>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RememberedView {
    /// The profile whose instances it holds for.
    pub profile: String,
    /// What it is about.
    pub subject: String,
    /// Whether it is allowed.
    pub allow: bool,
    /// When the operator said so.
    pub at: String,
}

/// `DELETE /v1/needs/remembered/{profile}` (operator)
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ForgetQuery {
    /// Only the verdict on this; without it all of the profile.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForgottenVerdicts {
    /// How many verdicts were forgotten.
    pub forgotten: usize,
}
