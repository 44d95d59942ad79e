//! One throw-away valkey-server with untouched defaults, spoken to over its Unix socket. IO; used by `survey`.

use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const START_DEADLINE: Duration = Duration::from_secs(10);

pub struct Server {
    child: Child,
    directory: tempfile::TempDir,
}

pub enum Reply {
    Text(String),
    Error(String),
    List(Vec<String>),
}

impl Server {
    pub fn start(program: &Path) -> Result<Self> {
        let directory = tempfile::tempdir()?;
        let config = directory.path().join("valkey.conf");
        let lines = format!("port 0\nunixsocket {0}/socket\ndir {0}\n", directory.path().display());
        std::fs::write(&config, lines)?;
        let child = Command::new(program)
            .arg(&config)
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {}", program.display()))?;
        let server = Self { child, directory };
        server.wait_until_it_answers()?;
        Ok(server)
    }

    fn wait_until_it_answers(&self) -> Result<()> {
        let deadline = Instant::now() + START_DEADLINE;
        while self.command(&["PING"]).is_err() {
            if Instant::now() > deadline {
                bail!("no answer to PING within {START_DEADLINE:?}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    pub fn config_file(&self) -> PathBuf {
        self.directory.path().join("valkey.conf")
    }

    /// Each command has a connection of its own: some parameters make the server drop the ones it has.
    pub fn command(&self, arguments: &[&str]) -> Result<Reply> {
        let mut stream = UnixStream::connect(self.directory.path().join("socket"))?;
        stream.set_read_timeout(Some(START_DEADLINE))?;
        write!(stream, "*{}\r\n", arguments.len())?;
        for argument in arguments {
            write!(stream, "${}\r\n{argument}\r\n", argument.len())?;
        }
        read_reply(&mut BufReader::new(stream))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_reply(reader: &mut impl BufRead) -> Result<Reply> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let line = line.trim_end();
    let Some((kind, rest)) = line.split_at_checked(1) else { bail!("the server hung up") };
    match kind {
        "+" => Ok(Reply::Text(rest.to_owned())),
        "-" => Ok(Reply::Error(rest.to_owned())),
        "$" => Ok(Reply::Text(read_bulk(reader, rest.parse()?)?)),
        "*" => (0..rest.parse::<usize>()?).map(|_| read_text(reader)).collect::<Result<_>>().map(Reply::List),
        other => bail!("unexpected reply type {other:?}"),
    }
}

fn read_text(reader: &mut impl BufRead) -> Result<String> {
    match read_reply(reader)? {
        Reply::Text(text) => Ok(text),
        Reply::Error(_) | Reply::List(_) => bail!("a list holds something that is no text"),
    }
}

fn read_bulk(reader: &mut impl Read, length: usize) -> Result<String> {
    let mut bytes = vec![0; length + 2];
    reader.read_exact(&mut bytes)?;
    bytes.truncate(length);
    Ok(String::from_utf8(bytes)?)
}
