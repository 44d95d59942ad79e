//! For tests: an API server in memory, as small as they need it. It keeps what UIDs and resource versions promise, and can go silent:
//! then it accepts connections and requests and never answers. It can be put back to an older state, as by a restore of etcd. A watch
//! tells what is newer than the version it goes on from, and ends; of deletions it tells nothing.

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use kube::Config;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Requests from now on that get no answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Silence {
    #[default]
    None,
    /// One, after so many that are answered.
    One {
        after: u32,
    },
    All,
}

/// What is wrong with an object, as its schema would say.
pub type Rule = fn(&Value) -> Option<&'static str>;

#[derive(Default)]
struct Contents {
    state: State,
    silence: Silence,
    rule: Option<Rule>,
    listed: u32,
}

/// What a backup holds.
#[derive(Clone, Default)]
pub struct State {
    /// By their path.
    objects: BTreeMap<String, Value>,
    made: u64,
}

pub struct FakeApi {
    contents: Mutex<Contents>,
    changes: watch::Sender<()>,
    pub config: Config,
}

impl FakeApi {
    pub async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let config = Config::new(address.parse().unwrap());
        let api = Arc::new(Self { contents: Mutex::default(), changes: watch::Sender::new(()), config });
        let served = api.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, served.clone()));
            }
        });
        api
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap()
    }

    pub fn silence(&self, silence: Silence) {
        self.contents().silence = silence;
    }

    /// Refuses from now on to store by a patch what is wrong by this rule.
    pub fn rule(&self, rule: Rule) {
        self.contents().rule = Some(rule);
    }

    /// Changes with every write that was asked for and done.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub fn object(&self, path: &str) -> Option<Value> {
        self.contents().state.objects.get(path).cloned()
    }

    pub fn state(&self) -> State {
        self.contents().state.clone()
    }

    /// Restores an older state: objects and versions.
    pub fn put_back(&self, state: State) {
        self.contents().state = state;
    }

    /// How many whole lists were given.
    pub fn lists(&self) -> u32 {
        self.contents().listed
    }

    /// Puts an object there as somebody else would; gives its UID.
    pub fn put(&self, path: &str, object: Value) -> String {
        let made = self.contents().store(path, object, None);
        self.changes.send_replace(());
        made["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    /// Changes an object as somebody else would.
    pub fn edit(&self, path: &str, change: &Value) {
        let mut contents = self.contents();
        let mut object = contents.state.objects.get(path).cloned().unwrap();
        json_patch::merge(&mut object, change);
        let uid = object["metadata"]["uid"].clone();
        contents.store(path, object, Some(uid));
    }

    pub fn remove(&self, path: &str) {
        self.contents().state.objects.remove(path);
    }

    fn is_silent(&self) -> bool {
        let mut contents = self.contents();
        match contents.silence {
            Silence::None => false,
            Silence::One { after: 0 } => {
                contents.silence = Silence::None;
                true
            }
            Silence::One { after } => {
                contents.silence = Silence::One { after: after - 1 };
                false
            }
            Silence::All => true,
        }
    }
}

async fn connection(stream: TcpStream, api: Arc<FakeApi>) {
    let service = service_fn(move |request| {
        let api = api.clone();
        async move { Ok::<_, Infallible>(respond(request, &api).await) }
    });
    // A client that hangs up is no event.
    let _ = hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn respond(request: Request<Incoming>, api: &FakeApi) -> Response<Full<Bytes>> {
    let (method, path) = (request.method().clone(), request.uri().path().trim_end_matches("/status").to_owned());
    if api.is_silent() {
        return std::future::pending().await;
    }
    let query = request.uri().query().unwrap_or_default().to_owned();
    if let Some(from) = parameter(&query, "resourceVersion").filter(|_| parameter(&query, "watch").is_some()) {
        return news(&path, from.parse().unwrap_or_default(), api).await;
    }
    if method == Method::GET && is_collection(&path) {
        return page(Ok(api.contents().list(&path, parameter(&query, "limit"))));
    }
    let content_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_json_patch = content_type == "application/json-patch+json";
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let answer = api.contents().answer(&method, &path, &body, is_json_patch);
    if answer.is_ok() && method != Method::GET {
        api.changes.send_replace(());
    }
    page(answer)
}

fn parameter<'q>(query: &'q str, key: &str) -> Option<&'q str> {
    query.split('&').find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
}

/// `/api/v1/namespaces/test/pods`, or a kind without namespaces.
fn is_collection(path: &str) -> bool {
    let lead = if path.starts_with("/apis/") { 3 } else { 2 };
    matches!(path.trim_matches('/').split('/').skip(lead).count(), 1 | 3)
}

/// Waits for what is newer, as a watch does.
async fn news(collection: &str, from: u64, api: &FakeApi) -> Response<Full<Bytes>> {
    let mut changes = api.changes();
    loop {
        let news = api.contents().newer(collection, from);
        if !news.is_empty() {
            return Response::new(Full::new(Bytes::from(news)));
        }
        changes.changed().await.expect("the fake API server ends with its last request");
    }
}

fn page(answer: Result<Value, Refusal>) -> Response<Full<Bytes>> {
    let code = answer.as_ref().err().map_or(StatusCode::OK, |refusal| refusal.code);
    let failure = |Refusal { code, message }: Refusal| {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
            "reason": code.canonical_reason().unwrap_or_default().replace(' ', ""), "code": code.as_u16() })
    };
    let body = answer.unwrap_or_else(failure);
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = code;
    response
}

struct Refusal {
    code: StatusCode,
    message: String,
}

impl From<StatusCode> for Refusal {
    fn from(code: StatusCode) -> Self {
        Self { code, message: code.to_string() }
    }
}

impl Contents {
    fn answer(&mut self, method: &Method, path: &str, body: &Value, is_json_patch: bool) -> Result<Value, Refusal> {
        match *method {
            Method::GET => Ok(self.state.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND)?),
            Method::POST => self.create(path, body.clone()),
            Method::PATCH if is_json_patch => self.patch(path, body),
            Method::PATCH => self.merge(path, body),
            Method::DELETE => self.delete(path, body),
            _ => Err(StatusCode::METHOD_NOT_ALLOWED.into()),
        }
    }

    fn of<'c>(&'c self, collection: &str) -> impl Iterator<Item = &'c Value> + use<'c> {
        let lead = format!("{collection}/");
        self.state.objects.iter().filter(move |(path, _)| path.starts_with(&lead)).map(|(_, object)| object)
    }

    fn list(&mut self, collection: &str, limit: Option<&str>) -> Value {
        let most = limit.and_then(|limit| limit.parse().ok()).unwrap_or(usize::MAX);
        self.listed += u32::from(most > 1);
        let items: Vec<&Value> = self.of(collection).take(most).collect();
        json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": self.state.made.to_string() }, "items": items })
    }

    fn newer(&self, collection: &str, from: u64) -> String {
        let version =
            |object: &Value| object["metadata"]["resourceVersion"].as_str().and_then(|text| text.parse().ok());
        let newer = self.of(collection).filter(|object| version(object).is_some_and(|version: u64| version > from));
        newer.map(|object| format!("{}\n", json!({ "type": "MODIFIED", "object": object }))).collect()
    }

    fn store(&mut self, path: &str, mut object: Value, uid: Option<Value>) -> Value {
        self.state.made += 1;
        object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("uid-{}", self.state.made)));
        object["metadata"]["resourceVersion"] = json!(self.state.made.to_string());
        self.state.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn create(&mut self, collection: &str, object: Value) -> Result<Value, Refusal> {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        if self.state.objects.contains_key(&path) {
            Err(StatusCode::CONFLICT.into())
        } else {
            Ok(self.store(&path, object, None))
        }
    }

    /// Merge patches and applies: what they name of the metadata has to be so.
    fn merge(&mut self, path: &str, patch: &Value) -> Result<Value, Refusal> {
        let live = self.state.objects.get(path).cloned();
        let differs = |key: &str| {
            let wanted = &patch["metadata"][key];
            !wanted.is_null() && live.as_ref().is_none_or(|live| live["metadata"][key] != *wanted)
        };
        if differs("uid") {
            return Err(if live.is_some() {
                StatusCode::UNPROCESSABLE_ENTITY.into()
            } else {
                StatusCode::CONFLICT.into()
            });
        }
        if differs("resourceVersion") {
            return Err(StatusCode::CONFLICT.into());
        }
        let uid = live.as_ref().map(|live| live["metadata"]["uid"].clone());
        let mut object = live.unwrap_or_else(|| json!({}));
        json_patch::merge(&mut object, patch);
        self.keeps_the_rule(&object)?;
        Ok(self.store(path, object, uid))
    }

    fn patch(&mut self, path: &str, operations: &Value) -> Result<Value, Refusal> {
        let mut object = self.state.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND)?;
        let uid = object["metadata"]["uid"].clone();
        let patch: json_patch::Patch =
            serde_json::from_value(operations.clone()).map_err(|_| StatusCode::BAD_REQUEST)?;
        json_patch::patch(&mut object, &patch).map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
        self.keeps_the_rule(&object)?;
        Ok(self.store(path, object, Some(uid)))
    }

    fn keeps_the_rule(&self, object: &Value) -> Result<(), Refusal> {
        let wrong = self.rule.and_then(|rule| rule(object));
        let refusal = |wrong: &str| Refusal { code: StatusCode::UNPROCESSABLE_ENTITY, message: wrong.to_owned() };
        wrong.map_or(Ok(()), |wrong| Err(refusal(wrong)))
    }

    fn delete(&mut self, path: &str, options: &Value) -> Result<Value, Refusal> {
        let live = self.state.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND)?;
        let wanted = &options["preconditions"]["uid"];
        if !wanted.is_null() && *wanted != live["metadata"]["uid"] {
            return Err(StatusCode::CONFLICT.into());
        }
        self.state.objects.remove(path);
        Ok(live)
    }
}
