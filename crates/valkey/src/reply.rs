//! RESP2 and RESP3 replies, parsed from a growing buffer. Pure; `connection` feeds it, the typed parsers read from it.

use crate::refusal::Refusal;

/// One reply. RESP3's sets and pushes arrive as arrays, its verbatim strings and big numbers as text.
#[derive(Clone, Debug, PartialEq)]
pub enum Reply {
    Simple(String),
    Error(Refusal),
    Integer(i64),
    Double(f64),
    Boolean(bool),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    #[error("the reply begins with byte {0:#04x}, which is no RESP type")]
    UnknownType(u8),
    #[error("the reply has a malformed number: {0:?}")]
    MalformedNumber(String),
    #[error("the reply announces {0} bytes or elements, more than an admin command ever answers")]
    TooLarge(i64),
    #[error("the reply is nested more than {MAXIMUM_DEPTH} levels deep")]
    TooDeep,
    #[error("a bulk string does not end where it said")]
    MissingTerminator,
}

/// CLUSTER NODES of a thousand-node cluster is about 200 KiB; beyond this something else is talking.
pub const MAXIMUM_BYTES: usize = 16 * 1024 * 1024;
const MAXIMUM_DEPTH: usize = 16;

type Parsed<T> = Result<Option<T>, ProtocolError>;

/// The first reply in `buffer` and how many bytes it took, or `None` when more bytes are needed.
pub fn parse(buffer: &[u8]) -> Parsed<(Reply, usize)> {
    let mut cursor = Cursor { buffer, position: 0 };
    Ok(cursor.reply(0)?.map(|reply| (reply, cursor.position)))
}

struct Cursor<'a> {
    buffer: &'a [u8],
    position: usize,
}

macro_rules! complete {
    ($parsed:expr) => {
        match $parsed? {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

impl<'a> Cursor<'a> {
    fn reply(&mut self, depth: usize) -> Parsed<Reply> {
        if depth > MAXIMUM_DEPTH {
            return Err(ProtocolError::TooDeep);
        }
        let line = complete!(self.line());
        let (kind, rest) = line.split_first().unwrap_or((&0, &[]));
        match kind {
            b'+' | b'(' => Ok(Some(Reply::Simple(text(rest)))),
            b'-' => Ok(Some(Reply::Error(Refusal::new(text(rest))))),
            b':' => Ok(Some(Reply::Integer(number(rest)?))),
            b',' => Ok(Some(Reply::Double(double(rest)?))),
            b'#' => Ok(Some(Reply::Boolean(rest == b"t"))),
            b'_' => Ok(Some(Reply::Null)),
            b'$' | b'=' => self.bulk(rest, *kind == b'='),
            b'!' => Ok(self.bulk(rest, false)?.map(|reply| Reply::Error(Refusal::new(reply.into_text())))),
            b'*' | b'~' | b'>' => self.array(rest, depth),
            b'%' => self.map(rest, depth),
            other => Err(ProtocolError::UnknownType(*other)),
        }
    }

    fn line(&mut self) -> Parsed<&'a [u8]> {
        let rest = self.buffer.get(self.position..).unwrap_or_default();
        let Some(length) = rest.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        self.position += length + 2;
        Ok(rest.get(..length))
    }

    fn bulk(&mut self, header: &[u8], verbatim: bool) -> Parsed<Reply> {
        let Some(length) = size(header)? else { return Ok(Some(Reply::Null)) };
        let Some(bytes) = self.buffer.get(self.position..self.position + length + 2) else { return Ok(None) };
        let content = bytes.strip_suffix(b"\r\n").ok_or(ProtocolError::MissingTerminator)?;
        self.position += length + 2;
        // A verbatim string carries its format in front: `txt:`.
        let content = if verbatim { content.get(4..).unwrap_or_default() } else { content };
        Ok(Some(Reply::Bulk(content.to_vec())))
    }

    fn array(&mut self, header: &[u8], depth: usize) -> Parsed<Reply> {
        let Some(length) = size(header)? else { return Ok(Some(Reply::Null)) };
        let mut items = Vec::new();
        for _ in 0..length {
            items.push(complete!(self.reply(depth + 1)));
        }
        Ok(Some(Reply::Array(items)))
    }

    fn map(&mut self, header: &[u8], depth: usize) -> Parsed<Reply> {
        let Some(length) = size(header)? else { return Ok(Some(Reply::Null)) };
        let mut entries = Vec::new();
        for _ in 0..length {
            entries.push((complete!(self.reply(depth + 1)), complete!(self.reply(depth + 1))));
        }
        Ok(Some(Reply::Map(entries)))
    }
}

/// `None` stands for RESP2's null (`$-1`, `*-1`).
fn size(header: &[u8]) -> Parsed<usize> {
    match number(header)? {
        -1 => Ok(None),
        length => match usize::try_from(length) {
            Ok(length) if length <= MAXIMUM_BYTES => Ok(Some(length)),
            _ => Err(ProtocolError::TooLarge(length)),
        },
    }
}

fn number(digits: &[u8]) -> Result<i64, ProtocolError> {
    let digits = text(digits);
    digits.parse().map_err(|_| ProtocolError::MalformedNumber(digits))
}

fn double(digits: &[u8]) -> Result<f64, ProtocolError> {
    let digits = text(digits);
    digits.parse().map_err(|_| ProtocolError::MalformedNumber(digits))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

impl Reply {
    /// The text of a simple or bulk string; numbers in digits; empty for everything else.
    pub fn into_text(self) -> String {
        match self {
            Reply::Simple(value) => value,
            Reply::Bulk(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Reply::Integer(value) => value.to_string(),
            Reply::Error(refusal) => refusal.message,
            _ => String::new(),
        }
    }

    /// The bytes of a bulk string, as keys are; nothing for everything else.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Reply::Bulk(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub fn into_items(self) -> Option<Vec<Reply>> {
        match self {
            Reply::Array(items) => Some(items),
            _ => None,
        }
    }

    pub fn number(&self) -> Option<u64> {
        match self {
            Reply::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        }
    }

    /// The pairs of a RESP3 map, or of RESP2's flat array of alternating names and values.
    pub fn into_pairs(self) -> Option<Vec<(String, String)>> {
        match self {
            Reply::Map(entries) => Some(entries.into_iter().map(|(k, v)| (k.into_text(), v.into_text())).collect()),
            Reply::Array(items) if items.len() % 2 == 0 => {
                let mut items = items.into_iter().map(Reply::into_text);
                Some(std::iter::from_fn(|| Some((items.next()?, items.next()?))).collect())
            }
            _ => None,
        }
    }
}

/// A command as the array of bulk strings the server reads.
pub fn encode(arguments: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        let argument = argument.as_ref();
        bytes.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        bytes.extend_from_slice(argument);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

#[cfg(test)]
#[path = "reply_tests.rs"]
mod tests;
