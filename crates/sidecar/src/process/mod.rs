//! Monitors the Valkey process on one connection that stays open: its end closes the connection, so it is noticed
//! within milliseconds, and a changed role within a second. IO; `main` starts it, the gate and the line listen.

mod state;

pub use state::{Event, ProcessWatch};

use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use topology::Role;
use valkey::{Address, CallError, Connection, Info};

/// How often the role is asked for; one small request a second is the whole cost.
const CHECK: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(500);
/// While the socket takes no connections: often at first, for a start is quick, and less often later.
const EAGER: Duration = Duration::from_millis(25);
const PATIENT: Duration = Duration::from_millis(100);
const EAGER_FOR: Duration = Duration::from_secs(10);
/// A dying process may still take a connection before its listening socket is gone.
const AGAIN: Duration = Duration::from_millis(2);

pub struct ProcessMonitor {
    address: Address,
    process: ProcessWatch,
}

impl ProcessMonitor {
    pub fn new(socket: PathBuf) -> Self {
        Self { address: Address::Unix(socket), process: ProcessWatch::default() }
    }

    pub fn watch(&self) -> ProcessWatch {
        self.process.clone()
    }

    pub async fn run(self) {
        let mut absent_since = Instant::now();
        loop {
            match Connection::open(&self.address, ANSWER).await {
                Ok(connection) => {
                    self.follow(connection).await;
                    absent_since = Instant::now();
                    sleep(AGAIN).await;
                }
                Err(error) if error.nobody_listens() => {
                    self.process.died();
                    sleep(if absent_since.elapsed() < EAGER_FOR { EAGER } else { PATIENT }).await;
                }
                // The socket takes no more connections: the process is there and does not get to them.
                Err(_) => sleep(PATIENT).await,
            }
        }
    }

    /// Returns when the connection has ended, whatever the reason; connecting again tells whether the process has.
    async fn follow(&self, mut connection: Connection) {
        let mut sections = ["server", "replication"].as_slice();
        loop {
            connection.renew(ANSWER);
            match connection.info(sections).await {
                Ok(info) => self.note(&info, &mut sections),
                Err(CallError::Refused(_)) => {}
                // The answer may come later: only a new connection tells it from the next one.
                Err(CallError::AnswerDeadline { .. }) => return self.silent(connection).await,
                Err(_) => return,
            }
            tokio::select! {
                () = connection.closed() => return,
                () = sleep(CHECK) => {}
            }
        }
    }

    fn note(&self, info: &Info, sections: &mut &[&'static str]) {
        if let Some(run_id) = info.text("run_id") {
            self.process.answers(run_id);
            // The run id does not change while the connection lasts.
            *sections = &["replication"];
        }
        if let Some(role) = info.role() {
            self.process.set_role(role);
            self.process.set_attached(if role == Role::Primary { state::attached(info) } else { Vec::new() });
            self.process.set_position(if role == Role::Primary { state::position(info) } else { None });
            self.process.set_orphaned(role == Role::Replica && !state::hears_its_primary(info));
        }
    }

    async fn silent(&self, mut connection: Connection) {
        self.process.silent(true);
        tokio::select! {
            () = connection.closed() => {}
            () = sleep(CHECK) => {}
        }
        self.process.silent(false);
    }
}
