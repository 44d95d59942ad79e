//! Breaking nodes and mending them. A fault is written down before it is made, so that whoever holds the testbed next can mend what
//! a killed test left broken; within a living test the guard mends it, also when the test fails. IO; called by `test` and `scenario`.

use crate::testbed::Testbed;
use anyhow::{Context, Result, bail};
use std::{fs, io::ErrorKind, path::PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeFault {
    /// The kubelet, the container runtime and all pods of the node are dead.
    Stopped,
    /// Everything runs on, but no packet comes in or out.
    Cut,
}

impl NodeFault {
    fn verb(self) -> &'static str {
        match self {
            Self::Stopped => "stop",
            Self::Cut => "cut",
        }
    }

    fn remedy(self) -> &'static str {
        match self {
            Self::Stopped => "start",
            Self::Cut => "heal",
        }
    }

    fn from_verb(verb: &str) -> Result<Self> {
        match verb {
            "stop" => Ok(Self::Stopped),
            "cut" => Ok(Self::Cut),
            other => bail!("a record of an unknown fault: {other:?}"),
        }
    }
}

/// The node is broken while this lives.
#[must_use = "the node is mended as soon as the guard is dropped"]
pub struct FaultGuard {
    testbed: Testbed,
    node: String,
    fault: NodeFault,
    mended: bool,
}

impl FaultGuard {
    pub async fn inflict(testbed: &Testbed, node: &str, fault: NodeFault) -> Result<Self> {
        let guard = Self { testbed: testbed.clone(), node: node.to_owned(), fault, mended: false };
        record(testbed, node, fault)?;
        testbed.driver(&["node", fault.verb(), node]).await?;
        Ok(guard)
    }

    /// Mends the node now and says if that failed.
    pub async fn mend(mut self) -> Result<()> {
        self.testbed.driver(&["node", self.fault.remedy(), &self.node]).await?;
        self.mended = true;
        forget(&self.testbed, &self.node, self.fault)
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        if !self.mended
            && let Err(error) = mend_blocking(&self.testbed, &self.node, self.fault)
        {
            eprintln!("could not mend {}: {error:#}", self.node);
        }
    }
}

/// Mends what is on record. Only for the holder of the testbed's lock: to it, every record is a leftover.
pub fn mend_leftovers(testbed: &Testbed) -> Result<()> {
    let entries = match fs::read_dir(records(testbed)) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context("read the records of faults"),
    };
    for entry in entries {
        let path = entry.context("read the records of faults")?.path();
        // Sharers of the lock may be mending the same leftovers: a record that is gone has been dealt with.
        let Ok(verb) = fs::read_to_string(&path) else { continue };
        let node = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        mend_blocking(testbed, &node, NodeFault::from_verb(&verb)?)?;
    }
    Ok(())
}

fn mend_blocking(testbed: &Testbed, node: &str, fault: NodeFault) -> Result<()> {
    testbed.driver_blocking(&["node", fault.remedy(), node])?;
    forget(testbed, node, fault)
}

fn records(testbed: &Testbed) -> PathBuf {
    testbed.directory.join("e2e-faults")
}

/// A node may be cut and stopped at once, so each fault has a file of its own: `<node>.<verb>`.
fn record_path(testbed: &Testbed, node: &str, fault: NodeFault) -> PathBuf {
    records(testbed).join(format!("{node}.{}", fault.verb()))
}

fn record(testbed: &Testbed, node: &str, fault: NodeFault) -> Result<()> {
    fs::create_dir_all(records(testbed)).context("make the folder for records of faults")?;
    fs::write(record_path(testbed, node, fault), fault.verb()).context("record the fault")
}

fn forget(testbed: &Testbed, node: &str, fault: NodeFault) -> Result<()> {
    match fs::remove_file(record_path(testbed, node, fault)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("remove the record of the fault"),
        _ => Ok(()),
    }
}
