//! The messages of generic netlink by which the kernel's NBD client is configured (`linux/netlink.h`, `linux/genetlink.h`,
//! `linux/nbd-netlink.h`): bytes from values and back, in the machine's own order.

use std::io;

/// A netlink header (length, type, flags, sequence, sender) and that of generic netlink (command, version, reserved).
const HEADER_BYTES: usize = 16;
const GENERIC_HEADER_BYTES: usize = 4;
const ATTRIBUTE_HEADER_BYTES: usize = 4;
const ALIGNMENT: usize = 4;

/// Types of messages.
const TYPE_ERROR: u16 = 2;
const TYPE_CONTROL: u16 = 16;

/// Flags: it is a request, and wants to be told when it is done.
const FLAG_REQUEST: u16 = 1;
const FLAG_ACKNOWLEDGE: u16 = 4;

/// Of the family that knows the families.
const CONTROL_COMMAND_GET_FAMILY: u8 = 3;
const CONTROL_VERSION: u8 = 1;
const CONTROL_FAMILY_ID: u16 = 1;
const CONTROL_FAMILY_NAME: u16 = 2;

const FAMILY: &str = "nbd";
const FAMILY_VERSION: u8 = 1;

/// Attributes of a device.
const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
/// Of a list of sockets: an item, and in it the descriptor.
const SOCKET_ITEM: u16 = 1;
const SOCKET_DESCRIPTOR: u16 = 1;
/// There are attributes in this attribute.
const NESTED: u16 = 1 << 15;

/// `ENOENT`: there is no such family.
const UNKNOWN: i32 = 2;

/// What the driver can be asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    Connect,
    Disconnect,
    Reconfigure,
}

impl Command {
    fn number(self) -> u8 {
        match self {
            Self::Connect => 1,
            Self::Disconnect => 2,
            Self::Reconfigure => 3,
        }
    }
}

/// What the driver is told of a device; what is left out stays as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DeviceRequest<'a> {
    /// Of a new device: any.
    pub(super) index: Option<u32>,
    /// Of the device, and its logical block.
    pub(super) size: Option<(u64, u64)>,
    /// NBD's transmission flags.
    pub(super) server_flags: Option<u64>,
    /// How long requests wait for a connection.
    pub(super) dead_connection_timeout_s: Option<u64>,
    /// A descriptor of the process that asks.
    pub(super) socket: Option<u32>,
    /// What tells the device from others. Of one that is there, it has to be the same.
    pub(super) identifier: Option<&'a str>,
}

/// A message that is being written.
pub(super) struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, flags: u16, command: u8, version: u8) -> Self {
        let mut bytes = vec![0; HEADER_BYTES + GENERIC_HEADER_BYTES];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&(FLAG_REQUEST | flags).to_ne_bytes());
        bytes[HEADER_BYTES] = command;
        bytes[HEADER_BYTES + 1] = version;
        Self(bytes)
    }

    pub(super) fn to_driver(family: u16, command: Command, request: &DeviceRequest<'_>) -> Self {
        let mut message = Self::new(family, FLAG_ACKNOWLEDGE, command.number(), FAMILY_VERSION);
        if let Some(index) = request.index {
            message.push(INDEX, &index.to_ne_bytes());
        }
        if let Some((size_bytes, block_bytes)) = request.size {
            message.push(SIZE_BYTES, &size_bytes.to_ne_bytes());
            message.push(BLOCK_SIZE_BYTES, &block_bytes.to_ne_bytes());
        }
        if let Some(flags) = request.server_flags {
            message.push(SERVER_FLAGS, &flags.to_ne_bytes());
        }
        if let Some(seconds) = request.dead_connection_timeout_s {
            message.push(DEAD_CONNECTION_TIMEOUT, &seconds.to_ne_bytes());
        }
        if let Some(socket) = request.socket {
            let descriptor = attribute(SOCKET_DESCRIPTOR, &socket.to_ne_bytes());
            message.push(SOCKETS | NESTED, &attribute(SOCKET_ITEM | NESTED, &descriptor));
        }
        if let Some(identifier) = request.identifier {
            message.push(BACKEND_IDENTIFIER, &text(identifier));
        }
        message
    }

    fn push(&mut self, kind: u16, value: &[u8]) {
        self.0.extend(attribute(kind, value));
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        let Self(mut bytes) = self;
        let length = u32::try_from(bytes.len()).expect("a message is below 4 GiB");
        bytes[..4].copy_from_slice(&length.to_ne_bytes());
        bytes
    }
}

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ATTRIBUTE_HEADER_BYTES + value.len()).expect("an attribute has fewer than 2^16 bytes");
    let mut bytes = Vec::from(length.to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes
}

/// With the zero at its end.
fn text(text: &str) -> Vec<u8> {
    [text.as_bytes(), &[0]].concat()
}

/// Asks for the number of the driver's family. The answer is the number alone: an acknowledgement behind it would be taken for the
/// answer to what is asked next.
pub(super) fn family_request() -> Vec<u8> {
    let mut message = Message::new(TYPE_CONTROL, 0, CONTROL_COMMAND_GET_FAMILY, CONTROL_VERSION);
    message.push(CONTROL_FAMILY_NAME, &text(FAMILY));
    message.into_bytes()
}

/// What a message of the kernel says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The number of the family that was asked for.
    Family(u16),
    /// What was asked for is done, or failed with an error number.
    Done(Result<(), i32>),
    Other,
}

/// The error number of a family that there is not.
pub(super) fn is_unknown(error: i32) -> bool {
    error == UNKNOWN
}

/// The messages of a datagram.
///
/// # Errors
/// The datagram is cut, or a length in it is wrong.
pub(super) fn answers(mut bytes: &[u8]) -> io::Result<Vec<Answer>> {
    let mut answers = Vec::new();
    while !bytes.is_empty() {
        let length = usize::try_from(u32_at(bytes, 0)?).map_err(|_| cut())?;
        if length < HEADER_BYTES || length > bytes.len() {
            return Err(cut());
        }
        answers.push(answer(u16_at(bytes, 4)?, &bytes[HEADER_BYTES..length])?);
        bytes = bytes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    Ok(answers)
}

fn answer(kind: u16, body: &[u8]) -> io::Result<Answer> {
    match kind {
        TYPE_ERROR => {
            let number = i32::from_ne_bytes(u32_at(body, 0)?.to_ne_bytes());
            Ok(Answer::Done(if number == 0 { Ok(()) } else { Err(number.saturating_neg()) }))
        }
        TYPE_CONTROL => family_in(body.get(GENERIC_HEADER_BYTES..).ok_or_else(cut)?),
        _ => Ok(Answer::Other),
    }
}

fn family_in(mut attributes: &[u8]) -> io::Result<Answer> {
    while !attributes.is_empty() {
        let (length, kind) = (usize::from(u16_at(attributes, 0)?), u16_at(attributes, 2)?);
        if length < ATTRIBUTE_HEADER_BYTES || length > attributes.len() {
            return Err(cut());
        }
        if kind == CONTROL_FAMILY_ID {
            return u16_at(attributes, ATTRIBUTE_HEADER_BYTES).map(Answer::Family);
        }
        attributes = attributes.get(length.next_multiple_of(ALIGNMENT)..).unwrap_or_default();
    }
    Ok(Answer::Other)
}

fn u16_at(bytes: &[u8], at: usize) -> io::Result<u16> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|two| u16::from_ne_bytes(*two)).ok_or_else(cut)
}

fn u32_at(bytes: &[u8], at: usize) -> io::Result<u32> {
    bytes.get(at..).and_then(|rest| rest.first_chunk()).map(|four| u32::from_ne_bytes(*four)).ok_or_else(cut)
}

fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a netlink message of the kernel is cut")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the kernel sends it.
    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let mut bytes = [length.to_ne_bytes().as_slice(), &kind.to_ne_bytes(), &[0; 10], body].concat();
        bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
        bytes
    }

    #[test]
    fn a_device_is_described_as_the_kernel_reads_it() {
        let request = DeviceRequest {
            index: Some(3),
            size: Some((1 << 30, 4096)),
            server_flags: Some(5),
            dead_connection_timeout_s: Some(600),
            socket: Some(7),
            identifier: Some("abc"),
        };
        let bytes = Message::to_driver(0x21, Command::Connect, &request).into_bytes();
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = [
            "6400000021000500",
            "0000000000000000",
            "01010000",         // headers
            "0800010003000000", // index
            "0c0002000000004000000000",
            "0c0003000010000000000000", // size, block
            "0c0005000500000000000000",
            "0c0008005802000000000000",         // flags, time-out
            "100007800c0001800800010007000000", // sockets: an item: a descriptor
            "08000a0061626300",                 // identifier
        ];
        assert_eq!(hex, expected.concat());
    }

    #[test]
    fn answers_tell_the_family_and_how_it_ended() {
        let family = [&[1, 2, 0, 0][..], &attribute(CONTROL_FAMILY_NAME, b"nbd\0"), &attribute(1, &[0x21, 0])].concat();
        let both = [message(TYPE_CONTROL, &family), message(TYPE_ERROR, &[0; 20])].concat();
        assert_eq!(answers(&both).unwrap(), [Answer::Family(0x21), Answer::Done(Ok(()))]);
        let refused = message(TYPE_ERROR, &(-16_i32).to_ne_bytes());
        assert_eq!(answers(&refused).unwrap(), [Answer::Done(Err(16))]);
        assert_eq!(answers(&message(99, &[])).unwrap(), [Answer::Other]);
    }

    #[test]
    fn what_is_cut_anywhere_is_an_error_or_fewer_messages_and_never_a_panic() {
        let family = [&[1, 2, 0, 0][..], &attribute(CONTROL_FAMILY_NAME, b"nbd\0"), &attribute(1, &[0x21, 0])].concat();
        let whole = [message(TYPE_CONTROL, &family), message(TYPE_ERROR, &[0; 20])].concat();
        for length in 1..whole.len() {
            if let Ok(answers) = answers(&whole[..length]) {
                assert!(answers.len() < 2, "{length}");
            }
        }
    }
}
