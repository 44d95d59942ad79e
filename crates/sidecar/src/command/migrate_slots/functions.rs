//! Functions do not move with slots: the target gets the libraries that it lacks before the first key that may need them.

use super::{
    super::execution::{Execution, Stop},
    other_end::OtherEnd,
};

pub async fn carry(execution: &mut Execution<'_>, target: &OtherEnd) -> Result<(), Stop> {
    let here = execution.connect().await?.function_libraries().await?;
    if here.is_empty() {
        return Ok(());
    }
    let mut connection = target.connect(execution).await?;
    let there = connection.function_libraries().await?;
    // All are compared before any is brought.
    if let Some((name, _)) = here.iter().find(|(name, code)| there.get(*name).is_some_and(|other| other != *code)) {
        return Err(Stop::Failed(format!(
            "function library {name} is another one on {} than here: load the right one on both with FUNCTION LOAD REPLACE",
            target.id
        )));
    }
    for (name, code) in here.iter().filter(|(name, _)| !there.contains_key(*name)) {
        connection.function_load(code).await?;
        execution.did(format!("brought function library {name} to {}", target.id));
    }
    Ok(())
}
