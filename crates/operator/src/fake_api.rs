//! For tests: an API server in memory, as small as they need it. It keeps what UIDs and resource versions promise, and can go silent:
//! then it accepts connections and requests and never answers.

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

#[derive(Default)]
struct Contents {
    /// By their path.
    objects: BTreeMap<String, Value>,
    made: u64,
    silence: Silence,
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

    /// Changes with every write that was asked for and done.
    pub fn changes(&self) -> watch::Receiver<()> {
        self.changes.subscribe()
    }

    pub fn object(&self, path: &str) -> Option<Value> {
        self.contents().objects.get(path).cloned()
    }

    /// Puts an object there as somebody else would; gives its UID.
    pub fn put(&self, path: &str, object: Value) -> String {
        let mut contents = self.contents();
        let made = contents.store(path, object, None);
        made["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
    }

    pub fn remove(&self, path: &str) {
        self.contents().objects.remove(path);
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

fn page(answer: Result<Value, StatusCode>) -> Response<Full<Bytes>> {
    let code = answer.as_ref().err().copied().unwrap_or(StatusCode::OK);
    let failure = |code: StatusCode| {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": code.to_string(),
            "reason": code.canonical_reason().unwrap_or_default().replace(' ', ""), "code": code.as_u16() })
    };
    let body = answer.unwrap_or_else(failure);
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = code;
    response
}

impl Contents {
    fn answer(&mut self, method: &Method, path: &str, body: &Value, is_json_patch: bool) -> Result<Value, StatusCode> {
        match *method {
            Method::GET => self.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND),
            Method::POST => self.create(path, body.clone()),
            Method::PATCH if is_json_patch => self.patch(path, body),
            Method::PATCH => self.merge(path, body),
            Method::DELETE => self.delete(path, body),
            _ => Err(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn store(&mut self, path: &str, mut object: Value, uid: Option<Value>) -> Value {
        self.made += 1;
        object["metadata"]["uid"] = uid.unwrap_or_else(|| json!(format!("uid-{}", self.made)));
        object["metadata"]["resourceVersion"] = json!(self.made.to_string());
        self.objects.insert(path.to_owned(), object.clone());
        object
    }

    fn create(&mut self, collection: &str, object: Value) -> Result<Value, StatusCode> {
        let path = format!("{collection}/{}", object["metadata"]["name"].as_str().unwrap_or_default());
        if self.objects.contains_key(&path) { Err(StatusCode::CONFLICT) } else { Ok(self.store(&path, object, None)) }
    }

    /// Merge patches and applies: what they name of the metadata has to be so.
    fn merge(&mut self, path: &str, patch: &Value) -> Result<Value, StatusCode> {
        let live = self.objects.get(path).cloned();
        let differs = |key: &str| {
            let wanted = &patch["metadata"][key];
            !wanted.is_null() && live.as_ref().is_none_or(|live| live["metadata"][key] != *wanted)
        };
        if differs("uid") {
            return Err(if live.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::CONFLICT });
        }
        if differs("resourceVersion") {
            return Err(StatusCode::CONFLICT);
        }
        let uid = live.as_ref().map(|live| live["metadata"]["uid"].clone());
        let mut object = live.unwrap_or_else(|| json!({}));
        json_patch::merge(&mut object, patch);
        Ok(self.store(path, object, uid))
    }

    fn patch(&mut self, path: &str, operations: &Value) -> Result<Value, StatusCode> {
        let mut object = self.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND)?;
        let uid = object["metadata"]["uid"].clone();
        let patch: json_patch::Patch =
            serde_json::from_value(operations.clone()).map_err(|_| StatusCode::BAD_REQUEST)?;
        json_patch::patch(&mut object, &patch).map_err(|_| StatusCode::UNPROCESSABLE_ENTITY)?;
        Ok(self.store(path, object, Some(uid)))
    }

    fn delete(&mut self, path: &str, options: &Value) -> Result<Value, StatusCode> {
        let live = self.objects.get(path).cloned().ok_or(StatusCode::NOT_FOUND)?;
        let wanted = &options["preconditions"]["uid"];
        if !wanted.is_null() && *wanted != live["metadata"]["uid"] {
            return Err(StatusCode::CONFLICT);
        }
        self.objects.remove(path);
        Ok(live)
    }
}
