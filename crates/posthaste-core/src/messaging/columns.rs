//! The mapping of a message's fields to the columns of a row.

use super::body::Body;
use super::message::{Kind, MessageId, Priority, Sender, SenderKind, Seq, ThreadId, Via};
use crate::address::InstanceId;
use crate::stored::{Cell, Cells, Stored, Value, Values, numbers};
use crate::time::Timestamp;

numbers! {
    Seq: |seq| seq.0.cast_signed(), |n| n.try_into().ok().map(Seq), Seq(0);
    MessageId: |id| id.0.cast_signed(), |n| Some(MessageId(n.cast_unsigned())), MessageId(0);
    ThreadId: |id| id.0.into(), |n| n.try_into().ok().map(ThreadId), ThreadId(0);
    InstanceId: |id| id.0.into(), |n| n.try_into().ok().map(InstanceId), InstanceId(0);
    Timestamp: |at| at.0, |n| Some(Timestamp(n)), Timestamp(0);
    Priority: |priority| (*priority == Priority::Urgent).into(), |n| match n {
        0 => Some(Priority::Normal),
        1 => Some(Priority::Urgent),
        _ => None,
    }, Priority::Normal;
}

/// Two columns: the address, and the instance if one is the sender.
impl Stored for Sender {
    fn put<'a>(&'a self, values: &mut Values<'_, 'a>) {
        values.add(Value::Text(&self.address));
        self.instance.put(values);
    }

    fn take(cells: &mut Cells<'_>) -> Self {
        let address: String = cells.take();
        let instance: Option<InstanceId> = cells.take();
        // `Message::read` sets the kind from the type of the message.
        Self { address: address.into(), instance, kind: SenderKind::Human }
    }
}

impl Cell for Kind {
    fn value(&self) -> Value<'_> {
        Value::Text(self.as_str())
    }

    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(word) => Self::read(word),
            _ => None,
        }
    }

    fn unreadable(_: Option<String>) -> Self {
        Self::default()
    }
}

impl Cell for Via {
    fn value(&self) -> Value<'_> {
        Value::Text(self.as_str())
    }

    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(word) => Self::read(word),
            _ => None,
        }
    }

    fn unreadable(_: Option<String>) -> Self {
        Self::Rest
    }
}

impl Cell for Body {
    fn value(&self) -> Value<'_> {
        Value::Text(self.as_str())
    }

    fn read(value: Value<'_>) -> Option<Self> {
        match value {
            Value::Text(text) => Some(text.into()),
            _ => None,
        }
    }

    fn unreadable(remains: Option<String>) -> Self {
        remains.unwrap_or_default().into()
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::Message;
    use super::*;
    use crate::stored::{Column, Row};

    /// A row in memory: the text or number of each column.
    struct Kept(Vec<KeptValue>);

    /// A number, a text or nothing; or the reason why the column cannot be read.
    type KeptValue = Result<(Option<i64>, Option<String>), String>;

    impl Row for Kept {
        fn value(&self, column: Column) -> Result<Value<'_>, String> {
            assert_eq!(Message::COLUMNS[column.place], column.name);
            match &self.0[column.place] {
                Ok((Some(number), _)) => Ok(Value::Integer(*number)),
                Ok((None, Some(text))) => Ok(Value::Text(text)),
                Ok((None, None)) => Ok(Value::Nothing),
                Err(why) => Err(why.clone()),
            }
        }

        fn remains(&self, _: Column) -> Option<String> {
            None
        }
    }

    fn kept(message: &Message) -> Kept {
        let keep = |value: &Value<'_>| match value {
            Value::Integer(number) => Ok((Some(*number), None)),
            Value::Text(text) => Ok((None, Some((*text).to_owned()))),
            Value::Nothing => Ok((None, None)),
        };
        Kept(message.values().iter().map(keep).collect())
    }

    fn place(column: &str) -> usize {
        Message::COLUMNS.iter().position(|name| *name == column).expect("a column")
    }

    fn message() -> Message {
        let kind = Kind::read("result").expect("a type");
        let from = Sender::read("mason.a3f7b2c1@main", Some(InstanceId(5)), &kind);
        let (seq, id) = (Seq(7), MessageId(u64::MAX - 1));
        Message {
            thread: ThreadId(u32::MAX),
            kind,
            priority: Priority::Urgent,
            label: Some("wall".into()),
            in_reply_to: Some(Seq(3)),
            metadata: Some("{}".into()),
            hop: 255,
            late: true,
            ..Message::new(seq, id, from, "bob", "done", Timestamp(1), Via::Cao)
        }
    }

    #[test]
    fn a_message_reads_as_it_was_written() {
        let message = message();
        assert_eq!(Message::read(&kept(&message)), (message, Vec::new()));
        let names: std::collections::BTreeSet<_> = Message::COLUMNS.iter().collect();
        assert_eq!(names.len(), Message::COLUMNS.len(), "each column has one field");
    }

    #[test]
    fn a_column_that_cannot_be_read_is_named_and_the_others_are_read() {
        for (place, name) in Message::COLUMNS.iter().enumerate() {
            let mut row = kept(&message());
            row.0[place] = Err("it is wrong".into());
            let (read, misread) = Message::read(&row);
            let told: Vec<_> = misread.iter().map(ToString::to_string).collect();
            assert_eq!(told, [format!("column {name}: it is wrong")]);
            let whole = message();
            let right = read.values().iter().zip(&whole.values()).filter(|(a, b)| a == b).count();
            assert!(right >= whole.values().len() - 1, "{name}");
        }
        for (name, wrong) in [("hop", 256), ("late", 2), ("seq", -1), ("sender_instance", -7)] {
            let mut row = kept(&message());
            row.0[place(name)] = Ok((Some(wrong), None));
            let told = Message::read(&row).1[0].to_string();
            assert_eq!(told, format!("column {name}: {wrong} is no value"));
        }
        let mut row = kept(&message());
        row.0[place("via")] = Ok((None, Some("pigeon".into())));
        row.0[place("kind")] = Ok((None, None));
        let told: Vec<_> = Message::read(&row).1.iter().map(ToString::to_string).collect();
        assert_eq!(told, ["column kind: it is missing", "column via: `pigeon` is no value"]);
    }
}
