//! MOVED and ASK replies. Pure; the client follows them.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// ASK is for this one command, MOVED for all that follow.
    pub once: bool,
    pub slot: u16,
    /// `None` when the server does not name one: then it is the host that answered.
    pub host: Option<String>,
    pub port: u16,
}

impl Redirect {
    pub fn parse(message: &str) -> Option<Self> {
        let mut words = message.split(' ');
        let once = match words.next()? {
            "MOVED" => false,
            "ASK" => true,
            _ => return None,
        };
        let slot = words.next()?.parse().ok()?;
        let (host, port) = words.next()?.rsplit_once(':')?;
        let host = Some(host.trim_matches(['[', ']'])).filter(|host| !host.is_empty() && *host != "?");
        Some(Self { once, slot, host: host.map(str::to_owned), port: port.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redirect(once: bool, slot: u16, host: Option<&str>, port: u16) -> Option<Redirect> {
        Some(Redirect { once, slot, host: host.map(str::to_owned), port })
    }

    #[test]
    fn redirects_of_all_shapes_are_read() {
        let cases = [
            ("MOVED 3999 127.0.0.1:6381", redirect(false, 3999, Some("127.0.0.1"), 6381)),
            ("ASK 12 pod-0.example:6379", redirect(true, 12, Some("pod-0.example"), 6379)),
            ("MOVED 1 fd00::1:6379", redirect(false, 1, Some("fd00::1"), 6379)),
            ("MOVED 1 :6379", redirect(false, 1, None, 6379)),
            ("MOVED 1 ?:6379", redirect(false, 1, None, 6379)),
            ("CLUSTERDOWN The cluster is down", None),
            ("MOVED", None),
            ("MOVED x 127.0.0.1:1", None),
        ];
        for (message, expected) in cases {
            assert_eq!(Redirect::parse(message), expected, "{message}");
        }
    }
}
