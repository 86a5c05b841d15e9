//! As much of AMQP 0-9-1 as a publisher with confirms and a consumer need.
//!
//! The frames are `amq-protocol`'s, on which Rust's usual client stands. That client
//! runs a thread for each connection; fifty of them on the load's core would be what
//! is measured. So a publish is bytes made once and patched in place, as a send to
//! the hub is, and one task drives a connection.

use std::net::SocketAddr;

use amq_protocol::auth::{Credentials, SASLMechanism};
use amq_protocol::frame::{
    AMQPContentHeader, AMQPFrame, ProtocolVersion, WriteContext, gen_frame, parse_frame,
};
use amq_protocol::protocol::basic::{self, AMQPMethod as Basic};
use amq_protocol::protocol::channel::{self, AMQPMethod as Chan};
use amq_protocol::protocol::confirm::{self, AMQPMethod as Confirm};
use amq_protocol::protocol::connection::{self, AMQPMethod as Conn};
use amq_protocol::protocol::queue::{self, AMQPMethod as Queue};
use amq_protocol::protocol::{AMQPClass, BasicProperties};
use amq_protocol::types::{AMQPValue, FieldTable};
use anyhow::{Context, anyhow, bail, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::requests::{self, BODY};

/// The one channel of a connection.
const CHANNEL: u16 = 1;
const ROOM: usize = 64 * 1024;
/// Written to disk before it is confirmed.
const PERSISTENT: u8 = 2;

/// A connection with one channel.
pub(crate) struct Channel {
    stream: TcpStream,
    buffer: Vec<u8>,
    /// What of the buffer was read already.
    read: usize,
    /// Name, version and platform, as the server says them.
    pub(crate) server: String,
}

impl Channel {
    /// As the user that a fresh node has for loopback.
    pub(crate) async fn open(to: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(to).await?;
        stream.set_nodelay(true)?;
        let buffer = Vec::with_capacity(ROOM);
        let mut this = Self { stream, buffer, read: 0, server: String::new() };
        this.write(&bytes(&AMQPFrame::ProtocolHeader(ProtocolVersion::amqp_0_9_1()))?).await?;
        let AMQPClass::Connection(Conn::Start(start)) = this.method().await? else {
            bail!("a server that does not begin");
        };
        this.server = names(&start.server_properties);

        let mechanism = SASLMechanism::Plain;
        let who = connection::StartOk {
            client_properties: FieldTable::default(),
            mechanism: mechanism.name().into(),
            response: Credentials::default().sasl_auth_string(mechanism),
            locale: "en_US".into(),
        };
        let answer = this.call(0, AMQPClass::Connection(Conn::StartOk(who))).await?;
        let AMQPClass::Connection(Conn::Tune(tune)) = answer else {
            bail!("a server that agrees on nothing");
        };
        let agreed = connection::TuneOk {
            channel_max: tune.channel_max,
            frame_max: tune.frame_max,
            // Nobody is idle for long, and both ends are ours.
            heartbeat: 0,
        };
        this.tell(0, AMQPClass::Connection(Conn::TuneOk(agreed))).await?;
        let host = connection::Open { virtual_host: "/".into() };
        this.call(0, AMQPClass::Connection(Conn::Open(host))).await?;
        this.call(CHANNEL, AMQPClass::Channel(Chan::Open(channel::Open {}))).await?;
        Ok(this)
    }

    /// From now on every publish is confirmed, once it is safe.
    pub(crate) async fn confirm(&mut self) -> anyhow::Result<()> {
        let select = confirm::Select { nowait: false };
        self.call(CHANNEL, AMQPClass::Confirm(Confirm::Select(select))).await.map(drop)
    }

    /// A durable queue of the kind that outlives the loss of a node.
    pub(crate) async fn declare_quorum(&mut self, queue: &str) -> anyhow::Result<()> {
        let mut arguments = FieldTable::default();
        arguments.insert("x-queue-type".into(), AMQPValue::LongString("quorum".into()));
        let queue = queue.into();
        let declare = queue::Declare { queue, durable: true, arguments, ..Default::default() };
        self.call(CHANNEL, AMQPClass::Queue(Queue::Declare(declare))).await.map(drop)
    }

    /// Messages come as they arrive, and are acknowledged by hand.
    pub(crate) async fn consume(&mut self, queue: &str) -> anyhow::Result<()> {
        let consume = basic::Consume { queue: queue.into(), no_ack: false, ..Default::default() };
        self.call(CHANNEL, AMQPClass::Basic(Basic::Consume(consume))).await.map(drop)
    }

    /// The next message: its tag and its text.
    pub(crate) async fn delivery(&mut self) -> anyhow::Result<(u64, Vec<u8>)> {
        let AMQPClass::Basic(Basic::Deliver(deliver)) = self.method().await? else {
            bail!("something else than a delivery");
        };
        let AMQPFrame::Header(_, header) = self.frame().await? else {
            bail!("a delivery without a header");
        };
        let size = usize::try_from(header.body_size)?;
        let mut text = Vec::with_capacity(size);
        while text.len() < size {
            let AMQPFrame::Body(_, more) = self.frame().await? else {
                bail!("a delivery that ends early");
            };
            text.extend_from_slice(&more);
        }
        Ok((deliver.delivery_tag, text))
    }

    /// Acknowledges that delivery and all before it.
    pub(crate) async fn ack_up_to(&mut self, delivery_tag: u64) -> anyhow::Result<()> {
        let ack = basic::Ack { delivery_tag, multiple: true };
        self.tell(CHANNEL, AMQPClass::Basic(Basic::Ack(ack))).await
    }

    /// Publishes, and waits until the broker has confirmed it.
    pub(crate) async fn publish(&mut self, publish: &Publish) -> anyhow::Result<()> {
        self.write(&publish.bytes).await?;
        match self.method().await? {
            AMQPClass::Basic(Basic::Ack(_)) => Ok(()),
            other => bail!("not confirmed: {other:?}"),
        }
    }

    async fn call(&mut self, channel: u16, method: AMQPClass) -> anyhow::Result<AMQPClass> {
        self.tell(channel, method).await?;
        self.method().await
    }

    async fn tell(&mut self, channel: u16, method: AMQPClass) -> anyhow::Result<()> {
        self.write(&bytes(&AMQPFrame::Method(channel, method))?).await
    }

    async fn write(&mut self, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.stream.write_all(bytes).await?)
    }

    async fn method(&mut self) -> anyhow::Result<AMQPClass> {
        match self.frame().await? {
            AMQPFrame::Method(_, AMQPClass::Connection(Conn::Close(why))) => {
                bail!("RabbitMQ closed the connection: {}", why.reply_text)
            }
            AMQPFrame::Method(_, AMQPClass::Channel(Chan::Close(why))) => {
                bail!("RabbitMQ closed the channel: {}", why.reply_text)
            }
            AMQPFrame::Method(_, method) => Ok(method),
            other => bail!("a method was expected: {other}"),
        }
    }

    async fn frame(&mut self) -> anyhow::Result<AMQPFrame> {
        loop {
            if let Some((frame, taken)) = first(&self.buffer[self.read..])? {
                self.read += taken;
                return Ok(frame);
            }
            self.buffer.drain(..self.read);
            self.read = 0;
            let came = self.stream.read_buf(&mut self.buffer).await?;
            ensure!(came > 0, "RabbitMQ hung up");
        }
    }
}

/// The first frame and its length; `None` while it is not complete.
fn first(bytes: &[u8]) -> anyhow::Result<Option<(AMQPFrame, usize)>> {
    match parse_frame(bytes) {
        Ok((rest, frame)) => Ok(Some((frame, bytes.len() - rest.len()))),
        Err(error) if error.is_incomplete() => Ok(None),
        Err(error) => Err(anyhow!("this is no AMQP: {error}")),
    }
}

fn bytes(frame: &AMQPFrame) -> anyhow::Result<Vec<u8>> {
    let written = gen_frame(frame)(WriteContext::from(Vec::new())).context("a frame")?;
    Ok(written.into_inner().0)
}

/// `RabbitMQ 3.10.8, Erlang/OTP 25.2.3`
fn names(properties: &FieldTable) -> String {
    let said = |name: &str| match properties.inner().get(name) {
        Some(AMQPValue::LongString(text)) => text.to_string(),
        _ => "unknown".to_owned(),
    };
    format!("{} {}, {}", said("product"), said("version"), said("platform"))
}

/// A persistent message of 1 KiB to one queue, patched in place.
pub(crate) struct Publish {
    bytes: Vec<u8>,
    /// Where its text begins.
    text: usize,
}

impl Publish {
    pub(crate) fn to(queue: &str) -> anyhow::Result<Self> {
        let publish = basic::Publish { routing_key: queue.into(), ..Default::default() };
        let class_id = publish.get_amqp_class_id();
        let method = AMQPClass::Basic(Basic::Publish(publish));
        let mut all = bytes(&AMQPFrame::Method(CHANNEL, method))?;
        let properties = BasicProperties::default().with_delivery_mode(PERSISTENT);
        let header = AMQPContentHeader { class_id, body_size: BODY as u64, properties };
        all.extend(bytes(&AMQPFrame::Header(CHANNEL, header))?);
        all.extend(bytes(&AMQPFrame::Body(CHANNEL, requests::text().into_bytes()))?);
        // One byte ends the frame.
        let text = all.len() - 1 - BODY;
        Ok(Self { bytes: all, text })
    }

    /// A number that the reader finds at the start of the text.
    pub(crate) fn stamp(&mut self, number: u64) -> &mut Self {
        requests::put_stamp(&mut self.bytes[self.text..], number);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::requests::stamp_of;

    #[test]
    fn a_patched_publish_is_a_persistent_message_to_its_queue() {
        let mut publish = Publish::to("results").expect("frames");
        let all = publish.stamp(123_456).bytes.clone();
        let (method, one) = first(&all).expect("AMQP").expect("complete");
        let (header, two) = first(&all[one..]).expect("AMQP").expect("complete");
        let (body, three) = first(&all[one + two..]).expect("AMQP").expect("complete");
        assert_eq!(one + two + three, all.len());

        let AMQPFrame::Method(1, AMQPClass::Basic(Basic::Publish(method))) = method else {
            panic!("{method:?}");
        };
        assert_eq!(method.routing_key.as_str(), "results");
        let AMQPFrame::Header(1, header) = header else { panic!("{header:?}") };
        assert_eq!(header.properties.delivery_mode(), &Some(2));
        let AMQPFrame::Body(1, text) = body else { panic!("{body:?}") };
        assert_eq!((header.body_size, text.len()), (1024, 1024));
        assert_eq!(stamp_of(&String::from_utf8(text).expect("text")), Some(123_456));
    }

    #[test]
    fn a_frame_is_read_when_it_is_complete() {
        let all = bytes(&AMQPFrame::Heartbeat).expect("a frame");
        for end in 0..all.len() {
            assert_eq!(first(&all[..end]).expect("good so far"), None);
        }
        assert_eq!(first(&all).expect("good"), Some((AMQPFrame::Heartbeat, all.len())));
        assert!(first(b"HTTP/1.1 400 Bad Request").is_err());
    }
}
