//! Shortens a conversation for one request to the model.
//!
//! The conversation itself stays whole: what is left out of one request is still there for
//! a later one with more room.

use crate::protocol::{ChatMessage, MAIL};

/// Stands where older messages were left out. It is a message of its own, directly after
/// the system prompt, so that the list still begins with `user`, as some providers demand.
pub const NOTICE: &str = "[posthaste] Older messages of this conversation were left out, \
                          because it has grown too long.";

/// Number of characters of a result that stay in any case.
const LEAST: usize = 500;
/// Number of characters that the note about a cut takes at most.
const CUT_NOTE: usize = 60;

/// Returns the messages with at most `limit` characters, if that can be done.
///
/// It leaves out, each time the oldest first and no more than needed:
///
/// 1. the texts of tool results before `last_round`, for which a short note with their
///    length stands, but not those of mail;
/// 2. whole rounds before `last_round`: an answer of the model with the results of its
///    calls, or mail of other agents, but not the task with which the conversation begins;
///    and with them the messages of the user before the last answer in words, which have
///    been answered;
/// 3. other messages of the user before `last_round`, but never the last one, and the first
///    one only if nothing else is left;
/// 4. the ends of tool results from `last_round` on, of each beyond the same length.
///
/// The messages from `last_round` on are what the model has not seen yet and its own answer
/// before that. Apart from such ends they stay, and so does `system`, even if they are too
/// long: the provider of the model then says so. Every call keeps its result directly behind
/// it, provided that this is so in `messages`.
pub fn fit(messages: &[ChatMessage], limit: usize, last_round: usize) -> Vec<ChatMessage> {
    let mut fitted = messages.to_vec();
    let mut total: usize = fitted.iter().map(length).sum();
    for message in fitted.iter_mut().take(last_round) {
        if total <= limit {
            return fitted;
        }
        if let ChatMessage::Tool { tool_call_id, content } = message
            && !tool_call_id.starts_with(MAIL)
        {
            let was = content.chars().count();
            let note = format!("[posthaste] a result of {was} characters was left out");
            if note.len() < was {
                total = total - was + note.len();
                *content = note;
            }
        }
    }
    if total <= limit {
        return fitted;
    }

    total += NOTICE.len();
    let lengths: Vec<usize> = fitted.iter().map(length).collect();
    let last_user = fitted.iter().rposition(is_user);
    let mut stays = vec![true; fitted.len()];
    let first_user = fitted.iter().position(is_user);
    // The task of another agent is mail directly behind the notice of it.
    let task = first_user.map(|at| at + 1).filter(|at| fitted.get(*at).is_some_and(is_mail));
    let until = fitted.len().min(last_round);
    let answered = fitted[..(until + 1).min(fitted.len())].iter().rposition(is_in_words);
    let is_answered = |at| answered.is_some_and(|answer| at < answer) && Some(at) != last_user;
    for (at, message) in fitted.iter().enumerate().take(until) {
        if total <= limit {
            break;
        }
        let end = match message {
            ChatMessage::Assistant { .. } if Some(at) != task => end_of_round(&fitted, at),
            ChatMessage::User { .. } if is_answered(at) && Some(at + 1) != task => at + 1,
            _ => continue,
        };
        for place in at..end {
            stays[place] = false;
            total -= lengths[place];
        }
    }
    let of_user = (0..until).filter(|at| stays[*at] && is_user(&fitted[*at]));
    let of_user: Vec<usize> = of_user.collect();
    let of_user = of_user.into_iter();
    let first_last = of_user.clone().skip(1).chain(of_user.take(1).filter(|_| task.is_none()));
    for at in first_last.filter(|at| Some(*at) != last_user) {
        if total <= limit {
            break;
        }
        stays[at] = false;
        total -= lengths[at];
    }
    if total > limit {
        cut_results(&mut fitted[until..], total - limit);
    }
    if stays.iter().all(|stays| *stays) {
        return fitted;
    }
    let mut stays = stays.into_iter();
    fitted.retain(|_| stays.next().unwrap_or(true));
    let after_system = fitted.iter().take_while(|m| matches!(m, ChatMessage::System { .. }));
    let place = after_system.count();
    fitted.insert(place, ChatMessage::User { content: NOTICE.to_owned() });
    fitted
}

/// Cuts the results of tools at the same length, to save so many characters.
fn cut_results(messages: &mut [ChatMessage], over: usize) {
    let mut results: Vec<&mut String> = messages
        .iter_mut()
        .filter_map(|message| match message {
            ChatMessage::Tool { tool_call_id, content } if !tool_call_id.starts_with(MAIL) => {
                Some(content)
            }
            _ => None,
        })
        .collect();
    let lengths: Vec<usize> = results.iter().map(|text| text.chars().count()).collect();
    let room = lengths.iter().sum::<usize>().saturating_sub(over);
    let most = (room / results.len().max(1)).saturating_sub(CUT_NOTE).max(LEAST);
    for (text, length) in results.iter_mut().zip(lengths) {
        let left = length.saturating_sub(most);
        if left > CUT_NOTE
            && let Some((end, _)) = text.char_indices().nth(most)
        {
            text.truncate(end);
            text.push_str(&format!("\n[posthaste] {left} more characters were left out"));
        }
    }
}

/// Returns whether a message is an answer in words, with which the model ended its work.
fn is_in_words(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::Assistant { tool_calls, .. } if tool_calls.is_empty())
}

fn is_user(message: &ChatMessage) -> bool {
    matches!(message, ChatMessage::User { .. })
}

/// Returns whether a message is the call that brings mail of another agent.
pub(crate) fn is_mail(message: &ChatMessage) -> bool {
    let ChatMessage::Assistant { tool_calls, .. } = message else { return false };
    tool_calls.iter().any(|call| call.id.starts_with(MAIL))
}

/// Returns the end of the round that begins with the answer at `start`.
fn end_of_round(messages: &[ChatMessage], start: usize) -> usize {
    let results = messages[start + 1..].iter();
    start + 1 + results.take_while(|m| matches!(m, ChatMessage::Tool { .. })).count()
}

/// Returns the length of a message in characters, as the limit counts them.
fn length(message: &ChatMessage) -> usize {
    let chars = |text: &str| text.chars().count();
    match message {
        ChatMessage::System { content } | ChatMessage::User { content } => chars(content),
        ChatMessage::Tool { tool_call_id, content } => chars(tool_call_id) + chars(content),
        ChatMessage::Assistant { content, tool_calls } => {
            let calls = tool_calls.iter().map(|call| {
                let arguments = serde_json::to_string(&call.arguments).unwrap_or_default();
                chars(&call.id) + chars(&call.name) + chars(&arguments)
            });
            content.as_deref().map_or(0, chars) + calls.sum::<usize>()
        }
    }
}

#[cfg(test)]
mod tests;
