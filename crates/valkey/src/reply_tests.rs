use super::*;
use proptest::prelude::*;

fn whole(bytes: &[u8]) -> Reply {
    let (reply, used) = parse(bytes).unwrap().unwrap();
    assert_eq!(used, bytes.len());
    reply
}

fn bulk(value: &str) -> Reply {
    Reply::Bulk(value.as_bytes().to_vec())
}

#[test]
fn each_resp2_type_is_read() {
    assert_eq!(whole(b"+PONG\r\n"), Reply::Simple("PONG".into()));
    assert_eq!(whole(b":-42\r\n"), Reply::Integer(-42));
    assert_eq!(whole(b"$5\r\nh\r\nlo\r\n"), bulk("h\r\nlo"));
    assert_eq!(whole(b"$-1\r\n"), Reply::Null);
    assert_eq!(whole(b"*-1\r\n"), Reply::Null);
    assert_eq!(whole(b"*2\r\n:1\r\n*0\r\n"), Reply::Array(vec![Reply::Integer(1), Reply::Array(vec![])]));
    assert_eq!(whole(b"-ERR no\r\n"), Reply::Error(Refusal::new("ERR no")));
}

#[test]
fn each_resp3_type_is_read() {
    assert_eq!(whole(b"_\r\n"), Reply::Null);
    assert_eq!(whole(b"#t\r\n"), Reply::Boolean(true));
    assert_eq!(whole(b",1.5\r\n"), Reply::Double(1.5));
    assert_eq!(whole(b"=8\r\ntxt:some\r\n"), bulk("some"));
    assert_eq!(whole(b"!6\r\nERR no\r\n"), Reply::Error(Refusal::new("ERR no")));
    assert_eq!(whole(b"%1\r\n+a\r\n:1\r\n"), Reply::Map(vec![(Reply::Simple("a".into()), Reply::Integer(1))]));
    assert_eq!(whole(b"~1\r\n:1\r\n"), Reply::Array(vec![Reply::Integer(1)]));
}

#[test]
fn nonsense_is_refused_with_what_is_wrong() {
    assert_eq!(parse(b"HTTP/1.1 200 OK\r\n"), Err(ProtocolError::UnknownType(b'H')));
    assert_eq!(parse(b"\r\n"), Err(ProtocolError::UnknownType(0)));
    assert_eq!(parse(b":x\r\n"), Err(ProtocolError::MalformedNumber("x".into())));
    assert_eq!(parse(b"$99999999999\r\n"), Err(ProtocolError::TooLarge(99_999_999_999)));
    assert_eq!(parse(b"*-7\r\n"), Err(ProtocolError::TooLarge(-7)));
    assert_eq!(parse(b"$2\r\nabcd\r\n"), Err(ProtocolError::MissingTerminator));
    assert_eq!(parse(&b"*1\r\n".repeat(40)), Err(ProtocolError::TooDeep));
}

#[test]
fn pairs_come_from_a_map_and_from_a_flat_array_alike() {
    let expected = Some(vec![("maxmemory".to_owned(), "0".to_owned()), ("save".to_owned(), "3600 1".to_owned())]);
    let resp2 = b"*4\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nsave\r\n$6\r\n3600 1\r\n";
    let resp3 = b"%2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n$4\r\nsave\r\n$6\r\n3600 1\r\n";
    assert_eq!(whole(resp2).into_pairs(), expected);
    assert_eq!(whole(resp3).into_pairs(), expected);
    assert_eq!(whole(b"*1\r\n:1\r\n").into_pairs(), None);
}

#[test]
fn a_reply_cut_anywhere_asks_for_more_and_never_errs() {
    let reply = b"*3\r\n$6\r\nmaster\r\n:176\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n7004\r\n$3\r\n176\r\n";
    for end in 0..reply.len() {
        assert_eq!(parse(&reply[..end]), Ok(None), "cut at {end}");
    }
}

#[test]
fn a_second_reply_behind_the_first_is_left_alone() {
    assert_eq!(parse(b"+OK\r\n+PONG\r\n"), Ok(Some((Reply::Simple("OK".into()), 5))));
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn an_encoded_command_reads_back_as_its_arguments(arguments in proptest::collection::vec(".{0,20}", 0..6)) {
        let borrowed: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let expected = Reply::Array(arguments.iter().map(|argument| bulk(argument)).collect());
        prop_assert_eq!(whole(&encode(&borrowed)), expected);
    }
}
