//! Real valkey-server processes for tests: started in a folder of their own, killed when dropped. IO; tests only.

use crate::{
    address::Address,
    connection::{CallError, Connection},
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    io,
    net::{SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};
use tempfile::TempDir;

const START_DEADLINE: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerVersion {
    V8_1,
    V9_1,
}

pub const BOTH_VERSIONS: [ServerVersion; 2] = [ServerVersion::V8_1, ServerVersion::V9_1];

impl ServerVersion {
    pub fn line(self) -> &'static str {
        match self {
            ServerVersion::V8_1 => "8.1",
            ServerVersion::V9_1 => "9.1",
        }
    }

    /// The runnable server: from `VALKEY_SERVER_8_1` / `VALKEY_SERVER_9_1`, else where `images/fetch-valkey` puts it.
    pub fn executable(self) -> io::Result<PathBuf> {
        let variable = format!("VALKEY_SERVER_{}", self.line().replace('.', "_"));
        let named = std::env::var_os(&variable).map(PathBuf::from);
        let path = named.or_else(|| fetched(self.line())).unwrap_or_default();
        if path.is_file() {
            return Ok(path);
        }
        let line = self.line();
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            format!("no valkey-server {line}: run images/fetch-valkey {line}, or set {variable} to one"),
        ))
    }
}

fn fetched(line: &str) -> Option<PathBuf> {
    let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from).or(home)?;
    Some(cache.join("valkey-operator/valkey").join(line).join("valkey-server"))
}

/// A port nobody listens on now, low enough that its bus port (+10000) exists.
pub fn free_port() -> io::Result<u16> {
    for _ in 0..200 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // The kernel hands out ephemeral ports from 32768 on to whoever connects; fold this one and its bus port below that, where
        // nothing else picks at random.
        let port = 10_000 + port % 12_000;
        let ports = [port, port + 10_000];
        let free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
        if reserve(ports)? && ports.into_iter().all(free) {
            return Ok(port);
        }
    }
    Err(io::Error::new(io::ErrorKind::AddrInUse, "no free pair of ports on loopback"))
}

/// Between choosing a port and listening on it another test, or another process of tests, must not choose it too. Reserved for
/// as long as this process lives.
fn reserve(ports: [u16; 2]) -> io::Result<bool> {
    static RESERVED: Mutex<Vec<File>> = Mutex::new(Vec::new());
    let folder = std::env::temp_dir().join("valkey-test-ports");
    fs::create_dir_all(&folder)?;
    let mut files = Vec::new();
    for port in ports {
        let file = File::create(folder.join(port.to_string()))?;
        if file.try_lock().is_err() {
            return Ok(false);
        }
        files.push(file);
    }
    RESERVED.lock().unwrap_or_else(PoisonError::into_inner).append(&mut files);
    Ok(true)
}

pub struct TestServer {
    child: Child,
    command: Command,
    folder: Option<TempDir>,
    log: PathBuf,
    pub socket: PathBuf,
    pub port: u16,
}

impl TestServer {
    /// A server with the given parameters (`["--hz", "50"]`) in a fresh folder; returns once it answers anything.
    pub fn start(version: ServerVersion, parameters: &[&str]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("valkey-test-").tempdir()?;
        let mut server = Self::start_in(version, folder.path(), parameters)?;
        server.folder = Some(folder);
        Ok(server)
    }

    /// The same in a folder of the caller's, which outlives the server.
    pub fn start_in(version: ServerVersion, folder: &Path, parameters: &[&str]) -> io::Result<Self> {
        let port = free_port()?;
        let socket = folder.join("valkey.sock");
        let mut command = Command::new(version.executable()?);
        command.args(["--port", &port.to_string(), "--unixsocket"]).arg(&socket).arg("--dir").arg(folder);
        command.args(parameters);
        Self::spawn(command, folder, socket, port)
    }

    /// A server from a finished valkey.conf, which must name the given port and have `valkey.sock` beside it.
    pub fn start_from(version: ServerVersion, conf: &Path, port: u16, parameters: &[&str]) -> io::Result<Self> {
        let mut server = Self::launch_from(version, conf, port, parameters)?;
        server.wait_for_socket()?;
        Ok(server)
    }

    /// The same without waiting: its configuration may be a FIFO that nobody has written to yet.
    pub fn launch_from(version: ServerVersion, conf: &Path, port: u16, parameters: &[&str]) -> io::Result<Self> {
        let folder = conf.parent().unwrap_or(Path::new("."));
        let mut command = Command::new(version.executable()?);
        command.arg(conf).args(parameters);
        Self::launch(command, folder, folder.join("valkey.sock"), port)
    }

    fn spawn(command: Command, folder: &Path, socket: PathBuf, port: u16) -> io::Result<Self> {
        let mut server = Self::launch(command, folder, socket, port)?;
        server.wait_for_socket()?;
        Ok(server)
    }

    fn launch(mut command: Command, folder: &Path, socket: PathBuf, port: u16) -> io::Result<Self> {
        let log = folder.join("server.log");
        let output = std::fs::OpenOptions::new().create(true).append(true).open(&log)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        Ok(Self { child: command.spawn()?, command, folder: None, log, socket, port })
    }

    /// `None` while the process is there.
    pub fn ended(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }

    pub fn wait_for_socket(&mut self) -> io::Result<()> {
        let until = Instant::now() + START_DEADLINE;
        while std::os::unix::net::UnixStream::connect(&self.socket).is_err() {
            let ended = self.child.try_wait()?;
            if ended.is_some() || Instant::now() > until {
                let state = ended.map_or("gave no socket".to_owned(), |status| format!("ended with {status}"));
                return Err(io::Error::other(format!("valkey-server {state}; its log:\n{}", self.log())));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    pub fn unix_address(&self) -> Address {
        Address::Unix(self.socket.clone())
    }

    pub fn tcp_address(&self) -> Address {
        Address::Tcp(SocketAddr::from(([127, 0, 0, 1], self.port)))
    }

    pub async fn connect(&self) -> Result<Connection, CallError> {
        Connection::open(&self.unix_address(), Duration::from_secs(60)).await
    }

    /// SIGSTOP: the process is there, its sockets take connections, nothing answers.
    pub fn freeze(&self) -> io::Result<()> {
        self.signal(Signal::STOP)
    }

    pub fn thaw(&self) -> io::Result<()> {
        self.signal(Signal::CONT)
    }

    /// SIGTERM and the exit status.
    pub fn terminate(&mut self) -> io::Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        self.child.wait()
    }

    /// SIGKILL and wait.
    pub fn kill(&mut self) -> io::Result<ExitStatus> {
        self.child.kill()?;
        self.child.wait()
    }

    /// The same server again, in the same folder, after it has ended.
    pub fn start_again(&mut self) -> io::Result<()> {
        self.child = self.command.spawn()?;
        self.wait_for_socket()
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let raw = i32::try_from(self.child.id()).map_err(io::Error::other)?;
        let pid = Pid::from_raw(raw).ok_or_else(|| io::Error::other("the process has no id"))?;
        Ok(kill_process(pid, signal)?)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
