//! Which cluster the suites may touch. Pure: the environment comes in as a lookup, so every rule here is tested without one.
//! The default is always our own testbed; another cluster needs two separate, explicit words from the caller.

use thiserror::Error;

/// Context names that only local throw-away clusters have.
const DISPOSABLE_CONTEXTS: [&str; 3] = ["kind-", "k3d-", "minikube"];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Mode {
    Testbed { name: String },
    External,
}

#[derive(Debug, Error, PartialEq, Eq)]
pub enum ModeError {
    #[error("E2E_EXTERNAL=1 needs KUBECONFIG: set it to the kubeconfig of the cluster the tests may use")]
    KubeconfigMissing,
    #[error("E2E_EXTERNAL is {0:?}: set it to 1 to test the cluster of KUBECONFIG, or unset it to use the testbed")]
    UnknownExternalValue(String),
    #[error("TESTBED_NAME is {0:?}: use lower-case letters, digits and dashes")]
    MalformedTestbedName(String),
    #[error("the kubeconfig has no current context: choose one with `kubectl config use-context`")]
    ContextMissing,
    #[error(
        "refusing to test the cluster of context {context:?}, it may be in production: if it is disposable, set E2E_EXTERNAL_CONTEXT={context}"
    )]
    ContextNotPermitted { context: String },
}

pub fn decide(variable: impl Fn(&str) -> Option<String>) -> Result<Mode, ModeError> {
    match variable("E2E_EXTERNAL").as_deref() {
        None | Some("" | "0") => testbed_mode(&variable),
        Some("1") => external_mode(&variable),
        Some(other) => Err(ModeError::UnknownExternalValue(other.to_owned())),
    }
}

fn testbed_mode(variable: impl Fn(&str) -> Option<String>) -> Result<Mode, ModeError> {
    let name = variable("TESTBED_NAME").filter(|name| !name.is_empty()).unwrap_or_else(|| "main".to_owned());
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if name.chars().all(allowed) { Ok(Mode::Testbed { name }) } else { Err(ModeError::MalformedTestbedName(name)) }
}

fn external_mode(variable: impl Fn(&str) -> Option<String>) -> Result<Mode, ModeError> {
    variable("KUBECONFIG").filter(|path| !path.is_empty()).map(|_| Mode::External).ok_or(ModeError::KubeconfigMissing)
}

/// A context is safe when its name says the cluster is disposable, or when the caller named exactly this one.
pub fn permit_context(context: Option<&str>, named_by_caller: Option<&str>) -> Result<(), ModeError> {
    let context = context.filter(|name| !name.is_empty()).ok_or(ModeError::ContextMissing)?;
    let disposable = DISPOSABLE_CONTEXTS.iter().any(|prefix| context.starts_with(prefix));
    if disposable || named_by_caller == Some(context) {
        return Ok(());
    }
    Err(ModeError::ContextNotPermitted { context: context.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decide_with(variables: &[(&str, &str)]) -> Result<Mode, ModeError> {
        decide(|name| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn without_any_variable_the_main_testbed_is_used() {
        assert_eq!(decide_with(&[]), Ok(Mode::Testbed { name: "main".into() }));
    }

    #[test]
    fn a_kubeconfig_alone_never_leads_away_from_the_testbed() {
        let mode = decide_with(&[("KUBECONFIG", "/home/me/production"), ("E2E_EXTERNAL", "0")]);
        assert_eq!(mode, Ok(Mode::Testbed { name: "main".into() }));
    }

    #[test]
    fn another_testbed_is_chosen_by_name() {
        assert_eq!(decide_with(&[("TESTBED_NAME", "second")]), Ok(Mode::Testbed { name: "second".into() }));
    }

    #[test]
    fn a_testbed_name_that_leaves_its_folder_is_refused() {
        let refused = decide_with(&[("TESTBED_NAME", "../etc")]);
        assert_eq!(refused, Err(ModeError::MalformedTestbedName("../etc".into())));
    }

    #[test]
    fn external_needs_a_kubeconfig() {
        let error = decide_with(&[("E2E_EXTERNAL", "1")]).unwrap_err();
        assert!(error.to_string().contains("KUBECONFIG"), "{error}");
    }

    #[test]
    fn external_with_a_kubeconfig_is_external() {
        assert_eq!(decide_with(&[("E2E_EXTERNAL", "1"), ("KUBECONFIG", "k")]), Ok(Mode::External));
    }

    #[test]
    fn a_misspelt_external_value_is_refused() {
        let refused = decide_with(&[("E2E_EXTERNAL", "yes"), ("KUBECONFIG", "k")]);
        assert_eq!(refused, Err(ModeError::UnknownExternalValue("yes".into())));
    }

    #[test]
    fn contexts_of_local_clusters_are_permitted() {
        for context in ["kind-dev", "k3d-test", "minikube"] {
            assert_eq!(permit_context(Some(context), None), Ok(()), "{context}");
        }
    }

    #[test]
    fn another_context_is_permitted_only_by_its_exact_name() {
        assert_eq!(permit_context(Some("staging"), Some("staging")), Ok(()));
        let error = permit_context(Some("prod-eu"), Some("staging")).unwrap_err();
        assert!(error.to_string().contains("E2E_EXTERNAL_CONTEXT=prod-eu"), "{error}");
    }

    #[test]
    fn a_kubeconfig_without_current_context_is_refused() {
        assert_eq!(permit_context(None, None), Err(ModeError::ContextMissing));
    }
}
