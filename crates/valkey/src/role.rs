//! The answer of ROLE. Pure.

use crate::reply::Reply;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    Primary { offset: i64, replicas: usize },
    Replica { primary_host: String, primary_port: i64, link: String, offset: i64 },
    Sentinel,
}

impl Role {
    pub fn parse(reply: Reply) -> Option<Self> {
        let Reply::Array(items) = reply else { return None };
        let mut items = items.into_iter();
        match items.next()?.into_text().as_str() {
            "master" => Some(Role::Primary { offset: integer(items.next()?)?, replicas: length(items.next()?)? }),
            "slave" => Some(Role::Replica {
                primary_host: items.next()?.into_text(),
                primary_port: integer(items.next()?)?,
                link: items.next()?.into_text(),
                offset: integer(items.next()?)?,
            }),
            "sentinel" => Some(Role::Sentinel),
            _ => None,
        }
    }
}

fn integer(reply: Reply) -> Option<i64> {
    match reply {
        Reply::Integer(value) => Some(value),
        _ => None,
    }
}

fn length(reply: Reply) -> Option<usize> {
    match reply {
        Reply::Array(items) => Some(items.len()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reply::parse;

    fn role(bytes: &[u8]) -> Option<Role> {
        Role::parse(parse(bytes).unwrap().unwrap().0)
    }

    #[test]
    fn a_primary_with_one_replica() {
        let bytes = b"*3\r\n$6\r\nmaster\r\n:176\r\n*1\r\n*3\r\n$9\r\n127.0.0.1\r\n$4\r\n7004\r\n$3\r\n176\r\n";
        assert_eq!(role(bytes), Some(Role::Primary { offset: 176, replicas: 1 }));
    }

    #[test]
    fn a_replica_with_its_link() {
        let bytes = b"*5\r\n$5\r\nslave\r\n$9\r\n127.0.0.1\r\n:7001\r\n$9\r\nconnected\r\n:190\r\n";
        let expected = Role::Replica {
            primary_host: "127.0.0.1".into(),
            primary_port: 7001,
            link: "connected".into(),
            offset: 190,
        };
        assert_eq!(role(bytes), Some(expected));
    }

    #[test]
    fn anything_else_is_not_a_role() {
        assert_eq!(role(b"+OK\r\n"), None);
        assert_eq!(role(b"*1\r\n$6\r\nmaster\r\n"), None);
        assert_eq!(role(b"*1\r\n$5\r\nother\r\n"), None);
    }
}
