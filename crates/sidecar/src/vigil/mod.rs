//! Watches over the Valkey process on one connection that stays open: its end closes the connection, so it is noticed
//! within milliseconds, and a changed role within a second. IO; `main` starts it, the gate and the line listen.

mod pulse;

pub use pulse::{Event, Sight};

use link::contract::Role;
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::time::sleep;
use valkey::{Address, CallError, Connection, Info};

/// How often the role is asked for; one small question a second is the whole cost.
const LOOK: Duration = Duration::from_secs(1);
const ANSWER: Duration = Duration::from_millis(500);
/// While nobody listens: often at first, for a start is quick, and less when nothing comes.
const EAGER: Duration = Duration::from_millis(25);
const PATIENT: Duration = Duration::from_millis(100);
const EAGER_FOR: Duration = Duration::from_secs(10);
/// A dying process may still take a connection before its listening socket is gone.
const AGAIN: Duration = Duration::from_millis(2);

pub struct Vigil {
    address: Address,
    sight: Sight,
}

impl Vigil {
    pub fn new(socket: PathBuf) -> Self {
        Self { address: Address::Unix(socket), sight: Sight::default() }
    }

    pub fn sight(&self) -> Sight {
        self.sight.clone()
    }

    pub async fn run(self) {
        let mut absent_since = Instant::now();
        loop {
            match Connection::open(&self.address, ANSWER).await {
                Ok(connection) => {
                    self.watch(connection).await;
                    absent_since = Instant::now();
                    sleep(AGAIN).await;
                }
                Err(error) if error.nobody_listens() => {
                    self.sight.died();
                    sleep(if absent_since.elapsed() < EAGER_FOR { EAGER } else { PATIENT }).await;
                }
                // The socket takes no more connections: the process is there and does not get to them.
                Err(_) => sleep(PATIENT).await,
            }
        }
    }

    /// Returns when the connection has ended, whatever the reason; connecting again tells whether the process has.
    async fn watch(&self, mut connection: Connection) {
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
                () = sleep(LOOK) => {}
            }
        }
    }

    fn note(&self, info: &Info, sections: &mut &[&'static str]) {
        if let Some(run_id) = info.text("run_id") {
            self.sight.answers(run_id);
            // The run id does not change while the connection lasts.
            *sections = &["replication"];
        }
        if let Some(role) = pulse::role_of(info) {
            self.sight.plays(role);
            self.sight.feeds(if role == Role::Primary { pulse::attached(info) } else { Vec::new() });
        }
    }

    async fn silent(&self, mut connection: Connection) {
        self.sight.silent(true);
        tokio::select! {
            () = connection.closed() => {}
            () = sleep(LOOK) => {}
        }
        self.sight.silent(false);
    }
}
